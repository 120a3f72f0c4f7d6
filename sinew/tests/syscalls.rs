//! The system calls of a server, as `strace` counts them: two for a request, very few that fail,
//! and none while nothing happens.
//!
//! The server is a child under `strace`. This process is its client. Where `strace` is missing or
//! may not trace, the tests say so and pass.

#[macro_use]
mod fixture;

use fixture::{one_of, rerun};
use sinew::io::Engine;
use sinew::net::{TcpListener, TcpStream};
use sinew::{Builder, Runtime};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Environment variable: the process is to be the server.
const SERVER: &str = "SINEW_TEST_SERVER";
const LISTENING: &str = "listening at ";

const REQUEST: usize = 64;
const ANSWER: usize = 128;

/// Answers until the parent process closes the standard input.
fn be_server() {
    be_server_of(1);
}

fn be_server_of(processors: usize) {
    be_server_with(Runtime::builder().spares(0).stall_limit(None).processors(processors), session);
}

fn be_server_with(runtime: Builder, session: fn(TcpStream)) {
    thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    runtime.build().unwrap().run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        println!("{LISTENING}{}", listener.local_addr().unwrap());
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            sinew::spawn(move || session(stream));
        }
    });
}

fn session(mut stream: TcpStream) {
    // The buffer is larger than a request, because a read that fills its buffer does not show that
    // the socket is empty.
    let mut request = [0; 2 * REQUEST];
    while let Ok(REQUEST) = stream.read(&mut request) {
        stream.write_all(&[1; ANSWER]).unwrap();
    }
}

/// A server under `strace`. Only one runs at a time, because the load needs a CPU for itself.
struct Traced {
    _turn: MutexGuard<'static, ()>,
    strace: Child,
    address: SocketAddr,
    log: PathBuf,
}

impl Traced {
    /// Starts the server. Says so and returns `None` where nothing can be traced.
    fn start(test: &str, options: &[&str]) -> Option<Traced> {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let may = Command::new("strace").args(["-f", "-c", "true"]).stderr(Stdio::null()).status();
        if !may.as_ref().is_ok_and(|status| status.success()) {
            println!("SKIPPED: `strace` is missing or may not trace here: {may:?}");
            return None;
        }
        let log = std::env::temp_dir().join(format!("sinew-{}-{test}.strace", std::process::id()));
        let mut command = Command::new("strace");
        command.arg("-f").args(options).arg("-o").arg(&log).arg(std::env::current_exe().unwrap());
        command.args(rerun::arguments(test)).env(SERVER, "");
        let mut strace = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(strace.stdout.take().unwrap());
        let line = said.lines().map_while(Result::ok).find_map(|line| Some(line.split_once(LISTENING)?.1.to_owned()));
        let address = line.expect("the server does not listen").parse().unwrap();
        Some(Traced { _turn: turn, strace, address, log })
    }

    fn connect(&self, count: usize) -> Vec<std::net::TcpStream> {
        (0..count).map(|_| std::net::TcpStream::connect(self.address).unwrap()).collect()
    }

    /// Ends the server. Returns the log of `strace`.
    fn end(mut self) -> String {
        drop(self.strace.stdin.take());
        assert!(self.strace.wait().unwrap().success());
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // `strace` ends with its child, and the child ends with its input.
        drop(self.strace.stdin.take());
        let _ = self.strace.wait();
        let _ = fs::remove_file(&self.log);
    }
}

/// Reads a summary of `strace -c`. Returns the number of calls and of failures by name.
fn counts(summary: &str) -> BTreeMap<String, (u64, u64)> {
    let mut counts = BTreeMap::new();
    for line in summary.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let (Some(name), Some(calls)) = (words.last(), words.get(3).and_then(|calls| calls.parse().ok())) else {
            continue;
        };
        let errors = if words.len() == 6 { words[4].parse().unwrap() } else { 0 };
        if *name != "total" {
            counts.insert((*name).to_owned(), (calls, errors));
        }
    }
    assert!(!counts.is_empty(), "this is no summary of `strace`: {summary}");
    counts
}

/// Sends `requests` requests in a closed loop: each connection has one in flight at any time.
#[allow(unsafe_code)]
fn load(streams: &mut [std::net::TcpStream], requests: usize) {
    let mut entries: Vec<_> = streams
        .iter()
        .map(|stream| libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let mut sent = 0;
    for stream in streams.iter_mut() {
        stream.write_all(&[2; REQUEST]).unwrap();
        sent += 1;
    }
    let mut answered = 0;
    while answered < requests {
        // SAFETY: the entries are valid for reading and writing.
        let ready = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, 20_000) };
        assert!(ready > 0, "only {answered} of {requests} requests were answered");
        for (stream, entry) in streams.iter_mut().zip(&entries) {
            if entry.revents != 0 {
                stream.read_exact(&mut [0; ANSWER]).unwrap();
                answered += 1;
                if sent < requests {
                    stream.write_all(&[2; REQUEST]).unwrap();
                    sent += 1;
                }
            }
        }
    }
}

const CONNECTIONS: usize = 64;

/// Counts the calls that move bytes, each for itself: without io_uring. As every call is traced, the server is slow and looks at its
/// poller mostly because half a millisecond has passed. The next test counts those calls.
#[test]
fn a_request_is_one_read_and_one_write_and_very_few_fail() {
    const REQUESTS: usize = 20_000;
    if std::env::var_os(SERVER).is_some() {
        return be_server_with(Runtime::builder().spares(0).stall_limit(None).processors(1).io(Engine::Epoll), session);
    }
    let Some(server) = Traced::start(name_of_test!(), &["-c"]) else { return };
    load(&mut server.connect(CONNECTIONS), REQUESTS);
    let counts = counts(&server.end());
    let moving = counts["recvfrom"].0 + counts["sendto"].0;
    let per_request = moving as f64 / REQUESTS as f64;
    println!("{per_request} calls per request that move bytes");
    assert!((2.0..=2.02).contains(&per_request), "{per_request} calls per request: {counts:#?}");
    let again = counts["recvfrom"].1 + counts["sendto"].1;
    assert!(again * 100 < moving, "{again} of {moving} failed: {counts:#?}");
    // Each connection is registered with the poller once.
    assert!(counts["epoll_ctl"].0 <= CONNECTIONS as u64 + 10, "{counts:#?}");
}

/// Counts all calls except those that move bytes. These run at full speed, because `strace` has the
/// kernel leave them alone.
#[test]
fn a_request_needs_few_calls_besides_those_that_move_its_bytes() {
    const REQUESTS: usize = 100_000;
    if std::env::var_os(SERVER).is_some() {
        return be_server();
    }
    let options = ["-c", "--seccomp-bpf", "-e", "trace=!recvfrom,sendto,io_uring_enter"];
    let Some(server) = Traced::start(name_of_test!(), &options) else { return };
    load(&mut server.connect(CONNECTIONS), REQUESTS);
    let counts = counts(&server.end());
    assert!(!counts.contains_key("sendto"), "calls that move bytes were traced: {counts:#?}");
    let others: u64 = counts.values().map(|(calls, _)| calls).sum();
    let per_request = others as f64 / REQUESTS as f64;
    println!("{per_request} other calls per request: {counts:?}");
    // The number of requests that one look at the poller finds depends on the load: 0.05 to 0.09
    // calls per request here, where the server is slowed down a little. One look for each request
    // would be 1.
    assert!(per_request <= 0.25, "{per_request} other calls per request: {counts:#?}");
}

/// A server with little to do falls asleep after each answer.
#[test]
fn a_lonely_request_wakes_the_server_without_a_bell() {
    const REQUESTS: usize = 2_000;
    if std::env::var_os(SERVER).is_some() {
        return be_server();
    }
    let Some(server) = Traced::start(name_of_test!(), &["-c"]) else { return };
    load(&mut server.connect(1), REQUESTS);
    let counts = counts(&server.end());
    let others: u64 = counts.values().map(|(calls, _)| calls).sum::<u64>() - 2 * REQUESTS as u64;
    let per_request = others as f64 / REQUESTS as f64;
    println!("{per_request} other calls per request: {counts:?}");
    // The server sleeps in the poller, passes a barrier before that, and sometimes looks once more:
    // 2.5 calls here. A bell that the server rings for itself would be three more.
    assert!(per_request <= 3.5, "{per_request} other calls per request: {counts:#?}");
}

/// The second processor need not wake up for the request.
#[test]
fn a_lonely_request_leaves_a_second_processor_asleep() {
    const REQUESTS: usize = 2_000;
    if std::env::var_os(SERVER).is_some() {
        return be_server_of(2);
    }
    let Some(server) = Traced::start(name_of_test!(), &["-c", "-e", "trace=futex,recvfrom"]) else { return };
    let began = Instant::now();
    load(&mut server.connect(1), REQUESTS);
    let took = began.elapsed();
    let per_request = wakes(&server.end(), took) / REQUESTS as f64;
    // To wake it up, and its falling asleep again, would be two calls.
    assert!(per_request <= 0.5, "{per_request} futex calls per request");
}

/// Returns the number of `futex` calls, without those of a processor that wakes up by itself every
/// two milliseconds.
fn wakes(log: &str, took: Duration) -> f64 {
    let calls = counts(log).get("futex").map_or(0, |(calls, _)| *calls);
    println!("{calls} calls of futex in {took:?}");
    calls as f64 - took.as_secs_f64() / 0.002
}

/// The second processor need not wake up for a timer either: the sentinel sees that the timer is
/// due and may run the fibre itself.
#[test]
#[allow(unsafe_code)]
fn a_lonely_timer_leaves_a_second_processor_asleep() {
    const SLEEPS: usize = 1_000;
    if std::env::var_os(SERVER).is_some() {
        // SAFETY: no fibre of the server holds anything that is bound to a kernel thread.
        let runtime = unsafe { Runtime::builder().spares(0).stall_limit(None).processors(2).migrating() };
        return be_server_with(runtime, |mut stream| {
            (0..SLEEPS).for_each(|_| sinew::sleep(Duration::from_millis(1)));
            stream.write_all(&[1]).unwrap();
        });
    }
    let Some(server) = Traced::start(name_of_test!(), &["-c", "-e", "trace=futex,recvfrom,sendto"]) else { return };
    let began = Instant::now();
    for mut stream in server.connect(1) {
        stream.read_exact(&mut [0]).unwrap();
    }
    let took = began.elapsed();
    let per_sleep = wakes(&server.end(), took) / SLEEPS as f64;
    assert!(per_sleep <= 0.6, "{per_sleep} futex calls per sleep");
}

#[test]
fn idle_connections_cost_no_system_call() {
    const IDLE: usize = 1_000;
    const WINDOW: Duration = Duration::from_secs(3);
    if std::env::var_os(SERVER).is_some() {
        return be_server();
    }
    let Some(server) = Traced::start(name_of_test!(), &["-ttt"]) else { return };
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let mut streams = server.connect(IDLE);
    load(&mut streams, IDLE);
    // Waits until the server has read the last requests and sleeps: then the log does not grow.
    let size = || fs::metadata(&server.log).unwrap().len();
    one_of(40, || {
        let before = size();
        thread::sleep(Duration::from_millis(500));
        if size() == before { Ok(()) } else { Err(size()) }
    });
    let began = now();
    thread::sleep(WINDOW);
    let ended = now();
    load(&mut streams[..1], 1);
    let log = server.end();
    let time = |line: &str| line.split_whitespace().nth(1).and_then(|time| time.parse::<f64>().ok());
    let inside = |line: &&str| time(line).is_some_and(|time| began < time && time < ended);
    let calls: Vec<_> = log.lines().filter(inside).collect();
    assert!(calls.is_empty(), "{} calls: {calls:#?}", calls.len());
    assert!(log.lines().any(|line| time(line).is_some_and(|time| time > ended)), "the log has no times");
}
