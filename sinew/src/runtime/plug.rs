//! What this runtime plugs into its processors.

use crate::fibre::carrier;
use crate::fibre::record::{FIBRE, Record};
use crate::mailbox::{self, Carrying};
use crate::processor::cluster::ClusterShared;
use crate::processor::{Plug, Post, Processor};
use crate::strand::{After, Kind, Owed, Ready, Strand};
use crate::wait::Party;
use std::io;
use std::sync::Arc;

/// Makes fibres the usual kind of strand.
struct Fibres;

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

/// Makes fibres that have identities of their own the usual kind of strand.
struct Threads;

impl Plug for Threads {
    const USUAL: &'static Kind = &FIBRE;

    #[inline(always)]
    fn run_usual(strand: &Strand, processor: &Processor) -> After {
        match processor.identities() {
            Some(identities) => Record::run_with_identity(strand, processor, identities),
            None => unreachable!("`serve` has asked"),
        }
    }

    #[inline(always)]
    fn signal(party: Owed) -> Option<Ready> {
        Party::signal_owed_strand(party)
    }
}

/// Runs a processor on the calling kernel thread.
pub(super) fn serve(cluster: Arc<ClusterShared>, post: Arc<Post>) {
    match cluster.runtime().libc() {
        None => Processor::serve::<Fibres>(cluster, post),
        Some(_) => Processor::serve::<Threads>(cluster, post),
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
