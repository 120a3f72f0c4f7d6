//! `idle`: a runtime with 10,000 parked strands and 1,000 idle connections, when nothing
//! happens. It should do nothing.
//!
//! A kernel thread of the lab's own watches the others after they have settled. First it
//! counts their CPU time and how often the kernel gave one of them a CPU. Then, for the
//! same length of time, it counts their system calls with `strace`, which would disturb
//! the other figures. A call counts when it returns: a call in which a thread sleeps all
//! along does not. Thousands of kernel threads are not traced, because attaching to them
//! takes longer than the rest. A thread that returns from a call was given a CPU.

use std::io::{self, BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Bar, Experiment, Metric, PLAIN, Plot, Variant};
use crate::case::{Case, Outcome, Reading};
use crate::kernel;
use crate::measure::crowd::Crowd;
use crate::measure::procfs::{Usage, other_threads};
use crate::peers::{self, Body, Peer, go};

const STRANDS: usize = 10_000;
const CONNECTIONS: usize = 1_000;
const SETTLE: Duration = Duration::from_millis(100);
const MOST_TRACED: usize = 100;

pub static IDLE: Experiment = Experiment {
    name: "idle",
    source: "Sinew, after Delisle 2022, chapter 6",
    measures: "CPU time, system calls and wake-ups per second of a runtime that has 10,000 parked strands and 1,000 connections on which nothing comes. Thousands of kernel threads are not traced for their calls.",
    good: "Zero of each: what sleeps costs nothing.",
    metrics: &[
        Metric::beside("cpu_us_per_s", "CPU µs per second", 1.0),
        Metric::beside("calls_per_s", "system calls/s (strace)", 1.0),
        Metric::beside("wakeups_per_s", "wake-ups/s", 1.0),
    ],
    plots: &[Plot::Bars { metric: "cpu_us_per_s" }, Plot::Bars { metric: "calls_per_s" }],
    bars: &[
        Bar::of("sinew/default", "-", 2).metric("calls_per_s").at_most(0.0).in_every_run(),
        Bar::of("sinew/default", "-", 2).metric("cpu_us_per_s").at_most(200.0).in_every_run(),
        Bar::of("sinew/fair", "-", 2).metric("calls_per_s").at_most(0.0).in_every_run(),
        // A millisecond in five seconds.
        Bar::of("sinew/fair", "-", 2).metric("cpu_us_per_s").at_most(200.0).in_every_run(),
    ],
    most_repeats: 2,
    limit: |_| Duration::from_secs(30),
    variants: |_, _, peer| match STRANDS + CONNECTIONS {
        strands if strands <= peer.most_strands => vec![Variant::new("-", strands)],
        _ => vec![],
    },
    measure: |case| match case.peer.as_str() {
        go::NAME => watch_go(case),
        _ => peers::measure::<Idle>(case),
    },
    ..PLAIN
};

/// Watches Go's program. It says when all is parked, and ends when its input ends.
fn watch_go(case: &Case) -> Outcome {
    let watch_it = || -> io::Result<Reading> {
        let mut program = go::GO.start(case)?;
        let mut line = String::new();
        // Kept until the end: the program prints its result.
        let mut output = BufReader::new(program.stdout.take().expect("a pipe"));
        output.read_line(&mut line)?;
        let reading = watch(program.id(), case.window());
        drop(program.stdin.take());
        match (line.trim(), program.wait()?.success()) {
            ("parked", true) => Ok(reading),
            _ => Err(io::Error::other(format!("go says {line:?}"))),
        }
    };
    watch_it().into()
}

/// Looks at a process whose strands are all parked.
fn watch(process: u32, window: Duration) -> Reading {
    thread::sleep(SETTLE);
    let others = other_threads(process);
    let (begun, before) = (Instant::now(), Usage::of(&others));
    thread::sleep(window);
    let (elapsed, after) = (begun.elapsed(), Usage::of(&others));
    let per_second = |count: u64| count as f64 / elapsed.as_secs_f64();
    let mut reading = Reading::of([
        ("cpu_us_per_s", per_second(after.cpu_ns - before.cpu_ns) / 1e3),
        ("wakeups_per_s", per_second(after.turns - before.turns)),
    ]);
    if let Some(calls) = system_calls(&others, window) {
        reading.set("calls_per_s", calls);
    }
    reading
}

/// Returns the system calls of these threads per second; `None` without a working
/// `strace`.
fn system_calls(threads: &[i32], window: Duration) -> Option<f64> {
    if threads.len() > MOST_TRACED {
        return None;
    }
    let mut command = Command::new("strace");
    for thread in threads {
        command.arg("-p").arg(thread.to_string());
    }
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut strace = command.spawn().ok()?;
    let trace = BufReader::new(strace.stderr.take().expect("a pipe"));
    let reader = thread::spawn(move || {
        let lines = trace.lines().map_while(Result::ok).map(|line| (Instant::now(), line));
        lines.collect::<Vec<_>>()
    });
    // Attaching interrupts the call that a thread sleeps in.
    thread::sleep(SETTLE);
    let begun = Instant::now();
    thread::sleep(window);
    let elapsed = begun.elapsed();
    if kernel::interrupt(&strace).is_err() {
        let _ = strace.kill();
    }
    let _ = strace.wait();
    let lines = reader.join().ok()?;
    let attached = lines.iter().any(|(_, line)| line.contains("attached"));
    let calls = lines.iter().filter(|(at, line)| *at >= begun && is_returned_call(line)).count();
    attached.then(|| calls as f64 / elapsed.as_secs_f64())
}

/// Returns whether the line is a call that returned. A call that a thread is in when
/// `strace` attaches or leaves has no result (`<unfinished ...>`, `<detached ...>`, `= ?`).
fn is_returned_call(line: &str) -> bool {
    let result = line.rsplit_once(" = ").map(|(_, result)| result);
    result.is_some_and(|result| !result.starts_with('?'))
}

/// Returns both ends of idle connections.
fn connections() -> Vec<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let connect = |_| {
        let client = TcpStream::connect(address).expect("a connection");
        (client, listener.accept().expect("its other end").0)
    };
    (0..CONNECTIONS).map(connect).collect()
}

/// Looks at this process while the calling strand, and with it all others, is parked.
pub(super) async fn watched<P: Peer>(window: Duration) -> Reading {
    let own = P::parker();
    let over = Arc::new(AtomicBool::new(false));
    let watchman = thread::spawn({
        let (root, over) = (own.clone(), over.clone());
        move || {
            let reading = watch(std::process::id(), window);
            // Pairs with the strand's load.
            over.store(true, Ordering::Release);
            P::unpark(&root);
            reading
        }
    });
    // Pairs with the watchman's store.
    while !over.load(Ordering::Acquire) {
        P::park(&own).await;
    }
    watchman.join().expect("a watchman")
}

struct Idle;

impl Body for Idle {
    fn measure<P: Peer>(peer: P, case: &Case) -> Reading {
        kernel::raise_descriptor_limit().expect("descriptors");
        let (clients, servers): (Vec<_>, Vec<_>) = connections().into_iter().unzip();
        let window = case.window();
        peer.run(async move {
            let crowd = Crowd::<P>::gather(STRANDS, |_| async { 1 }).await;
            let reading = Arc::new(AtomicUsize::new(0));
            let mut readers = Vec::new();
            for server in servers {
                let reading = reading.clone();
                readers.push(P::spawn(async move {
                    let mut stream = P::stream(server).expect("a stream");
                    reading.fetch_add(1, Ordering::Relaxed);
                    P::read(&mut stream, &mut [0; 64]).await.map_or(1, |bytes| bytes as u64)
                }));
            }
            while reading.load(Ordering::Relaxed) < CONNECTIONS {
                P::yield_now().await;
            }
            let reading = watched::<P>(window).await;
            drop(clients);
            crowd.release();
            assert_eq!(crowd.join().await.len(), STRANDS);
            for reader in readers {
                assert_eq!(P::join(reader).await, 0, "no client has written");
            }
            reading
        })
    }
}

#[cfg(test)]
mod tests {
    use super::is_returned_call;

    #[test]
    fn a_call_counts_when_it_returns() {
        let trace = "strace: Process 7 attached\n\
             [pid 7] epoll_wait(3,  <unfinished ...>\n\
             [pid 8] futex(0x7f, FUTEX_WAIT, 0, NULL) = 0\n\
             [pid 7] <... epoll_wait resumed>[], 16, 10) = 0\n\
             [pid 7] epoll_wait(3,  <detached ...>\n";
        assert_eq!(trace.lines().filter(|line| is_returned_call(line)).count(), 2);
    }
}
