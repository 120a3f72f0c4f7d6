//! The same random requests to this server and to the system's memcached get the same answers.
//!
//! Two things may differ and are not compared: seconds, and the `T` of `ma`, which memcached
//! forgets when the number gets longer. No number reaches 2^63: from there on memcached looks for a
//! sign in the bytes after the value in its memory, and may find one.

mod frames;
mod running;

use frames::{binary_answer, done, frame};
use running::{Random, Running, Talk};

/// Starts a memcached whose items change by requests only. Otherwise its background threads decide
/// whether numbers are filled up with blanks.
fn memcached() -> Option<Running> {
    Running::memcached(&["-o", "no_lru_maintainer,no_lru_crawler,no_slab_reassign"])
}

const KEYS: [&str; 6] = ["a", "bb", "a_key_of_more_than_16_bytes", "YWJj", "n", "m"];
const NUMBERS: [&str; 12] =
    ["0", "1", "2", "7", "100", "-1", "x", "", "4294967295", "4294967296", "18446744073709551616", "1 "];
const EXPIRIES: [&str; 7] = ["0", "0", "0", "1000", "-1", "2592001", "x"];
const FLAGS: [&str; 36] = [
    "v", "v", "k", "c", "s", "f", "t", "h", "l", "u", "q", "Oopaque", "I", "b", "T0", "T100", "T-1", "Tx", "N0",
    "N100", "Nx", "R30", "R500", "F5", "Fx", "C1", "C3", "Cx", "ME", "MA", "MP", "MR", "MS", "MI", "D3", "J12",
];

/// Returns a request with its data.
fn request(random: &mut Random) -> Vec<u8> {
    let key = if random.below(40) == 0 { "k".repeat(249 + random.below(3)) } else { random.one_of(&KEYS).to_owned() };
    let number = random.one_of(&NUMBERS);
    let expiry = random.one_of(&EXPIRIES);
    let noreply = random.one_of(&["", "", "", " noreply", " nonsense"]);
    let flags: String = (0..random.below(5)).map(|_| format!(" {}", random.one_of(&FLAGS))).collect();
    let line = match random.below(24) {
        0..=2 => format!("get {key}"),
        3 => format!("gets {key} {} {key}", random.one_of(&KEYS)),
        4 => format!("gat {expiry} {key}"),
        5..=9 => return store(random, &key, number, expiry, noreply),
        10 => format!("delete {key}{noreply}"),
        11 | 12 => format!("{} {key} {number}{noreply}", random.one_of(&["incr", "decr"])),
        13 => format!("touch {key} {expiry}{noreply}"),
        14 if random.below(4) == 0 => format!("flush_all{noreply}"),
        15 => random
            .one_of(&["nonsense", "", "get", "incr", "version", "verbosity 0", "mn", "set a", "stats nothing"])
            .into(),
        16..=18 => format!("mg {key}{flags}"),
        19 | 20 => return meta_store(random, &key, &flags),
        21 => format!("md {key}{flags}"),
        _ => format!("ma {key}{}", flags.replace(" T", " P")),
    };
    let end = random.one_of(&["\r\n", "\r\n", "\n"]);
    format!("{line}{end}").into_bytes()
}

fn data(random: &mut Random) -> String {
    match random.below(8) {
        0 => String::new(),
        1..=3 => random.one_of(&["1", "10", "99", "9007199254740993", " 5", "007", "1 "]).to_owned(),
        4..=6 => "value ".repeat(random.below(60)),
        // In lines, because the data may be taken for requests.
        _ => "large\r\n".repeat(random.below(20_000)),
    }
}

/// Appends data. Nearly always it has the length that the line announces.
fn with_data(random: &mut Random, line: String, data: &str) -> Vec<u8> {
    let end = random.one_of(&["\r\n"; 20].iter().chain(&["x\r\n", "\n\n"]).copied().collect::<Vec<_>>());
    format!("{line}\r\n{data}{end}").into_bytes()
}

fn store(random: &mut Random, key: &str, number: &str, expiry: &str, noreply: &str) -> Vec<u8> {
    let data = data(random);
    let verb = random.one_of(&["set", "set", "set", "add", "replace", "append", "prepend", "cas"]);
    let unique = if verb == "cas" { format!(" {}", random.below(40)) } else { String::new() };
    let flags = if random.below(4) == 0 { number } else { "0" };
    with_data(random, format!("{verb} {key} {flags} {expiry} {}{unique}{noreply}", data.len()), &data)
}

fn meta_store(random: &mut Random, key: &str, flags: &str) -> Vec<u8> {
    let data = data(random);
    with_data(random, format!("ms {key} {}{flags}", data.len()), &data)
}

/// Hides the parts of an answer that may differ.
fn normal(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let mut lines: Vec<String> = Vec::new();
    for line in text.split("\r\n") {
        let is_header = ["VA ", "HD", "ME "].iter().any(|start| line.starts_with(start));
        let hide = |word: &str| match word.strip_prefix(['t', 'l']) {
            Some(number) if number.parse::<u32>().is_ok() => "#".to_owned(),
            _ => word.to_owned(),
        };
        lines.push(if is_header { line.split(' ').map(hide).collect::<Vec<_>>().join(" ") } else { line.to_owned() });
    }
    lines.join("\r\n")
}

/// Sends bytes in pieces that end anywhere.
fn say_in_pieces(talk: &mut Talk, random: &mut Random, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let limit = if random.below(3) == 0 { 20 } else { rest.len() };
        let (piece, others) = rest.split_at(rest.len().min(1 + random.below(limit)));
        talk.say(piece);
        rest = others;
    }
}

fn exchange(talk: &mut Talk, random: &mut Random, request: &[u8]) -> Vec<u8> {
    say_in_pieces(talk, random, request);
    talk.ask(b"")
}

/// Returns what led to the last of these requests: the requests just before it, and those with its
/// key.
fn history(requests: &[String]) -> Vec<&str> {
    let key = |request: &str| request.split([' ', '\\', '"']).nth(2).map(str::to_owned);
    let wanted = requests.last().and_then(|last| key(last));
    let is_near = |number: usize| number + 12 >= requests.len();
    let tells =
        |(number, request): (usize, &str)| is_near(number) || request.contains("flush_all") || key(request) == wanted;
    let shown = requests.iter().map(String::as_str).enumerate().filter(|&entry| tells(entry));
    shown.map(|(_, request)| request).collect()
}

/// Returns the items that differ between both servers.
fn items(ours: &Running, theirs: &Running) -> String {
    let mut said = String::new();
    for key in KEYS {
        let request = format!("mg {key} s f t v\r\n");
        let [our, their] = [ours, theirs].map(|server| normal(&server.connect().ask(request.as_bytes())));
        if our != their {
            let shown = |text: &str| text.chars().take(100).collect::<String>();
            said += &format!("{key} here: {:?}\n{key} there: {:?}\n", shown(&our), shown(&their));
        }
    }
    said
}

#[test]
fn random_requests_have_the_same_answers() {
    let mut random = Random::new();
    for round in 0..4 {
        let ours = Running::sinew(&["-t", "2"]);
        let Some(theirs) = memcached() else { return };
        let (mut our_talk, mut their_talk) = (ours.connect(), theirs.connect());
        let mut last: Vec<String> = Vec::new();
        for number in 0..1500 {
            let request = request(&mut random);
            last.push(format!("{:?}", String::from_utf8_lossy(&request[..request.len().min(100)])));
            let our_answer = exchange(&mut our_talk, &mut random, &request);
            let their_answer = exchange(&mut their_talk, &mut random, &request);
            let (our_answer, their_answer) = (normal(&our_answer), normal(&their_answer));
            assert!(
                our_answer == their_answer,
                "round {round}, request {number}:\n  {}\n{}\nours:   {:?}\ntheirs: {:?}",
                history(&last).join("\n  "),
                items(&ours, &theirs),
                &our_answer[..our_answer.len().min(300)],
                &their_answer[..their_answer.len().min(300)]
            );
        }
    }
}

/// Returns a binary request.
fn binary_request(random: &mut Random) -> Vec<u8> {
    const OPCODES: [u8; 38] = [
        0x00, 0x01, 0x01, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x11,
        0x12, 0x13, 0x14, 0x15, 0x16, 0x18, 0x19, 0x1a, 0x1c, 0x1d, 0x1e, 0x23, 0x24, 0x20, 0x00, 0x0c, 0x05, 0x06,
        0x02, 0x03,
    ];
    let opcode = OPCODES[random.below(OPCODES.len())];
    let key = random.one_of(&KEYS).as_bytes();
    let number = |random: &mut Random| [0u64, 1, 5, 100, 1 << 33][random.below(5)];
    let expiry = [0u32, 0, 1000, u32::MAX, 2_592_001][random.below(5)];
    let expiry = if opcode == 0x08 || opcode == 0x18 { 0 } else { expiry };
    let extras: Vec<u8> = match opcode {
        0x01..=0x03 | 0x11..=0x13 => [(random.below(3) as u32).to_be_bytes(), expiry.to_be_bytes()].concat(),
        0x05 | 0x06 | 0x15 | 0x16 => {
            let (delta, initial) = (number(random), number(random));
            [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &expiry.to_be_bytes()].concat()
        }
        0x1c..=0x1e | 0x23 | 0x24 => expiry.to_be_bytes().to_vec(),
        _ => Vec::new(),
    };
    let key: &[u8] = if matches!(opcode, 0x08 | 0x0a | 0x0b | 0x18 | 0x20) { b"" } else { key };
    let value = match opcode {
        0x01..=0x03 | 0x11..=0x13 | 0x0e | 0x0f | 0x19 | 0x1a => data(random),
        _ => String::new(),
    };
    let unique = if random.below(5) == 0 { random.below(20) as u64 } else { 0 };
    frame(opcode, &extras, key, value.as_bytes(), unique)
}

#[test]
fn random_binary_requests_have_the_same_answers() {
    let mut random = Random::new();
    for round in 0..4 {
        let ours = Running::sinew(&["-t", "2"]);
        let Some(theirs) = memcached() else { return };
        let (mut our_talk, mut their_talk) = (ours.connect(), theirs.connect());
        for number in 0..1000 {
            let request = binary_request(&mut random);
            say_in_pieces(&mut our_talk, &mut random, &request);
            say_in_pieces(&mut their_talk, &mut random, &request);
            let (our_answer, their_answer) = (binary_answer(&mut our_talk), binary_answer(&mut their_talk));
            let shown = |bytes: &[u8]| format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(200)]));
            assert!(
                our_answer == their_answer,
                "round {round}, request {number}: {:02x?} {}\n{}\nours:   {}\ntheirs: {}",
                &request[..request.len().min(60)],
                shown(&request),
                items(&ours, &theirs),
                shown(&our_answer),
                shown(&their_answer)
            );
        }
    }
}

#[test]
fn malformed_binary_requests_end_the_same_way() {
    let long = vec![b'k'; 251];
    let cases = [
        frame(0x00, b"", b"", b"", 0),
        frame(0x00, b"xx", b"a", b"", 0),
        frame(0x00, b"", b"a", b"value", 0),
        frame(0x01, b"", b"a", b"value", 0),
        frame(0x01, b"12345678", b"", b"value", 0),
        frame(0x00, b"", &long, b"", 0),
        frame(0x05, b"1234", b"a", b"", 0),
        frame(0x0a, b"", b"a", b"", 0),
        frame(0x0b, b"", b"a", b"", 0),
        frame(0x08, b"12", b"", b"", 0),
        frame(0x07, b"", b"", b"", 0),
        frame(0x17, b"", b"", b"", 0),
        frame(0x21, b"", b"PLAIN", b"user pass", 0),
        // memcached skips the body twice.
        [&frame(0x1b, b"1234", b"", b"", 0)[..], b"1234"].concat(),
        frame(0x50, b"", b"", b"12345", 0),
        frame(0x10, b"", b"nothing", b"", 0),
        frame(0x1c, b"", b"a", b"", 0),
        {
            let mut wrong = frame(0x00, b"", b"a", b"", 0);
            wrong[11] = 0;
            wrong
        },
        {
            let mut wrong = frame(0x00, b"", b"a", b"", 0);
            wrong[0] = 0x81;
            [frame(0x0a, b"", b"", b"", 0), wrong].concat()
        },
        [frame(0x01, &[0; 8], b"big", &vec![b'x'; 1_048_600], 0), frame(0x00, b"", b"big", b"", 0)].concat(),
    ];
    let ours = Running::sinew(&[]);
    let Some(theirs) = memcached() else { return };
    for case in cases {
        let answers = [&ours, &theirs].map(|server| {
            let mut talk = server.connect();
            // The server may close the connection before it has received everything.
            let _ = std::io::Write::write_all(&mut talk.stream, &case);
            // After an unknown request bytes are skipped: both servers skip the same bytes.
            let _ = std::io::Write::write_all(&mut talk.stream, &done().repeat(3));
            talk.stream.shutdown(std::net::Shutdown::Write).ok();
            talk.hear(1 << 16)
        });
        assert_eq!(answers[0], answers[1], "{:02x?}", &case[..case.len().min(60)]);
    }
}
