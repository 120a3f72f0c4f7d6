//! `LazyLock`, with std's signatures and poisoning.

use super::OnceLock;
use crate::base::atomic::const_fn;
use crate::base::spin::SpinLock;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A value that is made when it is first used: `std::sync::LazyLock` for fibres, and
/// kernel threads too. Callers that come while it is made wait.
///
/// If the closure panics, the lock is poisoned: each later use panics, too.
///
/// ```
/// use sinew::sync::LazyLock;
/// static SQUARES: LazyLock<Vec<u32>> = LazyLock::new(|| (0..100).map(|n| n * n).collect());
/// sinew::run(|| assert_eq!(SQUARES[7], 49));
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    /// Taken out by the first caller that makes the value. The lock is never contended: `value`
    /// lets one caller at a time come here.
    init: SpinLock<Option<F>>,
}

impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    const_fn! {
        /// Makes a lock whose value `f` will make.
        pub fn new(f: F) -> LazyLock<T, F> {
            LazyLock { value: OnceLock::new(), init: SpinLock::new(Some(f)) }
        }
    }

    /// Makes the value, if it has not been made, and returns it, as `*this` does.
    ///
    /// # Panics
    /// If the closure panics, or has panicked; if it uses the value itself.
    #[inline]
    #[track_caller]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.value.get_or_init(|| make(&this.init))
    }

    /// As [`force`](LazyLock::force), for tasks.
    ///
    /// # Panics
    /// As `force`.
    pub async fn force_async(this: &LazyLock<T, F>) -> &T {
        this.value.get_or_init_async(async || make(&this.init)).await
    }

    /// As [`force`](LazyLock::force), for a value that is to be changed.
    ///
    /// # Panics
    /// As `force`.
    #[inline]
    #[track_caller]
    pub fn force_mut(this: &mut LazyLock<T, F>) -> &mut T {
        LazyLock::force(this);
        this.value.get_mut().expect("it has been made")
    }
}

#[track_caller]
fn make<T, F: FnOnce() -> T>(init: &SpinLock<Option<F>>) -> T {
    // Unlocked before the closure is called.
    let init = init.lock().take();
    match init {
        Some(init) => init(),
        None => panic!("LazyLock instance has previously been poisoned"),
    }
}

impl<T, F> LazyLock<T, F> {
    /// Returns the value, if it has been made.
    #[inline]
    pub fn get(this: &LazyLock<T, F>) -> Option<&T> {
        this.value.get()
    }

    /// Returns the value to be changed, if it has been made.
    #[inline]
    pub fn get_mut(this: &mut LazyLock<T, F>) -> Option<&mut T> {
        this.value.get_mut()
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    #[track_caller]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T, F: FnOnce() -> T> DerefMut for LazyLock<T, F> {
    #[inline]
    #[track_caller]
    fn deref_mut(&mut self) -> &mut T {
        LazyLock::force_mut(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> LazyLock<T> {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_tuple("LazyLock");
        match LazyLock::get(self) {
            Some(value) => debug.field(value),
            None => debug.field(&format_args!("<uninit>")),
        };
        debug.finish()
    }
}
