//! What this runtime plugs into its processors.

use crate::fibre::carrier;
use crate::fibre::record::{FIBRE, Record};
use crate::mailbox::{self, Carrying};
use crate::processor::{Plug, Processor};
use crate::strand::{After, Kind, Owed, Ready, Strand};
use crate::wait::Party;
use std::io;

/// Makes fibres the usual kind of strand.
pub(super) struct Fibres;

impl Plug for Fibres {
    const USUAL: &'static Kind = &FIBRE;

    #[inline(always)]
    fn run_usual(strand: &Strand, processor: &Processor) -> After {
        Record::run(strand, processor)
    }

    #[inline(always)]
    fn signal(party: Owed) -> Option<Ready> {
        Party::signal_owed_strand(party)
    }
}

/// Lets fibres carry mailboxes.
struct ByFibre;

impl Carrying for ByFibre {
    #[inline(always)]
    fn take(mailbox: usize) {
        carrier::take(mailbox);
    }

    #[inline(always)]
    fn renew() -> bool {
        carrier::renew()
    }
}

/// Makes a fibre that carries mailboxes.
///
/// # Errors
/// There is no memory for another stack.
pub(super) fn new_carrier(processor: &Processor) -> io::Result<Ready> {
    carrier::create(processor, mailbox::work::<ByFibre>)
}
