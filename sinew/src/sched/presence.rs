//! What the others know of the processor at a station: whether it is there, whether it waits, and when it
//! was seen last.

use super::ProcessorId;
use crate::base::atomic::{AtomicBool, AtomicU16, Relaxed};
use crate::base::clock::cycles_in_us;
use crate::base::fence;
use crate::sched::{BEAT_US, Placement};
use std::cell::Cell;
// Hints that only polite thieves go by are not part of a model.
use std::sync::atomic::{AtomicU32 as Hint32, AtomicU64 as Hint64};

/// Written seldom, so that the looks of others cost the processor little.
pub(super) struct Presence {
    /// When the processor has used its end last, to within a beat. Written by the processor.
    pulse: Hint64,
    /// The CPU that it ran on then. Written by the processor.
    cpu: Hint32,
    /// Whether a processor has this station. Written by the processor that comes or leaves.
    is_taken: AtomicBool,
    /// Whether the processor found nothing to run when it looked last. Written by the processor.
    is_waiting: AtomicBool,
    /// The number of the processor. Written by the processor that comes.
    processor: AtomicU16,
}

/// What a sender finds at a station, after it has put a strand into the inbox there.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The processor has left, and may not have seen the strand.
    Vacant,
    /// The processor may fall asleep without having seen the strand.
    Waiting(ProcessorId),
    /// The processor will see the strand.
    Busy,
}

impl Default for Presence {
    fn default() -> Self {
        Presence {
            pulse: Hint64::new(0),
            cpu: Hint32::new(0),
            is_taken: AtomicBool::new(false),
            is_waiting: AtomicBool::new(false),
            processor: AtomicU16::new(0),
        }
    }
}

impl Presence {
    /// Says whether the processor has not used its end for more than `limit` cycles.
    pub(super) fn is_held_up(&self, limit: u64, now: u64) -> bool {
        now.saturating_sub(self.pulse.load(Relaxed)) > limit
    }

    /// Returns the CPU that the processor was seen on last.
    pub(super) fn cpu(&self) -> usize {
        self.cpu.load(Relaxed) as usize
    }

    pub(super) fn is_taken(&self) -> bool {
        self.is_taken.load(Relaxed)
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Relaxed)
    }

    /// Looks at the processor, after a strand was put into its inbox.
    pub(super) fn look_after_sending(&self) -> Found {
        // Put it down first, then look at the processor. Pairs with the heavy fence of a processor that announces
        // itself and then looks into its inbox, and with the one in `Pulse::leave`.
        fence::light();
        if !self.is_taken() {
            Found::Vacant
        } else if self.is_waiting() {
            Found::Waiting(ProcessorId(self.processor.load(Relaxed)))
        } else {
            Found::Busy
        }
    }
}

/// The processor's own side of its [`Presence`]. It writes only what has changed.
pub(super) struct Pulse {
    /// The pulse that is shown.
    at: Cell<u64>,
    /// Whether it is shown that the processor waits.
    is_waiting: Cell<bool>,
    is_leaving: Cell<bool>,
    last_beat: Cell<u64>,
    beat: u64,
}

impl Pulse {
    /// Lets the processor have the station.
    pub(super) fn settle(presence: &Presence, placement: &Placement) -> Pulse {
        presence.processor.store(placement.processor().0, Relaxed);
        presence.is_taken.store(true, Relaxed);
        let (at, last_beat) = (Cell::new(0), Cell::new(0));
        let beat = cycles_in_us(BEAT_US);
        let pulse = Pulse { at, is_waiting: Cell::new(false), is_leaving: Cell::new(false), last_beat, beat };
        pulse.show(presence, placement, 0);
        pulse
    }

    fn show(&self, presence: &Presence, placement: &Placement, now: u64) {
        self.at.set(now);
        presence.pulse.store(now, Relaxed);
        let cpu = placement.cpu();
        if presence.cpu() != cpu {
            presence.cpu.store(cpu as u32, Relaxed);
        }
    }

    /// Notes that the processor is not held up, at most once in a beat.
    #[inline]
    pub(super) fn pass(&self, presence: &Presence, placement: &Placement, now: u64) {
        if now.saturating_sub(self.at.get()) > self.beat {
            self.show(presence, placement, now);
        }
    }

    /// Notes a beat. Returns the time since the last one.
    pub(super) fn beat(&self, presence: &Presence, placement: &Placement, now: u64) -> u64 {
        self.show(presence, placement, now);
        now.saturating_sub(self.last_beat.replace(now))
    }

    /// Notes whether the processor waits. Returns whether that has changed.
    #[inline]
    pub(super) fn set_waiting(&self, presence: &Presence, is_waiting: bool) -> bool {
        let has_changed = self.is_waiting.replace(is_waiting) != is_waiting;
        if has_changed {
            presence.is_waiting.store(is_waiting, Relaxed);
        }
        has_changed
    }

    /// Notes that the processor leaves. What was sent to it before, it finds after this.
    pub(super) fn leave(&self, presence: &Presence) {
        if !self.is_leaving.replace(true) {
            presence.is_taken.store(false, Relaxed);
            // Leave first, then look. Pairs with the light fence in `look_after_sending`: either this sees what was
            // sent, or the sender sees that the processor has left.
            fence::heavy();
        }
    }
}
