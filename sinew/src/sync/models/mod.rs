//! Models of what fibres, tasks and kernel threads synchronise with.
//!
//! | file | what is modelled |
//! | --- | --- |
//! | `barrier` | [`Barrier`](super::Barrier) |
//! | `channel` | [`mpsc`](super::mpsc) and [`mpmc`](super::mpmc), whose core is the same |
//! | `condvar` | [`Condvar`](super::Condvar), with a [`Mutex`](super::Mutex) |
//! | `mutex` | [`RawMutex`](super::raw_mutex::RawMutex), with both policies |
//! | `once` | [`Once`](super::Once) |
//! | `rwlock` | [`RawRwLock`](super::raw_rwlock::RawRwLock) |
//! | `select` | [`Select`](super::Select) |
//! | `semaphore` | [`RawSemaphore`](super::raw_semaphore::RawSemaphore) |
//! | `wait_group` | [`WaitGroup`](super::WaitGroup) |
//!
//! All callers are kernel threads, or futures that a model polls by hand. Guarded values and
//! messages are watched memory. A limit has ended before the wait begins.

mod barrier;
mod channel;
mod condvar;
mod mutex;
mod once;
mod rwlock;
mod select;
mod semaphore;
mod wait_group;

use crate::base::Deadline;
use crate::base::models::Watched;
use crate::wait::Limit;
use std::time::Duration;

/// A limit that has ended already.
fn overdue() -> Limit {
    Limit::until(Deadline::after(Duration::ZERO))
}

/// A message. The sender writes it before it sends, and the receiver reads it.
type Message = Watched<u32>;

fn message(number: u32) -> Message {
    let message = Message::new(0);
    message.set(number);
    message
}
