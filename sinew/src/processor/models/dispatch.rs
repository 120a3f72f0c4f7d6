//! The schedulers' queues together with `Idle`: the handshake as the runtime performs it. A
//! processor looks where the scheduler lets it look. A strand that becomes ready is announced by
//! what the scheduler says of it. No processor goes on sleeping beside a strand that no other
//! processor will run.

use crate::base::models::check;
use crate::processor::idle::Role;
use crate::processor::idle::{Announced, Idle, Slept};
use crate::sched::models::{NOW, attach, numbers};
use crate::sched::{Effort, Fair, Inverted, Local, ProcessorId, Scheduler, Shared};
use crate::strand::models::ready_strand;
use std::sync::Arc;
use std::time::Duration;

struct Cluster {
    scheduler: Box<dyn Scheduler>,
    /// Leaked, some hundred bytes, so that a processor that sleeps can be passed on.
    idle: &'static Idle,
    processors: u32,
}

/// A processor at the end of its part in a model.
enum Left {
    /// It runs the strands with these numbers for ever.
    Busy(Vec<u64>),
    Asleep(Processor, Announced<'static>),
}

struct Processor {
    cluster: Arc<Cluster>,
    index: u16,
    end: Box<dyn Local>,
}

const SCHEDULERS: [fn() -> Box<dyn Scheduler>; 3] =
    [|| Box::new(Fair::default()), || Box::new(Shared::default()), || Box::new(Inverted::default())];

impl Cluster {
    fn new<const N: usize>(scheduler: Box<dyn Scheduler>) -> (Arc<Cluster>, [Processor; N]) {
        let idle = Box::leak(Box::new(Idle::new(N, false)));
        let cluster = Arc::new(Cluster { scheduler, idle, processors: N as u32 });
        let mut index = 0;
        let processors = [(); N].map(|()| {
            index += 1;
            let end = attach(&*cluster.scheduler, index - 1);
            Processor { cluster: Arc::clone(&cluster), index: index - 1, end }
        });
        (cluster, processors)
    }

    /// Makes a strand ready outside of the processors.
    fn inject(&self, number: u64) {
        self.idle.notify(self.scheduler.inject(ready_strand(number), NOW));
    }
}

impl Processor {
    /// Makes a strand ready, by a strand that this processor runs.
    fn push(&self, number: u64) {
        self.cluster.idle.notify(self.end.push(ready_strand(number), NOW));
    }

    /// Looks for a strand, as `Processor::find` does.
    fn find(&self, effort: Effort) -> Vec<u64> {
        let found = self.end.next(NOW).or_else(|| self.end.search(NOW, effort));
        if found.is_some() {
            self.stop_waiting();
        }
        numbers(found)
    }

    fn stop_waiting(&self) {
        self.cluster.idle.notify(self.end.retract(NOW));
    }

    /// Runs out of work, as `Processor::linger` does, with one look before the announcement.
    fn run_dry(self) -> Left {
        let idle = self.cluster.idle;
        loop {
            let lingering = idle.linger(ProcessorId(self.index));
            let found = self.find(Effort::Polite);
            if !found.is_empty() {
                lingering.found();
                return Left::Busy(found);
            }
            let announced = lingering.announce();
            let mut found = self.find(Effort::Polite);
            if found.is_empty() {
                if announced.role() == Role::Sentinel {
                    announced.keep_watch(idle.sleeping() < self.cluster.processors);
                }
                if !announced.is_watched() {
                    found = self.find(Effort::Greedy);
                }
            }
            if !found.is_empty() {
                announced.retract();
                return Left::Busy(found);
            }
            match announced.sleep(Some(Duration::ZERO)) {
                Slept::Notified => {}
                Slept::TimedOut(still) => return Left::Asleep(self, still),
            }
        }
    }
}

/// Takes out the strands that are left: no strand may be dropped.
fn clear(cluster: &Cluster) {
    let end = attach(&*cluster.scheduler, cluster.processors as u16);
    while let Some(strand) = end.next(NOW).or_else(|| end.search(NOW, Effort::Greedy)) {
        let _ = end.retract(NOW);
        numbers([strand]);
    }
}

/// Lets processors that were woken go on, until none is. Returns the numbers of the strands that
/// run, and whether a processor keeps watch.
fn settle<const N: usize>(mut processors: [Left; N]) -> (Vec<u64>, bool) {
    let mut quiet = false;
    while !quiet {
        quiet = true;
        processors = processors.map(|left| match left {
            Left::Busy(..) => left,
            Left::Asleep(processor, announced) => match announced.sleep(Some(Duration::ZERO)) {
                Slept::TimedOut(still) => Left::Asleep(processor, still),
                Slept::Notified => {
                    quiet = false;
                    processor.run_dry()
                }
            },
        });
    }
    let mut run = Vec::new();
    let mut is_watched = false;
    for left in &processors {
        match left {
            Left::Busy(found) => run.extend(found),
            Left::Asleep(_, announced) => is_watched |= announced.is_watched(),
        }
    }
    run.sort_unstable();
    (run, is_watched)
}

#[test]
fn an_injected_strand_is_found_by_the_search_or_wakes_the_sleeper() {
    for scheduler in SCHEDULERS {
        check(2, 3, move |turn| {
            let (cluster, [one]) = Cluster::new(scheduler());
            let (left, ()) = turn.two(move || one.run_dry(), move || cluster.inject(1));
            assert_eq!(settle([left]).0, [1]);
        });
    }
}

/// Processor 0 is asleep already.
#[test]
fn of_two_injected_strands_none_is_left_while_a_processor_sleeps() {
    for scheduler in SCHEDULERS {
        check(2, 2, move |turn| {
            let (cluster, [one, two]) = Cluster::new(scheduler());
            let one = one.run_dry();
            let injecting = Arc::clone(&cluster);
            let inject = move || (1..=2).for_each(|number| injecting.inject(number));
            let (two, ()) = turn.two(move || two.run_dry(), inject);
            // One processor may have taken both; then the other one watches what it leaves.
            let (run, is_watched) = settle([one, two]);
            assert!(run == [1, 2] || (run.len() == 1 && is_watched), "only {run:?} run, and no processor looks again");
            clear(&cluster);
        });
    }
}

/// The owner makes two strands ready and computes for ever. One strand may be left to it while a
/// processor keeps watch; two may not.
#[test]
fn of_two_strands_behind_a_busy_processor_one_is_taken_by_the_processor_that_falls_asleep() {
    for scheduler in SCHEDULERS {
        check(2, 2, move |turn| {
            let (cluster, [owner, other]) = Cluster::new(scheduler());
            let own = move || {
                owner.push(1);
                owner.push(2);
                owner
            };
            let (_owner, other) = turn.two(own, move || other.run_dry());
            let (run, _) = settle([other]);
            assert_eq!(run.len(), 1, "the other processor sleeps beside two strands");
            clear(&cluster);
        });
    }
}

/// The processor that leaves gives its strands to another one, which falls asleep.
#[test]
fn what_a_processor_leaves_behind_is_found_or_wakes_the_sleeper() {
    for scheduler in SCHEDULERS {
        check(2, 2, move |turn| {
            let (cluster, [leaver, stayer]) = Cluster::new(scheduler());
            leaver.push(1);
            let leave = move || {
                leaver.stop_waiting();
                while let Some(strand) = leaver.end.drain() {
                    cluster.idle.notify(cluster.scheduler.inject(strand, NOW));
                }
                // It does not search for the others any more.
                cluster.idle.relieve();
            };
            let (left, ()) = turn.two(move || stayer.run_dry(), leave);
            assert_eq!(settle([left]).0, [1]);
        });
    }
}
