//! Why an actor ends, and what others are told of it.

use super::errors::ActorId;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Why an actor has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum End {
    /// [`stop`](super::Address::stop) was called, and all messages before that have been handled.
    Stopped,
    /// [`kill`](super::Address::kill) was called.
    Killed,
    /// No address was left, and all messages have been handled.
    Abandoned,
    /// The actor that spawned it as a child has ended.
    Orphaned,
    /// It has failed, and was not restarted.
    Failed(Failure),
}

impl End {
    /// Returns whether the actor has failed or was killed.
    pub fn is_failure(&self) -> bool {
        matches!(self, End::Failed(_) | End::Killed)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Stopped => f.write_str("stopped"),
            End::Killed => f.write_str("killed"),
            End::Abandoned => f.write_str("no address was left"),
            End::Orphaned => f.write_str("its parent has ended"),
            End::Failed(failure) => write!(f, "failed: {failure}"),
        }
    }
}

/// Why an actor cannot go on. Any error becomes one by `?`.
#[derive(Clone)]
pub struct Failure(Arc<Cause>);

enum Cause {
    Error(Box<dyn Error + Send + Sync>),
    Panic(String),
}

impl Failure {
    /// Makes a failure with a message.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure(Arc::new(Cause::Error(message.into().into())))
    }

    pub(super) fn panicked(payload: &(dyn std::any::Any + Send)) -> Failure {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Failure(Arc::new(Cause::Panic(text.unwrap_or_else(|| "a panic with another payload than text".to_owned()))))
    }

    pub(super) fn because_of(who: &Down) -> Failure {
        Failure::new(format!("{} has ended: {}", who.actor, who.end))
    }

    /// Returns whether a handler panicked.
    pub fn is_panic(&self) -> bool {
        matches!(&*self.0, Cause::Panic(_))
    }

    /// Returns the error, if there is one.
    pub fn error(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        match &*self.0 {
            Cause::Error(error) => Some(&**error),
            Cause::Panic(_) => None,
        }
    }
}

// `Failure` itself is no `Error`, so that this does not collide with `From<T> for T`.
impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(Arc::new(Cause::Error(error.into())))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Cause::Error(error) => error.fmt(f),
            Cause::Panic(text) => write!(f, "panicked: {text}"),
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Cause::Error(error) => f.debug_tuple("Failure").field(error).finish(),
            Cause::Panic(text) => f.debug_tuple("Failure").field(text).finish(),
        }
    }
}

/// The end of another actor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Down {
    /// Which actor.
    pub actor: ActorId,
    /// Why it has ended.
    pub end: End,
    /// What it was to the actor that is told.
    pub relation: Relation,
}

impl Down {
    /// Returns whether this is a failure of the actor that is told, if that does not say otherwise.
    pub fn escalates(&self) -> bool {
        self.relation != Relation::Monitor && self.end.is_failure()
    }
}

/// What an actor is to another one that is told of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Relation {
    /// The two are linked: each is told of the other's end.
    Link,
    /// The one that is told monitors the other.
    Monitor,
    /// The one that is told has spawned the other by [`Context::spawn`](super::Context::spawn).
    Child,
}
