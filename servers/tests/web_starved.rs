//! The web server without memory, descriptors or threads.

mod limits;
mod site;

use limits::{memory, starve};
use rustix::process::Resource;
use site::{PATIENCE, Serving, Site, Talk, eventually, noise};

/// Returns the status of the answer, if there is an answer.
fn status(serving: &Serving, target: &str) -> Option<u16> {
    let mut talk = serving.connect();
    talk.say(format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
    String::from_utf8_lossy(&talk.hear_all()).split(' ').nth(1)?.parse().ok()
}

#[test]
fn without_memory_some_clients_are_closed_and_others_served() {
    let site = Site::new().file("huge", noise(24 << 20)).file("a", "A");
    (0..100).for_each(|number| site.put(&format!("f{number}"), noise(60_000)));
    (0..100).for_each(|number| site.put(&format!("list/{number}"), ""));
    let serving = site.serve(&["--list", "--log", "/dev/null"]);
    assert_eq!(serving.get("/a").text(), "A");
    // Buffers leave 16 MB to connections.
    starve(serving.pid(), Resource::As, memory(serving.pid(), "VmSize") + (12 << 20));
    // These clients never read: each holds a desk, as long as there is memory for desks.
    let mut many: Vec<Talk> = Vec::new();
    for _ in 0..300 {
        let mut talk = serving.connect();
        talk.say(format!("GET /huge HTTP/1.1\r\nHost: h\r\nUser-Agent: {}\r\n\r\n", "u".repeat(5000)));
        many.push(talk);
    }
    for number in 0..100 {
        let status = status(&serving, &format!("/f{number}"));
        assert!(matches!(status, None | Some(200 | 503)), "{status:?}");
    }
    drop(many);
    eventually("the server has memory for small files again", || status(&serving, "/a") == Some(200));
    // The clients' memory is the allocator's now, but a buffer is asked of the system. The stacks of
    // the pool's threads, 2 MB each, count for the limit, and the C library keeps them when threads
    // end. So the server goes without buffers until the limit is raised.
    let is_refused = |number| status(&serving, &format!("/f{number}")) == Some(503);
    assert!((0..100).any(is_refused), "no buffer was refused");
    eventually("a listing is refused, too", || status(&serving, "/list/") == Some(503));
    starve(serving.pid(), Resource::As, memory(serving.pid(), "VmSize") + (40 << 20));
    eventually("the server has memory for a listing again", || status(&serving, "/list/") == Some(200));
    (0..100).for_each(|number| assert_eq!(status(&serving, &format!("/f{number}")), Some(200)));
}

#[test]
fn without_descriptors_the_answer_is_503_and_clients_wait() {
    let site = Site::new().file("dir/a", "A").file("kept", "K").file("other", noise(100_000));
    let serving = site.serve(&["--list"]);
    assert_eq!(serving.get("/kept").text(), "K");
    let mut talk = serving.connect();
    assert_eq!(talk.ask("GET", "/kept", "").text(), "K");
    starve(serving.pid(), Resource::Nofile, 5);
    assert_eq!(talk.ask("GET", "/other", "").status, 503);
    assert_eq!(talk.ask("GET", "/dir/", "").status, 503);
    let mut later = serving.connect();
    later.say("GET /other HTTP/1.1\r\nHost: h\r\n\r\n");
    starve(serving.pid(), Resource::Nofile, 1000);
    assert_eq!(later.hear(true).body.len(), 100_000);
    assert_eq!(talk.ask("GET", "/dir/", "").status, 200);
}

#[test]
fn files_are_served_without_threads_for_blocking_calls() {
    let serving = Site::new().file("a", "A").file("large", noise(1 << 20)).serve(&[]);
    // There are no addresses for a stack either.
    starve(serving.pid(), Resource::As, memory(serving.pid(), "VmSize") + (1 << 20));
    let begin = std::time::Instant::now();
    assert_eq!(serving.get("/a").text(), "A");
    assert_eq!(serving.get("/large").body.len(), 1 << 20);
    assert!(begin.elapsed() < PATIENCE);
}
