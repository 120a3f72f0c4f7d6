//! Clients that are silent: their sessions give up their fibres, and clients do not notice.

mod limits;
mod running;

use limits::allow_descriptors;
use running::{PATIENCE, Random, Running, Talk};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

fn stat(talk: &mut Talk, name: &str) -> u64 {
    talk.stat(name).parse().expect("a number")
}

/// Waits until this number of sessions is dormant: they have no fibre.
fn await_dormant(server: &Running, count: u64) {
    let (mut talk, begin) = (server.connect(), Instant::now());
    loop {
        match stat(&mut talk, "dormant_connections") {
            dormant if dormant == count => return,
            dormant => assert!(begin.elapsed() < PATIENCE, "{dormant} of {count} sessions are dormant"),
        }
        std::thread::yield_now();
    }
}

/// Connects clients that have sent one request each.
fn idle(server: &Running, count: usize) -> Vec<Talk> {
    let mut talks: Vec<Talk> = (0..count).map(|_| server.connect()).collect();
    for talk in &mut talks {
        talk.say(b"mn\r\n");
        assert_eq!(talk.hear(4), b"MN\r\n");
    }
    talks
}

#[test]
fn a_dormant_session_answers_like_any_other() {
    let server = Running::sinew(&["-t", "2", "--linger", "0.02"]);
    let mut talks = idle(&server, 20);
    // Clients that have never sent anything are dormant, too.
    let mut fresh: Vec<Talk> = (0..5).map(|_| server.connect()).collect();
    for round in 0..3 {
        await_dormant(&server, 25);
        for talk in &mut talks {
            assert_eq!(talk.ask(b"set a 0 0 1\r\nx\r\nget a\r\n"), b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n", "{round}");
        }
    }
    assert_eq!(fresh[0].ask(b"mn\r\n"), b"MN\r\n");
    let mut watcher = server.connect();
    assert_eq!(stat(&mut watcher, "curr_connections"), 26);
    // A dormant client that disconnects is noticed.
    drop((talks, fresh));
    let begin = Instant::now();
    while stat(&mut watcher, "curr_connections") != 1 {
        assert!(begin.elapsed() < PATIENCE, "connections are not closed");
    }
    assert_eq!(stat(&mut watcher, "dormant_connections"), 0);
}

#[test]
fn sessions_of_both_protocols_and_unix_sockets_survive_silence() {
    const NOOP: &[u8] = b"\x80\x0a\0\0\0\0\0\0\0\0\0\0abcd\0\0\0\0\0\0\0\0";
    let path = std::env::temp_dir().join(format!("sinew-silence-{}.sock", std::process::id()));
    let _at_path = Running::sinew(&["--linger", "0.02", "-s", path.to_str().expect("a path in text")]);
    let at_port = Running::sinew(&["--linger", "0.02"]);
    let mut stream = UnixStream::connect(&path).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // The server does not know the client's protocol before its first byte.
    let mut binary = at_port.connect();
    await_dormant(&at_port, 1);
    for _ in 0..3 {
        let mut answer = [0; 24];
        binary.say(NOOP);
        assert_eq!(binary.hear(24)[..2], [0x81, 0x0a]);
        // The first connection goes dormant while another one asks for the count.
        stream.write_all(NOOP).expect("to send");
        stream.read_exact(&mut answer).expect("the answer");
        assert_eq!(answer[..2], [0x81, 0x0a]);
        await_dormant(&at_port, 1);
        let begin = Instant::now();
        loop {
            let mut asking = UnixStream::connect(&path).expect("a connection");
            asking.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            asking.write_all(b"stats runtime\r\nquit\r\n").expect("to send");
            let mut stats = String::new();
            asking.read_to_string(&mut stats).expect("stats");
            if stats.contains("STAT dormant_connections 1\r\n") {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{stats}");
        }
    }
}

#[test]
fn the_limit_on_connections_counts_dormant_ones() {
    let server = Running::sinew(&["-c", "10", "-t", "1", "--linger", "0.02"]);
    let mut talks = idle(&server, 9);
    await_dormant(&server, 9);
    let begin = Instant::now();
    while talks.len() < 10 {
        let mut talk = server.connect();
        // The connection that asked last may not have closed yet.
        let _ = talk.stream.write_all(b"mn\r\n");
        if talk.hear(4) == b"MN\r\n" {
            talks.push(talk);
        }
        assert!(begin.elapsed() < PATIENCE);
    }
    for _ in 0..3 {
        assert_eq!(server.connect().hear_until(b"\r\n"), b"ERROR Too many open connections\r\n");
    }
    assert_eq!(talks[0].ask(b"mn\r\n"), b"MN\r\n");
    drop(talks.pop());
    while server.connect().ask(b"mn\r\n") != b"MN\r\n" {
        assert!(begin.elapsed() < PATIENCE);
    }
}

#[test]
fn a_request_that_has_begun_keeps_its_fibre() {
    let server = Running::sinew(&["-t", "1", "--linger", "0.02"]);
    let halves: [(&[u8], &[u8], &[u8]); 4] = [
        (b"get a", b"\r\n", b"END\r\n"),
        (b"set a 0 0 5\r\nhe", b"llo\r\n", b"STORED\r\n"),
        (b"mn\r\nmn\r", b"\n", b"MN\r\nMN\r\n"),
        (b"set b 0 0 20000\r\nx", &[b'x'; 20_001], b""),
    ];
    let mut halved: Vec<Talk> = halves.iter().map(|_| server.connect()).collect();
    for (talk, (first, ..)) in halved.iter_mut().zip(&halves) {
        talk.say(first);
    }
    // A later, silent client is dormant, and these are not.
    let _silent = idle(&server, 1);
    await_dormant(&server, 1);
    for (talk, (_, second, answer)) in halved.iter_mut().zip(&halves).take(3) {
        talk.say(second);
        assert_eq!(talk.hear(answer.len()), *answer);
    }
    halved[3].say(&[b'x'; 19_999]);
    halved[3].say(b"\r\n");
    assert_eq!(halved[3].hear(8), b"STORED\r\n");
    await_dormant(&server, 5);
}

/// Sends one of several requests, and checks its answer.
fn ask_anything(server: &Running, talk: &mut Talk, random: &mut Random) {
    match random.below(8) {
        0 => {
            talk.say(b"get nothi");
            talk.say(b"ng\r\nmn\r\n");
            assert_eq!(talk.hear(9), b"END\r\nMN\r\n");
        }
        1 => {
            talk.say(b"set large 0 0 3000\r\n");
            talk.say(&[b'v'; 3000]);
            talk.say(b"\r\nmn\r\n");
            assert_eq!(talk.hear(12), b"STORED\r\nMN\r\n");
        }
        way => {
            if way == 2 {
                *talk = server.connect();
            }
            talk.say(b"mn\r\n");
            assert_eq!(talk.hear(4), b"MN\r\n");
        }
    }
}

#[test]
fn requests_sent_while_a_session_goes_dormant_are_answered() {
    const CLIENTS: usize = 4;
    const EACH: usize = 4;
    const LINGER: Duration = Duration::from_micros(2_000);
    for processors in ["1", "2"] {
        let server = Running::sinew(&["-t", processors, "--linger", "0.002"]);
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let server = &server;
                let mut random = Random::new();
                scope.spawn(move || {
                    let mut talks = idle(server, EACH);
                    // Each client pauses for about as long as the server waits before a session
                    // goes dormant.
                    let mut due: Vec<Instant> = vec![Instant::now(); EACH];
                    for _ in 0..2_000 {
                        let next = (0..EACH).min_by_key(|number| due[*number]).expect("some");
                        std::thread::sleep(due[next].saturating_duration_since(Instant::now()));
                        ask_anything(server, &mut talks[next], &mut random);
                        let thinks = LINGER * (70 + random.below(60) as u32) / 100;
                        due[next] = Instant::now() + thinks;
                    }
                    assert_eq!(talks[0].ask(b"mn\r\n"), b"MN\r\n", "client {client}");
                });
            }
        });
        let begin = Instant::now();
        let mut watcher = server.connect();
        while stat(&mut watcher, "curr_connections") != 1 {
            assert!(begin.elapsed() < PATIENCE, "connections are not closed");
        }
    }
}

#[test]
fn a_thousand_dormant_sessions_end_at_once_with_the_server() {
    const CONNECTIONS: usize = 1_000;
    allow_descriptors();
    let server = Running::sinew(&["-t", "2", "-c", "1100", "--linger", "0.02"]);
    let mut talks = idle(&server, CONNECTIONS);
    await_dormant(&server, CONNECTIONS as u64);
    // A session in the middle of a request does not delay the others.
    let mut late = server.connect();
    late.ask(b"mn\r\n");
    late.say(b"set a 0 0 20000\r\nx");
    let mut watcher = server.connect();
    let before = Instant::now();
    while stat(&mut watcher, "dormant_connections") != CONNECTIONS as u64 || stat(&mut watcher, "bytes_read") < 4_050 {
        assert!(before.elapsed() < PATIENCE);
    }
    server.terminate();
    for talk in &mut talks {
        assert_eq!(talk.hear(1), b"");
    }
    late.say(&[b'x'; 19_999]);
    late.say(b"\r\n");
    assert_eq!(late.hear_until(b"\r\n"), b"STORED\r\n");
    let begin = Instant::now();
    let address = server.address;
    assert!(server.wait().success());
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?} to end", begin.elapsed());
    assert!(TcpStream::connect(address).is_err());
}

/// Returns how often the server's threads have had to wait.
fn waits(server: &Running) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("its threads");
    let waits = |thread: std::path::PathBuf| {
        let status = std::fs::read_to_string(thread.join("status")).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.expect("how often it waited").trim().parse::<u64>().expect("a number")
    };
    threads.map(|thread| waits(thread.expect("a thread").path())).sum()
}

#[test]
fn a_server_with_silent_clients_sleeps() {
    let server = Running::sinew(&["-t", "2", "--linger", "0.02"]);
    let _talks = idle(&server, 300);
    await_dormant(&server, 300);
    let begin = Instant::now();
    loop {
        let before = waits(&server);
        std::thread::sleep(Duration::from_millis(500));
        if waits(&server) == before {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "the server keeps waking up");
    }
}

#[test]
fn dormant_sessions_free_their_memory() {
    const CONNECTIONS: usize = 2_000;
    const FIRST: usize = 300;
    allow_descriptors();
    let server = Running::sinew(&["-t", "2", "-c", "2400", "--linger", "0.5"]);
    // These sessions fill the stack caches of the processors.
    let _first = idle(&server, FIRST);
    await_dormant(&server, FIRST as u64);
    let before = server.resident();
    let talks = idle(&server, CONNECTIONS);
    await_dormant(&server, (FIRST + CONNECTIONS) as u64);
    let begin = Instant::now();
    // The last of them may still be giving memory back.
    loop {
        let each = server.resident().saturating_sub(before) / talks.len() as u64;
        if each < 2_500 {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{each} bytes for each session");
        std::thread::yield_now();
    }
}
