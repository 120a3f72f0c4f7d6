//! Why an event is not posted, and why a turn does not come.

use std::fmt;

/// The reason why an event was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The runtime of the colour has ended, or is ending and the caller is not one of its strands.
    Ended,
    /// The colour has been [closed](super::Colour::close).
    Closed,
    /// The colour is bounded, and the largest number of events wait already.
    Full,
    /// The caller would have to wait for room in the colour whose event it is.
    Within,
    /// The caller was cancelled, or its time was up, while it waited for room.
    Cancelled,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Ended => "the runtime of the colour has ended",
            Reason::Closed => "the colour is closed",
            Reason::Full => "the colour has as many events as it may have",
            Reason::Within => "an event may not wait for room in its own colour",
            Reason::Cancelled => "the wait for room was cancelled",
        })
    }
}

/// An event that was not posted. It belongs to the caller again.
pub struct Rejected<T> {
    reason: Reason,
    event: T,
}

impl<T> Rejected<T> {
    #[cold]
    pub(super) fn new(reason: Reason, event: T) -> Rejected<T> {
        Rejected { reason, event }
    }

    /// Returns the reason.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns the event: the closure, or the argument of the handler.
    pub fn into_event(self) -> T {
        self.event
    }

    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Rejected<U> {
        Rejected { reason: self.reason, event: f(self.event) }
    }
}

impl<T> fmt::Debug for Rejected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Rejected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the event was not posted: {}", self.reason)
    }
}

impl<T> std::error::Error for Rejected<T> {}

/// The reason why a closure did not get its turn. It has been dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoTurn {
    /// The runtime of the colour has ended, or is ending and the caller is not one of its strands.
    Ended,
    /// The colour has been [closed](super::Colour::close).
    Closed,
    /// The caller is an event of this colour: its turn would come after the event, which waits for it.
    Within,
}

impl fmt::Display for NoTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoTurn::Ended => "the runtime of the colour has ended",
            NoTurn::Closed => "the colour is closed",
            NoTurn::Within => "an event cannot wait for its own colour",
        })
    }
}

impl std::error::Error for NoTurn {}
