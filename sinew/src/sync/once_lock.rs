//! `OnceLock`, with std's signatures.
#![allow(unsafe_code)]

use super::once::{Once, Poison};
use crate::base::Deadline;
use crate::base::atomic::const_fn;
use crate::wait::Limit;
use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

/// A place that is written once: `std::sync::OnceLock` for fibres, and kernel threads
/// too.
///
/// ```
/// use sinew::sync::OnceLock;
/// static NAME: OnceLock<String> = OnceLock::new();
/// sinew::run(|| {
///     let readers: Vec<_> = (0..10).map(|_| sinew::spawn(|| NAME.wait().len())).collect();
///     NAME.set("sinew".to_owned()).unwrap();
///     assert!(readers.into_iter().all(|reader| reader.join().unwrap() == 5));
/// });
/// ```
pub struct OnceLock<T> {
    once: Once,
    /// `Some` if and only if `once` is done. Written only by the closure that `once` calls, or
    /// through the only reference.
    value: UnsafeCell<Option<T>>,
}

// SAFETY: a shared reference lets a caller put a value here, which another thread drops or
// takes out later (`Send`), and lets all callers read it (`Sync`).
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceLock<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceLock<T> {}

impl<T> OnceLock<T> {
    const_fn! {
        /// Makes an empty place.
        pub fn new() -> OnceLock<T> {
            OnceLock { once: Once::new(), value: UnsafeCell::new(None) }
        }
    }

    /// Returns the value, if it is there.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        if !self.once.is_completed() {
            return None;
        }
        // SAFETY: `once` is done: the value was written before, and there are only shared
        // references now.
        Some(unsafe { (*self.value.get()).as_ref().unwrap_unchecked() })
    }

    /// Returns the value to be changed, if it is there.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut().as_mut()
    }

    /// Waits until another caller has put a value here.
    #[inline]
    #[track_caller]
    pub fn wait(&self) -> &T {
        if !self.once.is_completed() {
            self.once.wait_force();
        }
        self.get().expect("the value is there after the wait")
    }

    /// As [`wait`](OnceLock::wait), but for no longer than `timeout`. Returns `None` if the time
    /// was up first.
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> Option<&T> {
        self.once.wait_within(Poison::Ignore, Limit::until(Deadline::after(timeout)));
        self.get()
    }

    /// As [`wait`](OnceLock::wait), but only until `deadline`. Returns `None` if the time was up
    /// first.
    #[track_caller]
    pub fn wait_deadline(&self, deadline: Instant) -> Option<&T> {
        self.once.wait_within(Poison::Ignore, Limit::until(Deadline::at(deadline)));
        self.get()
    }

    /// As [`wait`](OnceLock::wait), but notices [cancellation](crate::cancel). Returns `None` if
    /// the caller would have to wait and is cancelled, or a deadline that it carries has passed.
    #[track_caller]
    pub fn wait_cancellable(&self) -> Option<&T> {
        self.once.wait_within(Poison::Ignore, Limit::CARRIED);
        self.get()
    }

    /// As [`wait`](OnceLock::wait), for tasks.
    pub async fn wait_async(&self) -> &T {
        self.once.wait_for(Poison::Ignore).await;
        self.get().expect("the value is there after the wait")
    }

    /// As [`get_or_init`](OnceLock::get_or_init), for tasks. If the future is dropped while `f`
    /// is at work, the place stays empty.
    ///
    /// # Panics
    /// If `f` panics.
    pub async fn get_or_init_async<F: AsyncFnOnce() -> T>(&self, f: F) -> &T {
        if let Some(running) = self.once.begin(Poison::Ignore).await {
            let value = f().await;
            // SAFETY: `once` runs one closure at a time, and nobody reads before it is done.
            unsafe { *self.value.get() = Some(value) };
            running.done();
        }
        self.get().expect("the value was made by this caller or another")
    }

    /// Puts a value here. If another caller is about to do so, waits for it.
    ///
    /// # Errors
    /// `value`, if there is a value already.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("the value is taken once"));
        value.map_or(Ok(()), Err)
    }

    /// As [`set`](OnceLock::set), for tasks. A future that is dropped before its end drops the
    /// value as well.
    ///
    /// # Errors
    /// As `set`.
    pub async fn set_async(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init_async(async || value.take().expect("the value is taken once")).await;
        value.map_or(Ok(()), Err)
    }

    /// Returns the value. If there is none, calls `f` and puts what it makes here. Callers that
    /// come meanwhile wait.
    ///
    /// # Panics
    /// If `f` panics: then the place stays empty. If `f` itself puts a value here, or waits for
    /// one.
    #[inline]
    #[track_caller]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        self.init(f);
        self.get().expect("the value was made by this caller or another")
    }

    #[cold]
    #[track_caller]
    fn init<F: FnOnce() -> T>(&self, f: F) {
        self.once.call_once_force(|_| {
            let value = f();
            // SAFETY: `once` runs one closure at a time, and nobody reads before it is done.
            unsafe { *self.value.get() = Some(value) };
        });
    }

    /// Returns the value, if it is there.
    #[inline]
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Takes the value out. The place is empty then, and can be used again.
    #[inline]
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock::new()
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> OnceLock<T> {
        self.get().map_or_else(OnceLock::new, |value| OnceLock::from(value.clone()))
    }
}

impl<T> From<T> for OnceLock<T> {
    /// Makes a place with this value.
    fn from(value: T) -> Self {
        let place = OnceLock::new();
        place.init(|| value);
        place
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &OnceLock<T>) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_tuple("OnceLock");
        match self.get() {
            Some(value) => debug.field(value),
            None => debug.field(&format_args!("<uninit>")),
        };
        debug.finish()
    }
}
