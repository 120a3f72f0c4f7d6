//! What the kernel is asked for, as `strace` sees it: two calls for a request, hardly
//! one that fails, and none at all while nothing happens.
//!
//! The server is a child under `strace`; the clients are this process. Where there is no
//! `strace`, or it may not trace, the tests say so.

#[path = "rerun/mod.rs"]
#[macro_use]
mod rerun;

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

/// Says to a process that it is the server.
const SERVER: &str = "SINEW_TEST_SERVER";
const LISTENING: &str = "listening at ";

const REQUEST: usize = 64;
const ANSWER: usize = 128;

/// Answers until the process that started it has closed its standard input.
fn be_server() {
    be_server_of(1);
}

fn be_server_of(processors: usize) {
    be_server_with(Runtime::builder().processors(processors), session);
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
    // More room than a request needs: a read that fills its buffer shows nothing.
    let mut request = [0; 2 * REQUEST];
    while let Ok(REQUEST) = stream.read(&mut request) {
        stream.write_all(&[1; ANSWER]).unwrap();
    }
}

/// A server under `strace`. One at a time: another would take the CPU that is to load it.
struct Traced {
    _turn: MutexGuard<'static, ()>,
    strace: Child,
    address: SocketAddr,
    log: PathBuf,
}

impl Traced {
    /// `None`, with a word about it, where nothing can be traced.
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
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(SERVER, "");
        let mut strace = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(strace.stdout.take().unwrap());
        let line = said.lines().map_while(Result::ok).find_map(|line| Some(line.split_once(LISTENING)?.1.to_owned()));
        let address = line.expect("a server that listens").parse().unwrap();
        Some(Traced { _turn: turn, strace, address, log })
    }

    fn connect(&self, count: usize) -> Vec<std::net::TcpStream> {
        (0..count).map(|_| std::net::TcpStream::connect(self.address).unwrap()).collect()
    }

    /// Ends the server; gives what `strace` has written.
    fn end(mut self) -> String {
        drop(self.strace.stdin.take());
        assert!(self.strace.wait().unwrap().success());
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // `strace` ends with its child, which ends with its input.
        drop(self.strace.stdin.take());
        let _ = self.strace.wait();
        let _ = fs::remove_file(&self.log);
    }
}

/// How often each call was made, and failed, of a summary that `strace -c` has made.
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
    assert!(!counts.is_empty(), "a summary of `strace`: {summary}");
    counts
}

/// So many requests in a closed loop: each connection has one in flight at any time.
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
        assert!(ready > 0, "no answer: {answered} of {requests}");
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

/// The calls that move bytes. Every call is traced, so the server is slow, and looks at
/// its poller for no other reason than that half a millisecond has passed; so what is
/// made by time is the matter of the next test.
#[test]
fn a_request_is_one_call_to_read_and_one_to_write_and_hardly_one_fails() {
    const REQUESTS: usize = 20_000;
    if std::env::var_os(SERVER).is_some() {
        return be_server();
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
    // Each connection is made known to the poller once.
    assert!(counts["epoll_ctl"].0 <= CONNECTIONS as u64 + 10, "{counts:#?}");
}

/// All calls but those that move bytes, which run at full speed: `strace` has the kernel
/// leave them alone.
#[test]
fn a_request_needs_hardly_a_call_besides_those_that_move_its_bytes() {
    const REQUESTS: usize = 100_000;
    if std::env::var_os(SERVER).is_some() {
        return be_server();
    }
    let options = ["-c", "--seccomp-bpf", "-e", "trace=!recvfrom,sendto"];
    let Some(server) = Traced::start(name_of_test!(), &options) else { return };
    load(&mut server.connect(CONNECTIONS), REQUESTS);
    let counts = counts(&server.end());
    assert!(!counts.contains_key("sendto"), "they are not to be traced: {counts:#?}");
    let others: u64 = counts.values().map(|(calls, _)| calls).sum();
    let per_request = others as f64 / REQUESTS as f64;
    println!("{per_request} other calls per request: {counts:?}");
    // How many requests one look finds depends on how far the load keeps the server busy:
    // 0.05 to 0.09 here, where it is slowed down a little. A look for each would be 1.
    assert!(per_request <= 0.25, "{per_request} other calls per request: {counts:#?}");
}

/// A server of which little is asked falls asleep after each answer.
#[test]
fn a_lonely_request_wakes_the_server_by_itself() {
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
    // To sleep in the poller, a barrier before that, and at times a look: 2.5 here. An alarm
    // that the server rings for itself would be three more.
    assert!(per_request <= 3.5, "{per_request} other calls per request: {counts:#?}");
}

/// The second processor need not be woken for it.
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
    // To be woken, and to sleep again, would be two.
    assert!(per_request <= 0.5, "{per_request} futex calls per request");
}

/// Calls of `futex`, but for those of a processor that wakes up by itself every two milliseconds.
fn wakes(log: &str, took: Duration) -> f64 {
    let calls = counts(log).get("futex").map_or(0, |(calls, _)| *calls);
    println!("{calls} calls of futex in {took:?}");
    calls as f64 - took.as_secs_f64() / 0.002
}

/// Nor for a timer, where a poller is minded, and whoever sees that it is due may run what
/// has waited for it.
#[test]
#[allow(unsafe_code)]
fn a_lonely_timer_leaves_a_second_processor_asleep() {
    const SLEEPS: usize = 1_000;
    if std::env::var_os(SERVER).is_some() {
        // SAFETY: no fibre of the server holds anything that is bound to a kernel thread.
        let runtime = unsafe { Runtime::builder().processors(2).migrating() };
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
fn idle_connections_cost_no_call_at_all() {
    const IDLE: usize = 1_000;
    const WINDOW: Duration = Duration::from_secs(3);
    if std::env::var_os(SERVER).is_some() {
        return be_server();
    }
    let Some(server) = Traced::start(name_of_test!(), &["-ttt"]) else { return };
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let mut streams = server.connect(IDLE);
    load(&mut streams, IDLE);
    // The last answers have been read before the server waits again.
    thread::sleep(Duration::from_millis(500));
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
