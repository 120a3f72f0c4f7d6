#![doc = include_str!("README.md")]

mod arms;
mod barrier;
pub mod broadcast;
mod channel;
mod condvar;
mod lazy_lock;
#[cfg(all(test, sinew_loom))]
mod models;
pub mod mpmc;
pub mod mpsc;
mod mutex;
mod once;
mod once_lock;
pub mod oneshot;
mod owned_guards;
mod owned_permit;
mod poison;
mod polled;
mod raw_mutex;
mod raw_rwlock;
mod raw_semaphore;
mod rwlock;
mod select;
mod selectable;
mod semaphore;
mod wait_group;
pub mod watch;

pub use barrier::{Barrier, BarrierTimeout, BarrierWaitResult};
pub use condvar::{Condvar, WaitTimeoutResult};
pub use lazy_lock::LazyLock;
pub use mutex::{Mutex, MutexGuard, Policy};
pub use once::{Once, OnceState};
pub use once_lock::OnceLock;
pub use owned_guards::{OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard};
pub use owned_permit::OwnedPermit;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use select::{Select, SelectReceiver, SelectSender};
pub use selectable::{SelectJoin, SelectReader, SelectWriter};
pub use semaphore::{AcquireError, BinarySemaphore, Permit, Semaphore};
pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak, atomic};
pub use wait_group::WaitGroup;

/// The entries of the description.
pub(crate) const ENTRIES: &[&[crate::base::describe::Entry]] = &[raw_mutex::ENTRIES, raw_rwlock::ENTRIES];
