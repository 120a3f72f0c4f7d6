//! What fibres and kernel threads share, and wait for.

mod condvar;
mod mutex;
mod poison;
mod raw_mutex;

pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard, Policy};
pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
