//! Parties that were signalled and go on together.

use super::{Resumed, call};
use crate::processor;
use crate::strand::Fifo;
use std::task::Waker;

/// Parties that have been signalled while a lock is held, or while others are still to be signalled. They
/// go on by [`go_on`](Signalled::go_on).
///
/// A waker runs code of others. It may drop a future that is signalled in the same step, and that drop
/// waits for the signal. So all parties are signalled before the first waker is called.
#[must_use]
pub(crate) struct Signalled {
    strands: Fifo,
    wakers: Vec<Waker>,
}

impl Signalled {
    pub(crate) const fn new() -> Self {
        Signalled { strands: Fifo::new(), wakers: Vec::new() }
    }

    #[inline]
    pub(crate) fn add(&mut self, resumed: Resumed) {
        match resumed {
            Resumed::Nobody => {}
            Resumed::Strand(ready) => self.strands.push(ready),
            Resumed::Waker(waker) => self.wakers.push(waker),
        }
    }

    /// Makes the strands ready in one step, then calls the wakers. The caller holds no lock. Returns the
    /// number of parties that go on.
    #[inline]
    pub(crate) fn go_on(self) -> usize {
        let Signalled { strands, wakers } = self;
        let woken = if strands.is_empty() { 0 } else { processor::make_all_ready(strands) };
        if wakers.is_empty() { woken } else { woken + call_all(wakers) }
    }
}

#[cold]
fn call_all(wakers: Vec<Waker>) -> usize {
    let count = wakers.len();
    wakers.into_iter().for_each(call);
    count
}
