//! Connections: how bytes arrive, clients that vanish or are slow, limits, and shutdown.

mod running;

use running::{PATIENCE, Random, Running, Talk};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Returns a conversation with all kinds of requests, and its answers.
fn conversation() -> (Vec<u8>, Vec<u8>) {
    let exchanges: &[(&str, &str)] = &[
        ("set a 0 0 5\r\nhello\r\n", "STORED\r\n"),
        ("get a b\r\n", "VALUE a 0 5\r\nhello\r\nEND\r\n"),
        ("append a 0 0 3\r\n\r\n!\r\n", "STORED\r\n"),
        ("gets a\r\n", "VALUE a 0 8 2\r\nhello\r\n!\r\nEND\r\n"),
        ("set a 0 0 2\r\nxyz\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"),
        ("nonsense\r\n", "ERROR\r\n"),
        ("ms m 2 k Oq\r\nzz\r\n", "HD km Oq\r\n"),
        ("mg m v k\r\n", "VA 2 km\r\nzz\r\n"),
        ("set q 0 0 1 noreply\r\n1\r\nincr q 41\r\n", "42\r\n"),
        ("delete q\r\n", "DELETED\r\n"),
        ("mn\r\n", "MN\r\n"),
    ];
    let join = |part: fn(&(&str, &str)) -> String| exchanges.iter().map(part).collect::<String>().into_bytes();
    (join(|exchange| exchange.0.to_owned()), join(|exchange| exchange.1.to_owned()))
}

#[test]
fn requests_split_at_every_byte_have_the_same_answers() {
    let server = Running::sinew(&["-t", "1"]);
    let (requests, answers) = conversation();
    for at in 0..=requests.len() {
        let mut talk = server.connect();
        talk.ask(b"flush_all\r\n");
        // Unique numbers keep growing: only the shape of that line is checked.
        talk.say(&requests[..at]);
        talk.say(&requests[at..]);
        let heard = talk.hear_until(b"MN\r\n");
        let plain = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let hide = |line: &str| {
                if line.starts_with("VALUE a 0 8 ") { "VALUE a 0 8 #".to_owned() } else { line.to_owned() }
            };
            text.split("\r\n").map(hide).collect::<Vec<_>>()
        };
        assert_eq!(plain(&heard), plain(&answers), "split at {at}");
    }
}

#[test]
fn requests_byte_by_byte_have_the_same_answers() {
    let server = Running::sinew(&["-t", "2"]);
    let (requests, answers) = conversation();
    let mut talk = server.connect();
    for byte in requests.chunks(1) {
        talk.say(byte);
    }
    assert_eq!(String::from_utf8_lossy(&talk.hear_until(b"MN\r\n")), String::from_utf8_lossy(&answers));
}

#[test]
fn thousands_of_requests_in_one_piece_are_answered_in_order() {
    let server = Running::sinew(&["-t", "2"]);
    let mut talk = server.connect();
    let (mut requests, mut answers) = (Vec::new(), Vec::new());
    for number in 0..10_000 {
        write!(requests, "set k{number} {number} 0 4\r\n{number:04}\r\nget k{number}\r\n").expect("memory");
        write!(answers, "STORED\r\nVALUE k{number} {number} 4\r\n{number:04}\r\nEND\r\n").expect("memory");
    }
    requests.extend_from_slice(b"mn\r\n");
    answers.extend_from_slice(b"MN\r\n");
    let mut sender = talk.stream.try_clone().expect("another handle");
    let sending = std::thread::spawn(move || sender.write_all(&requests));
    let heard = talk.hear(answers.len());
    sending.join().expect("no panic").expect("to send");
    assert!(heard == answers);
}

#[test]
fn sessions_on_all_processors_see_each_others_items() {
    for scheduler in ["fair", "inverted", "shared"] {
        let server = Running::sinew(&["-t", "4", "--scheduler", scheduler]);
        server.connect().ask(b"set total 0 0 1\r\n0\r\n");
        std::thread::scope(|scope| {
            for client in 0..16 {
                let server = &server;
                scope.spawn(move || {
                    let mut talk = server.connect();
                    for round in 0..40 {
                        let key = format!("k{client}_{round}");
                        let request = format!("incr total 1 noreply\r\nset {key} 0 0 5\r\nhello\r\nget {key}\r\n");
                        let expected = format!("STORED\r\nVALUE {key} 0 5\r\nhello\r\nEND\r\n");
                        assert_eq!(talk.ask(request.as_bytes()), expected.as_bytes());
                    }
                });
            }
        });
        let mut talk = server.connect();
        assert_eq!(talk.ask(b"get total\r\n"), b"VALUE total 0 3\r\n640\r\nEND\r\n", "{scheduler}");
        assert_eq!(talk.stat("curr_items"), "641");
    }
}

#[test]
fn clients_that_vanish_leave_no_memory_or_connections_behind() {
    let server = Running::sinew(&["-t", "2", "-m", "8"]);
    let (requests, _) = conversation();
    let mut random = Random::new();
    for _ in 0..200 {
        let mut talk = server.connect();
        talk.say(&requests[..random.below(requests.len())]);
    }
    // The clients vanish in the middle of large values: the received part is freed.
    for _ in 0..60 {
        let mut talk = server.connect();
        talk.say(b"set large 0 0 1000000\r\n");
        talk.say(&vec![b'x'; 900_000]);
    }
    let mut talk = server.connect();
    let begin = Instant::now();
    while talk.stat("curr_connections") != "1" {
        assert!(begin.elapsed() < PATIENCE, "connections are not closed");
    }
    let bytes: u64 = talk.stat("item_memory").parse().expect("a number");
    assert!(bytes < 1000, "{bytes} bytes are not freed");
    assert_eq!(talk.ask(b"set a 0 0 1\r\nx\r\nget a\r\n"), b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn large_values_are_read_back_unchanged() {
    let mut random = Random::new();
    let server = Running::sinew(&["-t", "2", "-m", "256", "-I", "32m"]);
    let mut talk = server.connect();
    for length in [8191, 8192, 8193, 16_384, 100_000, 1_048_576, 33_000_000] {
        let value: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        talk.say(format!("set large 0 0 {length}\r\n").as_bytes());
        talk.say(&value);
        assert_eq!(talk.ask(b"\r\n"), b"STORED\r\n");
        talk.say(b"get large\r\n");
        let header = format!("VALUE large 0 {length}\r\n");
        assert_eq!(talk.hear(header.len()), header.as_bytes());
        assert!(talk.hear(length) == value, "{length}");
        assert_eq!(talk.hear(7), b"\r\nEND\r\n");
    }
}

#[test]
fn a_slow_reader_of_a_large_value_blocks_only_itself() {
    let server = Running::sinew(&["-t", "1", "-m", "256", "-I", "32m"]);
    let mut talk = server.connect();
    let value = vec![b'v'; 30_000_000];
    talk.say(b"set large 0 0 30000000\r\n");
    talk.say(&value);
    assert_eq!(talk.ask(b"\r\n"), b"STORED\r\n");
    let mut slow: Vec<Talk> = (0..8).map(|_| server.connect()).collect();
    for talk in &mut slow {
        talk.say(b"get large\r\n");
        assert_eq!(talk.hear(6), b"VALUE ");
    }
    // The readers stop for now. Other clients do not notice, not even clients that replace the
    // value.
    for number in 0..1000 {
        let request = format!("set k{number} 0 0 1\r\nx\r\nget k{number}\r\n");
        assert_eq!(talk.ask(request.as_bytes()), format!("STORED\r\nVALUE k{number} 0 1\r\nx\r\nEND\r\n").as_bytes());
    }
    assert_eq!(talk.ask(b"set large 0 0 3\r\nnew\r\nget large\r\n"), b"STORED\r\nVALUE large 0 3\r\nnew\r\nEND\r\n");
    assert!(server.resident() < 200_000_000, "{} bytes are resident", server.resident());
    for talk in &mut slow {
        assert_eq!(talk.hear(18), b"large 0 30000000\r\n");
        assert!(talk.hear(value.len()) == value);
        assert_eq!(talk.hear(7), b"\r\nEND\r\n");
    }
    // The last reader of the old value has freed it.
    let begin = Instant::now();
    while talk.stat("item_memory").parse::<u64>().expect("a number") > 1_000_000 {
        assert!(begin.elapsed() < PATIENCE, "the old value is not freed");
    }
}

#[test]
fn with_maxconns_fast_an_extra_connection_gets_an_error() {
    for server in Running::both(&["-c", "24", "-t", "1"]) {
        let mut talks: Vec<Talk> = (0..3).map(|_| server.connect()).collect();
        for talk in &mut talks {
            assert_eq!(talk.ask(b"version\r\n"), b"VERSION 1.6.18\r\n", "{}", server.name);
        }
        let mut refused = None;
        for _ in 0..40 {
            let mut talk = server.connect();
            // The connection may be closed before this arrives.
            let _ = talk.stream.write_all(b"version\r\n");
            let heard = talk.hear_until(b"\r\n");
            match heard.as_slice() {
                b"VERSION 1.6.18\r\n" => talks.push(talk),
                other => {
                    refused = Some(other.to_vec());
                    break;
                }
            }
        }
        assert_eq!(refused.as_deref(), Some(b"ERROR Too many open connections\r\n".as_slice()), "{}", server.name);
        // There is room again when a client leaves.
        drop(talks.pop());
        let begin = Instant::now();
        loop {
            let mut talk = server.connect();
            let _ = talk.stream.write_all(b"version\r\n");
            if talk.hear_until(b"\r\n") == b"VERSION 1.6.18\r\n" {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{}", server.name);
        }
    }
}

#[test]
fn memory_is_bounded_and_used_items_stay() {
    let server = Running::sinew(&["-t", "2", "-m", "16"]);
    let mut talk = server.connect();
    let before = server.resident();
    let value = "v".repeat(1000);
    for round in 0..100 {
        let mut requests = Vec::new();
        for number in 0..1000 {
            write!(requests, "set k{round}_{number} 0 0 1000 noreply\r\n{value}\r\n").expect("memory");
            if round == 0 && number < 100 {
                write!(requests, "set hot{number} 0 0 3 noreply\r\nhot\r\n").expect("memory");
            }
        }
        talk.ask(&requests);
        for number in 0..100 {
            let answer = talk.ask(format!("get hot{number}\r\n").as_bytes());
            assert!(answer.starts_with(b"VALUE"), "hot{number} is gone in round {round}");
        }
    }
    let evictions: u64 = talk.stat("evictions").parse().expect("a number");
    assert!(evictions > 80_000, "only {evictions} evictions");
    let items: u64 = talk.stat("curr_items").parse().expect("a number");
    assert!(items > 12_000, "{items} items of a kilobyte in 16 megabytes");
    let grown = server.resident() - before;
    assert!(grown < 18_500_000, "memory has grown by {grown} bytes");
}

#[test]
fn without_evictions_full_memory_is_an_error() {
    let server = Running::sinew(&["-t", "1", "-m", "2", "-I", "512k", "-M"]);
    let mut talk = server.connect();
    let value = "v".repeat(1000);
    let (mut stored, mut refused) = (Vec::new(), 0);
    for number in 0..3000 {
        match talk.ask(format!("set k{number} 0 0 1000\r\n{value}\r\n").as_bytes()).as_slice() {
            b"STORED\r\n" => stored.push(number),
            b"SERVER_ERROR out of memory storing object\r\n" => refused += 1,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
    assert!(stored.len() > 1500 && refused > 500, "{} stored, {refused} refused", stored.len());
    for number in &stored {
        assert!(talk.ask(format!("get k{number}\r\n").as_bytes()).starts_with(b"VALUE"), "k{number}");
    }
    talk.ask(format!("delete k{}\r\n", stored[0]).as_bytes());
    assert_eq!(talk.ask(format!("set again 0 0 1000\r\n{value}\r\n").as_bytes()), b"STORED\r\n");
    // A large value, and then one more: the received part of it is freed.
    let large = vec![b'x'; 400_000];
    talk.say(b"set large 0 0 400000\r\n");
    talk.say(&large);
    assert_eq!(talk.ask(b"\r\n"), b"SERVER_ERROR out of memory storing object\r\n");
    talk.ask(b"flush_all\r\n");
    talk.say(b"set large 0 0 400000\r\n");
    talk.say(&large);
    assert_eq!(talk.ask(b"\r\n"), b"STORED\r\n");
}

#[test]
fn expired_items_are_freed_without_a_request() {
    let server = Running::sinew(&["-t", "1"]);
    let mut talk = server.connect();
    let mut requests = Vec::new();
    for number in 0..1000 {
        write!(requests, "set k{number} 0 2 1 noreply\r\nx\r\n").expect("memory");
    }
    requests.extend_from_slice(b"set kept 0 0 1 noreply\r\nx\r\n");
    talk.ask(&requests);
    assert_eq!(talk.stat("curr_items"), "1001");
    let begin = Instant::now();
    while talk.stat("curr_items") != "1" {
        assert!(begin.elapsed() < PATIENCE, "{} items are left", talk.stat("curr_items"));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(talk.ask(b"get kept\r\n"), b"VALUE kept 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn a_unix_socket_is_served_and_removed_at_the_end() {
    let path = std::env::temp_dir().join(format!("sinew-memcached-{}.sock", std::process::id()));
    let server = Running::sinew(&["-s", path.to_str().expect("a path in text"), "-a", "600"]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).expect("the socket").permissions());
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(b"set a 0 0 1\r\nx\r\nget a\r\n").expect("to send");
    let mut heard = [0; 29];
    stream.read_exact(&mut heard).expect("the answer");
    assert_eq!(&heard, b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    server.terminate();
    assert!(server.wait().success());
    assert!(!path.exists());
}

#[test]
fn the_server_finishes_requests_before_it_stops() {
    for processors in ["1", "2"] {
        let server = Running::sinew(&["-t", processors]);
        let mut idle: Vec<Talk> = (0..50).map(|_| server.connect()).collect();
        for talk in &mut idle {
            assert_eq!(talk.ask(b"version\r\n"), b"VERSION 1.6.18\r\n");
        }
        // This session is in the middle of a request, and may finish it.
        let mut late = server.connect();
        late.ask(b"mn\r\n");
        late.say(b"set a 0 0 20000\r\nx");
        let mut watcher = server.connect();
        let begin = Instant::now();
        while watcher.stat("bytes_read").parse::<u64>().expect("a number") < 50 * 20 {
            assert!(begin.elapsed() < PATIENCE);
        }
        server.terminate();
        for talk in &mut idle {
            assert_eq!(talk.hear(1), b"");
        }
        late.say(&[b'x'; 19_999]);
        late.say(b"\r\n");
        assert_eq!(late.hear_until(b"\r\n"), b"STORED\r\n");
        assert_eq!(late.hear(1), b"");
        let address = server.address;
        assert!(server.wait().success());
        assert!(std::net::TcpStream::connect(address).is_err());
    }
}

#[test]
fn stats_report_the_server_and_its_requests() {
    let server = Running::sinew(&["-t", "2", "--scheduler", "inverted", "--io", "epoll", "-m", "32", "-c", "77"]);
    let mut talk = server.connect();
    talk.ask(b"set a 0 0 1\r\nx\r\nget a b\r\nincr a 1\r\ntouch a 0\r\ndelete b\r\ncas a 0 0 1 99\r\ny\r\n");
    let expected = [
        ("scheduler", "inverted"),
        ("engine", "epoll"),
        ("threads", "2"),
        ("version", "1.6.18"),
        ("curr_items", "1"),
        ("cmd_get", "2"),
        ("get_hits", "1"),
        ("get_misses", "2"),
        ("cmd_set", "2"),
        ("touch_hits", "1"),
        ("delete_misses", "1"),
        ("cas_badval", "1"),
        ("limit_maxbytes", "33554432"),
        ("max_connections", "77"),
    ];
    let before: Vec<(&str, String)> = expected.iter().map(|(name, _)| (*name, talk.stat(name))).collect();
    for ((name, expected), (_, found)) in expected.iter().zip(&before) {
        // Each request for the numbers asks for one more key that is not there.
        let is_counted = ["cmd_get", "get_misses"].contains(name);
        assert!(is_counted || expected == found, "{name}: {found}");
    }
    assert!(talk.ask(b"stats settings\r\n").windows(19).any(|part| part == b"STAT num_threads 2\r"));
    assert_eq!(talk.ask(b"stats reset\r\n"), b"RESET\r\n");
    assert_eq!(talk.stat("cmd_set"), "0");
}

#[test]
fn bad_options_are_explained() {
    let run = |options: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_sinew")).arg("memcached").args(options).output();
        let output = output.expect("the binary of this package");
        assert!(!output.status.success(), "{options:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    assert!(run(&["-I", "1"]).contains("between 1k and 1024m"));
    assert!(run(&["-m", "1", "-I", "1m"]).contains("at most half of the memory"));
    assert!(run(&["-t", "0"]).contains("at least one processor"));
    assert!(run(&["-l", "203.0.113.1", "-p", "0"]).contains("cannot listen at 203.0.113.1"));
    assert!(run(&["--scheduler", "nonsense"]).contains("fair"));
    assert!(run(&["--io", "nonsense"]).contains("epoll"));
}
