//! What the runtime plugs into a processor's loop when it builds a cluster.

use super::Processor;
use crate::strand::{After, Kind, Owed, Ready, Strand};

/// What a processor's loop needs from the layers above. The loop is compiled with an implementation,
/// so that calling it costs no indirect call.
pub(crate) trait Plug: 'static {
    /// The usual kind of strand.
    const USUAL: &'static Kind;

    /// Runs a strand of the usual kind, as [`Kind::run`] would.
    fn run_usual(strand: &Strand, processor: &Processor) -> After;

    /// Signals a party. If that makes a strand ready, returns the strand.
    fn signal(party: Owed) -> Option<Ready>;
}

/// Runs a strand until it gives up the processor.
#[inline(always)]
pub(super) fn run<P: Plug>(strand: &Strand, processor: &Processor) -> After {
    if std::ptr::eq(strand.kind(), P::USUAL) { P::run_usual(strand, processor) } else { (strand.kind().run)(strand) }
}
