//! Where fibres begin that stay where they began.
//!
//! A runtime that does not migrate has one chance to place a fibre: when it begins. The essay of
//! [`processor`](crate::processor) has the rules.

use super::Processor;
use super::post::{Hold, Post};
use crate::base::clock::cycles_in_us;
use crate::sched::ProcessorId;
use crate::strand::{Ready, Strand};
use std::cell::Cell;

/// A processor has at most this many residents more than the processor with the fewest, and one more
/// for every [`SLACK_SHARE`] of them. Fibres that were spawned one after the other mostly belong
/// together: the slack lets them begin on the same processor.
const SLACK: u32 = 6;
const SLACK_SHARE: u32 = 16;

/// After this time a processor looks at the others again, and lets go of a newcomer if it is ahead by
/// more than [`FEW`]. A fibre that is spawned and joined at once costs 5 µs if it begins elsewhere. So
/// that costs a processor half a per cent of its time at most.
const LOOK_AGAIN_US: u64 = 1_000;

/// This many fibres stay together unless their processor is busy: a message to a neighbour on the same
/// processor takes 60 ns, and to a processor that sleeps some microseconds.
const FEW: u32 = 4;

/// A processor that was busy all the time since the last look counts as if it had this many
/// residents more.
const BUSY_RESIDENTS: u64 = 2;

/// What a processor knows of its share of fibres. Owner: the processor.
pub(super) struct Settling {
    /// The number of residents up to which newcomers begin here without a look at the others.
    limit: Cell<u32>,
    /// The processor that the next newcomers are for, and their number.
    sends: Cell<(ProcessorId, u32)>,
    /// Whether the next newcomer is the first one since the limit has expired.
    is_first: Cell<bool>,
    /// When the limit expires.
    expires: Cell<u64>,
    /// The time that the processor has spent without work since `since`.
    idle: Cell<u64>,
    since: Cell<u64>,
    look_again: u64,
}

impl Settling {
    pub(super) fn new(is_migrating: bool) -> Settling {
        Settling {
            limit: Cell::new(if is_migrating { u32::MAX } else { 0 }),
            sends: Cell::new((ProcessorId(0), 0)),
            is_first: Cell::new(false),
            expires: Cell::new(if is_migrating { u64::MAX } else { 0 }),
            idle: Cell::new(0),
            since: Cell::new(0),
            look_again: cycles_in_us(LOOK_AGAIN_US),
        }
    }

    /// Notes that the processor had no work for this time.
    pub(super) fn was_idle(&self, cycles: u64) {
        self.idle.set(self.idle.get() + cycles);
    }

    /// Returns how busy the processor was since the last call, in residents.
    fn take_load(&self, now: u64) -> u32 {
        let past = now.saturating_sub(self.since.replace(now)).max(1);
        let busy = past.saturating_sub(self.idle.take());
        (busy * BUSY_RESIDENTS / past) as u32
    }
}

impl Processor {
    /// Says whether a fibre that has not begun is to begin here. If not, the fibre gives up the
    /// processor as [declined](crate::strand::After::Declined).
    #[inline]
    pub(crate) fn takes_in(&self, strand: &Strand) -> bool {
        let sent_to = strand.awaited_by();
        (sent_to.is_none() && self.post.bound() < self.settling.limit.get()) || self.takes_in_slow(sent_to)
    }

    #[cold]
    #[inline(never)]
    fn takes_in_slow(&self, sent_to: Option<&Post>) -> bool {
        let is_sent = sent_to.is_some();
        if let Some(post) = sent_to {
            post.newcomers().expect_one_less();
            if std::ptr::eq(post, &*self.post) {
                return true;
            }
        }
        let settling = &self.settling;
        let (target, left) = settling.sends.get();
        if left > 0 && !is_sent {
            settling.sends.set((target, left - 1));
            return false;
        }
        // The warden notices later that a processor goes on.
        let goes_on = |post: &Post| self.clock.now().saturating_sub(post.pulse()) < settling.look_again;
        let is_free = |post: &&Post| post.is_serving() && (post.hold() == Hold::None || goes_on(post));
        let others = self.cluster.other_posts(&self.post).filter(is_free);
        let Some(fewest) = others.min_by_key(|post| post.burden()) else {
            settling.limit.set(self.post.bound() + SLACK);
            return true;
        };
        let (mine, theirs) = (self.post.burden() + 1, fewest.burden());
        let slack = SLACK + theirs / SLACK_SHARE;
        let excess = mine.saturating_sub(theirs);
        if is_sent {
            // A processor without work has taken the fibre away from the one that it was sent to.
            // To send it again is mostly not worth the trouble.
            settling.sends.set((fewest.id(), 0));
            return excess <= slack + slack / 2;
        }
        let is_first = settling.is_first.replace(false);
        if excess > slack || (is_first && excess > FEW) {
            // One fibre goes, or `excess` fibres: then the two processors are even.
            let count = if excess > slack { excess } else { 1 };
            settling.sends.set((fewest.id(), count - 1));
            return false;
        }
        settling.limit.set(self.post.bound() + 1 + slack - excess);
        true
    }

    /// Lets the processor look at the others again if it has not for a while. By a beat.
    pub(super) fn reconsider(&self, now: u64) {
        let settling = &self.settling;
        if now >= settling.expires.get() {
            settling.expires.set(now + settling.look_again);
            settling.limit.set(0);
            settling.sends.set((self.post.id(), 0));
            settling.is_first.set(true);
            self.post.set_load(settling.take_load(now));
        }
    }

    /// Sends a fibre that this processor has declined to the processor that it is to begin on.
    pub(super) fn send(&self, newcomer: Ready) {
        let (target, _) = self.settling.sends.get();
        let Some(post) = self.cluster.post(target) else { return self.pass_on(newcomer) };
        self.make_all_ready(post.send(&self.cluster, newcomer), false);
    }
}
