//! A waker in the place of one who joins.

use super::Party;
use crate::strand::join::{Join, Wait};
use std::task::{Context, Poll};

/// What a future that joins has left in the join word: a waker, in the shape of a
/// [`Party`] that owns it. Whoever takes the number out of the word owns the party.
#[derive(Default)]
pub(crate) struct Enrolled(Option<Party>);

impl Enrolled {
    pub(crate) const NONE: Enrolled = Enrolled(None);

    /// Ready when the strand has finished; else the waker will be called then.
    pub(crate) fn poll(&mut self, join: Join<'_>, context: &Context<'_>) -> Poll<()> {
        if join.is_done() {
            return self.told();
        }
        if let Some(party) = self.0 {
            if party.is_of_task(context.waker()) {
                return Poll::Pending;
            }
            if !join.withdraw(party.number()) {
                return self.told();
            }
            self.0 = None;
            party.discard();
        }
        let party = Party::of_waker(context.waker().clone());
        match join.wait(party.number()) {
            Wait::Entered => {
                self.0 = Some(party);
                Poll::Pending
            }
            Wait::Done => {
                party.discard();
                Poll::Ready(())
            }
        }
    }

    /// The party, if there was one, was taken out by the strand that finished.
    fn told(&mut self) -> Poll<()> {
        self.0 = None;
        Poll::Ready(())
    }

    /// Takes the waker back, if it is there.
    pub(crate) fn leave(&mut self, join: Join<'_>) {
        if let Some(party) = self.0.take()
            && join.withdraw(party.number())
        {
            party.discard();
        }
    }
}
