//! Clients that break the rules.

mod parlour;

use parlour::{Parlour, Random, receive};
use serde_json::json;
use std::io::{Read, Write};
use std::net::Shutdown;
use tungstenite::Message;
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{Data, OpCode};

const HANDSHAKE: &str = "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Shows that the server still serves, and that nobody is left.
fn expect_alive(parlour: &mut Parlour) {
    let mut ada = parlour.named_at_last("check");
    ada.enter("check");
    ada.say_in("check", "alive");
    assert_eq!(ada.hear()["text"], "alive");
    drop(ada);
    let begin = std::time::Instant::now();
    while !parlour.counts().contains(" 0 sessions") {
        assert!(begin.elapsed() < parlour::PATIENCE, "{}", parlour.counts());
    }
    // One of them is the listener.
    while parlour.sockets() > 1 {
        assert!(begin.elapsed() < parlour::PATIENCE, "{} sockets", parlour.sockets());
    }
}

#[test]
fn other_requests_than_the_page_and_the_socket_are_not_found() {
    let parlour = Parlour::open(&["--origin", "http://friend"]);
    let get = |path: &str| parlour.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    for (path, kind) in [("/", "text/html"), ("/style.css", "text/css"), ("/script.js", "text/javascript")] {
        let answer = get(path);
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(kind), "{path}: {answer:.200}");
        assert!(answer.contains("Content-Security-Policy: default-src 'none';"), "{answer:.200}");
    }
    for path in ["/x", "/ws/", "/../", "/index.html", "//", "/style.css/"] {
        assert!(get(path).starts_with("HTTP/1.1 404 "), "{path}");
    }
    assert!(get("/ws").starts_with("HTTP/1.1 426 "));
    let post = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert!(parlour.ask(post).starts_with("HTTP/1.1 405 "));
    assert!(parlour.ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello").starts_with("HTTP/1.1 413 "));
    assert!(parlour.ask("\0\0\0\r\n\r\n").starts_with("HTTP/1.1 400 "));
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(3000));
    assert!(parlour.ask(&long).starts_with("HTTP/1.1 414 "));
    let head = parlour.ask("HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    // Pages of others.
    let from = |origin: &str| {
        let request = HANDSHAKE.replace("Upgrade: w", &format!("Origin: {origin}\r\nUpgrade: w"));
        let mut stream = parlour.stream();
        stream.write_all(request.as_bytes()).expect("send");
        let mut answer = [0; 12];
        receive(&mut stream, &mut answer, b"");
        String::from_utf8_lossy(&answer).into_owned()
    };
    assert_eq!(from("http://evil"), "HTTP/1.1 403");
    assert_eq!(from("http://x"), "HTTP/1.1 101");
    assert_eq!(from("http://friend"), "HTTP/1.1 101");
}

#[test]
fn wrong_requests_are_refused_and_the_session_goes_on() {
    let mut parlour = Parlour::open(&["--rate", "100000"]);
    let mut ada = parlour.enter("ada", "tea");
    let deep = "[".repeat(20_000);
    for text in ["", "{", "null", "\u{0}", r#"{"type":"shout"}"#, r#"{"type":"say","room":["tea"]}"#, &deep] {
        ada.socket.send(Message::text(text)).expect("send");
        ada.expect_error("not-a-request");
    }
    for (request, code) in [
        (json!({ "type": "say", "room": "tea", "text": "x".repeat(2001) }), "bad-text"),
        (json!({ "type": "say", "room": "tea", "text": "bell\u{7}" }), "bad-text"),
        (json!({ "type": "say", "room": "tea", "text": " \n " }), "bad-text"),
        (json!({ "type": "say", "room": "elsewhere", "text": "x" }), "not-there"),
        (json!({ "type": "join", "room": "<script>" }), "bad-room"),
        (json!({ "type": "join", "room": "x".repeat(33) }), "bad-room"),
        (json!({ "type": "direct", "to": "a\u{202e}b", "text": "x" }), "bad-name"),
        (json!({ "type": "leave", "room": "elsewhere" }), "not-there"),
    ] {
        ada.say(request);
        ada.expect_error(code);
    }
    ada.say_in("tea", &"\u{1f600}".repeat(2000));
    assert_eq!(ada.hear()["number"], 1);
    drop(ada);
    expect_alive(&mut parlour);
}

#[test]
fn frames_that_are_not_allowed_end_the_session_with_a_reason() {
    let mut parlour = Parlour::open(&[]);
    let frame = |payload: &'static [u8], code: OpCode, fin: bool| Message::Frame(Frame::message(payload, code, fin));
    let (text, more) = (OpCode::Data(Data::Text), OpCode::Data(Data::Continue));
    let cases: [(&str, Vec<Message>, u16); 6] = [
        ("binary", vec![Message::binary(vec![1, 2, 3])], 1003),
        ("large", vec![Message::text("x".repeat(30_000))], 1009),
        ("not UTF-8", vec![frame(b"\xff\xfe", text, true)], 1007),
        ("a fragment without a beginning", vec![frame(b"x", more, true)], 1002),
        ("two beginnings", vec![frame(b"x", text, false), frame(b"x", text, false)], 1002),
        ("a reserved code", vec![frame(b"x", OpCode::Data(Data::Reserved(3)), true)], 1002),
    ];
    for (what, messages, code) in cases {
        let mut ada = parlour.named_at_last("ada");
        for message in messages {
            ada.socket.send(message).expect("send");
        }
        let reason = ada.expect_close(code);
        assert!(!reason.is_empty(), "{what}");
    }
    // Many small fragments of one message that is too large.
    let mut ada = parlour.named_at_last("ada");
    let payload = &[b'x'; 1000];
    ada.socket.send(frame(payload, text, false)).expect("send");
    for _ in 0..30 {
        // The server may hang up in the midst of it.
        let _ = ada.socket.send(frame(payload, more, false));
    }
    ada.expect_close(1009);
    expect_alive(&mut parlour);
}

#[test]
fn frames_without_a_mask_end_the_session() {
    let mut parlour = Parlour::open(&[]);
    let mut ada = parlour.named("ada");
    ada.stream().write_all(&[0x81, 2, b'{', b'}']).expect("send");
    ada.expect_close(1002);
    expect_alive(&mut parlour);
}

#[test]
fn a_session_that_writes_too_fast_loses_messages_then_its_connection() {
    let mut parlour = Parlour::open(&["--rate", "5"]);
    let mut ada = parlour.enter("ada", "tea");
    for number in 0..20 {
        ada.say_in("tea", &number.to_string());
    }
    let heard: Vec<_> = (0..20).map(|_| ada.hear()).collect();
    let said = heard.iter().filter(|heard| heard["type"] == "said").count();
    let refused = heard.iter().filter(|heard| heard["code"] == "too-fast").count();
    assert!((13..20).contains(&said) && said + refused == 20, "{heard:?}");
    // Pings count as well.
    for _ in 0..60 {
        if ada.socket.send(Message::Ping(Default::default())).is_err() {
            break;
        }
    }
    assert_eq!(ada.expect_close(1008), "you write too fast");
    expect_alive(&mut parlour);
}

#[test]
fn a_client_without_a_name_is_not_kept() {
    let mut parlour = Parlour::open(&["--header-timeout", "0.3", "--linger", "0.05"]);
    let mut nobody = parlour.connect();
    assert_eq!(nobody.expect_close(1008), "you have not taken a name");
    // Nor is one that never asks for anything, or asks slowly.
    let mut slow = parlour.stream();
    slow.write_all(b"GET / HTTP/1.1\r\nHost").expect("send");
    let mut answer = [0; 12];
    receive(&mut slow, &mut answer, b"");
    assert_eq!(&answer, b"HTTP/1.1 408");
    drop(slow);
    expect_alive(&mut parlour);
}

#[test]
fn a_client_that_does_not_answer_to_pings_is_dropped() {
    let mut parlour = Parlour::open(&["--ping", "0.2", "--linger", "0.05"]);
    // This one answers, since it reads.
    let mut ada = parlour.enter("ada", "tea");
    // This one does not: nothing is sent for it, and half a frame has come from it.
    let mut ben = parlour.enter("ben", "tea");
    assert_eq!(ada.hear_a("joined")["name"], "ben");
    ben.stream().write_all(&[0x81, 0xfe, 0x10]).expect("send");
    assert_eq!(ada.hear_a("left")["name"], "ben");
    let mut bytes = Vec::new();
    ben.stream().read_to_end(&mut bytes).expect("the end of the connection");
    assert!(bytes.ends_with(b"you do not answer to pings"), "{}", String::from_utf8_lossy(&bytes));
    drop(ada);
    expect_alive(&mut parlour);
}

/// Connections with random bytes, valid frames with random contents, and ends in the midst of them.
#[test]
fn garbage_neither_ends_nor_fills_the_server() {
    let mut parlour = Parlour::open(&["--rate", "1000000", "--header-timeout", "5"]);
    let mut witness = parlour.enter("witness", "tea");
    let mut random = Random::new();
    for round in 0..150 {
        let mut stream = parlour.stream();
        if random.below(8) > 0 {
            stream.write_all(HANDSHAKE.as_bytes()).expect("send");
        }
        // The server may hang up at any time.
        for _ in 0..random.below(6) {
            let bytes = match random.below(4) {
                0 => (0..random.below(200)).map(|_| random.next() as u8).collect(),
                1 => masked(0x81, &format!(r#"{{"type":"name","name":"n{round}"}}"#)),
                2 => masked(0x81, r#"{"type":"join","room":"tea"}"#),
                _ => {
                    let mut bytes = masked(random.next() as u8, r#"{"type":"say","room":"tea","text":"x"}"#);
                    bytes.truncate(random.below(bytes.len() + 1));
                    bytes
                }
            };
            if stream.write_all(&bytes).is_err() {
                break;
            }
        }
        if random.below(2) == 0 {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }
    witness.say(json!({ "type": "direct", "to": "witness", "text": "still here" }));
    assert_eq!(witness.hear_a("direct")["text"], "still here");
    drop(witness);
    expect_alive(&mut parlour);
}

fn masked(first: u8, text: &str) -> Vec<u8> {
    assert!(text.len() < 126);
    let mask = [7u8, 77, 177, 17];
    let payload = text.bytes().zip(mask.into_iter().cycle()).map(|(byte, mask)| byte ^ mask);
    [first, 0x80 | text.len() as u8].into_iter().chain(mask).chain(payload).collect()
}
