//! Clients of `sinew files` that are slow, silent or gone, and a server that stops or is starved.

mod limits;
mod vault;

use limits::starve;
use rustix::process::Resource;
use std::io::{Read, Write};
use std::net::Shutdown;
use vault::{HELLO, Raw, Site, Vault, eventually, is_closed, noise, said};

/// More than the buffers of a connection hold.
const HUGE: usize = 24 << 20;

fn huge() -> Site {
    Site::new().file("huge", vec![7; HUGE]).file("small", "small")
}

/// Receives the rest of a file after its first record. Returns the number of its bytes.
fn drain(raw: &mut Raw, first: &[u8]) -> usize {
    let (mut count, mut record) = (0, first.to_vec());
    loop {
        assert_eq!(record[0], b'p', "a piece");
        count += record.len() - 9;
        if record[1..9] == [0; 8] {
            return count;
        }
        record = raw.hear().expect("another record");
    }
}

#[test]
fn garbage_ends_its_connection_and_no_other() {
    let vault = Vault::serve(huge(), &[]);
    let mut raw = vault.raw();
    for garbage in
        [&b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"[..], &[0; 200], &noise(100_000), b"sinewfs2\x01", b"sinewfs1\x03"]
    {
        let mut stream = vault.connect();
        // The server may close the connection before it has everything.
        let _ = stream.write_all(garbage);
        assert!(is_closed(&mut stream));
    }
    vault.has_said(&["127.0.0.1", "this is not a client of \"sinew files\""]);
    let mut stream = vault.connect();
    stream.write_all(&[&b"sinewfs1\x01"[..], &[9; 40]].concat()).expect("send");
    stream.shutdown(Shutdown::Write).expect("the end");
    assert!(is_closed(&mut stream));
    vault.has_said(&["127.0.0.1", "the handshake was cut short"]);
    // Bytes that are no record, after a good handshake.
    let mut other = vault.raw();
    other.stream.write_all(&noise(5000)).expect("send");
    assert!(is_closed(&mut other.stream));
    assert!(raw.ask(b"gsmall").ends_with(b"small"));
    eventually("all other connections are closed", || vault.sockets() <= 2);
}

#[test]
fn a_handshake_and_a_request_have_to_be_complete_in_time() {
    let vault = Vault::serve(huge(), &["--request-timeout", "0.2"]);
    let mut stream = vault.connect();
    stream.write_all(&b"sinewfs1\x01"[..HELLO - 1]).expect("send");
    assert!(is_closed(&mut stream));
    vault.has_said(&["the handshake took too long"]);
    let mut raw = vault.raw();
    let request = raw.seal(b"gsmall");
    raw.stream.write_all(&request[..5]).expect("send");
    assert!(is_closed(&mut raw.stream));
    vault.has_said(&["(alice)", "a request took too long"]);
}

#[test]
fn silent_clients_wait_without_a_fibre_and_go_on() {
    let vault = Vault::serve(huge(), &["--linger", "0.01"]);
    let mut clients: Vec<Raw> = (0..20).map(|_| vault.raw()).collect();
    for _ in 0..3 {
        // After this time the connections are in the lobby. If they are not, the test shows less.
        std::thread::sleep(std::time::Duration::from_millis(50));
        for raw in &mut clients {
            assert!(raw.ask(b"gsmall").ends_with(b"small"));
        }
    }
    drop(clients);
    eventually("all connections are closed", || vault.sockets() <= 1);
}

#[test]
fn idle_clients_are_closed_if_an_option_says_so() {
    let vault = Vault::serve(huge(), &["--idle-timeout", "0.3", "--linger", "0.01"]);
    let mut raw = vault.raw();
    assert!(raw.ask(b"gsmall").ends_with(b"small"));
    assert!(is_closed(&mut raw.stream));
}

#[test]
fn further_clients_wait_until_there_is_room() {
    let vault = Vault::serve(huge(), &["--connections", "1"]);
    let mut first = vault.raw();
    assert!(first.ask(b"gsmall").ends_with(b"small"));
    let mut second = vault.connect();
    second.write_all(b"sine").expect("send");
    for _ in 0..100 {
        assert!(first.ask(b"gsmall").ends_with(b"small"));
        assert_eq!(vault.sockets(), 2, "the listener and the first client");
    }
    drop(first);
    second.write_all(b"WFS1\x01").expect("send");
    assert!(is_closed(&mut second));
    vault.has_said(&["this is not a client"]);
    assert_eq!(vault.get("small"), b"small");
}

#[test]
fn clients_that_do_not_read_hold_little_memory_and_are_closed_in_time() {
    let vault = Vault::serve(huge(), &["--send-timeout", "1"]);
    assert_eq!(vault.get("small"), b"small");
    let before = vault.resident();
    let mut clients: Vec<Raw> = (0..20).map(|_| vault.raw()).collect();
    clients.iter_mut().for_each(|raw| assert_eq!(raw.ask(b"ghuge")[0], b'p'));
    assert_eq!(vault.get("small"), b"small");
    let held = vault.resident().saturating_sub(before);
    // Four pieces, plain and encrypted, stacks, and what the allocator keeps.
    assert!(held < 20 * (1 << 20), "{held} bytes");
    vault.has_said(&["(alice)", "the client did not take an answer in time"]);
    eventually("the server has closed the connections", || vault.sockets() <= 1);
    // The bytes that are left in the buffers do not make a file.
    let mut rest = Vec::new();
    let _ = clients[0].stream.read_to_end(&mut rest);
    assert!(rest.len() < HUGE);
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let vault = Vault::serve(huge(), &[]);
    for round in 0..30 {
        let mut raw = vault.raw();
        match round % 3 {
            // Unread bytes make this a reset.
            0 => assert_eq!(raw.ask(b"ghuge")[0], b'p'),
            1 => raw.say(b"ghuge"),
            _ => {}
        }
    }
    eventually("the server has closed the connections", || vault.sockets() <= 1);
    let open = || std::fs::read_dir(format!("/proc/{}/fd", vault.pid())).expect("descriptors").flatten();
    let is_huge = |link: std::path::PathBuf| link.ends_with("huge");
    eventually("the file is closed", || !open().filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(is_huge));
    assert_eq!(vault.messages(), "", "a client that vanishes is no trouble");
}

#[test]
fn a_file_that_becomes_shorter_is_not_taken_for_complete() {
    let vault = Vault::serve(huge(), &[]);
    let mut raw = vault.raw();
    let mut record = raw.ask(b"ghuge");
    std::fs::File::options().write(true).open(vault.site.path("huge")).unwrap().set_len(1 << 20).unwrap();
    while record[0] == b'p' {
        assert_ne!(record[1..9], [0; 8], "the file is complete");
        record = raw.hear().expect("another record");
    }
    assert_eq!(record, b"s\x05");
    assert!(raw.ask(b"gsmall").ends_with(b"small"), "the connection goes on");
}

#[test]
fn a_server_that_stops_ends_idle_connections_and_completes_answers() {
    for signal in ["-TERM", "-INT"] {
        let mut vault = Vault::serve(huge(), &["--linger", "0.05"]);
        let (mut idle, mut busy) = (vault.raw(), vault.raw());
        let first = busy.ask(b"ghuge");
        vault.signal(signal);
        assert!(is_closed(&mut idle.stream));
        assert_eq!(drain(&mut busy, &first), HUGE);
        assert!(is_closed(&mut busy.stream));
        assert!(vault.wait().success());
        assert_eq!(vault.messages(), "");
    }
}

#[test]
fn without_descriptors_clients_are_told_and_wait() {
    let vault = Vault::serve(huge(), &[]);
    let mut raw = vault.raw();
    assert!(raw.ask(b"gsmall").ends_with(b"small"));
    starve(vault.pid(), Resource::Nofile, 5);
    assert_eq!(raw.ask(b"gsmall"), b"s\x04");
    assert_eq!(raw.ask(b"l"), b"s\x04");
    std::thread::scope(|scope| {
        let later = scope.spawn(|| vault.ask("get", &["small", "--output", "-"]));
        starve(vault.pid(), Resource::Nofile, 1000);
        let output = later.join().expect("the client");
        assert!(output.stdout == b"small", "{}", said(&output));
    });
    assert!(raw.ask(b"gsmall").ends_with(b"small"));
}
