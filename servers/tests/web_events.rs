//! The web server by events: the tests of the other files, and some of its own.

// Each file has its own copy.
#![allow(clippy::duplicate_mod)]

#[path = "web_answers.rs"]
mod answers;
#[path = "web_bounds.rs"]
mod bounds;
#[path = "web_clients.rs"]
mod clients;
mod limits;
#[path = "web_silence.rs"]
mod silence;
mod site;
#[path = "web_starved.rs"]
mod starved;
#[path = "web_trouble.rs"]
mod trouble;

use rustix::process::Resource;
use site::{Process, Site, Talk, eventually, noise};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::Stdio;

/// More bytes than the kernel buffers between the two ends of a connection.
const HUGE: usize = 24 << 20;

#[test]
fn requests_of_one_connection_are_answered_one_after_the_other_on_all_processors() {
    let (small, large) = (noise(1000), noise(100_000));
    let site = Site::new().file("small", &small).file("large", &large);
    let serving = site.serve(&["-t", "4", "--plaintext"]);
    let targets = ["small", "none", "plaintext", "large", "small", "%zz"];
    let requests: String = targets.iter().map(|target| format!("GET /{target} HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut talks: Vec<Talk> = (0..10).map(|_| serving.connect()).collect();
                for _ in 0..5 {
                    talks.iter_mut().for_each(|talk| talk.say(&requests));
                    for talk in &mut talks {
                        let answers = targets.map(|_| talk.hear(true));
                        assert_eq!(answers.each_ref().map(|answer| answer.status), [200, 404, 200, 200, 200, 400]);
                        assert!(answers[0].body == small && answers[3].body == large && answers[4].body == small);
                    }
                }
            });
        }
    });
}

/// A handler that waits for a client leaves its processor to the others.
#[test]
fn clients_that_do_not_read_delay_no_event_of_others() {
    let serving = Site::new().file("huge", noise(HUGE)).file("a", "A").serve(&["-t", "1"]);
    let mut stuck: Vec<Talk> = (0..50).map(|_| serving.connect()).collect();
    for talk in &mut stuck {
        talk.say("GET /huge HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(talk.hear_head().starts_with("HTTP/1.1 200 "));
    }
    let mut talk = serving.connect();
    (0..100).for_each(|_| assert_eq!(talk.ask("GET", "/a", "").text(), "A"));
    // The request behind the large answer is still there.
    let first = &mut stuck[0];
    assert_eq!(first.hear_bytes(HUGE).len(), HUGE);
    assert_eq!(first.hear(true).text(), "A");
}

#[test]
fn bytes_and_the_end_that_come_together_are_both_heard() {
    let serving = Site::new().file("a", "A").serve(&[]);
    let listening = serving.sockets();
    for _ in 0..20 {
        let mut talk = serving.connect();
        assert_eq!(talk.ask("GET", "/a", "").text(), "A");
        talk.say("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
        talk.stream.shutdown(Shutdown::Write).expect("the end");
        assert_eq!(talk.hear(true).text(), "A");
        assert!(talk.is_closed());
    }
    eventually("all connections are closed", || serving.sockets() == listening);
}

#[test]
fn no_connection_is_left_behind_by_garbage_and_by_clients_that_vanish() {
    let serving = Site::new().file("huge", noise(HUGE)).file("a", "A").serve(&["-t", "2"]);
    let listening = serving.sockets();
    let garbage = noise(100_000);
    for round in 0..100 {
        let mut talk = serving.connect();
        let begin = round * 700;
        // The server may close the connection before it has received everything.
        let _ = match round % 5 {
            0 => talk.stream.write_all(&garbage[begin..begin + 700]),
            1 => talk.stream.write_all(b"GET /huge HTTP/1.1\r\nHost: h\r\n\r\n"),
            2 => talk.stream.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc"),
            3 => talk.stream.write_all(b"GET /a HTTP/1.1\r\nHo"),
            _ => talk.stream.write_all(b"\r\n\r\n"),
        };
        // Some vanish in the middle of the answer, others before it.
        if round % 10 == 1 {
            talk.stream.read_exact(&mut [0; 10]).expect("the beginning of the answer");
        }
    }
    eventually("all connections are closed", || serving.sockets() <= listening);
    assert_eq!(serving.get("/a").text(), "A");
}

#[test]
fn clients_wait_to_be_accepted_while_there_are_no_descriptors() {
    let serving = Site::new().file("a", "A").serve(&["-t", "1"]);
    assert_eq!(serving.get("/a").text(), "A");
    limits::starve(serving.pid(), Resource::Nofile, 5);
    let mut talks: Vec<Talk> = (0..20).map(|_| serving.connect()).collect();
    talks.iter_mut().for_each(|talk| talk.say("GET /a HTTP/1.1\r\nHost: h\r\n\r\n"));
    limits::starve(serving.pid(), Resource::Nofile, 1000);
    talks.iter_mut().for_each(|talk| assert_eq!(talk.hear(true).text(), "A"));
}

#[test]
fn events_have_no_tls_and_only_events_are_stolen() {
    let site = Site::new().file("a", "A");
    let said = |command: &mut std::process::Command| {
        let mut server = Process::start(command.stderr(Stdio::piped())).expect("the binary of this package");
        assert!(!server.wait_for_end().success());
        server.messages()
    };
    let mut command = site.command(&[]);
    command.arg("--tls").args(["certificate", "key"]);
    let text = said(&mut command);
    assert!(text.contains("--events serves without TLS"), "{text}");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sinew"));
    let text = said(command.arg("web").arg(site.path("")).arg("--no-stealing"));
    assert!(text.contains("--events"), "{text}");
    assert_eq!(site.serve(&["--no-stealing"]).get("/a").text(), "A");
}
