//! What goes wrong around the memcached server, and must not harm those who have nothing to
//! do with it.

mod running;

use running::Running;

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
