//! The atomics that the protocols are written with: std's, or loom's in a model
//! (`--cfg sinew_loom`).

#[cfg(not(sinew_loom))]
pub(crate) use std::hint::spin_loop;
#[cfg(not(sinew_loom))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicBool as Flag, AtomicI64, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, fence,
};
#[cfg(not(sinew_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};
#[cfg(not(sinew_loom))]
pub(crate) use std::thread::yield_now;

#[cfg(sinew_loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, fence,
};
#[cfg(sinew_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(sinew_loom)]
pub(crate) use loom::thread::{yield_now, yield_now as spin_loop};

pub(crate) use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// The flag of a lock in a model. Its exchange writes only if the value changes. loom has no total order
/// of the stores to one place: a waiter that exchanges `true` for `true` could read its own store for
/// ever, although the release of the lock comes after it.
#[cfg(sinew_loom)]
pub(crate) struct Flag(AtomicBool);

#[cfg(sinew_loom)]
impl Flag {
    pub(crate) fn new(value: bool) -> Self {
        Flag(AtomicBool::new(value))
    }

    pub(crate) fn load(&self, order: std::sync::atomic::Ordering) -> bool {
        self.0.load(order)
    }

    pub(crate) fn store(&self, value: bool, order: std::sync::atomic::Ordering) {
        self.0.store(value, order);
    }

    pub(crate) fn swap(&self, value: bool, order: std::sync::atomic::Ordering) -> bool {
        self.0.compare_exchange(!value, value, order, Relaxed).unwrap_or_else(|before| before)
    }
}

/// Declares a `thread_local!`, of the threads of a model in a model.
macro_rules! of_thread {
    (static $name:ident: $type:ty = $value:literal) => {
        #[cfg(not(sinew_loom))]
        std::thread_local!(static $name: $type = const { $value });

        #[cfg(sinew_loom)]
        loom::thread_local!(static $name: $type = $value);
    };
}

/// Declares a function that is `const`, except in a model, because loom's atomics cannot be made so.
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        #[cfg(not(sinew_loom))]
        $(#[$attribute])*
        $visibility const fn $($rest)*

        #[cfg(sinew_loom)]
        $(#[$attribute])*
        $visibility fn $($rest)*
    };
}

pub(crate) use {const_fn, of_thread};
