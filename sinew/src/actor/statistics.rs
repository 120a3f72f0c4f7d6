//! What is known of an actor's work.

use super::address::Address;
use super::traits::Actor;
use std::time::Duration;

/// What is known of an actor's work. The figures are those of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Whether a message waits or is being handled.
    pub is_active: bool,
    /// The time that a message takes: a moving average, from samples. Messages whose handler blocks do not count.
    pub mean_time: Duration,
    /// The number of handlers that have panicked.
    pub panics: u32,
    /// The number of restarts.
    pub restarts: u64,
    /// The number of messages that wait, if it is known: if the mailbox is bounded.
    pub waiting: Option<usize>,
}

impl<A: Actor> Address<A> {
    /// Returns what is known of the actor's work.
    pub fn statistics(&self) -> Statistics {
        let (mailbox, annex) = (self.handle().mailbox(), self.handle().state().annex());
        let bound = A::MAILBOX.bound.map(|(most, _)| most);
        let room = annex.and_then(|annex| annex.room.as_ref());
        let overflow = annex.and_then(|annex| annex.overflow.as_ref());
        let restarts = annex.and_then(|annex| annex.shared().supervision.as_ref().map(|supervision| supervision.count));
        Statistics {
            is_active: !self.is_idle(),
            mean_time: Duration::from_nanos(mailbox.meter().average_ns().into()),
            panics: mailbox.meter().panics(),
            restarts: restarts.unwrap_or(0),
            waiting: bound
                .zip(room)
                .map(|(most, room)| most.saturating_sub(room.available()))
                .or(overflow.map(|o| o.len())),
        }
    }
}
