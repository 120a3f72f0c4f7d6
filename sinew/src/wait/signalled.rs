//! Several who were signalled, and go on together.

use super::{Resumed, call};
use crate::processor;
use crate::strand::Fifo;
use std::task::Waker;

/// Parties that have been signalled, while a lock is held or others are still to be
/// signalled. They go on by [`go_on`](Signalled::go_on).
///
/// A waker runs the code of others: it may drop a future that is signalled in the same step,
/// and that future waits for its signal. So all are signalled first.
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

    /// Makes the strands ready in one step, then calls the wakers. The caller holds no lock.
    /// Returns how many go on.
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
