//! The atomics that the protocols are written with: std's, or loom's when a
//! model is being checked (`--cfg sinew_loom`).

#[cfg(not(sinew_loom))]
pub(crate) use std::hint::spin_loop;
#[cfg(not(sinew_loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, fence};

#[cfg(sinew_loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, fence};
#[cfg(sinew_loom)]
pub(crate) use loom::thread::yield_now as spin_loop;

pub(crate) use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
