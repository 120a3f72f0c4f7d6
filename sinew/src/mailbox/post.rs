//! Posting letters.

use super::letter::{Content, Draft, Load, Sealed};
use super::memory::{Mailbox, mark};
use super::meter::Meter;
use super::word::{Order, Ordered, Posted};
use crate::base::clock::cycles;
use crate::processor::spawn::Origin;
use crate::processor::with_current;
use crate::strand::Woken;
use crate::wait::budget;

/// Why a letter was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The mailbox has been closed.
    Closed,
    /// The runtime has ended, or ends.
    Ended,
}

/// Spends the budget of a post, and gives way if it is spent. A letter that posts does not: it runs to its end, and
/// its turn is bounded.
#[inline(always)]
pub(crate) fn spend() {
    let is_letter = with_current(|processor| processor.is_some_and(|processor| processor.carriers().handed() != 0));
    if !is_letter {
        budget::spend(budget::MESSAGE);
    }
}

impl Mailbox {
    /// Posts a letter. It counts for `meter`, and weighs its average divided by `penalty`.
    ///
    /// # Safety
    /// `meter` lives until the letter has run: it is that of the mailbox, or lives for ever. If `F` borrows, what
    /// it borrows lives until the letter has run or has been given back.
    ///
    /// # Errors
    /// The letter was refused. Then its content comes back.
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) unsafe fn post<F>(&self, meter: &Meter, penalty: u32, content: F) -> Result<(), (Refused, F)>
    where
        F: Content + Send,
    {
        with_current(|processor| {
            let cluster = self.cluster();
            let origin = Origin::of(cluster, processor);
            let load = if cluster.weighs() { Load::new(meter.average_ns(), penalty) } else { Load::default() };
            // SAFETY: the caller's promise; `F` is `Send`.
            let draft = unsafe { Draft::write(origin.blocks(), meter, load, content) };
            match self.post_sealed(&origin, draft.sealed()) {
                Ok(()) => Ok(()),
                Err(refused) => Err((refused, draft.discard())),
            }
        })
    }

    /// Posts a letter. When this returns `Ok`, the letter may be gone.
    #[inline(always)]
    fn post_sealed(&self, origin: &Origin<'_>, letter: Sealed) -> Result<(), Refused> {
        if self.cluster().weighs() {
            return self.post_weighed(origin, letter);
        }
        match self.word().post(letter.address(), false, |older| letter.link(older)) {
            Ok(_) => Ok(()),
            Err(_) => self.activate(origin, letter).map(|_| ()),
        }
    }

    /// Posts a letter to a mailbox that was idle or closed a moment ago.
    #[inline(never)]
    fn activate(&self, origin: &Origin<'_>, letter: Sealed) -> Result<Posted, Refused> {
        if self.word().is_closed() {
            return Err(Refused::Closed);
        }
        // An active mailbox counts as a live strand. It is counted before others can see that it is active, so
        // that the runtime does not end meanwhile.
        if !origin.count() {
            return Err(Refused::Ended);
        }
        match self.word().post(letter.address(), true, |older| letter.link(older)) {
            Ok(Posted::Activated) => {
                if let Some(ready) = self.strand().woken(Woken::Enqueue) {
                    origin.start(ready);
                }
                Ok(Posted::Activated)
            }
            Ok(Posted::Added) => {
                origin.take_back();
                Ok(Posted::Added)
            }
            Err(_) => {
                origin.take_back();
                Err(Refused::Closed)
            }
        }
    }

    /// Gives an order. A mailbox that is idle becomes active for it. If the runtime has ended, it is closed and stays
    /// as it is.
    pub(crate) fn order(&self, order: Order) {
        if self.word().order(order, false) == Ordered::Idle {
            with_current(|processor| {
                let origin = Origin::of(self.cluster(), processor);
                if !origin.count() {
                    return self.word().close();
                }
                match self.word().order(order, true) {
                    Ordered::Activated => self.strand().woken(Woken::Enqueue).into_iter().for_each(|r| origin.start(r)),
                    Ordered::Noted | Ordered::Idle => origin.take_back(),
                }
            });
        }
        if order == Order::Kill {
            self.add_mark(mark::KILLED);
            self.cancel_carrier();
        }
    }

    /// As `post_sealed`, and tells the scheduler if the mailbox has become much heavier while it was active.
    #[inline(never)]
    fn post_weighed(&self, origin: &Origin<'_>, letter: Sealed) -> Result<(), Refused> {
        let load = letter.load();
        // Before the letter can be run, so that the sum never falls below 0.
        let has_grown = self.add_weight(load);
        let posted = match self.word().post(letter.address(), false, |older| letter.link(older)) {
            Ok(posted) => Ok(posted),
            Err(_) => self.activate(origin, letter),
        };
        match posted {
            Ok(Posted::Added) if has_grown => self.cluster().tell_grown(self.strand(), cycles()),
            Ok(_) => {}
            Err(refused) => {
                self.take_weight(load.ns(), load.undivided(), 1);
                return Err(refused);
            }
        }
        Ok(())
    }
}
