//! Channels that keep the last value.
//!
//! A sender replaces the value. Receivers look at it at any time, and wait until it changes. A
//! receiver that was away sees the last value, not those in between. So nobody waits for a slow
//! receiver: this is for settings, for the state of a connection, for "stop".
//!
//! A channel is closed when all its senders are dropped. The receivers of a closed channel can
//! still look at the last value.
//!
//! Fibres, tasks and kernel threads may use the same channel.
//!
//! ```
//! use sinew::sync::watch;
//!
//! sinew::run(|| {
//!     let (phase, mut seen) = watch::channel("starting");
//!     let mut other = seen.clone();
//!     let waiting = sinew::spawn(move || other.wait_for(|phase| *phase == "ready").map(|phase| *phase));
//!     phase.send("loading").unwrap();
//!     phase.send("ready").unwrap();
//!     assert_eq!(waiting.join().unwrap(), Ok("ready"));
//!     seen.changed().unwrap();
//!     assert_eq!(*seen.borrow(), "ready");
//!     drop(phase);
//!     assert!(seen.changed().is_err());
//! });
//! ```
//!
//! # How it works
//!
//! The value lies in an [`Arc`], which a sender exchanges under a lock. A receiver that looks at it
//! takes a reference. So it holds up no sender, however long it keeps the value, and may keep it
//! while it waits. Each exchange counts the *version* up. A receiver has the version that it has
//! seen last.

use crate::base::Deadline;
use crate::base::spin::{SpinGuard, SpinLock};
use crate::wait::budget;
use crate::wait::budget::spend_async;
use crate::wait::{End, Limit, Outcome, Queue, wait_in, wait_in_async};
use crate::wait::{Reason, Why};
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError};

/// Makes a channel with a first value. The receiver has seen it.
#[must_use]
pub fn channel<T>(first: T) -> (Sender<T>, Receiver<T>) {
    let state = State { waiting: Queue::new(), version: 0, senders: 1, receivers: 1, value: Arc::new(first) };
    let shared = Arc::new(Shared { state: SpinLock::new(state) });
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared, seen: 0 })
}

/// The sending end of a channel.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The receiving end of a channel. A clone has seen what this one has seen.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// The version that this receiver has seen last.
    seen: u64,
}

struct Shared<T> {
    state: SpinLock<State<T>>,
}

// A user's code never runs under the lock, so no panic leaves a channel half changed.
impl<T> UnwindSafe for Shared<T> {}
impl<T> RefUnwindSafe for Shared<T> {}

struct State<T> {
    /// Receivers that wait. The note is the version that each has seen.
    waiting: Queue<u64>,
    version: u64,
    senders: usize,
    receivers: usize,
    value: Arc<T>,
}

/// What a receiver finds.
enum Found<'a, T> {
    /// A version that it has not seen.
    Changed(u64),
    Disconnected,
    /// With the lock, under which the receiver may enter the queue.
    Nothing(SpinGuard<'a, State<T>>),
}

impl<T> Shared<T> {
    fn find(&self, seen: u64) -> Found<'_, T> {
        let state = self.state.lock();
        if state.version != seen {
            Found::Changed(state.version)
        } else if state.senders == 0 {
            Found::Disconnected
        } else {
            Found::Nothing(state)
        }
    }

    /// Returns the value and its version.
    fn look(&self) -> (Arc<T>, u64) {
        let state = self.state.lock();
        (Arc::clone(&state.value), state.version)
    }

    /// Exchanges the value, under the lock. Lets the receivers go on. Returns the value before.
    fn exchange(&self, mut state: SpinGuard<'_, State<T>>, value: Arc<T>) -> Arc<T> {
        let before = std::mem::replace(&mut state.value, value);
        state.version += 1;
        let (version, somebody_waits) = (state.version, !state.waiting.is_empty());
        drop(state);
        if somebody_waits {
            self.tell(version);
        }
        before
    }

    /// Lets the receivers go on that have seen no version from `version` on. One batch at a time:
    /// others need the lock between two batches.
    fn tell(&self, version: u64) {
        loop {
            let some = self.state.lock().waiting.pop_some(|seen| *seen < version);
            if some.is_empty() {
                return;
            }
        }
    }

    fn fmt_end(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result
    where
        T: fmt::Debug,
    {
        let state = self.state.lock();
        let (value, version) = (Arc::clone(&state.value), state.version);
        let (senders, receivers, waiters) = (state.senders, state.receivers, state.waiting.len());
        drop(state);
        f.debug_struct(name)
            .field("value", &value)
            .field("version", &version)
            .field("senders", &senders)
            .field("receivers", &receivers)
            .field("waiters", &waiters)
            .field("closed", &(senders == 0 || receivers == 0))
            .finish()
    }
}

impl<T> Sender<T> {
    /// Replaces the value. Never waits, but gives others a turn now and then: see
    /// [`mpmc`](super::mpmc). So there is no form for tasks: they call this one.
    ///
    /// # Errors
    /// If there are no receivers. The new value is in the error, and the channel keeps the old one:
    /// see [`send_replace`](Sender::send_replace).
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let value = Arc::new(value);
        let state = self.shared.state.lock();
        if state.receivers == 0 {
            drop(state);
            return Err(SendError(Arc::into_inner(value).expect("nobody else has the value")));
        }
        drop(self.shared.exchange(state, value));
        budget::spend(budget::MESSAGE);
        Ok(())
    }

    /// Replaces the value, also if there are no receivers. Returns the value before.
    pub fn send_replace(&self, value: T) -> Arc<T> {
        let value = Arc::new(value);
        self.shared.exchange(self.shared.state.lock(), value)
    }

    /// Changes the value, also if there are no receivers. `change` gets a clone of the value. If
    /// another sender is faster, it is called again with the new value.
    ///
    /// ```
    /// let (count, seen) = sinew::sync::watch::channel(1);
    /// count.send_modify(|count| *count += 1);
    /// assert_eq!(*seen.borrow(), 2);
    /// ```
    pub fn send_modify(&self, mut change: impl FnMut(&mut T))
    where
        T: Clone,
    {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// As [`send_modify`](Sender::send_modify), but keeps the old value if `change` returns
    /// `false`. Returns what `change` returned last.
    pub fn send_if_modified(&self, mut change: impl FnMut(&mut T) -> bool) -> bool
    where
        T: Clone,
    {
        loop {
            let (before, version) = self.shared.look();
            let mut value = T::clone(&before);
            if !change(&mut value) {
                return false;
            }
            let value = Arc::new(value);
            let state = self.shared.state.lock();
            if state.version == version {
                drop(self.shared.exchange(state, value));
                return true;
            }
        }
    }

    /// Returns the value.
    #[must_use]
    pub fn borrow(&self) -> Arc<T> {
        self.shared.look().0
    }

    /// Makes a receiver, which has seen the present value.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        let mut state = self.shared.state.lock();
        state.receivers = state.receivers.checked_add(1).expect("a channel has less than 2^64 receivers");
        let seen = state.version;
        drop(state);
        Receiver { shared: Arc::clone(&self.shared), seen }
    }

    /// Returns the number of receivers.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.shared.state.lock().receivers
    }

    /// Returns whether there are no receivers.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.receiver_count() == 0
    }
}

impl<T> Receiver<T> {
    /// Returns the value. It still counts as changed, if the receiver has not seen it before.
    #[must_use]
    pub fn borrow(&self) -> Arc<T> {
        self.shared.look().0
    }

    /// Returns the value. The receiver has seen it then.
    pub fn borrow_and_update(&mut self) -> Arc<T> {
        let (value, version) = self.shared.look();
        self.seen = version;
        value
    }

    /// Returns whether there is a value that this receiver has not seen.
    ///
    /// # Errors
    /// If there is none, and all senders are gone.
    pub fn has_changed(&self) -> Result<bool, RecvError> {
        match self.shared.find(self.seen) {
            Found::Changed(_) => Ok(true),
            Found::Nothing(_) => Ok(false),
            Found::Disconnected => Err(RecvError),
        }
    }

    /// Waits until there is a value that this receiver has not seen. It has seen it then.
    ///
    /// # Errors
    /// If there is none, and all senders are gone. The same error comes if the calling fibre would
    /// have to wait and is [cancelled](crate::cancel), or a deadline that it carries has passed.
    pub fn changed(&mut self) -> Result<(), RecvError> {
        self.changed_within(Limit::CARRIED).map_err(|_| RecvError)
    }

    /// As [`changed`](Receiver::changed), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// As for `changed`, and if the time was up first.
    pub fn changed_timeout(&mut self, timeout: Duration) -> Result<(), RecvTimeoutError> {
        self.changed_within(Limit::carried_until(Deadline::after(timeout)))
    }

    /// As [`changed`](Receiver::changed), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// As for `changed`, and if the time was up first.
    pub fn changed_deadline(&mut self, deadline: Instant) -> Result<(), RecvTimeoutError> {
        self.changed_within(Limit::carried_until(Deadline::at(deadline)))
    }

    /// As [`changed`](Receiver::changed), for tasks. If the future is dropped before its end, the
    /// receiver has seen nothing.
    ///
    /// # Errors
    /// If there is no new value, and all senders are gone.
    pub async fn changed_async(&mut self) -> Result<(), RecvError> {
        spend_async().await;
        loop {
            let state = match self.shared.find(self.seen) {
                Found::Changed(version) => {
                    self.seen = version;
                    return Ok(());
                }
                Found::Disconnected => return Err(RecvError),
                Found::Nothing(state) => state,
            };
            let (lock, seen) = (&self.shared.state, self.seen);
            wait_in_async(
                lock,
                state,
                |state| &mut state.waiting,
                End::Back.of(Why::at(Reason::Watch, lock)),
                seen,
                || (),
                |_, _| (),
            )
            .await;
        }
    }

    /// Waits until `condition` holds for the value, and returns that. The present value counts,
    /// also if the receiver has seen it before. The values for which `condition` was called have
    /// been seen.
    ///
    /// # Errors
    /// As for [`changed`](Receiver::changed).
    pub fn wait_for(&mut self, condition: impl FnMut(&T) -> bool) -> Result<Arc<T>, RecvError> {
        self.wait_for_within(condition, Limit::CARRIED).map_err(|_| RecvError)
    }

    /// As [`wait_for`](Receiver::wait_for), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// As for `wait_for`, and if the time was up first.
    pub fn wait_for_timeout(
        &mut self,
        condition: impl FnMut(&T) -> bool,
        timeout: Duration,
    ) -> Result<Arc<T>, RecvTimeoutError> {
        self.wait_for_within(condition, Limit::carried_until(Deadline::after(timeout)))
    }

    /// As [`wait_for`](Receiver::wait_for), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// As for `wait_for`, and if the time was up first.
    pub fn wait_for_deadline(
        &mut self,
        condition: impl FnMut(&T) -> bool,
        deadline: Instant,
    ) -> Result<Arc<T>, RecvTimeoutError> {
        self.wait_for_within(condition, Limit::carried_until(Deadline::at(deadline)))
    }

    /// As [`wait_for`](Receiver::wait_for), for tasks.
    ///
    /// # Errors
    /// If all senders are gone before `condition` held.
    pub async fn wait_for_async(&mut self, mut condition: impl FnMut(&T) -> bool) -> Result<Arc<T>, RecvError> {
        loop {
            let value = self.borrow_and_update();
            if condition(&value) {
                return Ok(value);
            }
            drop(value);
            self.changed_async().await?;
        }
    }

    fn wait_for_within(
        &mut self,
        mut condition: impl FnMut(&T) -> bool,
        limit: Limit,
    ) -> Result<Arc<T>, RecvTimeoutError> {
        loop {
            let value = self.borrow_and_update();
            if condition(&value) {
                return Ok(value);
            }
            drop(value);
            self.changed_within(limit)?;
        }
    }

    fn changed_within(&mut self, limit: Limit) -> Result<(), RecvTimeoutError> {
        loop {
            let state = match self.shared.find(self.seen) {
                Found::Changed(version) => {
                    self.seen = version;
                    budget::spend(budget::MESSAGE);
                    return Ok(());
                }
                Found::Disconnected => {
                    budget::spend(budget::MESSAGE);
                    return Err(RecvTimeoutError::Disconnected);
                }
                Found::Nothing(state) => state,
            };
            let (lock, seen) = (&self.shared.state, self.seen);
            match wait_in(
                lock,
                state,
                |state| &mut state.waiting,
                End::Back.of(Why::at(Reason::Watch, lock)),
                seen,
                limit,
                || (),
            )
            .0
            {
                Outcome::Told => {}
                Outcome::TimedOut => return Err(RecvTimeoutError::Timeout),
                Outcome::Cancelled => return Err(RecvTimeoutError::Disconnected),
            }
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        let mut state = self.shared.state.lock();
        state.senders = state.senders.checked_add(1).expect("a channel has less than 2^64 senders");
        drop(state);
        Sender { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        let mut state = self.shared.state.lock();
        state.receivers = state.receivers.checked_add(1).expect("a channel has less than 2^64 receivers");
        drop(state);
        Receiver { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.senders -= 1;
        let is_last = state.senders == 0;
        drop(state);
        if is_last {
            self.shared.tell(u64::MAX);
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.state.lock().receivers -= 1;
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt_end("Sender", f)
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt_end("Receiver", f)
    }
}
