//! Strands that come to a station from elsewhere.

use super::Ready;
use crate::base::atomic::{AtomicU64, Relaxed};
use crate::strand::{Fifo, Inbox};

#[derive(Default)]
pub(super) struct Arrivals {
    strands: Inbox,
    /// When the first strand came into the empty inbox, approximately. Written by senders.
    since: AtomicU64,
}

impl Arrivals {
    /// Puts a strand in, by any thread.
    pub(super) fn arrive(&self, strand: Ready, now: u64) {
        if self.is_empty() {
            self.since.store(now, Relaxed);
        }
        self.strands.put(strand);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.strands.is_empty()
    }

    /// Says whether there are strands, and the first of them came more than `age` cycles ago.
    pub(super) fn are_older_than(&self, age: u64, now: u64) -> bool {
        !self.is_empty() && now.saturating_sub(self.since.load(Relaxed)) > age
    }

    /// Takes everything, in the order of arrival.
    pub(super) fn take_all(&self) -> Fifo {
        self.strands.take_all()
    }
}
