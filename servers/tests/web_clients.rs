//! Clients that are slow or rude, many clients, and clients in the middle of a request.

mod site;

use site::{PATIENCE, Serving, Site, Talk, eventually, noise};
use std::fs::{self, File};
use std::io::Read;
use std::time::{Duration, Instant};

/// More bytes than the kernel buffers between the two ends of a connection.
const HUGE: usize = 24 << 20;

fn ask_for(serving: &Serving, target: &str) -> Talk {
    let mut talk = serving.connect();
    talk.say(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
    talk
}

#[test]
fn an_incomplete_head_gets_408_and_a_silent_client_is_closed() {
    let serving = Site::new().file("a", "A").serve(&["--header-timeout", "1", "--idle-timeout", "1"]);
    let begin = Instant::now();
    let mut silent = serving.connect();
    let mut half = serving.connect();
    half.say("GET / HTTP/1.1\r\nHo");
    let mut trickle = serving.connect();
    let mut asked = serving.connect();
    assert_eq!(asked.ask("GET", "/a", "").status, 200);
    let mut body = serving.connect();
    body.say("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhel");
    // The deadline is for the whole head: no byte extends it.
    trickle.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut said = Vec::new();
    trickle.say("GET / HTTP/1.1\r\nX: ");
    while said.is_empty() && begin.elapsed() < PATIENCE {
        let _ = std::io::Write::write(&mut trickle.stream, b"x");
        let mut buffer = [0; 1024];
        if let Ok(count) = trickle.stream.read(&mut buffer) {
            said.extend_from_slice(&buffer[..count]);
        }
    }
    assert!(said.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&said));
    let answer = half.hear(true);
    assert_eq!((answer.status, answer.field("Connection")), (408, Some("close")));
    assert!(silent.is_closed() && asked.is_closed());
    assert!(begin.elapsed() < Duration::from_secs(10), "took {:?}", begin.elapsed());
}

#[test]
fn slow_clients_do_not_slow_the_fast_ones() {
    let site = Site::new().file("a", "A").file("huge", noise(HUGE));
    let serving = site.serve(&["--processors", "1"]);
    let time = |serving: &Serving| {
        let mut talk = serving.connect();
        let mut times: Vec<Duration> = (0..300)
            .map(|_| {
                let begin = Instant::now();
                assert_eq!(talk.ask("GET", "/a", "").text(), "A");
                begin.elapsed()
            })
            .collect();
        times.sort();
        times[times.len() / 2]
    };
    let alone = time(&serving);
    let mut senders: Vec<Talk> = (0..200).map(|_| serving.connect()).collect();
    let mut readers: Vec<Talk> = (0..100).map(|_| ask_for(&serving, "/huge")).collect();
    let beside = (0..3).map(|round| {
        senders.iter_mut().for_each(|talk| talk.say(&b"GET"[round..=round]));
        readers.iter_mut().for_each(|talk| talk.stream.read_exact(&mut [0]).unwrap());
        time(&serving)
    });
    let beside = beside.min().unwrap();
    assert!(beside < alone * 4 + Duration::from_millis(5), "{alone:?} alone, {beside:?} beside slow ones");
}

#[test]
fn clients_that_never_read_hold_little_memory_and_are_closed() {
    let site = Site::new().file("64k", noise(64 << 10)).file("huge", noise(HUGE));
    let serving = site.serve(&["--send-timeout", "2"]);
    let listening = serving.sockets();
    assert_eq!(serving.get("/64k").status + serving.get("/huge").status, 400);
    eventually("the connections are closed", || serving.sockets() == listening);
    let before = serving.resident();
    let requests = "GET /64k HTTP/1.1\r\nHost: h\r\n\r\n".repeat(400);
    let mut rude: Vec<Talk> = (0..100)
        .map(|number| {
            let mut talk = serving.connect();
            talk.say(if number % 2 == 0 { &requests } else { "GET /huge HTTP/1.1\r\nHost: h\r\n\r\n" });
            talk
        })
        .collect();
    // The server still serves other clients, and has received everything above.
    assert_eq!(serving.get("/64k").status, 200);
    let each = serving.resident().saturating_sub(before) / 100;
    assert!(each < 100 << 10, "{each} bytes for each");
    eventually("the server closes the connections", || serving.sockets() == listening);
    let mut buffer = vec![0; 1 << 20];
    for talk in &mut rude {
        let counts = std::iter::from_fn(|| talk.stream.read(&mut buffer).ok().filter(|&count| count > 0));
        let total: usize = counts.sum();
        assert!(0 < total && total < HUGE, "{total} bytes");
    }
}

#[test]
fn a_file_that_is_replaced_or_deleted_is_sent_to_its_end() {
    let (old, new) = (noise(HUGE), vec![b'n'; HUGE + 5]);
    let serving = Site::new().file("huge", &old).serve(&[]);
    for deleted in [false, true] {
        serving.site.put("huge", &old);
        eventually("the file is noticed", || {
            serving.ask("HEAD", "/huge", "").field("Content-Length") == Some("25165824")
        });
        let mut talk = ask_for(&serving, "/huge");
        let head = talk.hear_head();
        if deleted {
            fs::remove_file(serving.site.path("huge")).unwrap();
        } else {
            serving.site.put("new", &new);
            fs::rename(serving.site.path("new"), serving.site.path("huge")).unwrap();
        }
        let mut body = talk.hear_bytes(HUGE);
        assert!(head.contains("Content-Length: 25165824\r\n") && body == old, "deleted: {deleted}");
        body.clear();
        let expected = if deleted { 404 } else { 200 };
        eventually("the change is noticed", || {
            let answer = serving.ask("HEAD", "/huge", "");
            answer.status == expected && (deleted || answer.field("Content-Length") == Some("25165829"))
        });
    }
}

#[test]
fn a_file_that_becomes_shorter_ends_the_connection() {
    let serving = Site::new().file("huge", noise(HUGE)).serve(&[]);
    let mut talk = ask_for(&serving, "/huge");
    assert!(talk.hear_head().starts_with("HTTP/1.1 200 "));
    File::options().write(true).open(serving.site.path("huge")).unwrap().set_len(1000).unwrap();
    let got = talk.hear_all().len();
    assert!(got < HUGE, "{got} bytes of a file that has 1000");
    eventually("the change is noticed", || serving.get("/huge").body.len() == 1000);
}

#[test]
fn changes_of_files_are_noticed() {
    let serving = Site::new().file("a", "old").file("b.js", "b").serve(&[]);
    assert_eq!(serving.get("/a").text(), "old");
    serving.site.put("a", "new");
    eventually("the change is noticed", || serving.get("/a").text() == "new");
    assert_eq!(serving.ask("GET", "/b.js", "Accept-Encoding: gzip\r\n").text(), "b");
    serving.site.put("b.js.gz", "compressed");
    eventually("the compressed form is noticed", || {
        serving.ask("GET", "/b.js", "Accept-Encoding: gzip\r\n").text() == "compressed"
    });
    fs::remove_file(serving.site.path("b.js.gz")).unwrap();
    eventually("the missing form is noticed", || {
        serving.ask("GET", "/b.js", "Accept-Encoding: gzip\r\n").text() == "b"
    });
    fs::remove_file(serving.site.path("a")).unwrap();
    eventually("the file is gone", || serving.get("/a").status == 404);
    serving.site.put("a", "back");
    assert_eq!(serving.get("/a").text(), "back");
}

#[test]
fn connections_beyond_the_limit_wait_to_be_accepted() {
    let serving = Site::new().file("a", "A").serve(&["--connections", "3"]);
    let mut first: Vec<Talk> = (0..3).map(|_| serving.connect()).collect();
    first.iter_mut().for_each(|talk| assert_eq!(talk.ask("GET", "/a", "").status, 200));
    let mut late = ask_for(&serving, "/a");
    late.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(late.stream.read(&mut [0]).is_err(), "the connection was accepted beyond the limit");
    late.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    drop(first.pop());
    assert_eq!(late.hear(true).text(), "A");
}

#[test]
fn idle_connections_hold_little_memory() {
    const CONNECTIONS: u64 = 400;
    let serving = Site::new().file("a", noise(1000)).serve(&["--processors", "1"]);
    let ask = || {
        let mut talk = serving.connect();
        assert_eq!(talk.ask("GET", "/a", "").status, 200);
        talk
    };
    let _warm: Vec<Talk> = (0..20).map(|_| ask()).collect();
    let before = serving.resident();
    let _idle: Vec<Talk> = (0..CONNECTIONS).map(|_| ask()).collect();
    let each = serving.resident().saturating_sub(before) / CONNECTIONS;
    // Frames are larger in a debug build.
    let bar = if cfg!(debug_assertions) { 24 << 10 } else { 9 << 10 };
    assert!(each < bar, "{each} bytes for each");
}

#[test]
fn answers_that_have_begun_are_completed_when_the_server_stops() {
    let content = noise(HUGE);
    let mut serving = Site::new().file("huge", &content).file("a", "A").serve(&[]);
    let mut idle = serving.connect();
    assert_eq!(idle.ask("GET", "/a", "").status, 200);
    let mut half = serving.connect();
    half.say("GET /a HTTP/1.1\r\nHost: h\r\n");
    let mut busy = ask_for(&serving, "/huge");
    assert!(busy.hear_head().starts_with("HTTP/1.1 200 "));
    serving.terminate();
    assert!(idle.is_closed());
    half.say("\r\n");
    let last = half.hear(true);
    assert_eq!((last.text(), last.field("Connection")), ("A", Some("close")));
    assert!(busy.hear_bytes(HUGE) == content);
    assert!(serving.wait().success());
    assert!(std::net::TcpStream::connect(serving.address).is_err());
}

/// If a server closes a connection with unread bytes, the kernel discards the rest of the answer.
#[test]
fn a_client_that_sends_more_than_is_answered_gets_the_whole_answer() {
    let content = noise(HUGE);
    let mut serving = Site::new().file("huge", &content).serve(&[]);
    let mut last = serving.connect();
    last.say("GET /huge HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let mut stopped = ask_for(&serving, "/huge");
    for talk in [&mut last, &mut stopped] {
        assert!(talk.hear_head().starts_with("HTTP/1.1 200 "));
        talk.say("GET /huge HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    assert!(last.hear_bytes(HUGE) == content && last.is_closed());
    serving.terminate();
    assert!(stopped.hear_bytes(HUGE) == content && stopped.is_closed());
    drop((last, stopped));
    assert!(serving.wait().success());
}
