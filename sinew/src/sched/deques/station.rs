//! A processor's part in a scheduler with deques.

use super::deque::{Deque, Turn};
use crate::base::atomic::{AtomicU32, Relaxed};
use crate::base::spin::{SpinGuard, SpinLock};
use crate::sched::arrivals::Arrivals;
use crate::sched::presence::Presence;
use crossbeam_utils::CachePadded;
// Hints that only polite thieves go by are not part of a model.
use std::sync::atomic::{AtomicU8 as Hint8, AtomicU64 as Hint64};

/// The approximate length of a deque.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sched) enum Size {
    Empty,
    One,
    Several,
}

pub(in crate::sched) struct Station {
    own: CachePadded<Own>,
    inbox: CachePadded<Arrivals>,
    shown: CachePadded<Shown>,
}

/// What the processor uses at every dispatch.
struct Own {
    deque: SpinLock<Deque>,
    /// The length of `deque`. Written under its lock.
    len: AtomicU32,
    /// If `deque` has one strand: when it became ready. Written under its lock.
    lone_since: Hint64,
}

/// What others read. It is written seldom, so that their looks cost the processor little.
#[derive(Default)]
struct Shown {
    /// A [`Size`]. Written under the lock of the deque, and only if it has changed.
    size: Hint8,
    /// When the oldest strand became ready, as of the last beat; 0 if there was none. Written by the processor.
    oldest_since: Hint64,
    /// When the processor, as a thief, polled its node last. Written by the processor.
    polled_at: Hint64,
    presence: Presence,
}

impl Default for Station {
    fn default() -> Self {
        Station {
            own: CachePadded::new(Own {
                deque: SpinLock::new(Deque::new()),
                len: AtomicU32::new(0),
                lone_since: Hint64::new(0),
            }),
            inbox: CachePadded::default(),
            shown: CachePadded::default(),
        }
    }
}

impl Station {
    pub(in crate::sched) fn presence(&self) -> &Presence {
        &self.shown.presence
    }

    pub(in crate::sched) fn inbox(&self) -> &Arrivals {
        &self.inbox
    }

    pub(in crate::sched) fn lock(&self) -> SpinGuard<'_, Deque> {
        self.own.deque.lock()
    }

    pub(super) fn try_lock(&self) -> Option<SpinGuard<'_, Deque>> {
        self.own.deque.try_lock()
    }

    /// Gives up the lock of a deque that has changed, and shows what others want to know.
    #[inline]
    pub(super) fn close(&self, deque: SpinGuard<'_, Deque>) {
        let len = deque.len();
        self.own.len.store(len as u32, Relaxed);
        if len == 1
            && let Some(claim) = deque.claim(Turn::Head)
        {
            self.own.lone_since.store(claim.ready_at, Relaxed);
        }
        let size = len.min(2) as u8;
        if self.shown.size.load(Relaxed) != size {
            self.shown.size.store(size, Relaxed);
        }
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.own.len.load(Relaxed)
    }

    /// Returns the approximate length of the deque. Costs its processor less than [`len`](Station::len).
    pub(in crate::sched) fn size(&self) -> Size {
        match self.shown.size.load(Relaxed) {
            0 => Size::Empty,
            1 => Size::One,
            _ => Size::Several,
        }
    }

    /// Says whether a polite thief may take something. It leaves strands alone that have just come: a single one in
    /// the deque, and those in the inbox. Without their processor they are nobody's.
    pub(in crate::sched) fn is_tempting(&self, young: u64, now: u64) -> bool {
        let has_strands = match self.size() {
            Size::Empty => false,
            Size::One => now.saturating_sub(self.own.lone_since.load(Relaxed)) > young,
            Size::Several => true,
        };
        has_strands || self.inbox.are_older_than(young, now) || self.is_left_behind()
    }

    /// Says whether there are strands, and no processor.
    pub(super) fn is_left_behind(&self) -> bool {
        !self.presence().is_taken() && self.has_strands()
    }

    /// Says whether there is any strand.
    pub(super) fn has_strands(&self) -> bool {
        self.len() > 0 || !self.inbox.is_empty()
    }

    /// Shows when the oldest strand became ready.
    pub(super) fn show_oldest(&self, since: Option<u64>) {
        self.shown.oldest_since.store(since.unwrap_or(0), Relaxed);
    }

    /// Returns for how long the oldest strand has waited, as of the processor's last beat.
    pub(super) fn oldest_waits(&self, now: u64) -> Option<u64> {
        let since = self.shown.oldest_since.load(Relaxed);
        (since != 0 && self.size() != Size::Empty).then(|| now.saturating_sub(since))
    }

    /// Notes that the processor polls its node.
    pub(in crate::sched) fn poll(&self, now: u64) {
        self.shown.polled_at.store(now, Relaxed);
    }

    /// Says whether the processor has polled its node within the last `window` cycles.
    pub(in crate::sched) fn polls(&self, window: u64, now: u64) -> bool {
        now.saturating_sub(self.shown.polled_at.load(Relaxed)) <= window
    }
}
