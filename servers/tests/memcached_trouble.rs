//! What goes wrong around the memcached server, and must not harm those who have nothing to
//! do with it.

mod running;

use running::{Running, Talk};
use std::os::unix::net::UnixStream;

#[test]
fn messages_that_nobody_hears_end_nobody() {
    let server = Running::unheard(&["-c", "1", "-vv"]);
    // The session has something to say, and then whoever lets clients in.
    let mut served = server.connect();
    served.say(b"version\r\n");
    assert!(served.hear_until(b"\r\n").starts_with(b"VERSION"));
    for _ in 0..2 {
        assert_eq!(server.connect().hear_until(b"\r\n"), b"ERROR Too many open connections\r\n");
    }
}

#[test]
fn messages_that_nobody_reads_stop_nobody() {
    let (server, _unread) = Running::unread(&["-c", "1", "-vv"]);
    let mut served = server.connect();
    served.say(b"version\r\n");
    assert!(served.hear_until(b"\r\n").starts_with(b"VERSION"));
    // More messages than a pipe takes.
    for _ in 0..2000 {
        assert_eq!(server.connect().hear_until(b"\r\n"), b"ERROR Too many open connections\r\n");
    }
    served.say(b"version\r\n");
    assert!(served.hear_until(b"\r\n").starts_with(b"VERSION"));
    server.terminate();
    assert!(server.wait().success());
}

/// Of the connection that this talks over, at the server's end: the kernel's column of timers.
fn timer(talk: &Talk) -> String {
    let (ours, theirs) = (talk.stream.local_addr().expect("ours"), talk.stream.peer_addr().expect("theirs"));
    let (from, to) = (format!(":{:04X}", theirs.port()), format!(":{:04X}", ours.port()));
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    let mut rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row[1].ends_with(&from) && row[2].ends_with(&to)).expect("the connection");
    row[5].to_owned()
}

#[test]
fn clients_that_are_gone_without_a_word_are_found_out() {
    for server in Running::both(&[]) {
        // Nothing is under way, for which there would be another timer.
        let timer = timer(&server.connect());
        assert!(timer.starts_with("02:"), "{}: {timer}", server.name);
    }
}

#[test]
fn what_is_flushed_is_gone_for_those_who_were_held_up() {
    let server = Running::sinew(&[]);
    let mut slow = server.connect();
    let value = vec![b'x'; 1_000_000];
    assert_eq!(slow.ask(&[b"set big 0 0 1000000\r\n", &value[..], b"\r\n"].concat()), b"STORED\r\n");
    assert_eq!(slow.ask(b"set small 0 0 1\r\n1\r\nset number 0 0 1\r\n1\r\n"), b"STORED\r\nSTORED\r\n");
    // More than the kernel takes for a client that does not read: what comes behind it is
    // answered later.
    slow.say(&[b"get big\r\n".repeat(16), b"get small\r\nincr number 1\r\nmn\r\n".to_vec()].concat());
    assert_eq!(slow.hear(8), b"VALUE bi");
    assert_eq!(server.connect().ask(b"flush_all\r\n"), b"OK\r\n");
    let heard = slow.hear_until(b"MN\r\n");
    assert!(heard.ends_with(b"END\r\nNOT_FOUND\r\nMN\r\n"));
    let end = &heard[heard.len().saturating_sub(60)..];
    assert!(!end.windows(11).any(|part| part == b"VALUE small"), "{:?}", String::from_utf8_lossy(end));
}

#[test]
fn the_socket_of_a_successor_is_not_taken_away() {
    let path = std::env::temp_dir().join(format!("sinew-successor-{}", std::process::id()));
    let options = ["-s", path.to_str().expect("a path of text")];
    let first = Running::sinew(&options);
    let _successor = Running::sinew(&options);
    first.terminate();
    assert!(first.wait().success());
    UnixStream::connect(&path).expect("the successor's socket");
    std::fs::remove_file(path).expect("to clean up");
}
