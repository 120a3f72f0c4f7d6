//! One queue for all processors: the baseline that the other schedulers have to beat.

use super::{Claim, Effort, Local, Placement, Ready, Scheduler, Wake};
use crate::base::atomic::{AtomicUsize, Relaxed};
use crate::base::spin::SpinLock;
use crate::strand::Levels;
use std::sync::Arc;

/// One first-in-first-out queue for each priority, shared by all processors of the cluster:
/// perfectly fair, perfectly balanced, and contended.
#[derive(Default)]
pub struct Shared {
    queue: Arc<Queue>,
}

struct Queue {
    strands: SpinLock<Levels>,
    /// The number of strands. Written under the lock, and read without it, so that a look in vain
    /// does not take the lock.
    len: AtomicUsize,
}

impl Default for Queue {
    fn default() -> Self {
        Queue { strands: SpinLock::new(Levels::new()), len: AtomicUsize::new(0) }
    }
}

impl Queue {
    fn push(&self, strand: Ready) -> Wake {
        let mut strands = self.strands.lock();
        strands.push(strand);
        self.len.store(strands.len(), Relaxed);
        if strands.len() > 1 { Wake::Backlog } else { Wake::Lone }
    }

    fn pop(&self) -> Option<Ready> {
        if self.len.load(Relaxed) == 0 {
            return None;
        }
        let mut strands = self.strands.lock();
        let strand = strands.pop();
        self.len.store(strands.len(), Relaxed);
        strand
    }
}

impl Scheduler for Shared {
    fn name(&self) -> &'static str {
        "shared"
    }

    fn attach(&self, _placement: Placement) -> Box<dyn Local> {
        Box::new(End { queue: Arc::clone(&self.queue) })
    }

    fn inject(&self, strand: Ready, _now: u64) -> Wake {
        let _ = self.queue.push(strand);
        Wake::Backlog
    }
}

struct End {
    queue: Arc<Queue>,
}

impl Local for End {
    fn push(&self, strand: Ready, _now: u64) -> Wake {
        self.queue.push(strand)
    }

    fn next(&self, _now: u64) -> Option<Ready> {
        self.queue.pop()
    }

    fn exchange(&self, strand: Ready, _now: u64) -> Result<Ready, Ready> {
        let mut strands = self.queue.strands.lock();
        let next = strands.exchange(strand);
        self.queue.len.store(strands.len(), Relaxed);
        Ok(next)
    }

    fn claim(&self) -> Option<Claim> {
        if self.queue.len.load(Relaxed) == 0 {
            return None;
        }
        self.queue.strands.lock().claim()
    }

    fn search(&self, _now: u64, _effort: Effort) -> Option<Ready> {
        self.queue.pop()
    }

    fn drain(&self) -> Option<Ready> {
        None
    }
}
