//! `channel`: pairs of strands with two unbounded channels between them. One
//! sends a request and waits for the reply, the other returns what it gets.
//!
//! Measured: time per round trip, of all pairs together. With several
//! processors a reply may be there before its receiver waits for it; what share
//! of them was is found by an audit, and reported beside.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::blocking::{Blocking, Experiment};
use crate::support::case::{Case, Contender};
use crate::support::child::Reading;
use crate::support::crowd::Crowd;
use crate::support::options::Options;
use crate::support::peers::run_task;
use crate::support::report::{Bound, Column, Report};
use crate::support::window::{Audit, Tally, Window};

pub const NAME: &str = "channel";

const ONE: &str = "1";
const MANY: &str = "100";
const LIMIT: Duration = Duration::from_secs(20);

pub struct Channel;

/// The ends of the two channels that one strand has.
struct Ends<S, R> {
    sender: S,
    receiver: R,
}

/// Both sides of a pair: who asks, then who replies.
fn pair<S, R>(channel: impl Fn() -> (S, R)) -> [Ends<S, R>; 2] {
    let (request, requested) = channel();
    let (reply, replied) = channel();
    [Ends { sender: request, receiver: replied }, Ends { sender: reply, receiver: requested }]
}

fn pairs(case: &Case) -> usize {
    case.variant.parse().expect("the number of pairs")
}

fn ask<P: Blocking>(ends: Ends<P::Sender, P::Receiver>, mut tally: Tally) -> u64 {
    let mut request = 0;
    loop {
        request += 1;
        P::send(&ends.sender, request);
        if !tally.probe(|| P::try_receive(&ends.receiver).is_some()) {
            assert_eq!(P::receive(&ends.receiver), Some(request));
        }
        if !tally.tick() {
            return tally.close();
        }
    }
}

fn reply<P: Blocking>(ends: Ends<P::Sender, P::Receiver>) -> u64 {
    while let Some(request) = P::receive(&ends.receiver) {
        P::send(&ends.sender, request);
    }
    0
}

type TaskEnds = Ends<UnboundedSender<u64>, UnboundedReceiver<u64>>;

async fn task_ask(mut ends: TaskEnds, mut tally: Tally) -> u64 {
    let mut request = 0;
    loop {
        request += 1;
        ends.sender.send(request).expect("a receiver");
        if !tally.probe(|| ends.receiver.try_recv().is_ok()) {
            assert_eq!(ends.receiver.recv().await, Some(request));
        }
        if !tally.tick() {
            return tally.close();
        }
    }
}

async fn task_reply(mut ends: TaskEnds) -> u64 {
    while let Some(request) = ends.receiver.recv().await {
        ends.sender.send(request).expect("a receiver");
    }
    0
}

impl Experiment for Channel {
    fn blocking<P: Blocking>(runtime: P, case: &Case) -> Reading {
        let pairs = pairs(case);
        let (window, timekeeper) = Window::open(pairs, case.window(), Audit::Probes);
        let shared = window.clone();
        let count: u64 = runtime.run(move || {
            // Each strand takes its own.
            let ends = (0..pairs).flat_map(|_| pair(P::channel));
            let ends: Arc<[_]> = ends.map(|ends| Mutex::new(Some(ends))).collect();
            let crowd = Crowd::<P>::gather(2 * pairs, move |strand| {
                let own = ends[strand].lock().expect("no poison").take().expect("not yet taken");
                match strand % 2 {
                    0 => ask::<P>(own, Tally::new(shared.clone(), strand)),
                    _ => reply::<P>(own),
                }
            });
            crowd.release();
            crowd.join().sum()
        });
        let elapsed = timekeeper.join().expect("the timekeeper");
        reading(count, elapsed, &window)
    }

    fn tokio(case: &Case) -> Reading {
        let pairs = pairs(case);
        let (window, timekeeper) = Window::open(pairs, case.window(), Audit::Probes);
        let shared = window.clone();
        let count: u64 = run_task(case.processors, async move {
            let mut handles = Vec::with_capacity(2 * pairs);
            for number in 0..pairs {
                let [asking, replying] = pair(unbounded_channel);
                let window = shared.clone();
                handles.push(tokio::spawn(async move { task_ask(asking, Tally::new(window, number)).await }));
                handles.push(tokio::spawn(task_reply(replying)));
            }
            let mut count = 0;
            for handle in handles {
                count += handle.await.expect("a task that does not panic");
            }
            count
        });
        let elapsed = timekeeper.join().expect("the timekeeper");
        reading(count, elapsed, &window)
    }
}

fn reading(count: u64, elapsed: Duration, window: &Window) -> Reading {
    Reading::of([("ns", elapsed.as_nanos() as f64 / count as f64), ("void", window.void_share().unwrap_or(f64::NAN))])
}

pub fn conduct(options: &Options, report: &mut Report) {
    let contenders = options.contenders(&Contender::PEERS);
    let configurations = [(1, ONE), (2, MANY)];
    let cases = configurations.into_iter().flat_map(|(n, pairs)| {
        let case = move |&who| Case::new(NAME, who, n, pairs, options.window_ms());
        contenders.iter().map(case)
    });
    let results = report.measure(cases.collect(), options.repeats, LIMIT);

    report.heading("channel: round trips through unbounded channels");
    for (n, pairs) in configurations {
        for (title, figure, unit) in
            [("ns per round trip", "ns", 1.0), ("% of replies that were not waited for", "void", 0.01)]
        {
            let title = format!("{title}, {pairs} pair(s), {n} processor(s)");
            let select = |c: &Case| c.processors == n && c.variant == pairs;
            report.table(&title, &results, select, Column { figure, unit });
        }
    }
    for sinew in results.sinews() {
        for ((n, pairs), bound) in configurations.into_iter().zip([0.6, 0.8]) {
            let ns = |who| results.median("ns", who, n, pairs);
            let claim = format!("channel, {pairs} pair(s), {n} processor(s), at most {bound}x Tokio's time");
            report.bar(&results, sinew, &claim, ns(sinew) / ns(Contender::Tokio), Bound::AtMost(bound));
        }
    }
}
