//! Faults around the memcached server. They must not harm clients that have nothing to do with
//! them.

mod running;

use running::{Running, Talk};
use std::os::unix::net::UnixStream;

#[test]
fn a_closed_standard_error_does_not_end_the_server() {
    let server = Running::unheard(&["-c", "1", "-vv"]);
    // First the session has a message to write, and then the fibre that accepts clients.
    let mut served = server.connect();
    served.say(b"version\r\n");
    assert!(served.hear_until(b"\r\n").starts_with(b"VERSION"));
    for _ in 0..2 {
        assert_eq!(server.connect().hear_until(b"\r\n"), b"ERROR Too many open connections\r\n");
    }
}

#[test]
fn a_full_standard_error_does_not_block_the_server() {
    let (server, _unread) = Running::unread(&["-c", "1", "-vv"]);
    let mut served = server.connect();
    served.say(b"version\r\n");
    assert!(served.hear_until(b"\r\n").starts_with(b"VERSION"));
    // More messages than fit into a pipe.
    for _ in 0..2000 {
        assert_eq!(server.connect().hear_until(b"\r\n"), b"ERROR Too many open connections\r\n");
    }
    served.say(b"version\r\n");
    assert!(served.hear_until(b"\r\n").starts_with(b"VERSION"));
    server.terminate();
    assert!(server.wait().success());
}

/// Returns the kernel's timer column for the server's end of this connection.
fn timer(talk: &Talk) -> String {
    let (ours, theirs) = (talk.stream.local_addr().expect("ours"), talk.stream.peer_addr().expect("theirs"));
    let (from, to) = (format!(":{:04X}", theirs.port()), format!(":{:04X}", ours.port()));
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    let mut rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row[1].ends_with(&from) && row[2].ends_with(&to)).expect("the connection");
    row[5].to_owned()
}

#[test]
fn connections_have_keepalive_to_find_lost_clients() {
    for server in Running::both(&[]) {
        // No data is in flight: that would start another timer.
        let timer = timer(&server.connect());
        assert!(timer.starts_with("02:"), "{}: {timer}", server.name);
    }
}

#[test]
fn a_flush_also_counts_for_sessions_that_waited_meanwhile() {
    let server = Running::sinew(&[]);
    let mut slow = server.connect();
    let value = vec![b'x'; 1_000_000];
    assert_eq!(slow.ask(&[b"set big 0 0 1000000\r\n", &value[..], b"\r\n"].concat()), b"STORED\r\n");
    assert_eq!(slow.ask(b"set small 0 0 1\r\n1\r\nset number 0 0 1\r\n1\r\n"), b"STORED\r\nSTORED\r\n");
    // More bytes than the kernel buffers for a client that does not read. The requests after it are
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
fn a_server_does_not_remove_the_socket_of_its_successor() {
    let path = std::env::temp_dir().join(format!("sinew-successor-{}", std::process::id()));
    let options = ["-s", path.to_str().expect("a path of text")];
    let first = Running::sinew(&options);
    let _successor = Running::sinew(&options);
    first.terminate();
    assert!(first.wait().success());
    UnixStream::connect(&path).expect("the successor's socket");
    std::fs::remove_file(path).expect("to clean up");
}
