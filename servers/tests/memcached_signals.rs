//! Signals have the same effect on this server as on memcached.

mod running;

use running::{Running, Talk};
use std::process::Command;

fn send(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill").success());
}

/// Returns whether the server answers.
fn is_there(talk: &mut Talk) -> bool {
    talk.say(b"version\r\n");
    talk.hear_until(b"\r\n") == b"VERSION 1.6.18\r\n"
}

#[test]
fn sighup_does_not_end_the_server() {
    for server in Running::both(&[]) {
        let mut talk = server.connect();
        for _ in 0..3 {
            send(server.pid(), "-HUP");
            assert!(is_there(&mut talk) && is_there(&mut server.connect()), "{}", server.name);
        }
        send(server.pid(), "-TERM");
        assert!(server.wait().success());
    }
}

#[test]
fn sigusr1_sigint_and_sigterm_end_the_server_cleanly() {
    for signal in ["-USR1", "-INT", "-TERM"] {
        for server in Running::both(&[]) {
            let mut talk = server.connect();
            assert!(is_there(&mut talk), "{}", server.name);
            send(server.pid(), signal);
            assert_eq!(talk.hear(1), b"", "{}", server.name);
            assert!(server.wait().success(), "{signal}");
        }
    }
}
