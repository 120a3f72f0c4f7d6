//! Clients that send many requests at once, and the clients beside them.

mod running;

use running::{PATIENCE, Running, Talk};
use std::process::Command;
use std::time::Instant;

/// Sends a signal to the server, and waits until all of its threads have stopped, or all run.
fn signal(server: &Running, name: &str, stopped: bool) {
    let sent = Command::new("kill").args([name, &server.pid().to_string()]).status();
    assert!(sent.expect("kill").success());
    let begin = Instant::now();
    let has_stopped = |thread: std::path::PathBuf| {
        let stat = std::fs::read_to_string(thread.join("stat")).expect("its state");
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    };
    loop {
        let mut threads = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("its threads");
        if threads.all(|thread| has_stopped(thread.expect("a thread").path()) == stopped) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{name} has no effect");
        std::thread::yield_now();
    }
}

/// Lets each client send all of its requests before the server reads any of them. Returns the
/// numbers in each client's answers.
fn at_once(server: &Running, says: &[Vec<u8>]) -> Vec<Vec<u64>> {
    let mut talks: Vec<Talk> = says.iter().map(|_| server.connect()).collect();
    for talk in &mut talks {
        assert_eq!(talk.ask(b"version\r\n"), b"VERSION 1.6.18\r\n");
    }
    signal(server, "-STOP", true);
    talks.iter_mut().zip(says).for_each(|(talk, say)| talk.say(&[say, &b"mn\r\n"[..]].concat()));
    signal(server, "-CONT", false);
    let hear = |talk: &mut Talk| {
        let heard = String::from_utf8(talk.hear_until(b"MN\r\n")).expect("text");
        heard.lines().filter_map(|line| line.parse().ok()).collect()
    };
    std::thread::scope(|scope| {
        let hearing: Vec<_> = talks.iter_mut().map(|talk| scope.spawn(move || hear(talk))).collect();
        hearing.into_iter().map(|hearing| hearing.join().expect("no panic")).collect()
    })
}

/// Returns the length of the longest run of consecutive numbers.
fn longest_run(numbers: &[u64]) -> usize {
    numbers.chunk_by(|one, other| one + 1 == *other).map(<[u64]>::len).max().unwrap_or(0)
}

#[test]
fn clients_that_pipeline_take_turns() {
    let server = Running::sinew(&["-t", "1"]);
    assert_eq!(server.connect().ask(b"set n 0 0 1\r\n0\r\n"), b"STORED\r\n");
    let says = [b"incr n 1\r\n".repeat(2_000), b"ma n v\r\n".repeat(2_000)];
    for numbers in at_once(&server, &says) {
        let (count, run) = (numbers.len(), longest_run(&numbers));
        // The client that is alone at the end continues without the other: only the first half
        // counts.
        let first = longest_run(&numbers[..count / 2]);
        assert!(count == 2_000 && first <= 100, "{count} answers, {first} in a row, {run} at the end");
    }
}

#[test]
fn a_session_yields_after_each_statistics_request() {
    let server = Running::sinew(&["-t", "1"]);
    assert_eq!(server.connect().ask(b"set n 0 0 1\r\n0\r\n"), b"STORED\r\n");
    let asks = [b"stats\r\nincr n 1\r\n".repeat(100), b"incr n 1\r\n".repeat(2_000)];
    let numbers = at_once(&server, &asks);
    assert_eq!((numbers[0].len(), numbers[1].len()), (100, 2_000));
    // The first client has its turns while the second is at work.
    let ahead = numbers[0].iter().position(|number| *number > 1_900).unwrap_or(100);
    assert!(ahead >= 10, "the first client had only {ahead} turns");
    let run = longest_run(&numbers[0][..ahead]);
    assert!(run <= 3, "{run} statistics in a row");
}
