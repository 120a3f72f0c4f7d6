//! Clients that read too slowly, and the end of the server.

mod parlour;

use parlour::{Client, PATIENCE, Parlour};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Instant;
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

#[test]
fn a_slow_reader_is_told_and_dropped_while_others_go_on() {
    let mut parlour = Parlour::open(&["--rate", "1000000"]);
    let mut slow = parlour.enter("slow", "tea");
    let mut quick = parlour.enter("quick", "tea");
    let mut writer = parlour.enter("writer", "tea");
    // These come before anything else, and are read here.
    assert_eq!(slow.hear()["name"], "quick");
    assert_eq!(slow.hear()["name"], "writer");
    assert_eq!(quick.hear()["name"], "writer");
    let text = "x".repeat(2000);
    let begin = Instant::now();
    let mut said = 0;
    // From now on the slow one does not read, and the others wait for every message.
    loop {
        assert!(begin.elapsed() < PATIENCE, "{said} messages");
        writer.say_in("tea", &text);
        said += 1;
        let mut is_gone = false;
        for person in [&mut writer, &mut quick] {
            loop {
                let heard = person.hear();
                match heard["type"].as_str() {
                    Some("said") => break assert_eq!(heard["number"], said),
                    Some("left") => is_gone = heard["name"] == "slow",
                    _ => panic!("{heard}"),
                }
            }
        }
        if is_gone {
            break;
        }
    }
    // The slow one has lost nothing in between, and is told why it is dropped.
    let (heard, close) = slow.hear_the_rest();
    let close = close.expect("a close frame");
    assert_eq!((u16::from(close.code), close.reason.as_str()), (1008, "you read too slowly"));
    let numbers: Vec<u64> = heard.iter().filter_map(|heard| heard["number"].as_u64()).collect();
    assert!(
        numbers.len() < said && numbers.iter().copied().eq(1..=numbers.len() as u64),
        "{} of {said}",
        numbers.len()
    );
    writer.say_in("tea", "better now");
    assert_eq!(quick.hear_a("said")["text"], "better now");
    drop(parlour.named_at_last("slow"));
    let counts = parlour.counts();
    assert!(counts.contains("1 slow sessions dropped"), "{counts}");
}

#[test]
fn a_client_that_never_reads_again_is_dropped_too() {
    let parlour = Parlour::open(&["--rate", "1000000", "--send-timeout", "0.5"]);
    let _deaf = parlour.enter("deaf", "tea");
    let mut writer = parlour.enter("writer", "tea");
    let text = "x".repeat(2000);
    let begin = Instant::now();
    let mut is_gone = false;
    while !is_gone {
        assert!(begin.elapsed() < PATIENCE);
        writer.say_in("tea", &text);
        let heard = writer.hear();
        is_gone = heard["type"] == "left";
    }
    drop(parlour.named_at_last("deaf"));
}

/// The messages of its own that a client may have on their way. All of them fit into the queue of a session.
const ON_THE_WAY: usize = 32;

const ROOMS: [&str; 2] = ["tea", "coffee"];

/// Sets a flag when it is dropped, also by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Writes to all rooms without a pause, until the server hangs up. Returns all messages up to the goodbye.
fn chatter(mut client: Client, name: &str, ready: &AtomicUsize) -> Vec<Value> {
    let (echoes, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let over = Over(&is_over);
    let stream = client.stream().try_clone().expect("another handle");
    let mut out = WebSocket::from_raw_socket(stream, Role::Client, None);
    thread::scope(|scope| {
        // Inside, so that a panic drops it before the scope waits for the writer.
        let over = over;
        scope.spawn(|| {
            for number in 0.. {
                while number >= echoes.load(Relaxed) + ON_THE_WAY && !is_over.load(Relaxed) {
                    thread::yield_now();
                }
                let request = json!({ "type": "say", "room": ROOMS[number % 2], "text": number.to_string() });
                // The server reads no more when it has said goodbye.
                if is_over.load(Relaxed) || out.send(Message::text(request.to_string())).is_err() {
                    break;
                }
                if number == 3 * ON_THE_WAY {
                    ready.fetch_add(1, Relaxed);
                }
            }
        });
        let heard = expect_goodbye(&mut client, |said| {
            echoes.fetch_add(usize::from(said["from"] == name), Relaxed);
        });
        drop(over);
        heard
    })
}

/// Returns all messages up to the goodbye, behind which nothing comes but the close frame.
fn expect_goodbye(client: &mut Client, mut each: impl FnMut(&Value)) -> Vec<Value> {
    let (mut heard, mut close) = (Vec::new(), None);
    while let Ok(message) = client.socket.read() {
        match message {
            Message::Text(text) => {
                let message: Value = serde_json::from_str(&text).expect("JSON");
                each(&message);
                heard.push(message);
            }
            Message::Close(frame) => close = frame,
            other => panic!("{other:?}"),
        }
    }
    let close = close.expect("a close frame");
    assert_eq!((u16::from(close.code), close.reason.as_str()), (1001, "the server ends"));
    assert_eq!(heard.pop(), Some(json!({ "type": "goodbye", "text": "the server ends" })));
    heard
}

/// Six people write as fast as they can while the server is told to end. A room numbers what it accepts. All members
/// get all numbers up to the last one, before their goodbye.
#[test]
fn the_end_of_the_server_loses_no_accepted_message() {
    for options in [&["--rate", "1000000"][..], &["--rate", "1000000", "--processors", "1"]] {
        let parlour = Parlour::open(options);
        let names: Vec<String> = (0..6).map(|number| format!("p{number}")).collect();
        let mut clients: Vec<Client> = names.iter().map(|name| parlour.named(name)).collect();
        for client in &mut clients {
            ROOMS.iter().for_each(|room| client.say(json!({ "type": "join", "room": room })));
        }
        // Each has entered before the first message.
        for client in &mut clients {
            ROOMS.iter().for_each(|_| drop(client.hear_a("entered")));
        }
        let ready = AtomicUsize::new(0);
        let heard: Vec<Vec<Value>> = thread::scope(|scope| {
            let people = names.iter().zip(clients).map(|(name, client)| {
                let ready = &ready;
                scope.spawn(move || chatter(client, name, ready))
            });
            let people: Vec<_> = people.collect();
            let begin = Instant::now();
            while ready.load(Relaxed) < names.len() && begin.elapsed() < PATIENCE {
                thread::yield_now();
            }
            parlour.terminate();
            people.into_iter().map(|person| person.join().expect("no panic")).collect()
        });
        let (status, messages) = parlour.wait();
        assert!(status.success() && !messages.contains("sinew: chat"), "{messages}");
        for room in ROOMS {
            let numbers = heard.iter().map(|heard| {
                let said = heard.iter().filter(|heard| heard["type"] == "said" && heard["room"] == room);
                let numbers: Vec<u64> = said.map(|said| said["number"].as_u64().expect("a number")).collect();
                assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{room}: a gap");
                numbers.len()
            });
            let numbers: Vec<usize> = numbers.collect();
            assert!(numbers[0] > 100 && numbers.iter().all(|last| *last == numbers[0]), "{room}: {numbers:?}");
        }
    }
}

#[test]
fn silent_and_nameless_clients_hear_the_goodbye() {
    let mut parlour = Parlour::open(&["--linger", "0.05"]);
    let mut people = [parlour.enter("ada", "tea"), parlour.named("ben"), parlour.connect()];
    // Their readers have given up their fibres.
    let begin = Instant::now();
    while !parlour.counts().contains(" 3 clients silent") {
        assert!(begin.elapsed() < PATIENCE, "{}", parlour.counts());
    }
    // This one has sent half a message.
    people[0].stream().write_all(&[0x81, 0xfe]).expect("send");
    parlour.terminate();
    people.iter_mut().for_each(|person| drop(expect_goodbye(person, |_| {})));
    drop(people);
    let (status, messages) = parlour.wait();
    assert!(status.success() && !messages.contains("sinew: chat"), "{messages}");
}

#[test]
fn a_client_that_does_not_read_does_not_keep_the_server() {
    let parlour = Parlour::open(&["--rate", "1000000", "--send-timeout", "1"]);
    let _deaf = parlour.enter("deaf", "tea");
    let mut writer = parlour.enter("writer", "tea");
    let text = "x".repeat(2000);
    // More than the kernel keeps, and fewer than the session may have waiting.
    for _ in 0..600 {
        writer.say_in("tea", &text);
        assert_eq!(writer.hear()["type"], "said");
    }
    parlour.terminate();
    expect_goodbye(&mut writer, |_| {});
    let (status, messages) = parlour.wait();
    assert!(status.success() && !messages.contains("sinew: chat"), "{messages}");
}
