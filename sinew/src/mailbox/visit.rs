//! Visits: a strand runs a letter of an idle mailbox by itself, on its own stack, while the letter's poster would have
//! waited for it anyway. So neither is a letter written, nor does a processor dispatch the mailbox.
//!
//! A visitor owns the mailbox as a carrier does: it has made it active. Letters that come meanwhile wait. At the end
//! the visitor lets it rest, or makes it ready if there are letters or orders.
//!
//! An active mailbox counts as a live strand of its runtime. A visit does not count: its visitor is a live strand of the same
//! runtime. It counts the mailbox when it makes it ready.

use super::memory::{Mailbox, mark};
use super::word::Rested;
use crate::processor::spawn::Origin;
use crate::processor::with_current;
use crate::strand::Woken;

/// The right to run letters of a mailbox that was idle.
pub(crate) struct Visit<'a>(&'a Mailbox);

impl Mailbox {
    /// Begins a visit. Returns `None` if the mailbox is not idle, has orders, or if the caller is not a strand that runs
    /// on a processor of the mailbox's cluster.
    #[inline]
    pub(crate) fn visit(&self) -> Option<Visit<'_>> {
        let is_near = with_current(|processor| {
            processor.is_some_and(|p| p.runs_a_strand() && std::ptr::eq(p.cluster(), self.cluster()))
        });
        if !is_near || self.marks() != 0 || !self.word().visit() {
            return None;
        }
        Some(Visit(self))
    }
}

impl Drop for Visit<'_> {
    #[inline]
    fn drop(&mut self) {
        let mailbox = self.0;
        if mailbox.marks() == 0 {
            match mailbox.word().rest(true) {
                // The visitor has a handle, so that the mailbox is not to be freed.
                Rested::Idle | Rested::Forsaken => return,
                Rested::Letters => {}
                Rested::Ordered => mailbox.add_mark(mark::ORDERED),
            }
        }
        hand_over(mailbox);
    }
}

/// Makes a mailbox ready that has been visited.
#[cold]
fn hand_over(mailbox: &Mailbox) {
    with_current(|processor| {
        let origin = Origin::of(mailbox.cluster(), processor);
        if !origin.count() {
            crate::base::fatal("a runtime has ended before one of its strands");
        }
        mailbox.strand().woken(Woken::Enqueue).into_iter().for_each(|ready| origin.start(ready));
    });
}
