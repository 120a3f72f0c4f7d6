//! A cluster as the models of `idle::Idle` see it: processors that look for
//! work, and flags that are the work.

use loom::sync::atomic::{AtomicBool, Ordering::*};
use loom::thread::{self, JoinHandle};
use sinew::protocols::{Announced, Idle, Slept, processor};
use sinew::sched::Wake;
use std::ops::Range;
use std::time::Duration;

/// How often a sleeper looks whether it has been woken before it leaves that to
/// the end of the model. More looks find nothing new and take long.
const LOOKS: usize = 2;

pub struct Cluster {
    pub idle: Idle,
    work: Vec<AtomicBool>,
}

/// A processor, at the moment when it leaves its thread of the model.
pub enum Processor {
    /// It has work, and is busy for ever.
    Busy,
    /// It is asleep, and nobody has woken it yet.
    Asleep(Server, Announced<'static>),
}

/// What a processor is to do.
#[derive(Clone)]
pub struct Server {
    index: u16,
    /// The pieces of work that it may take.
    takes: Range<usize>,
    /// Whether it retires: it hides, and takes only what is bound to it.
    retires: bool,
}

impl Server {
    pub fn new(index: u16, takes: Range<usize>) -> Server {
        Server { index, takes, retires: false }
    }

    pub fn retiring(index: u16, takes: Range<usize>) -> Server {
        Server { index, takes, retires: true }
    }
}

impl Cluster {
    /// Leaked, a few hundred bytes, so that a processor which sleeps can be
    /// passed on.
    pub fn new(processors: usize, work: usize) -> &'static Cluster {
        let work = (0..work).map(|_| AtomicBool::new(false)).collect();
        Box::leak(Box::new(Cluster { idle: Idle::new(processors), work }))
    }

    /// Puts a piece of work where it can be found, and tells nobody.
    pub fn put(&self, which: usize) {
        self.work[which].store(true, Relaxed);
    }

    /// Makes a piece of work ready.
    pub fn publish(&self, which: usize, wake: Wake) {
        self.put(which);
        self.idle.notify(wake);
    }

    /// Takes one of these pieces of work, if one is there.
    pub fn take(&self, mut which: Range<usize>) -> bool {
        which.any(|which| self.work[which].load(Relaxed) && self.work[which].swap(false, Relaxed))
    }

    /// A processor looks for work, as `Processor::linger` and `rest` do.
    pub fn serve(&'static self, server: Server) -> Processor {
        loop {
            let announced = if server.retires {
                self.idle.hide(processor(server.index))
            } else {
                let lingering = self.idle.linger(processor(server.index));
                if self.take(server.takes.clone()) {
                    lingering.found();
                    return Processor::Busy;
                }
                lingering.announce()
            };
            if self.take(server.takes.clone()) {
                announced.retract();
                return Processor::Busy;
            }
            if let Some(still) = asleep(announced) {
                return Processor::Asleep(server, still);
            }
        }
    }

    /// Runs a processor in a thread of its own.
    pub fn serving(&'static self, server: Server) -> JoinHandle<Processor> {
        thread::spawn(move || self.serve(server))
    }

    /// When all threads have ended: those who have been woken go on, until
    /// nothing happens any more. Then nobody may sleep beside work that it could
    /// take.
    pub fn settle(&'static self, processors: impl IntoIterator<Item = JoinHandle<Processor>>) {
        self.settle_all(processors.into_iter().map(|thread| thread.join().unwrap()).collect());
    }

    pub fn settle_all(&'static self, mut processors: Vec<Processor>) {
        let mut quiet = false;
        while !quiet {
            quiet = true;
            for place in &mut processors {
                if let Processor::Asleep(server, announced) = std::mem::replace(place, Processor::Busy) {
                    *place = match announced.sleep(Some(Duration::ZERO)) {
                        Slept::TimedOut(still) => Processor::Asleep(server, still),
                        Slept::Notified => {
                            quiet = false;
                            self.serve(server)
                        }
                    };
                }
            }
        }
        let mut counted = 0;
        for processor in &processors {
            if let Processor::Asleep(Server { index, takes, retires }, _) = processor {
                let left = takes.clone().find(|&which| self.work[which].load(Relaxed));
                assert_eq!(left, None, "processor {index} sleeps beside this piece of work");
                counted += u32::from(!retires);
            }
        }
        assert_eq!(self.idle.sleeping(), counted, "the count of sleepers is wrong");
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
