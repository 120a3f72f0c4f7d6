//! Measures how long one client waits for a single value while others pipeline.

use super::load;
use super::server::Server;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, recv};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Clients that pipeline.
const HEAVY: usize = 3;

/// The client pauses this long between two requests, so that it meets the others at any moment
/// of their work.
const PAUSE: Duration = Duration::from_micros(300);

/// The waits of the single client, in microseconds, and the requests that the others were
/// answered for each second.
pub struct Seen {
    pub median: f64,
    pub p99: f64,
    pub answers: f64,
}

/// Measures single gets for `time` while others send `request` again and again, as fast as the
/// server takes it. Every answer to it ends with `end`.
pub fn run(server: &Server, request: &str, end: u8, time: Duration) -> Seen {
    load::fill(server, 1000);
    let (stop, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| pipeline(server, request, end, &stop, &answers));
        let mut stream = TcpStream::connect(server.address).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        // The others have to be under way.
        while answers.load(Relaxed) == 0 {
            thread::sleep(PAUSE);
        }
        let (begin, before) = (Instant::now(), answers.load(Relaxed));
        let mut latencies = Vec::new();
        let mut answer = [0; load::HIT];
        while begin.elapsed() < time {
            let asked = Instant::now();
            stream.write_all(b"get key_00000007\r\n").expect("to send");
            stream.read_exact(&mut answer).expect("the answer");
            latencies.push(asked.elapsed().as_secs_f64() * 1e6);
            thread::sleep(PAUSE);
        }
        let answers = (answers.load(Relaxed) - before) as f64 / begin.elapsed().as_secs_f64();
        stop.store(true, Relaxed);
        latencies.sort_by(f64::total_cmp);
        let at = |part: f64| latencies[((latencies.len() - 1) as f64 * part) as usize];
        Seen { median: at(0.5), p99: at(0.99), answers }
    })
}

/// Three clients, in one thread that gives way to the one that is measured.
fn pipeline(server: &Server, request: &str, end: u8, stop: &AtomicBool, answers: &AtomicU64) {
    // Being nice is not enough: the one that is measured would wait for the scheduler's next tick.
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let idles = std::process::Command::new("chrt").args(["-i", "-p", "0", &thread]).status();
    assert!(idles.expect("chrt, of util-linux").success());
    let requests = request.repeat((1 << 16) / request.len()).into_bytes();
    let mut streams: Vec<(TcpStream, usize)> =
        (0..HEAVY).map(|_| (TcpStream::connect(server.address).expect("a connection"), 0)).collect();
    for (stream, _) in &streams {
        stream.set_nonblocking(true).expect("non-blocking");
    }
    let mut heard = vec![0; 1 << 18];
    while !stop.load(Relaxed) {
        let mut entries: Vec<PollFd<'_>> =
            streams.iter().map(|(stream, _)| PollFd::new(stream, PollFlags::IN | PollFlags::OUT)).collect();
        poll(&mut entries, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 10_000_000 })).expect("poll");
        for (stream, sent) in &mut streams {
            match stream.write(&requests[*sent..]) {
                Ok(count) => *sent = (*sent + count) % requests.len(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("to send: {error}"),
            }
            match recv(&*stream, &mut heard[..], RecvFlags::empty()).map_err(io::Error::from) {
                Ok((_, 0)) => panic!("the server has closed a connection"),
                Ok((_, count)) => {
                    let ends = heard[..count].iter().filter(|byte| **byte == end).count();
                    answers.fetch_add(ends as u64, Relaxed);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("to receive: {error}"),
            }
        }
    }
}
