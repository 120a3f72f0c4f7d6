//! The memcached server without memory. Where memcached is installed, the same tests run against
//! it.

mod limits;
mod running;

use running::{PATIENCE, Running, Talk};
use rustix::process::Resource;
use std::io::Write;
use std::time::Instant;

/// Limits the server to `bytes` bytes more than it has now.
fn starve(server: &Running, bytes: u64) {
    limits::starve(server.pid(), Resource::Data, limits::memory(server.pid(), "VmData") + bytes);
}

/// More bytes than a starved server has.
const HUGE: usize = 36 << 20;

fn send(talk: &mut Talk, head: &[u8], length: usize, tail: &[u8]) {
    talk.say(head);
    let piece = vec![b'x'; 1 << 20];
    (0..length / piece.len()).for_each(|_| talk.say(&piece));
    talk.say(&piece[..length % piece.len()]);
    talk.say(tail);
}

fn binary(opcode: u8, key: &[u8], extras: &[u8], value: usize) -> Vec<u8> {
    let body = (key.len() + extras.len() + value) as u32;
    let mut frame = vec![0x80, opcode, 0, key.len() as u8, extras.len() as u8, 0, 0, 0];
    frame.extend_from_slice(&body.to_be_bytes());
    frame.extend_from_slice(&[0; 12]);
    [&frame, extras, key].concat()
}

#[test]
fn values_that_do_not_fit_are_refused_and_the_session_continues() {
    for server in Running::both(&["-m", "1024", "-I", "64m", "-t", "1"]) {
        let mut talk = server.connect();
        assert_eq!(talk.ask(b"set old 0 0 1\r\nx\r\n"), b"STORED\r\n", "{}", server.name);
        starve(&server, 34 << 20);
        let size = HUGE.to_string();
        for (head, said) in [
            (format!("set old 0 0 {size}\r\n"), "SERVER_ERROR Out of memory during read\r\n"),
            (format!("set old 0 0 {size} noreply\r\n"), ""),
            (format!("append old 0 0 {size}\r\n"), "SERVER_ERROR Out of memory during read\r\n"),
            (format!("ms old {size} c k\r\n"), "SERVER_ERROR Out of memory during read\r\n"),
            (format!("ms old {size} q\r\n"), ""),
        ] {
            send(&mut talk, head.as_bytes(), HUGE, b"\r\n");
            assert_eq!(String::from_utf8(talk.ask(b"")).expect("text"), said, "{}: {head}", server.name);
        }
        let mut frames = server.connect();
        for opcode in [0x01, 0x11] {
            send(&mut frames, &binary(opcode, b"old", &[0; 8], HUGE), HUGE, b"");
            let heard = frames.hear(24 + 25);
            assert_eq!((heard[1], &heard[6..8]), (opcode, &[0, 0x82][..]), "{}", server.name);
            assert_eq!(&heard[24..], b"Out of memory during read", "{}", server.name);
        }
        assert!(talk.ask(b"version\r\n").starts_with(b"VERSION"), "{}", server.name);
    }
}

#[test]
fn items_without_memory_evict_others_or_are_refused() {
    for (options, evicts) in [(&["-m", "1024", "-t", "1"][..], true), (&["-m", "1024", "-t", "1", "-M"], false)] {
        for server in Running::both(options) {
            let mut talk = server.connect();
            let value = vec![b'x'; 300_000];
            starve(&server, 56 << 20);
            let mut said = Vec::new();
            for number in 0..250 {
                let head = format!("set key{number} 0 0 {}\r\n", value.len());
                said.push(talk.ask(&[head.as_bytes(), &value, b"\r\n"].concat()));
            }
            let refused = said.iter().filter(|said| *said == b"SERVER_ERROR out of memory storing object\r\n").count();
            let stored = said.iter().filter(|said| *said == b"STORED\r\n").count();
            assert_eq!(refused + stored, 250, "{}", server.name);
            // A server that evicts refuses a value only if its shard has no item to evict.
            assert!(if evicts { stored > 150 } else { refused > 30 }, "{}: {stored} were stored", server.name);
            assert!(evicts || talk.ask(b"get key0\r\n").starts_with(b"VALUE key0"), "{}", server.name);
        }
    }
}

#[test]
fn sessions_without_memory_send_answers_in_small_pieces() {
    let server = Running::sinew(&["-m", "1024", "-t", "2"]);
    let mut talk = server.connect();
    let value = vec![b'x'; 900_000];
    let stored = talk.ask(&[b"set large 0 0 900000\r\n", &value[..], b"\r\n"].concat());
    assert_eq!(stored, b"STORED\r\n");
    assert_eq!(talk.ask(&[b"set short 0 0 8000\r\n", &value[..8000], b"\r\n"].concat()), b"STORED\r\n");
    // Their fibres get stacks while there is memory: a stack and its guard page count as data.
    let mut many: Vec<Talk> = (0..40).map(|_| server.connect()).collect();
    many.iter_mut().for_each(|talk| assert!(talk.ask(b"version\r\n").starts_with(b"VERSION")));
    // Buffers leave 16 MB to connections.
    starve(&server, 17 << 20);
    // No client reads before all have asked.
    let request = [&b"get large\r\n"[..], &b"get short short short short\r\n".repeat(8), b"mg large s v\r\n"].concat();
    many.iter_mut().for_each(|talk| talk.say(&request));
    let short = [&b"VALUE short 0 8000\r\n"[..], &value[..8000], b"\r\n"].concat();
    let large = [&b"VALUE large 0 900000\r\n"[..], &value, b"\r\nEND\r\n"].concat();
    let expected = [
        large,
        [short.repeat(4), b"END\r\n".to_vec()].concat().repeat(8),
        [&b"VA 900000 s900000\r\n"[..], &value, b"\r\n"].concat(),
    ];
    let expected = expected.concat();
    for mut talk in many {
        let heard = talk.hear(expected.len());
        assert!(heard == expected, "{} bytes", heard.len());
    }
    assert!(server.connect().ask(b"version\r\n").starts_with(b"VERSION"));
}

#[test]
fn unfinished_requests_take_bounded_memory_together() {
    let server = Running::sinew(&["-t", "1"]);
    let before = server.resident();
    // Long keys, so that there are few lookups.
    let keys = [&b"get "[..], &[b"k".repeat(250), vec![b' ']].concat().repeat(36_000)].concat();
    let mut talks: Vec<Talk> = (0..8).map(|_| server.connect()).collect();
    let mut refused = 0;
    for talk in &mut talks {
        use std::io::ErrorKind;
        match talk.stream.write_all(&keys) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => refused += 1,
            Err(error) => panic!("to send: {error}"),
        }
    }
    let mut answered = 0;
    for talk in &mut talks {
        let whole = talk.stream.take_error().expect("its state").is_none();
        if whole && talk.stream.write_all(b"\r\n").is_ok() {
            answered += usize::from(talk.hear_until(b"END\r\n") == b"END\r\n");
        }
    }
    assert!((3..=4).contains(&answered), "{answered} answered, {refused} refused");
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 100 << 20, "memory has grown by {grown} bytes");
    // Their memory is free for other clients.
    drop(talks);
    let mut talk = server.connect();
    talk.say(&keys);
    talk.say(b"\r\n");
    assert_eq!(talk.hear_until(b"END\r\n"), b"END\r\n");
}

#[test]
fn unfinished_values_do_not_displace_all_items() {
    const ITEMS: usize = 5_000;
    for server in Running::both(&["-m", "64", "-t", "1"]) {
        let mut talk = server.connect();
        let value = "v".repeat(1000);
        for number in 0..ITEMS {
            talk.say(format!("set k{number} 0 0 1000 noreply\r\n{value}\r\n").as_bytes());
        }
        assert_eq!(talk.ask(b"mn\r\n"), b"MN\r\n");
        let half = vec![b'x'; 500_000];
        let _halves: Vec<Talk> = (0..200)
            .map(|number| {
                let head = format!("set half{number} 0 0 1000000\r\n");
                let mut talk = server.connect();
                talk.say(&[head.as_bytes(), &half].concat());
                talk
            })
            .collect();
        let received = |talk: &mut Talk| talk.stat("bytes_read").parse::<u64>().expect("a number");
        let begin = Instant::now();
        while received(&mut talk) < 200 * 500_000 {
            assert!(begin.elapsed() < PATIENCE, "{}: the server does not read the values", server.name);
        }
        for number in 0..ITEMS {
            let heard = talk.ask(format!("get k{number}\r\n").as_bytes());
            assert!(heard.starts_with(b"VALUE"), "{}: k{number} has been evicted", server.name);
        }
        let stored = talk.ask(format!("set after 0 0 1000\r\n{value}\r\n").as_bytes());
        assert_eq!(stored, b"STORED\r\n", "{}", server.name);
    }
}
