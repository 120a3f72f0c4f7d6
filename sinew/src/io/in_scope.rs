//! What is a descriptor, and means something in one event scope only.
#![allow(unsafe_code)]

use super::event_scope::{OtherScope, ScopeId, do_there, here};
use std::fmt;
use std::mem::ManuallyDrop;

/// Owns something with a descriptor in it. It is dropped in its scope, wherever that
/// happens.
pub(crate) struct Scoped<T: Send + 'static> {
    value: ManuallyDrop<T>,
    scope: ScopeId,
}

impl<T: Send + 'static> Scoped<T> {
    /// What was opened here.
    pub(crate) fn new(value: T) -> Scoped<T> {
        Scoped { value: ManuallyDrop::new(value), scope: here() }
    }

    /// The value, if it means something here.
    #[inline]
    pub(crate) fn get(&self) -> Result<&T, OtherScope> {
        if here() == self.scope { Ok(&self.value) } else { Err(OtherScope) }
    }

    /// As [`get`](Scoped::get).
    pub(crate) fn get_mut(&mut self) -> Result<&mut T, OtherScope> {
        if here() == self.scope { Ok(&mut self.value) } else { Err(OtherScope) }
    }

    /// The value, for those who do not use what it means.
    pub(crate) fn peek(&self) -> &T {
        &self.value
    }

    pub(crate) fn scope(&self) -> ScopeId {
        self.scope
    }

    /// The value, to be lent to others.
    ///
    /// # Panics
    /// If it does not mean anything here.
    #[track_caller]
    pub(crate) fn lend(&self) -> &T {
        match self.get() {
            Ok(value) => value,
            Err(error) => panic!("{error}"),
        }
    }

    /// # Panics
    /// If it does not mean anything here.
    #[track_caller]
    pub(crate) fn into_inner(self) -> T {
        self.lend();
        let mut this = ManuallyDrop::new(self);
        // SAFETY: it is not used again, and not dropped.
        unsafe { ManuallyDrop::take(&mut this.value) }
    }
}

impl<T: Send + 'static> Drop for Scoped<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it is not used again.
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        if here() == self.scope {
            drop(value);
        } else {
            // Nothing is left of what was open in a scope that has ended.
            let value = ManuallyDrop::new(value);
            do_there(self.scope, move || drop(ManuallyDrop::into_inner(value)));
        }
    }
}

/// Asks the kernel, as far as `T` does.
impl<T: fmt::Debug + Send + 'static> fmt::Debug for Scoped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Ok(value) => value.fmt(f),
            Err(error) => error.fmt(f),
        }
    }
}
