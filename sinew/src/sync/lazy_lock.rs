//! `LazyLock`, with std's signatures and poisoning.
#![allow(unsafe_code)]

use super::OnceLock;
use crate::base::atomic::const_fn;
use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A value that is made when it is first used: `std::sync::LazyLock` for fibres, and
/// kernel threads too. Who comes while it is made waits.
///
/// If that panics the value can never be had: whoever uses it panics, too.
///
/// ```
/// use sinew::sync::LazyLock;
/// static SQUARES: LazyLock<Vec<u32>> = LazyLock::new(|| (0..100).map(|n| n * n).collect());
/// sinew::run(|| assert_eq!(SQUARES[7], 49));
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    /// Taken by whoever makes the value, inside of `value`'s closure; or used by
    /// whoever has the only reference.
    init: Cell<Option<F>>,
}

// SAFETY: `value` calls one closure at a time, so `init` is used by one at a time, who
// need not be the one that made it (`F: Send`). Nobody gets a reference to it.
unsafe impl<T: Send + Sync, F: Send> Sync for LazyLock<T, F> {}

impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for LazyLock<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for LazyLock<T, F> {}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    const_fn! {
        /// A value that `f` is going to make.
        pub fn new(f: F) -> LazyLock<T, F> {
            LazyLock { value: OnceLock::new(), init: Cell::new(Some(f)) }
        }
    }

    /// Makes the value, if it has not been made, and gives it; as `*this` does.
    ///
    /// # Panics
    /// If the closure does, or did; if it uses the value itself.
    #[inline]
    #[track_caller]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        this.value.get_or_init(|| make(this.init.take()))
    }

    /// As [`force`](LazyLock::force), for tasks: whoever makes the value may be waited for.
    ///
    /// # Panics
    /// As `force`.
    pub async fn force_async(this: &LazyLock<T, F>) -> &T {
        this.value.get_or_init_async(async || make(this.init.take())).await
    }

    /// As [`force`](LazyLock::force), and the value may be changed; as `*this` does.
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
fn make<T, F: FnOnce() -> T>(init: Option<F>) -> T {
    match init {
        Some(init) => init(),
        None => panic!("LazyLock instance has previously been poisoned"),
    }
}

impl<T, F> LazyLock<T, F> {
    /// The value, if it has been made.
    #[inline]
    pub fn get(this: &LazyLock<T, F>) -> Option<&T> {
        this.value.get()
    }

    /// The value, if it has been made, to be changed.
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
