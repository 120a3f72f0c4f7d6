//! The form for fibres: what is in flight lies on the fibre's stack, and the fibre waits for the kernel's
//! last word on it.
#![allow(unsafe_code)]

use super::flight::{Flight, ROOM, is_cancelled};
use super::plan::Plan;
use super::room::Taken;
use super::shared::Ring;
use crate::base::Deadline;
use crate::io::limit_error;
use crate::wait::{self, Lent, Limit, Outcome, Party};
use crate::wait::{Reason, Why};
use std::io;

/// Operations that the kernel has cancelled unasked are submitted again this number of times at most.
pub(super) const MOST_RENEWALS: usize = 16;

/// How a flight of a fibre ended.
#[must_use]
pub(super) enum Flown {
    /// All operations have results. If a limit ended the wait, some of them may have been cancelled for
    /// that reason.
    Landed(Option<Outcome>),
    /// The ring has ended.
    Closed,
    /// A limit ended the wait for room. Nothing was submitted.
    Grounded(Outcome),
}

/// Submits the operations of a flight and waits for them. When the deadline comes, or a limit that the
/// fibre carries, has them cancelled and goes on waiting. By a fibre of the ring's cluster. The ring has
/// room for the flight.
///
/// # Safety
/// Nobody else uses the memory that the plans point at before this returns.
pub(super) unsafe fn fly(
    ring: &Ring,
    flight: &Flight,
    mut plan: impl FnMut(usize) -> Plan,
    deadline: Deadline,
) -> Flown {
    let limit = Limit::carried_until(deadline);
    let why = Why::at(Reason::Ring, flight);
    for round in 0..=MOST_RENEWALS {
        match ring.room().take(flight.idle() * ROOM, limit) {
            Taken::Yes => {}
            Taken::Closed => return Flown::Closed,
            Taken::Not(outcome) if round == 0 => return Flown::Grounded(outcome),
            Taken::Not(outcome) => return Flown::Landed(Some(outcome)),
        }
        let lent = Lent::begin();
        // SAFETY: the flight is over before this function goes on, and nothing unwinds before that.
        let launched = unsafe { ring.launch(flight, None, &mut plan) };
        launched.expect("a fibre of the cluster is in the ring's event scope");
        let enter = |wait: &wait::Wait| flight.wait(Party::timed(wait));
        let outcome = wait::block_within(limit, why, enter, |_| flight.withdraw());
        if outcome != Outcome::Told {
            ring.cancel(flight);
            wait::block(why, |party| flight.wait(party));
        }
        lent.returned();
        if outcome != Outcome::Told {
            return Flown::Landed(Some(outcome));
        }
        if !flight.renew(&mut plan) {
            break;
        }
    }
    Flown::Landed(None)
}

/// Translates a kernel's result.
pub(super) fn of_result(result: Option<i32>, ended: Option<Outcome>, deadline: Deadline) -> io::Result<usize> {
    match (result, ended) {
        (Some(result), Some(outcome)) if is_cancelled(result) => Err(limit_error(outcome, deadline)),
        (None, Some(outcome)) => Err(limit_error(outcome, deadline)),
        (None, None) => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
        (Some(result), _) => usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result)),
    }
}

/// Returns the error for a ring that has ended.
pub(super) fn closed() -> io::Error {
    io::Error::other("the runtime whose ring this operation uses has ended")
}
