//! Plain memory that loom watches: an access that is not ordered after the last
//! conflicting one fails the model.
#![allow(unsafe_code)]

use loom::cell::UnsafeCell;

#[derive(Default)]
pub struct Watched<T>(UnsafeCell<T>);

impl<T> Watched<T> {
    pub fn new(value: T) -> Self {
        Watched(UnsafeCell::new(value))
    }

    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: loom has made sure that nobody else has access.
        self.0.with_mut(|value| change(unsafe { &mut *value }))
    }

    pub fn set(&self, value: T) {
        self.change(|place| *place = value);
    }

    pub fn get(&self) -> T
    where
        T: Copy,
    {
        // SAFETY: loom has made sure that nobody writes.
        self.0.with(|value| unsafe { *value })
    }
}
