//! Posting letters.

use super::letter::{Content, Draft};
use super::memory::Mailbox;
use super::meter::Meter;
use super::word::{Posted, Unposted};
use crate::base::clock::cycles;
use crate::processor::spawn::Origin;
use crate::processor::with_current;
use crate::strand::Woken;

/// Why a letter was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The mailbox has been closed.
    Closed,
    /// The runtime has ended, or ends.
    Ended,
}

impl Mailbox {
    /// Posts a letter. It counts for `meter`, and weighs the average divided by `penalty`.
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
            let origin = match processor {
                Some(processor) if processor.runs_a_strand() && processor.is_of_runtime(cluster) => {
                    Origin::Strand(processor, cluster)
                }
                _ => Origin::Outside(cluster),
            };
            let weighs = cluster.weighs();
            let weight_ns = if weighs { meter.average_ns() / penalty } else { 0 };
            // SAFETY: the caller's promise; `F` is `Send`.
            let draft = unsafe { Draft::write(origin.blocks(), meter, weight_ns, content) };
            // Before the letter can be run, so that the sum never falls below 0.
            let has_grown = weighs && self.add_weight(weight_ns);
            let mut is_counted = false;
            let refused = loop {
                match self.word().post(draft.address(), is_counted, |older| draft.link(older)) {
                    Ok(Posted::Activated) => {
                        if let Some(ready) = self.strand().woken(Woken::Enqueue) {
                            origin.start(ready);
                        }
                        return Ok(());
                    }
                    Ok(Posted::Added) => {
                        if is_counted {
                            origin.take_back();
                        }
                        if has_grown {
                            cluster.tell_grown(self.strand(), cycles());
                        }
                        return Ok(());
                    }
                    // An active mailbox counts as a live strand. It is counted first, so that the runtime does not
                    // end meanwhile.
                    Err(Unposted::Idle) if origin.count() => is_counted = true,
                    Err(Unposted::Idle) => break Refused::Ended,
                    Err(Unposted::Closed) => {
                        if is_counted {
                            origin.take_back();
                        }
                        break Refused::Closed;
                    }
                }
            };
            if weighs {
                self.take_weight(weight_ns.into(), 1);
            }
            Err((refused, draft.discard()))
        })
    }
}
