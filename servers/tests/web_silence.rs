//! Silent clients of the web server: their sessions give up their fibres after about a second. No
//! client notices.

mod limits;
mod site;

use limits::allow_descriptors;
use site::{Serving, Site, Talk, eventually};
use std::io::{self, Read};
use std::time::{Duration, Instant};

fn ask(talk: &mut Talk) {
    let answer = talk.ask("GET", "/file", "");
    assert_eq!((answer.status, answer.text()), (200, "content"));
}

fn serve(options: &[&str]) -> Serving {
    Site::new().file("file", "content").serve(&[&["--linger", "0.02"], options].concat())
}

#[test]
fn sessions_of_silent_clients_give_memory_back_and_answer_again() {
    const CONNECTIONS: u64 = 2_000;
    const FIRST: u64 = 300;
    allow_descriptors();
    let mut serving = serve(&["-t", "2", "--connections", "2400"]);
    let mut talks: Vec<Talk> = (0..FIRST).map(|_| serving.connect()).collect();
    talks.iter_mut().for_each(ask);
    // All clients become silent. The processors keep warm stacks for new fibres.
    std::thread::sleep(Duration::from_secs(2));
    let before = serving.resident();
    talks.extend((0..CONNECTIONS).map(|_| serving.connect()));
    for _ in 0..2 {
        talks.iter_mut().for_each(ask);
        // A stack alone is larger than this.
        let each = || serving.resident().saturating_sub(before) / CONNECTIONS;
        eventually("little memory", || each() < 2_500);
    }
    // Most sessions have no fibre that could be cancelled.
    serving.terminate();
    let begin = Instant::now();
    assert!(talks.iter_mut().all(Talk::is_closed));
    assert!(serving.wait().success());
    assert!(begin.elapsed() < Duration::from_secs(5), "the end took {:?}", begin.elapsed());
}

#[test]
fn the_idle_timeout_holds_for_clients_in_the_lobby() {
    let limit = Duration::from_millis(2_500);
    let serving = serve(&["--idle-timeout", "2.5", "--header-timeout", "2.5"]);
    let begin = Instant::now();
    let (mut asked, mut fresh) = (serving.connect(), serving.connect());
    ask(&mut asked);
    assert!(fresh.is_closed());
    assert!(begin.elapsed() >= limit, "closed after {:?}", begin.elapsed());
    assert!(asked.is_closed());
    assert!(begin.elapsed() >= limit, "closed after {:?}", begin.elapsed());
    // The time begins again with each request.
    let mut asking = serving.connect();
    let begin = Instant::now();
    while begin.elapsed() < 2 * limit {
        ask(&mut asking);
        std::thread::sleep(limit / 2);
    }
}

#[test]
fn silent_clients_count_as_connections() {
    let serving = serve(&["--connections", "3"]);
    let mut talks: Vec<Talk> = (0..3).map(|_| serving.connect()).collect();
    talks.iter_mut().for_each(ask);
    let mut one_more = serving.connect();
    one_more.say("GET /file HTTP/1.1\r\nHost: h\r\n\r\n");
    // Long enough for all clients to become silent.
    one_more.stream.set_read_timeout(Some(Duration::from_millis(1_500))).expect("a timeout");
    let heard = one_more.stream.read(&mut [0]);
    assert_eq!(
        heard.map_err(|error| error.kind()),
        Err(io::ErrorKind::WouldBlock),
        "the connection was accepted beyond the limit"
    );
    one_more.stream.set_read_timeout(Some(site::PATIENCE)).expect("a timeout");
    drop(talks.pop());
    assert_eq!(one_more.hear(true).status, 200);
    talks.iter_mut().for_each(ask);
}

#[test]
fn a_request_that_comes_while_a_session_moves_to_the_lobby_is_answered() {
    const CLIENTS: u64 = 4;
    const EACH: usize = 40;
    let serving = serve(&["-t", "2"]);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let serving = &serving;
            scope.spawn(move || {
                let seed = u64::from(std::process::id()) << 8 | client << 1 | 1;
                println!("seed {seed:#x}");
                let mut state = seed;
                let mut below = |limit: u64| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                    (state >> 33) % limit
                };
                let mut talks: Vec<Talk> = (0..EACH).map(|_| serving.connect()).collect();
                let mut due = vec![Instant::now(); EACH];
                for _ in 0..4 * EACH {
                    let next = (0..EACH).min_by_key(|number| due[*number]).expect("some");
                    std::thread::sleep(due[next].saturating_duration_since(Instant::now()));
                    let talk = &mut talks[next];
                    if below(3) == 0 {
                        talk.say("GET /file HTTP/1.1\r\nHo");
                        talk.say("st: h\r\n\r\nHEAD /file HTTP/1.1\r\nHost: h\r\n\r\n");
                        assert_eq!((talk.hear(true).text(), talk.hear(false).status), ("content", 200));
                    } else {
                        ask(talk);
                    }
                    // A session gives up its fibre up to a second after its last answer.
                    due[next] = Instant::now() + Duration::from_millis(below(1_100));
                }
            });
        }
    });
}

#[test]
fn a_session_with_an_incomplete_head_keeps_its_fibre() {
    let serving = serve(&["-t", "1"]);
    let mut talks: Vec<Talk> = (0..5).map(|_| serving.connect()).collect();
    for talk in &mut talks {
        ask(talk);
        talk.say("GET /file HTTP/1.1\r\nHost:");
    }
    std::thread::sleep(Duration::from_millis(1_200));
    for talk in &mut talks {
        talk.say(" h\r\n\r\n");
        assert_eq!(talk.hear(true).text(), "content");
    }
}
