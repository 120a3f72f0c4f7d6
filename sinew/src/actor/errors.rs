//! Why a message is not delivered, and why an answer does not come.

use std::fmt;

/// Which actor it is: unique among all actors that have an address. Two actors that never exist at the same time may
/// have the same number.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActorId {
    pub(super) number: u64,
    pub(super) name: Option<Box<str>>,
    pub(super) type_name: &'static str,
}

impl ActorId {
    /// Returns the number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the name that the actor was spawned with.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the name of the actor's type.
    pub fn type_name(&self) -> &'static str {
        self.type_name
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.type_name.rsplit("::").next().unwrap_or(self.type_name);
        match &self.name {
            Some(name) => write!(f, "{short} '{name}'"),
            None => write!(f, "{short} {:x}", self.number),
        }
    }
}

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The reason why a message was not told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The actor has ended, or is ending.
    Stopped,
    /// The runtime of the actor has ended, or is ending and the caller is not one of its strands.
    Ended,
    /// The actor has as many messages as it may have.
    Full,
    /// The caller was cancelled, or its time was up, while it waited for room.
    Cancelled,
    /// To wait for room would never end: these actors wait for each other.
    Cycle(Vec<ActorId>),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Stopped => f.write_str("the actor has ended"),
            Reason::Ended => f.write_str("the runtime of the actor has ended"),
            Reason::Full => f.write_str("the actor has as many messages as it may have"),
            Reason::Cancelled => f.write_str("the wait for room was cancelled"),
            Reason::Cycle(actors) => write_cycle(f, actors),
        }
    }
}

fn write_cycle(f: &mut fmt::Formatter<'_>, actors: &[ActorId]) -> fmt::Result {
    f.write_str("these actors would wait for each other:")?;
    actors.iter().enumerate().try_for_each(|(at, actor)| write!(f, "{} {actor}", if at == 0 { "" } else { ", then" }))
}

/// A message that was not told. It belongs to the caller again.
pub struct TellError<M> {
    reason: Reason,
    message: M,
}

impl<M> TellError<M> {
    #[cold]
    pub(super) fn new(reason: Reason, message: M) -> TellError<M> {
        TellError { reason, message }
    }

    /// Returns the reason.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Returns the message.
    pub fn into_message(self) -> M {
        self.message
    }
}

impl<M> fmt::Debug for TellError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TellError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<M> fmt::Display for TellError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the message was not told: {}", self.reason)
    }
}

impl<M> std::error::Error for TellError<M> {}

/// The reason why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AskError {
    /// The actor had ended, or it ended before it came to the question.
    Stopped,
    /// The runtime of the actor has ended, or is ending and the caller is not one of its strands.
    Ended,
    /// The actor has as many messages as it may have, or the question was dropped to make room.
    Full,
    /// The time was up: that of the call, or a deadline that the caller carries. The actor does not read a question
    /// whose time is up.
    TimedOut,
    /// The caller was cancelled.
    Cancelled,
    /// The handler panicked.
    Panicked,
    /// The handler has dropped the [`Replier`](super::Replier) without an answer.
    Unanswered,
    /// The answer would never come: these actors wait for each other.
    Cycle(Vec<ActorId>),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AskError::Stopped => "the actor has ended",
            AskError::Ended => "the runtime of the actor has ended",
            AskError::Full => "the actor has as many messages as it may have",
            AskError::TimedOut => "the time was up before there was an answer",
            AskError::Cancelled => "the fibre was cancelled before there was an answer",
            AskError::Panicked => "the handler panicked",
            AskError::Unanswered => "the question was dropped without an answer",
            AskError::Cycle(actors) => return write_cycle(f, actors),
        })
    }
}

impl std::error::Error for AskError {}
