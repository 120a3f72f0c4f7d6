//! `idle::Idle`: work that is published finds a processor, however the two
//! meet.

use crate::check;
use loom::sync::atomic::{AtomicBool, Ordering::*};
use loom::thread::{self, JoinHandle};
use sinew::protocols::{Announced, Idle, Slept, processor};
use sinew::sched::Wake;
use std::time::Duration;

/// How often a sleeper looks whether it has been woken before it leaves that to
/// the end of the model. More looks find nothing new and take long.
const LOOKS: usize = 2;

/// A cluster's idle processors, and what there is to do.
pub struct Cluster {
    pub idle: Idle,
    work: Vec<AtomicBool>,
}

/// A processor, at the moment when it leaves its thread of the model.
pub enum Processor {
    /// It has work, and is busy for ever.
    Busy,
    /// It is asleep, and nobody has woken it yet.
    Asleep(u16, Announced<'static>),
}

impl Cluster {
    /// Leaked, a few hundred bytes, so that a processor which sleeps can be
    /// passed on.
    pub fn new(processors: usize, work: usize) -> &'static Cluster {
        let work = (0..work).map(|_| AtomicBool::new(false)).collect();
        Box::leak(Box::new(Cluster { idle: Idle::new(processors), work }))
    }

    /// Makes a piece of work ready.
    pub fn publish(&self, which: usize, wake: Wake) {
        self.put(which);
        self.idle.notify(wake);
    }

    /// Puts a piece of work where it can be found, and tells nobody.
    pub fn put(&self, which: usize) {
        self.work[which].store(true, Relaxed);
    }

    /// Takes this piece of work if it is there.
    pub fn take(&self, which: usize) -> bool {
        self.work[which].load(Relaxed) && self.work[which].swap(false, Relaxed)
    }

    fn take_any(&self) -> bool {
        (0..self.work.len()).any(|which| self.take(which))
    }

    /// A processor looks for work, as `Processor::linger` does.
    pub fn serve(&'static self, index: u16) -> Processor {
        loop {
            let lingering = self.idle.linger(processor(index));
            if self.take_any() {
                lingering.found();
                return Processor::Busy;
            }
            let announced = lingering.announce();
            if self.take_any() {
                announced.retract();
                return Processor::Busy;
            }
            if let Some(still) = asleep(announced) {
                return Processor::Asleep(index, still);
            }
        }
    }

    /// Runs a processor in a thread of its own.
    pub fn serving(&'static self, index: u16) -> JoinHandle<Processor> {
        thread::spawn(move || self.serve(index))
    }

    /// When all threads have ended: those who have been woken go on, until
    /// nothing happens any more. Then no work may be left beside a sleeper.
    pub fn settle(&'static self, processors: impl IntoIterator<Item = JoinHandle<Processor>>) {
        let mut processors: Vec<_> = processors.into_iter().map(|thread| thread.join().unwrap()).collect();
        let mut quiet = 0;
        while quiet < processors.len() {
            quiet = 0;
            for place in &mut processors {
                *place = match std::mem::replace(place, Processor::Busy) {
                    Processor::Busy => {
                        quiet += 1;
                        Processor::Busy
                    }
                    Processor::Asleep(index, announced) => match announced.sleep(Some(Duration::ZERO)) {
                        Slept::Notified => self.serve(index),
                        Slept::TimedOut(still) => {
                            quiet += 1;
                            Processor::Asleep(index, still)
                        }
                    },
                };
            }
        }
        let asleep = processors.iter().filter(|processor| matches!(processor, Processor::Asleep(..))).count();
        let left = self.work.iter().filter(|work| work.load(Relaxed)).count();
        assert!(asleep == 0 || left == 0, "{left} pieces of work wait, and {asleep} processors sleep");
        assert_eq!(self.idle.sleeping() as usize, asleep, "sleepers are counted wrongly");
    }
}

/// Sleeps. `None` if the sleeper is woken while it is looked at.
pub fn asleep(mut announced: Announced<'static>) -> Option<Announced<'static>> {
    for _ in 0..LOOKS {
        announced = match announced.sleep(Some(Duration::ZERO)) {
            Slept::Notified => return None,
            Slept::TimedOut(still) => still,
        };
        thread::yield_now();
    }
    Some(announced)
}

#[test]
fn work_is_seen_by_the_search_or_its_notifier_sees_the_sleeper() {
    for wake in [Wake::Backlog, Wake::Lone, Wake::Processor(processor(0))] {
        check(4, move || {
            let cluster = Cluster::new(1, 1);
            let server = cluster.serving(0);
            cluster.publish(0, wake);
            cluster.settle([server]);
        });
    }
}

#[test]
fn two_pieces_of_work_wake_two_sleepers() {
    check(2, || {
        let cluster = Cluster::new(2, 2);
        let servers = [0, 1].map(|index| cluster.serving(index));
        cluster.publish(0, Wake::Backlog);
        cluster.publish(1, Wake::Backlog);
        cluster.settle(servers);
    });
}

#[test]
fn two_notifiers_wake_two_sleepers() {
    check(2, || {
        let cluster = Cluster::new(2, 2);
        let servers = [0, 1].map(|index| cluster.serving(index));
        let notifier = thread::spawn(move || cluster.publish(1, Wake::Backlog));
        cluster.publish(0, Wake::Backlog);
        notifier.join().unwrap();
        cluster.settle(servers);
    });
}
