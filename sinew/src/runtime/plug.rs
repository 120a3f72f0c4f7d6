//! What this runtime plugs into its processors.

use crate::fibre::record::{FIBRE, Record};
use crate::processor::{Plug, Processor};
use crate::strand::{After, Kind, Owed, Ready, Strand};
use crate::wait::Party;

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
