//! How a carrier runs the letters of a mailbox.

use super::letter::Letter;
use super::memory::Owned;
use crate::base::clock::{cycles, cycles_in_us, ns_of};
use crate::processor::{Processor, make_ready, with_current};
use crate::stack::current_stack;
use crate::strand::{After, Strand};

/// The largest number of letters that run in one turn of a mailbox. Mely has 10. The end of a turn takes 20 ns if
/// the mailbox has more letters: with 10, a letter of a batch took 1.5 ns more.
const BATCH: u32 = 64;

/// A turn of a mailbox ends after a letter that has taken this long, together with the letters before it
/// that were timed. Unmeasured beyond that.
const BATCH_US: u64 = 50;

/// What a carrier does between two letters. Plugged in by the runtime.
pub(crate) trait Carrying {
    /// Clears what a letter has left behind on the carrier. Returns `false` if the carrier has to end.
    fn renew() -> bool;
}

pub(super) fn address_of(strand: &Strand) -> usize {
    std::ptr::from_ref(strand).addr()
}

#[inline]
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
            Some(owned) => make_ready(owned.into_ready()),
        }
    });
}

/// Runs letters until there are none, or until it is time for others. Returns the mailbox if it has letters.
fn run_turn<C: Carrying>(owned: Owned, address: usize) -> Option<Owned> {
    owned.note_carrier(current_stack().map_or(0, |stack| address_of(stack.strand())));
    let mut turn = Turn { letters: 0, weight_ns: 0, timed: 0 };
    while let Some(letter) = owned.next_letter() {
        turn.run(letter, address);
        let is_in_place = with_processor(|processor| processor.carriers().is_in_place(address));
        if !C::renew() || !is_in_place || turn.is_over() {
            break;
        }
    }
    if owned.mailbox().cluster().weighs() {
        owned.mailbox().take_weight(turn.weight_ns, u64::from(turn.letters));
    }
    owned.note_carrier(0);
    if owned.has_letters() { Some(owned) } else { owned.rest().err() }
}

/// What has been run in one turn.
struct Turn {
    letters: u32,
    weight_ns: u64,
    /// The time that the timed letters have taken, in cycles.
    timed: u64,
}

impl Turn {
    #[inline]
    fn run(&mut self, letter: Letter, mailbox: usize) {
        self.letters += 1;
        self.weight_ns += u64::from(letter.weight_ns());
        let meter = letter.meter();
        let number = with_processor(|processor| processor.carriers().count_letter());
        let began = if meter.wants_sample(number) { cycles() } else { 0 };
        let result = letter.run();
        if began != 0 && with_processor(|processor| processor.carriers().is_in_place(mailbox)) {
            let took = cycles().saturating_sub(began);
            self.timed += took;
            meter.note(ns_of(took));
        }
        if let Err(payload) = result {
            // The panic hook has reported it. Dropping the payload might panic again.
            std::mem::forget(payload);
            meter.note_panic();
        }
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.letters >= BATCH || (self.timed != 0 && self.timed >= cycles_in_us(BATCH_US))
    }
}
