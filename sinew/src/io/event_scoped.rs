//! A value with a descriptor in it, and the event scope in which the descriptor means something.

use super::event_scope::{OtherScope, ScopeId, do_there, here};
use std::fmt;

/// Owns a value that has a descriptor in it. The value is dropped in its event scope, also if
/// this is dropped in another one.
pub(crate) struct EventScoped<T: Send + 'static> {
    /// `None` only while this is being dropped or taken apart.
    value: Option<T>,
    scope: ScopeId,
}

impl<T: Send + 'static> EventScoped<T> {
    /// Wraps a value that was opened in the caller's event scope.
    pub(crate) fn new(value: T) -> EventScoped<T> {
        EventScoped { value: Some(value), scope: here() }
    }

    /// Returns the value, if the caller is in its event scope.
    #[inline]
    pub(crate) fn get(&self) -> Result<&T, OtherScope> {
        match &self.value {
            Some(value) if here() == self.scope => Ok(value),
            _ => Err(OtherScope),
        }
    }

    /// As [`get`](EventScoped::get).
    pub(crate) fn get_mut(&mut self) -> Result<&mut T, OtherScope> {
        match &mut self.value {
            Some(value) if here() == self.scope => Ok(value),
            _ => Err(OtherScope),
        }
    }

    /// Returns the value, for callers that do not use the descriptor in it.
    pub(crate) fn peek(&self) -> &T {
        self.value.as_ref().expect("it is there until this is dropped")
    }

    pub(crate) fn scope(&self) -> ScopeId {
        self.scope
    }

    /// Returns the value, to be lent to others.
    ///
    /// # Panics
    /// If the caller is in another event scope.
    #[track_caller]
    pub(crate) fn lend(&self) -> &T {
        match self.get() {
            Ok(value) => value,
            Err(error) => panic!("{error}"),
        }
    }

    /// # Panics
    /// If the caller is in another event scope.
    #[track_caller]
    pub(crate) fn into_inner(mut self) -> T {
        self.lend();
        self.value.take().expect("it is there until this is dropped")
    }
}

impl<T: Send + 'static> Drop for EventScoped<T> {
    #[inline]
    fn drop(&mut self) {
        if here() != self.scope
            && let Some(value) = self.value.take()
        {
            drop_elsewhere(self.scope, value);
        }
    }
}

/// Drops the value in its event scope. If that has ended, nothing is left of what was open
/// there, and nothing is closed.
#[cold]
fn drop_elsewhere<T: Send + 'static>(scope: ScopeId, value: T) {
    let value = std::mem::ManuallyDrop::new(value);
    do_there(scope, move || drop(std::mem::ManuallyDrop::into_inner(value)));
}

/// Asks the kernel, as far as `T` does.
impl<T: fmt::Debug + Send + 'static> fmt::Debug for EventScoped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Ok(value) => value.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}
