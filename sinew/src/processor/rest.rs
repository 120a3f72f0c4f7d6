//! How the warden rests while all processors sleep.
//!
//! | thread | step 1 | fence | step 2 |
//! | --- | --- | --- | --- |
//! | the warden | says that it rests | heavy | looks at the processors; if one is awake, it does not rest |
//! | a processor | is awake | light | looks whether the warden rests; if so, it wakes the warden |
//!
//! At least one of them sees the other, so no processor is awake while the warden rests. A processor
//! that wakes up pays for one load.

use crate::base::atomic::{AtomicU32, Relaxed};
use crate::base::fence;
use std::time::Duration;

/// States of the word, on which the warden sleeps.
const ON_DUTY: u32 = 0;
const RESTING: u32 = 1;
const STOPPED: u32 = 2;

pub(super) struct Rest {
    word: AtomicU32,
}

impl Rest {
    pub(super) fn new() -> Rest {
        Rest { word: AtomicU32::new(ON_DUTY) }
    }

    /// Ends the rest. By a processor that has woken up.
    #[inline]
    pub(super) fn disturb(&self) {
        fence::light();
        if self.word.load(Relaxed) == RESTING {
            self.end();
        }
    }

    #[cold]
    fn end(&self) {
        if self.word.compare_exchange(RESTING, ON_DUTY, Relaxed, Relaxed).is_ok() {
            kernel_wake(&self.word);
        }
    }

    /// Sleeps until a processor wakes up, unless `is_one_awake` says that one is.
    pub(super) fn begin(&self, is_one_awake: impl Fn() -> bool) {
        if self.word.compare_exchange(ON_DUTY, RESTING, Relaxed, Relaxed).is_err() {
            return;
        }
        fence::heavy();
        if is_one_awake() {
            let _ = self.word.compare_exchange(RESTING, ON_DUTY, Relaxed, Relaxed);
        }
        while self.word.load(Relaxed) == RESTING {
            kernel_wait(&self.word, RESTING, None);
        }
    }

    /// Sleeps for this time, or until the warden is stopped.
    pub(super) fn pause(&self, time: Duration) {
        kernel_wait(&self.word, ON_DUTY, Some(time));
    }

    pub(super) fn stop(&self) {
        self.word.store(STOPPED, Relaxed);
        kernel_wake(&self.word);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.word.load(Relaxed) == STOPPED
    }
}

#[cfg(not(sinew_loom))]
fn kernel_wake(word: &AtomicU32) {
    crate::base::kernel::futex_wake(word);
}

#[cfg(not(sinew_loom))]
fn kernel_wait(word: &AtomicU32, value: u32, timeout: Option<Duration>) {
    crate::base::kernel::futex_wait(word, value, timeout);
}

#[cfg(sinew_loom)]
fn kernel_wake(_word: &AtomicU32) {}

#[cfg(sinew_loom)]
fn kernel_wait(_word: &AtomicU32, _value: u32, _timeout: Option<Duration>) {
    loom::thread::yield_now();
}
