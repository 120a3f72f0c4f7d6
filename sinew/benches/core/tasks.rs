//! `tasks`: the experiments again, with Sinew's tasks where the others have fibres.
//!
//! What is measured, and how Tokio does it, is said in the files of the experiments. Where
//! those of `transfer` park, tasks wait for a `BinarySemaphore`, as Tokio's do for a `Notify`.
//! The rings of `cycle` are mixed here: fibres and tasks in turn.

use std::future::{pending, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use sinew::sync::{Barrier, BinarySemaphore};
use sinew::task;

use crate::cycle::{Cycle, GUARDED_ROUNDS, RING};
use crate::memory::{self, Memory};
use crate::spawn::{self, BATCHED, SINGLE, Spawn};
use crate::support::case::{Case, Contender};
use crate::support::child::Reading;
use crate::support::options::Options;
use crate::support::peers::fibres::Fibres;
use crate::support::peers::{Experiment, Stackful};
use crate::support::procfs::resident_bytes;
use crate::support::report::{Bound, Column, Report};
use crate::support::window::{Audit, Tally, Window};
use crate::transfer::{Election, PARKING, PEERS_TRANSFERS, Transfer, Wake, YIELDING};
use crate::yielding::{self, Yield};

pub const NAME: &str = "tasks";

const LIMIT: Duration = Duration::from_secs(60);
const RINGS: &str = "100";
const BYTES_PER_TASK: f64 = 200.0;

/// The experiment that a case is of, and its variant there.
fn parts(case: &Case) -> (&str, &str) {
    case.variant.split_once('/').expect("an experiment and its variant")
}

pub fn measure(case: &Case) -> Reading {
    let (experiment, variant) = parts(case);
    let inner = Case::new(experiment, case.contender, case.processors, variant, case.amount);
    match (case.contender, experiment) {
        (Contender::Sinew(scheduler), _) => {
            let runtime = Fibres::new(case.processors, scheduler);
            match experiment {
                "yield" => yields(runtime, &inner),
                "spawn" => spawns(runtime, &inner),
                "transfer" => transfers(runtime, &inner),
                "cycle" => cycles(runtime, &inner),
                _ => parks(runtime, &inner),
            }
        }
        (_, "yield") => Yield::tokio(&inner),
        (_, "spawn") => Spawn::tokio(&inner),
        (_, "transfer") => Transfer::tokio(&inner),
        (_, "cycle") => Cycle::tokio(&inner),
        _ => Memory::tokio(&inner),
    }
}

fn yields(runtime: Fibres, case: &Case) -> Reading {
    let strands = case.processors * yielding::STRANDS_PER_PROCESSOR;
    let (window, timekeeper) = Window::open(strands, case.window(), Audit::Turns);
    let shared = window.clone();
    let counts = runtime.run(move || {
        let gate = Arc::new(Barrier::new(strands));
        let spawn = |strand| {
            let (window, gate) = (shared.clone(), gate.clone());
            task::spawn(async move {
                gate.wait_async().await;
                let mut tally = Tally::new(window, strand);
                loop {
                    task::yield_now_async().await;
                    if !tally.tick() {
                        return tally.close();
                    }
                }
            })
        };
        let tasks: Vec<_> = (0..strands).map(spawn).collect();
        tasks.into_iter().map(|task| task.join().expect("a task that does not panic")).collect()
    });
    let elapsed = timekeeper.join().expect("the timekeeper");
    yielding::reading(counts, elapsed.as_secs_f64(), &window)
}

async fn round(batch: u64, handles: &mut Vec<task::JoinHandle<u64>>) {
    let mut sum = 0;
    for _ in 0..spawn::STRANDS_PER_ROUND / batch {
        handles.extend((0..batch).map(|i| task::spawn(async move { i })));
        for handle in handles.drain(..) {
            sum += handle.await.expect("a task that does not panic");
        }
    }
    spawn::check(sum, batch);
}

fn spawns(runtime: Fibres, case: &Case) -> Reading {
    let (batch, window) = (case.variant.parse().expect("the size of a batch"), case.window());
    let root = async move {
        let mut handles = Vec::with_capacity(batch as usize);
        let mut ns = f64::NAN;
        for length in [spawn::WARM_UP, window] {
            let begun = Instant::now();
            for rounds in 1.. {
                round(batch, &mut handles).await;
                if let Some(time) = spawn::time_per_strand(begun, length, rounds) {
                    ns = time;
                    break;
                }
            }
        }
        ns
    };
    let ns = runtime.run(move || task::spawn(root).join().expect("a root that does not panic"));
    Reading::of([("ns", ns)])
}

impl Wake for BinarySemaphore {
    fn wake(&self) {
        self.post();
    }
}

fn transfers(runtime: Fibres, case: &Case) -> Reading {
    let election = Arc::new(Election::new(case, || BinarySemaphore::new(false)));
    let root = election.clone();
    runtime.run(move || {
        let gate = Arc::new(Barrier::new(root.members.len() + 1));
        let spawn = |member: usize| {
            let (election, gate) = (root.clone(), gate.clone());
            task::spawn(async move {
                gate.wait_async().await;
                while !election.is_over() {
                    if election.is_led_by(member) {
                        election.lead(member);
                    } else {
                        election.acknowledge(member);
                        if election.parking {
                            election.members[member].waker.wait_async().await;
                        } else {
                            task::yield_now_async().await;
                        }
                    }
                }
            })
        };
        let tasks: Vec<_> = (0..root.members.len()).map(spawn).collect();
        gate.wait();
        root.begin();
        tasks.into_iter().for_each(|task| task.join().expect("a task that does not panic"));
    });
    election.reading()
}

/// A ring of fibres and tasks in turn, which use nothing but `park` and `unpark`, and what is
/// the same to a task: to be pending until its waker is called.
struct MixedRing {
    members: [MixedMember; RING],
    left: AtomicUsize,
}

#[repr(align(128))]
struct MixedMember {
    /// Set by the member before the gate opens.
    unparker: OnceLock<Unparker>,
    /// As in `cycle`: guards the first rounds, for a strand may bring a wake-up along from
    /// the gate.
    token: AtomicBool,
}

enum Unparker {
    Fibre(sinew::Fibre),
    Task(Waker),
}

impl Unparker {
    #[inline(always)]
    fn unpark(&self) {
        match self {
            Unparker::Fibre(fibre) => fibre.unpark(),
            Unparker::Task(waker) => waker.wake_by_ref(),
        }
    }
}

/// Until the task's waker is called. May return for no reason.
async fn park() {
    let mut is_pending = true;
    poll_fn(|_| if std::mem::take(&mut is_pending) { Poll::Pending } else { Poll::Ready(()) }).await;
}

impl MixedRing {
    fn new() -> MixedRing {
        let member = |_| MixedMember { unparker: OnceLock::new(), token: AtomicBool::new(false) };
        MixedRing { members: std::array::from_fn(member), left: AtomicUsize::new(RING) }
    }

    fn enter(&self, member: usize, unparker: Unparker) {
        assert!(self.members[member].unparker.set(unparker).is_ok());
    }

    fn member(&self, member: usize) -> &Unparker {
        self.members[member % RING].unparker.get().expect("set before the gate opened")
    }

    /// A guarded hop.
    fn pass_to(&self, member: usize) {
        // Pairs with the exchange in `take`.
        self.members[member % RING].token.store(true, Ordering::Release);
        self.member(member).unpark();
    }

    /// Takes the token, if it is there.
    fn take(&self, member: usize) -> bool {
        // Pairs with the store in `pass_to`.
        self.members[member].token.swap(false, Ordering::Acquire)
    }

    fn close(&self, next: &Unparker, tally: Tally) -> u64 {
        if self.left.fetch_sub(1, Ordering::Relaxed) > 1 {
            next.unpark();
        }
        tally.close()
    }

    fn fibre(&self, member: usize, mut tally: Tally) -> u64 {
        let next = self.member(member + 1);
        for _ in 0..GUARDED_ROUNDS {
            while !self.take(member) {
                sinew::park();
            }
            self.pass_to(member + 1);
        }
        sinew::park();
        while tally.tick() {
            next.unpark();
            sinew::park();
        }
        self.close(next, tally)
    }

    async fn task(&self, member: usize, mut tally: Tally) -> u64 {
        let next = self.member(member + 1);
        for _ in 0..GUARDED_ROUNDS {
            while !self.take(member) {
                park().await;
            }
            self.pass_to(member + 1);
        }
        park().await;
        while tally.tick() {
            next.unpark();
            park().await;
        }
        self.close(next, tally)
    }
}

fn cycles(runtime: Fibres, case: &Case) -> Reading {
    let rings = case.variant.parse::<usize>().expect("rings per processor") * case.processors;
    let (window, timekeeper) = Window::open(rings * RING, case.window(), Audit::None);
    let hops: u64 = runtime.run(move || {
        let rings: Arc<[_]> = (0..rings).map(|_| MixedRing::new()).collect();
        let gate = Arc::new(Barrier::new(rings.len() * RING + 1));
        let spawn = |strand: usize| {
            let (rings, gate, window) = (rings.clone(), gate.clone(), window.clone());
            let (ring, member) = (strand / RING, strand % RING);
            if member % 2 == 0 {
                let task = task::spawn(async move {
                    let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
                    rings[ring].enter(member, Unparker::Task(waker));
                    gate.wait_async().await;
                    rings[ring].task(member, Tally::new(window, strand)).await
                });
                Box::new(move || task.join().expect("no panic")) as Box<dyn FnOnce() -> u64>
            } else {
                let fibre = sinew::spawn(move || {
                    rings[ring].enter(member, Unparker::Fibre(sinew::current()));
                    gate.wait();
                    rings[ring].fibre(member, Tally::new(window, strand))
                });
                Box::new(move || fibre.join().expect("no panic"))
            }
        };
        let strands: Vec<_> = (0..rings.len() * RING).map(spawn).collect();
        gate.wait();
        rings.iter().for_each(|ring| ring.pass_to(0));
        let hops: Vec<u64> = strands.into_iter().map(|join| join()).collect();
        for ring in hops.chunks(RING) {
            let (least, most) = (ring.iter().min(), ring.iter().max());
            assert!(most <= least.map(|least| least + 1).as_ref(), "a wake-up without a reason: {ring:?}");
        }
        hops.iter().sum()
    });
    let elapsed = timekeeper.join().expect("the timekeeper");
    Reading::of([("rate", hops as f64 / elapsed.as_secs_f64())])
}

/// Tasks of a future that is ready never, and empty. The handle that can abort and join each
/// single one is part of it.
fn parks(runtime: Fibres, case: &Case) -> Reading {
    let strands = case.amount;
    let (before, after) = runtime.run(move || {
        let before = resident_bytes();
        let polled = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..strands).map(|_| task::spawn(pending::<u64>())).collect();
        // First come first served: when this one runs all others are parked.
        let last = polled.clone();
        task::spawn(async move { last.store(1, Ordering::Relaxed) }).join().expect("no panic");
        assert_eq!(polled.load(Ordering::Relaxed), 1);
        let after = resident_bytes();
        tasks.iter().for_each(task::JoinHandle::abort);
        let aborted = tasks.into_iter().filter_map(|task| task.join().err()).filter(task::JoinError::is_aborted);
        assert_eq!(aborted.count() as u64, strands);
        (before, after)
    });
    memory::reading(before, after, strands)
}

pub fn conduct(options: &Options, report: &mut Report) {
    let contenders = options.contenders(&[Contender::Tokio]);
    let window = options.window_ms();
    let tasks = if options.quick { 100_000 } else { 1_000_000 };
    let transfers = if options.quick { 1_000 } else { 10_000 };
    let configurations = [
        (1, "yield/-".to_owned(), window),
        (2, "yield/-".to_owned(), window),
        (1, format!("spawn/{BATCHED}"), window / 2),
        (1, format!("spawn/{SINGLE}"), window / 2),
        (2, format!("transfer/{YIELDING}"), transfers),
        (2, format!("transfer/{PARKING}"), transfers),
        (1, format!("cycle/{RINGS}"), window),
        (2, format!("cycle/{RINGS}"), window),
        (1, "memory/-".to_owned(), tasks),
    ];
    let cases = configurations.iter().flat_map(|(processors, variant, amount)| {
        contenders.iter().map(move |&who| {
            let is_peer = variant.starts_with("transfer") && !who.is_sinew();
            Case::new(NAME, who, *processors, variant, if is_peer { PEERS_TRANSFERS } else { *amount })
        })
    });
    let results = report.measure(cases.collect(), options.repeats, LIMIT);

    report.heading("tasks: the experiments with tasks in place of fibres, or among them");
    for (processors, variant, _) in &configurations {
        let column = match variant.split('/').next() {
            Some("spawn") => Column { figure: "ns", unit: 1.0 },
            Some("transfer") => Column { figure: "mean", unit: 1e3 },
            Some("memory") => Column { figure: "bytes", unit: 1.0 },
            _ => Column { figure: "rate", unit: 1e6 },
        };
        let unit = match column.figure {
            "ns" => "ns",
            "mean" => "mean µs",
            "bytes" => "bytes",
            _ => "million/s",
        };
        let select = |case: &Case| case.processors == *processors && case.variant == *variant;
        report.table(&format!("{variant}, {processors} processor(s): {unit}"), &results, select, column);
    }
    for sinew in results.sinews() {
        let figure = |figure, who, n, variant: &str| results.median(figure, who, n, variant);
        let ratio =
            |name, n, variant: &str| figure(name, sinew, n, variant) / figure(name, Contender::Tokio, n, variant);
        let mut bar = |claim: &str, measured, bound| report.bar(&results, sinew, claim, measured, bound);
        bar("tasks, yield, 1 processor, at least 1.5x Tokio", ratio("rate", 1, "yield/-"), Bound::AtLeast(1.5));
        for batch in [BATCHED, SINGLE] {
            let measured = ratio("ns", 1, &format!("spawn/{batch}"));
            bar(&format!("tasks, spawn, {batch} at a time, at most 0.6x Tokio"), measured, Bound::AtMost(0.6));
        }
        let mean_us = figure("mean", sinew, 2, &format!("transfer/{YIELDING}")) / 1e3;
        bar("tasks, transfer, yielding, mean at most 200 µs", mean_us, Bound::AtMost(200.0));
        for n in [1, 2] {
            let measured = ratio("rate", n, &format!("cycle/{RINGS}"));
            let claim = format!("tasks among fibres, cycle, {n} processor(s), at least Tokio's figure");
            bar(&claim, measured, Bound::AtLeast(1.0));
        }
        let bytes = figure("bytes", sinew, 1, "memory/-");
        bar(
            &format!("{tasks} parked tasks, at most {BYTES_PER_TASK} bytes each"),
            bytes,
            Bound::AtMost(BYTES_PER_TASK),
        );
    }
}
