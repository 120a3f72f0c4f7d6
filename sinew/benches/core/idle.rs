//! `idle`: what a runtime with two processors and 10,000 parked strands does
//! when nothing happens: nothing, one hopes.
//!
//! The child parks everything and waits for the end of its standard input. The
//! parent watches it from outside, after it has settled: first the CPU time of
//! all its threads and how often one of them blocked anew, then, for as long
//! again, its system calls with `strace`, which would disturb the former. A
//! call counts when it returns: one in which a thread sleeps all along does not.

use std::io::{Read, stdin};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;

use crate::support::case::{Case, Contender};
use crate::support::child::{self, Outcome, Reading, Running};
use crate::support::crowd::Crowd;
use crate::support::options::Options;
use crate::support::peers::{Experiment, Stackful, run_task};
use crate::support::procfs::Usage;
use crate::support::report::{Bound, Column, Report};

pub const NAME: &str = "idle";

const PROCESSORS: usize = 2;
const STRANDS: usize = 10_000;
const SETTLE: Duration = Duration::from_millis(200);
const LIMIT: Duration = Duration::from_secs(30);
const MOST_REPEATS: usize = 2;
const READY: &str = "ready";

pub struct Idle;

/// Announces that all is parked, and blocks until the parent has seen enough.
fn wait_for_parent() {
    println!("{READY}");
    let _ = stdin().read_to_end(&mut Vec::new());
}

impl Experiment for Idle {
    fn stackful<P: Stackful>(runtime: P, _: &Case) -> Reading {
        let (announce, announced) = mpsc::channel::<P::Unparker>();
        let over = Arc::new(AtomicBool::new(false));
        let porter = thread::spawn({
            let over = over.clone();
            move || {
                let root = announced.recv().expect("a root");
                wait_for_parent();
                // Pairs with the root's load.
                over.store(true, Ordering::Release);
                P::unpark(&root);
            }
        });
        let joined = runtime.run(move || {
            let crowd = Crowd::<P>::gather(STRANDS, |_| 1);
            announce.send(P::current()).expect("a porter");
            // Pairs with the porter's store.
            while !over.load(Ordering::Acquire) {
                P::park();
            }
            crowd.release();
            crowd.join().sum::<u64>()
        });
        porter.join().expect("a porter");
        Reading::of([("joined", joined as f64)])
    }

    fn tokio(case: &Case) -> Reading {
        let over = Arc::new(Notify::new());
        let (announce, announced) = mpsc::channel();
        let porter = thread::spawn({
            let over = over.clone();
            move || {
                announced.recv().expect("a root");
                wait_for_parent();
                over.notify_one();
            }
        });
        let joined = run_task(case.processors, async move {
            let release = Arc::new(Notify::new());
            let spawn = |_| {
                // Made here, so that `notify_waiters` reaches it in any case.
                let released = release.clone().notified_owned();
                tokio::spawn(released)
            };
            let handles: Vec<_> = (0..STRANDS).map(spawn).collect();
            announce.send(()).expect("a porter");
            over.notified().await;
            release.notify_waiters();
            let mut joined = 0;
            for handle in handles {
                handle.await.expect("a task that does not panic");
                joined += 1;
            }
            joined
        });
        porter.join().expect("a porter");
        Reading::of([("joined", f64::from(joined))])
    }
}

fn watch(case: &Case) -> Outcome {
    let mut child = Running::start(case, LIMIT);
    if let Err(outcome) = child.wait_for(READY) {
        return outcome;
    }
    thread::sleep(SETTLE);
    let before = Usage::of(child.pid());
    thread::sleep(case.window());
    let after = Usage::of(child.pid());
    let calls = system_calls(child.pid(), case.window());
    drop(child.take_stdin());
    match child.finish() {
        Outcome::Measured(_) => Outcome::Measured(Reading::of([
            ("cpu_ns", (after.cpu_ns - before.cpu_ns) as f64),
            ("blocked", (after.blocked - before.blocked) as f64),
            ("calls", calls.map_or(f64::NAN, |n| n as f64)),
        ])),
        other => other,
    }
}

/// The system calls that the threads of `pid` make in a window; `None` without
/// a working `strace`.
fn system_calls(pid: u32, window: Duration) -> Option<u64> {
    if !child::runs("strace") {
        return None;
    }
    let mut strace = Command::new("strace")
        .args(["-f", "-q", "-p", &pid.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut trace = strace.stderr.take().expect("a pipe");
    let reader = thread::spawn(move || {
        let mut text = String::new();
        trace.read_to_string(&mut text).map(|_| text)
    });
    thread::sleep(window);
    let interrupted = Command::new("kill").args(["-INT", &strace.id().to_string()]).status();
    if !interrupted.is_ok_and(|status| status.success()) {
        let _ = strace.kill();
    }
    let _ = strace.wait();
    let text = reader.join().ok()?.ok()?;
    Some(count_calls(&text))
}

/// Calls that returned. What a thread is in when `strace` attaches or leaves
/// has no result in the trace (`<unfinished ...>`, `<detached ...>`, `= ?`).
fn count_calls(trace: &str) -> u64 {
    let returned = |line: &&str| {
        let result = line.rsplit_once(" = ").map(|(_, result)| result);
        result.is_some_and(|r| !r.starts_with('?'))
    };
    trace.lines().filter(returned).count() as u64
}

pub fn conduct(options: &Options, report: &mut Report) {
    let contenders = options.contenders(&[Contender::Tokio, Contender::May]);
    let window_ms = if options.quick { 1_000 } else { 5_000 };
    let case = |&who| Case::new(NAME, who, PROCESSORS, "-", window_ms);
    let cases = contenders.iter().map(case).collect();
    let repeats = options.repeats.min(MOST_REPEATS);
    let results = report.measure_with(cases, repeats, watch);

    report.heading(&format!("idle: 2 processors, 10,000 parked strands, {window_ms} ms"));
    for (title, figure, unit) in [
        ("CPU time, ms", "cpu_ns", 1e6),
        ("system calls (strace)", "calls", 1.0),
        ("voluntary context switches", "blocked", 1.0),
    ] {
        report.table(title, &results, |_| true, Column { figure, unit });
    }
    for sinew in results.sinews() {
        let most = |figure| results.max(figure, sinew, PROCESSORS, "-");
        let calls = match most("calls") {
            unknown if unknown.is_nan() => most("blocked"),
            calls => calls,
        };
        let mut bar = |claim, measured, bound| {
            report.bar(&results, sinew, claim, measured, bound);
        };
        bar("idle, no system call", calls, Bound::AtMost(0.0));
        bar("idle, CPU time below 1 ms", most("cpu_ns") / 1e6, Bound::Below(1.0));
    }
}
