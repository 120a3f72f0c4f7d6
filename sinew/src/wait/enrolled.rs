//! A waker in a join word.

use super::Party;
use crate::strand::join::{Join, Wait};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The waker that a joining future has left in a join word, as a [`Party`] that owns it. The side that
/// takes the number out of the word owns the party.
#[derive(Default)]
pub(crate) struct Enrolled(Option<Party>);

impl Enrolled {
    pub(crate) const NONE: Enrolled = Enrolled(None);

    /// Returns `Ready` if the strand has finished. If not, the waker will be called when it has.
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

    /// Forgets the party: the strand that finished has taken it out.
    fn told(&mut self) -> Poll<()> {
        self.0 = None;
        Poll::Ready(())
    }

    /// Takes the waker out of the word, if it is there.
    pub(crate) fn leave(&mut self, join: Join<'_>) {
        if let Some(party) = self.0.take()
            && join.withdraw(party.number())
        {
            party.discard();
        }
    }
}

/// A future that is ready when a strand has finished. It takes no result. The join word has no other
/// waiter meanwhile.
pub(crate) struct Finishing<'a> {
    join: Join<'a>,
    enrolled: Enrolled,
}

impl<'a> Finishing<'a> {
    pub(crate) fn new(join: Join<'a>) -> Self {
        Finishing { join, enrolled: Enrolled::NONE }
    }
}

impl Future for Finishing<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let join = self.join;
        self.enrolled.poll(join, context)
    }
}

impl Drop for Finishing<'_> {
    fn drop(&mut self) {
        self.enrolled.leave(self.join);
    }
}
