//! Where the warden looks for what a processor does.

use super::capture::Capture;
use super::watch::Dispatch;
use crate::base::peek;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

/// Addresses of words that a processor writes. Written by the processor when it begins and when it ends;
/// all 0 while there is none. Read by the warden, and by the processor's signal handler.
#[derive(Default)]
pub(crate) struct Window {
    /// The number of dispatches until the next reading of the clock.
    until_reading: AtomicUsize,
    /// The number of strands in the lane.
    lane: AtomicUsize,
    /// The end of the kernel thread's own stack, as far as strands can use it.
    end: AtomicUsize,
    /// The request that the signal handler fills in; null if there is none. The warden puts it there, and the handler or
    /// the warden takes it away.
    pub(super) request: AtomicPtr<Capture>,
}

/// The addresses of a [`Window`].
#[derive(Clone, Copy, Default)]
pub(crate) struct View {
    pub(crate) until_reading: usize,
    pub(crate) lane: usize,
    pub(crate) end: usize,
}

impl Window {
    /// Lets others look at what `view` says.
    pub(crate) fn show(&self, view: View) {
        self.until_reading.store(view.until_reading, Relaxed);
        self.lane.store(view.lane, Relaxed);
        self.end.store(view.end, Relaxed);
    }

    /// Returns the processor's dispatch. `pulse` is its last reading of the clock, and `spawned` the number of
    /// strands that were spawned on it.
    pub(super) fn dispatch(&self, pulse: u64, spawned: u64) -> Option<Dispatch> {
        Some(Dispatch { pulse, left: peek::half(self.until_reading.load(Relaxed))?, spawned })
    }

    /// Returns the number of strands in the lane.
    pub(super) fn lane(&self) -> usize {
        peek::word(self.lane.load(Relaxed)).unwrap_or(0)
    }

    /// Returns the end of the kernel thread's own stack.
    pub(super) fn end(&self) -> usize {
        self.end.load(Relaxed)
    }
}
