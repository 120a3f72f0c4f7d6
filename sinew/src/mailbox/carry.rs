//! How a carrier runs the letters of a mailbox.

use super::letter::Paper;
use super::memory::Owned;
use super::meter::Meter;
use crate::base::clock::{cycles, cycles_in_us, ns_of};
use crate::processor::{Processor, enqueue, with_current};
use crate::stack::current_stack;
use crate::strand::{After, Strand};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The number of letters that run in one turn of a mailbox, if little is known of them. Mely has 10. A turn itself costs
/// 35 ns, so with 10 an empty letter takes 16.5 ns, and with 64 it takes 14.
const TURN_LETTERS: u32 = 64;

/// The largest number of letters that run in one turn if they are known to be short. A mailbox that many others feed
/// with a thousand letters each then has run one thousand before the next one comes. Unmeasured.
const LONGEST_TURN: u32 = 1024;

/// A turn of a mailbox ends after a letter that has taken this long, together with the letters before it
/// that were timed. Unmeasured beyond that.
const TURN_US: u64 = 50;

/// What a carrier does between two letters. Plugged in by the runtime.
pub(crate) trait Carrying {
    /// Notes that the calling carrier runs the mailbox at this address.
    fn take(mailbox: usize);

    /// Clears what a letter has left behind on the carrier. Returns `false` if the carrier has to end.
    fn renew() -> bool;
}

pub(super) fn address_of(strand: &Strand) -> usize {
    std::ptr::from_ref(strand).addr()
}

#[inline(always)]
fn with_processor<R>(f: impl FnOnce(&Processor) -> R) -> R {
    with_current(|processor| f(processor.expect("carriers run on processors")))
}

/// Runs a turn of the mailbox that was handed to the calling carrier.
pub(crate) fn work<C: Carrying>() {
    let owned = Owned::handed();
    let address = owned.mailbox().address();
    let more = run_turn::<C>(owned, address);
    // From here on the mailbox may be gone.
    with_processor(|processor| {
        let carriers = processor.carriers();
        match more {
            None if carriers.is_in_place(address) => carriers.end(After::Idle),
            None => processor.count_finished(),
            Some(_) if carriers.is_in_place(address) => carriers.end(After::Yielded),
            Some(owned) => enqueue(owned.into_ready()),
        }
    });
}

/// Returns the largest number of letters of a turn: 1024 of less than 64 ns, half of that for twice the time, and so on.
#[inline]
fn most_letters(meter: &Meter) -> u32 {
    meter.magnitude().map_or(TURN_LETTERS, |magnitude| {
        (LONGEST_TURN >> magnitude.saturating_sub(5).min(LONGEST_TURN.ilog2())).max(TURN_LETTERS)
    })
}

/// Runs letters on the processor's own stack.
struct InPlace;

impl Carrying for InPlace {
    #[inline(always)]
    fn take(_: usize) {}

    #[inline(always)]
    fn renew() -> bool {
        true
    }
}

/// Runs a turn of a mailbox whose letters do not block, on the processor's own stack.
pub(super) fn run_in_place(owned: Owned) -> After {
    let address = owned.mailbox().address();
    match run_turn::<InPlace>(owned, address) {
        None => After::Idle,
        // The processor has the mailbox in its hands all the time.
        Some(_) => After::Yielded,
    }
}

/// Runs letters until there are none, or until it is time for others. Returns the mailbox if it has letters.
fn run_turn<C: Carrying>(owned: Owned, address: usize) -> Option<Owned> {
    // Without a carrier the mailbox itself stands for it.
    owned.note_carrier(current_stack().map_or(address, |stack| address_of(stack.strand())));
    C::take(address);
    let weighs = owned.mailbox().cluster().weighs();
    let most = most_letters(owned.mailbox().meter());
    let mut turn = Turn { weighs, letters: 0, most, ns: 0, undivided: 0, timed: 0, meter: None };
    let first = with_processor(|processor| processor.carriers().letters());
    // One for the whole turn, not one for each letter: that costs a nanosecond. After a panic the turn goes on.
    while let Err(payload) = catch_unwind(AssertUnwindSafe(|| turn.run::<C>(&owned, address, first))) {
        turn.meter.into_iter().for_each(Meter::note_panic);
        match owned.mailbox().nature() {
            Some(nature) => (nature.note_panic)(owned.mailbox(), payload),
            // The panic hook has reported it. Dropping the payload might panic again.
            None => std::mem::forget(payload),
        }
        if turn.is_over::<C>(&owned, address, None) {
            break;
        }
    }
    if weighs {
        owned.mailbox().take_weight(turn.ns, turn.undivided, u64::from(turn.letters));
    }
    owned.note_carrier(0);
    with_processor(|processor| processor.carriers().count_letters(turn.letters));
    // What the scheduler learns when the mailbox is ready again.
    owned.note_end(After::Idle);
    let more = if owned.has_work() { owned } else { owned.rest().err()? };
    more.note_end(After::Yielded);
    Some(more)
}

/// What has been run in one turn.
struct Turn<'a> {
    weighs: bool,
    letters: u32,
    /// The largest number of letters.
    most: u32,
    /// What the letters weighed, with and without penalties.
    ns: u64,
    undivided: u32,
    /// The time that the timed letters have taken, in cycles.
    timed: u64,
    /// The meter of the letter that runs.
    meter: Option<&'a Meter>,
}

impl Turn<'_> {
    /// Runs letters until there are none, or until it is time for others. `first` is the number of the turn's
    /// first letter on its processor.
    #[inline]
    fn run<C: Carrying>(&mut self, owned: &Owned, mailbox: usize, first: u32) {
        loop {
            if owned.mailbox().marks() != 0 && self.attend::<C>(owned, mailbox) {
                break;
            }
            let Some(letter) = owned.next_letter() else { break };
            let number = first.wrapping_add(self.letters);
            self.letters += 1;
            if self.weighs {
                self.ns += letter.load().ns();
                self.undivided += letter.load().undivided();
            }
            let meter = letter.meter();
            self.meter = Some(meter);
            let is_over = if meter.wants_sample(number) {
                let began = cycles();
                let paper = letter.run(owned.mailbox());
                let took = cycles().saturating_sub(began);
                // A letter that has blocked is not timed.
                if with_processor(|processor| processor.carriers().is_in_place(mailbox)) {
                    // A sample stands for the letters that are not timed.
                    self.timed += took * u64::from(meter.letters_per_sample());
                    meter.note(ns_of(took));
                }
                self.is_over::<C>(owned, mailbox, Some(paper)) || self.timed >= cycles_in_us(TURN_US)
            } else {
                let paper = letter.run(owned.mailbox());
                self.is_over::<C>(owned, mailbox, Some(paper))
            };
            if is_over {
                break;
            }
        }
    }

    /// Frees the paper of a letter that has run. Returns whether it is time for others.
    #[inline(always)]
    fn is_over<C: Carrying>(&self, owned: &Owned, mailbox: usize, paper: Option<Paper>) -> bool {
        let is_in_place = with_processor(|processor| {
            paper.into_iter().for_each(|paper| paper.recycle(processor));
            processor.carriers().is_in_place(mailbox)
        });
        if !is_in_place {
            owned.come_back();
        }
        !C::renew() || !is_in_place || self.letters >= self.most
    }

    /// Does what the marks of the mailbox ask for. Returns whether it is time for others.
    #[cold]
    #[inline(never)]
    fn attend<C: Carrying>(&self, owned: &Owned, mailbox: usize) -> bool {
        match owned.mailbox().nature() {
            Some(nature) => (nature.attend)(owned),
            None => owned.mailbox().take_marks(u8::MAX),
        }
        self.is_over::<C>(owned, mailbox, None)
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_more_letters_if_they_are_known_to_be_short() {
        let turns = [(10, 1024), (60, 1024), (100, 512), (400, 128), (1_000, 64), (1_000_000, 64)];
        for (ns, letters) in turns {
            let meter = Meter::new(0);
            assert_eq!(most_letters(&meter), TURN_LETTERS);
            (0..100).for_each(|_| meter.note(ns));
            assert_eq!(most_letters(&meter), letters, "letters of {ns} ns");
        }
    }
}
