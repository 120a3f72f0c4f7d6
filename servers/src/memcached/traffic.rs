//! Connections and bytes, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many connections there are, and were.
pub struct Connections {
    current: AtomicU64,
    total: AtomicU64,
    rejected: AtomicU64,
    most: u64,
}

/// The right to be served. Dropping it makes room for another connection.
pub struct Admitted(Arc<Connections>);

impl Connections {
    /// At most so many at a time.
    pub fn new(most: u64) -> Connections {
        Connections { current: AtomicU64::new(0), total: AtomicU64::new(0), rejected: AtomicU64::new(0), most }
    }

    /// Counts a connection; `None` if there are too many.
    pub fn admit(self: &Arc<Self>) -> Option<Admitted> {
        if self.current.fetch_add(1, Relaxed) >= self.most {
            self.current.fetch_sub(1, Relaxed);
            self.rejected.fetch_add(1, Relaxed);
            return None;
        }
        self.total.fetch_add(1, Relaxed);
        Some(Admitted(Arc::clone(self)))
    }

    pub fn current(&self) -> u64 {
        self.current.load(Relaxed)
    }

    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    pub fn rejected(&self) -> u64 {
        self.rejected.load(Relaxed)
    }

    pub fn most(&self) -> u64 {
        self.most
    }

    pub fn reset(&self) {
        self.total.store(0, Relaxed);
        self.rejected.store(0, Relaxed);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.current.fetch_sub(1, Relaxed);
    }
}

/// Bytes in and out.
#[derive(Default)]
pub struct Traffic {
    received: Apart,
    sent: Apart,
}

/// A line of the cache to itself.
#[derive(Default)]
#[repr(align(128))]
struct Apart(AtomicU64);

impl Traffic {
    #[inline]
    pub fn received(&self, bytes: usize) {
        self.received.0.fetch_add(bytes as u64, Relaxed);
    }

    #[inline]
    pub fn sent(&self, bytes: usize) {
        self.sent.0.fetch_add(bytes as u64, Relaxed);
    }

    pub fn received_total(&self) -> u64 {
        self.received.0.load(Relaxed)
    }

    pub fn sent_total(&self) -> u64 {
        self.sent.0.load(Relaxed)
    }

    pub fn reset(&self) {
        self.received.0.store(0, Relaxed);
        self.sent.0.store(0, Relaxed);
    }
}
