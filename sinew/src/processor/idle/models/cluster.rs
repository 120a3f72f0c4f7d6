//! A cluster: processors that look for work, and flags that are the work.

use crate::processor::idle::{Announced, Idle, Slept};
use crate::sched::{ProcessorId, Wake};
use loom::sync::atomic::{AtomicBool, Ordering::*};
use std::ops::Range;
use std::time::Duration;

pub(super) struct Cluster {
    pub(super) idle: Idle,
    work: Vec<AtomicBool>,
}

/// A thread of a model, at the moment when it ends.
pub(super) enum Processor {
    /// It is a processor with work, which is busy for ever, or no processor.
    Busy,
    /// It is a processor that sleeps, and has not been woken yet.
    Asleep(Server, Announced<'static>),
}

/// What a processor does.
#[derive(Clone)]
pub(super) struct Server {
    index: u16,
    /// The pieces of work that it may take.
    takes: Range<usize>,
    /// Whether it retires: it hides, and takes only work that is bound to it.
    retires: bool,
}

impl Server {
    pub(super) fn new(index: u16, takes: Range<usize>) -> Server {
        Server { index, takes, retires: false }
    }

    pub(super) fn retiring(index: u16, takes: Range<usize>) -> Server {
        Server { index, takes, retires: true }
    }
}

impl Cluster {
    /// Leaked, a few hundred bytes, so that a processor that sleeps can be passed on.
    pub(super) fn new(processors: usize, work: usize) -> &'static Cluster {
        Cluster::with(Idle::new(processors, false), work)
    }

    /// Makes a cluster that was built with one processor.
    pub(super) fn alone(work: usize) -> &'static Cluster {
        Cluster::with(Idle::new(2, true), work)
    }

    fn with(idle: Idle, work: usize) -> &'static Cluster {
        let work = (0..work).map(|_| AtomicBool::new(false)).collect();
        Box::leak(Box::new(Cluster { idle, work }))
    }

    /// Puts a piece of work where processors look, and wakes none.
    pub(super) fn put(&self, which: usize) {
        self.work[which].store(true, Relaxed);
    }

    /// Puts a piece of work where processors look, and notifies.
    pub(super) fn publish(&self, which: usize, wake: Wake) {
        self.put(which);
        self.idle.notify(wake);
    }

    /// Takes one of these pieces of work. Returns whether one was there.
    pub(super) fn take(&self, mut which: Range<usize>) -> bool {
        which.any(|which| self.work[which].load(Relaxed) && self.work[which].swap(false, Relaxed))
    }

    /// Looks for work, as `Processor::linger` and `rest` do.
    pub(super) fn serve(&'static self, server: Server) -> Processor {
        loop {
            let announced = if server.retires {
                self.idle.hide(ProcessorId(server.index))
            } else {
                let lingering = self.idle.linger(ProcessorId(server.index));
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

    /// A processor as a thread of a model.
    pub(super) fn serving(&'static self, server: Server) -> Box<dyn FnOnce() -> Processor> {
        Box::new(move || self.serve(server))
    }

    /// A notifier as a thread of a model.
    pub(super) fn notifying(&'static self, notify: impl FnOnce() + 'static) -> Box<dyn FnOnce() -> Processor> {
        Box::new(move || {
            notify();
            Processor::Busy
        })
    }

    /// Lets processors that were woken go on, until none is. Then no processor may sleep beside
    /// work that it could take. To be called when all threads have ended.
    pub(super) fn settle<const N: usize>(&'static self, mut processors: [Processor; N]) {
        let mut quiet = false;
        while !quiet {
            quiet = true;
            for place in &mut processors {
                if let Processor::Asleep(server, announced) = std::mem::replace(place, Processor::Busy) {
                    *place = match asleep(announced) {
                        Some(still) => Processor::Asleep(server, still),
                        None => {
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

/// Sleeps for a moment. Returns `None` if the sleeper was woken.
pub(super) fn asleep(announced: Announced<'static>) -> Option<Announced<'static>> {
    match announced.sleep(Some(Duration::ZERO)) {
        Slept::Notified => None,
        Slept::TimedOut(still) => Some(still),
    }
}
