//! Plain memory that loom watches.
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;

/// A value whose accesses have to be ordered: an access that is not ordered after the last
/// conflicting one fails the model.
#[derive(Default)]
pub(crate) struct Watched<T>(UnsafeCell<T>);

// SAFETY: loom runs one thread at a time, and fails the model at an access that is not ordered.
unsafe impl<T: Send> Sync for Watched<T> {}

impl<T> Watched<T> {
    pub(crate) fn new(value: T) -> Self {
        Watched(UnsafeCell::new(value))
    }

    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: loom has made sure that no other thread has access.
        self.0.with_mut(|value| change(unsafe { &mut *value }))
    }

    pub(crate) fn set(&self, value: T) {
        self.change(|place| *place = value);
    }

    pub(crate) fn get(&self) -> T
    where
        T: Copy,
    {
        // SAFETY: loom has made sure that no thread writes.
        self.0.with(|value| unsafe { *value })
    }
}
