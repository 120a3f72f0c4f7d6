//! What fibres and kernel threads share, and wait for.

mod arms;
mod channel;
mod condvar;
pub mod mpmc;
pub mod mpsc;
mod mutex;
pub mod oneshot;
mod poison;
mod raw_mutex;
mod raw_rwlock;
mod raw_semaphore;
mod rwlock;
mod select;
mod semaphore;

pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard, Policy};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use select::{Select, SelectReceiver, SelectSender};
pub use semaphore::{AcquireError, BinarySemaphore, Permit, Semaphore};
pub use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
