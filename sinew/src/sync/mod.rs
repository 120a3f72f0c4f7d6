#![doc = include_str!("README.md")]

mod condvar;
mod mutex;
mod poison;
mod raw_mutex;
mod raw_rwlock;
mod raw_semaphore;
mod rwlock;
mod semaphore;

pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard, Policy};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{AcquireError, BinarySemaphore, Permit, Semaphore};
pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
