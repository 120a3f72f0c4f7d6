//! `watch`. Each test runs against this server and, where it is installed, against memcached.

mod running;

use running::{PATIENCE, Running, Talk};
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Returns a connection that watches.
fn watch(server: &Running, topics: &str) -> Talk {
    let mut talk = server.connect();
    talk.say(format!("watch {topics}\r\n").as_bytes());
    assert_eq!(talk.hear(4), b"OK\r\n", "{}", server.name);
    talk
}

/// Returns the next line of a watcher, without the parts that differ.
fn line(talk: &mut Talk) -> String {
    let line = String::from_utf8(talk.hear_line()).expect("text");
    let words = line.trim_end().split(' ').map(|word| match word.split_once('=') {
        Some((name @ ("ts" | "gid" | "cfd" | "rport"), value)) => {
            assert!(value.parse::<f64>().is_ok(), "{line}");
            format!("{name}=#")
        }
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn watchers_see_fetches_and_stores() {
    for server in Running::both(&["-t", "1"]) {
        let mut watcher = watch(&server, "fetchers mutations");
        let mut talk = server.connect();
        talk.ask(b"set a#b 0 0 4\r\nvalu\r\nget a#b\r\ncas a#b 0 100 1 99\r\nx\r\nadd new 0 100 1\r\nx\r\ndelete none\r\nincr none 1\r\n");
        let fetched = |key: &str, status: &str, class: u32, size: u32| {
            format!("ts=# gid=# type=item_get key={key} status={status} clsid={class} cfd=# size={size}")
        };
        let stored = |key: &str, status: &str, command: &str, ttl: u32, size: u32| {
            format!(
                "ts=# gid=# type=item_store key={key} status={status} cmd={command} ttl={ttl} clsid=1 cfd=# size={size}"
            )
        };
        for expected in [
            fetched("a%23b", "not_found", 0, 0),
            stored("a%23b", "stored", "set", 0, 4),
            fetched("a%23b", "found", 1, 4),
            fetched("a%23b", "found", 1, 4),
            stored("a%23b", "exists", "cas", 100, 1),
            fetched("new", "not_found", 0, 0),
            stored("new", "stored", "add", 100, 1),
            fetched("none", "not_found", 0, 0),
            fetched("none", "not_found", 0, 0),
        ] {
            assert_eq!(line(&mut watcher), expected, "{}", server.name);
        }
    }
}

#[test]
fn watchers_see_evictions() {
    let value = "v".repeat(10_000);
    for server in Running::both(&["-m", "2", "-t", "1"]) {
        let mut talk = server.connect();
        let mut watcher = watch(&server, "evictions");
        let mut number = 0;
        while talk.stat("evictions") == "0" {
            talk.ask(format!("set k{number} 0 0 10000\r\n{value}\r\n").as_bytes());
            number += 1;
        }
        let line = line(&mut watcher);
        assert!(line.starts_with("ts=# gid=# type=eviction key=k"), "{}: {line}", server.name);
        assert!(line.contains(" fetch=no ttl=-1 la=") && line.ends_with(" size=10000"), "{}: {line}", server.name);
    }
}

#[test]
fn watchers_see_connections_begin_and_end() {
    for server in Running::both(&["-t", "1"]) {
        let mut watcher = watch(&server, "connevents");
        let came = "ts=# gid=# type=conn_new rip=127.0.0.1 rport=# transport=tcp cfd=#";
        let went = |reason: &str| {
            format!("ts=# gid=# type=conn_close rip=127.0.0.1 rport=# transport=tcp reason={reason} cfd=#")
        };
        for (request, reason) in [(&b"quit\r\n"[..], "normal"), (b"GET / HTTP/1.1\r\n", "error")] {
            let mut talk = server.connect();
            talk.say(request);
            assert_eq!(talk.hear(1), b"", "{}", server.name);
            assert_eq!(line(&mut watcher), came, "{}", server.name);
            assert_eq!(line(&mut watcher), went(reason), "{}", server.name);
        }
    }
}

#[test]
fn watch_is_refused_when_pipelined_or_disabled() {
    for server in Running::both(&["-t", "1"]) {
        let mut talk = server.connect();
        assert_eq!(talk.ask(b"watch nonsense\r\n"), b"ERROR\r\n", "{}", server.name);
        talk.say(b"mg a\r\nwatch\r\n");
        let answer = b"EN\r\nERROR cannot pipeline other commands before watch\r\n";
        assert_eq!(talk.hear(answer.len()), answer, "{}", server.name);
        let watchers: Vec<Talk> = (0..3).map(|_| watch(&server, "mutations")).collect();
        let await_watchers = |count: &str| {
            let (mut talk, begin) = (server.connect(), Instant::now());
            while talk.stat("log_watchers") != count {
                assert!(begin.elapsed() < PATIENCE, "{}: {}", server.name, talk.stat("log_watchers"));
                thread::sleep(Duration::from_millis(10));
            }
        };
        await_watchers("3");
        drop(watchers);
        await_watchers("0");
    }
    for server in Running::both(&["-W"]) {
        let refused = b"CLIENT_ERROR watch commands not allowed\r\n";
        assert_eq!(server.connect().ask(b"watch\r\n"), refused, "{}", server.name);
    }
}

#[test]
fn a_watcher_that_does_not_read_delays_no_session() {
    let server = Running::sinew(&["-t", "1", "-o", "watcher_logbuf_size=8"]);
    let watcher = watch(&server, "fetchers");
    let mut talk = server.connect();
    let key = "k".repeat(240);
    let begin = Instant::now();
    while talk.stat("log_watcher_skipped") == "0" {
        talk.ask(format!("get {key}\r\n").repeat(1000).as_bytes());
        assert!(begin.elapsed() < PATIENCE);
    }
    // The watcher is told how many lines it missed when there is room again, by the next request.
    let is_told = AtomicBool::new(false);
    let begin = Instant::now();
    let lines = BufReader::new(&watcher.stream).lines().map_while(Result::ok);
    let mut lines = lines.take_while(|_| begin.elapsed() < PATIENCE);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_told.load(Relaxed) {
                talk.ask(b"get a\r\n");
            }
        });
        let told = lines.find(|line| line.starts_with("skipped="));
        is_told.store(true, Relaxed);
        assert!(told.is_some());
    });
    assert!(lines.next().is_some_and(|line| line.contains(" type=item_get ")));
}
