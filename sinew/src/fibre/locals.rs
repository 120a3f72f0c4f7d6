//! Fibre-local storage: what `thread_local!` is to kernel threads.
#![allow(unsafe_code)]

use super::context::Context;
use super::with_record;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicU64, Ordering};

/// Declares variables of which each fibre has its own:
///
/// ```
/// use std::cell::Cell;
/// sinew::fibre_local! {
///     /// The number of requests that this fibre has served.
///     static SERVED: Cell<u32> = Cell::new(0);
/// }
/// sinew::run(|| {
///     SERVED.with(|served| served.set(served.get() + 1));
///     let other = sinew::spawn(|| SERVED.get()).join().unwrap();
///     assert_eq!((SERVED.get(), other), (1, 0));
/// });
/// ```
///
/// A variable is made when a fibre first uses it. It is dropped when that fibre ends, before a join
/// returns. On a kernel thread that runs no fibre it is a variable of that thread.
#[macro_export]
macro_rules! fibre_local {
    () => {};
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = const $init:block $(; $($rest:tt)*)?) => {
        $crate::fibre_local!($(#[$attr])* $vis static $name: $t = $init $(; $($rest)*)?);
    };
    ($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = $init:expr $(; $($rest:tt)*)?) => {
        $(#[$attr])*
        $vis static $name: $crate::LocalKey<$t> = $crate::LocalKey::new(|| $init);
        $($crate::fibre_local!($($rest)*);)?
    };
}

/// A fibre-local variable, declared by [`fibre_local!`](crate::fibre_local).
pub struct LocalKey<T: 'static> {
    init: fn() -> T,
    /// The variable's number, from 1; 0 until it is first used.
    number: AtomicU64,
}

/// The last number that was given to a key. It must not wrap: two keys of different types with one
/// number would take each other's values for their own. At one number each nanosecond, 64 bits last
/// 584 years.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The error for a variable that its fibre, which is ending, has dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessError;

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fibre-local variable was used during or after its drop")
    }
}

impl std::error::Error for AccessError {}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn new(init: fn() -> T) -> Self {
        LocalKey { init, number: AtomicU64::new(0) }
    }

    fn number(&self) -> usize {
        let known = self.number.load(Ordering::Relaxed);
        let number = if known == 0 { self.number_slow(&LAST) } else { known };
        usize::try_from(number).expect("the number of a variable fits a usize")
    }

    #[cold]
    fn number_slow(&self, last: &AtomicU64) -> u64 {
        let fresh = last.fetch_add(1, Ordering::Relaxed) + 1;
        match self.number.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(other) => other,
        }
    }

    /// Calls `f` with this fibre's value. Makes the value if there is none.
    ///
    /// # Panics
    /// If the fibre is ending and has dropped the variable.
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.try_with(f).expect("cannot access a fibre-local variable")
    }

    /// Calls `f` as [`with`](LocalKey::with) does.
    ///
    /// # Errors
    /// [`AccessError`] if the fibre is ending and has dropped the variable.
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let number = self.number();
        let value = with_locals(|locals| locals.get(number))??;
        let value = match value {
            Some(value) => value,
            None => {
                // Outside of the table: the initialiser may use other variables.
                let fresh = Box::new((self.init)());
                let (place, surplus) = with_locals(|locals| locals.insert(number, fresh))??;
                drop(surplus);
                place
            }
        };
        // SAFETY: entry `number` was made by this key, so it is a `T`; the table
        // belongs to the caller's fibre, which drops it only when it ends.
        Ok(f(unsafe { &*value.cast::<T>() }))
    }
}

impl<T: 'static> LocalKey<Cell<T>> {
    /// Replaces the value.
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    /// Returns a copy of the value.
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(Cell::get)
    }

    /// Takes the value and leaves the default in its place.
    pub fn take(&'static self) -> T
    where
        T: Default,
    {
        self.with(Cell::take)
    }

    /// Returns the value and leaves `value` in its place.
    pub fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T: 'static> LocalKey<RefCell<T>> {
    /// Calls `f` with the value borrowed.
    pub fn with_borrow<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        self.with(|cell| f(&cell.borrow()))
    }

    /// Calls `f` with the value borrowed mutably.
    pub fn with_borrow_mut<R>(&'static self, f: impl FnOnce(&mut T) -> R) -> R {
        self.with(|cell| f(&mut cell.borrow_mut()))
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

/// The variables and the contexts of one fibre. Only that fibre uses them.
pub(crate) struct Locals(UnsafeCell<Table>);

struct Table {
    /// Made with the first variable or context, dropped by `clear`. This takes one word of the record:
    /// most fibres have neither. The drop of a record does not look at it.
    kept: ManuallyDrop<Option<Box<Kept>>>,
    /// Says that the fibre is ending.
    closed: bool,
}

#[derive(Default)]
struct Kept {
    /// By number.
    variables: Vec<Option<Value>>,
    /// The oldest first.
    contexts: Vec<Rc<dyn Context>>,
}

struct Value {
    place: *const (),
    /// # Safety
    /// To be called once, with `place`.
    drop: unsafe fn(*const ()),
}

impl Locals {
    pub(crate) const fn new() -> Self {
        Locals(UnsafeCell::new(Table { kept: ManuallyDrop::new(None), closed: false }))
    }

    /// # Safety of the body
    /// No reference into the table outlives a method, no method calls out.
    #[allow(clippy::mut_from_ref)]
    fn table(&self) -> &mut Table {
        // SAFETY: only the owning fibre gets here, and see above.
        unsafe { &mut *self.0.get() }
    }

    fn get(&self, number: usize) -> Result<Option<*const ()>, AccessError> {
        let table = self.table();
        if table.closed {
            return Err(AccessError);
        }
        let entry = table.kept.as_ref().and_then(|kept| kept.variables.get(number)?.as_ref());
        Ok(entry.map(|value| value.place))
    }

    /// Enters a value and returns its address. If the initialiser has made the variable itself, by
    /// recursion, the first value stays, because there may be references to it. Then the caller
    /// gets `value` back to drop.
    fn insert<T>(&self, number: usize, value: Box<T>) -> Result<(*const (), Option<Box<T>>), AccessError> {
        /// # Safety
        /// `place` came out of a `Box<T>` and is not used again.
        unsafe fn drop_box<T>(place: *const ()) {
            // SAFETY: by the contract.
            drop(unsafe { Box::from_raw(place.cast_mut().cast::<T>()) });
        }
        let table = self.table();
        if table.closed {
            return Err(AccessError);
        }
        let values = &mut table.kept.get_or_insert_default().variables;
        if values.len() <= number {
            values.resize_with(number + 1, || None);
        }
        if let Some(first) = &values[number] {
            return Ok((first.place, Some(value)));
        }
        let place = Box::into_raw(value).cast_const().cast();
        values[number] = Some(Value { place, drop: drop_box::<T> });
        Ok((place, None))
    }

    /// Drops all variables. From then on none can be used, so the destructor of one cannot reach
    /// another. By the fibre, when its closure has ended.
    pub(crate) fn clear(&self) {
        self.table().closed = true;
        if self.table().kept.is_some() {
            self.clear_slow();
        }
    }

    /// Drops all variables, and all contexts that are still attached. Then there are none, as in a new
    /// fibre. Calls `without_contexts` if there may have been contexts. By a carrier.
    #[inline]
    pub(super) fn renew(&self, without_contexts: impl FnOnce()) {
        if self.table().kept.is_some() {
            self.clear();
            self.table().closed = false;
            without_contexts();
        }
    }

    #[cold]
    fn clear_slow(&self) {
        let variables = self.table().kept.as_mut().map(|kept| mem::take(&mut kept.variables)).unwrap_or_default();
        let result = catch_unwind(AssertUnwindSafe(|| {
            for value in variables.into_iter().flatten() {
                // SAFETY: the table is closed, so nobody else has the value.
                unsafe { (value.drop)(value.place) };
            }
            // After the variables: their drop may block.
            drop(self.table().kept.take());
        }));
        if result.is_err() {
            crate::base::fatal("a fibre-local variable panicked when it was dropped");
        }
    }
}

/// The contexts of a fibre, by that fibre.
impl Locals {
    /// Adds a context. Returns `false` if the fibre is ending.
    pub(super) fn attach(&self, context: Rc<dyn Context>) -> bool {
        let table = self.table();
        if !table.closed {
            table.kept.get_or_insert_default().contexts.push(context);
        }
        !table.closed
    }

    /// Takes a context out. Returns it, and whether no context is left.
    pub(super) fn detach(&self, context: &Weak<dyn Context>) -> (Option<Rc<dyn Context>>, bool) {
        let Some(kept) = self.table().kept.as_mut() else { return (None, true) };
        let place = kept.contexts.iter().rposition(|attached| Rc::as_ptr(attached).addr() == context.as_ptr().addr());
        (place.map(|place| kept.contexts.remove(place)), kept.contexts.is_empty())
    }

    /// Takes all contexts out, so that they can be called.
    pub(super) fn take_contexts(&self) -> Vec<Rc<dyn Context>> {
        self.table().kept.as_mut().map_or_else(Vec::new, |kept| mem::take(&mut kept.contexts))
    }

    /// Puts back what [`take_contexts`](Locals::take_contexts) has returned.
    pub(super) fn put_contexts(&self, contexts: Vec<Rc<dyn Context>>) {
        if let Some(kept) = self.table().kept.as_mut() {
            kept.contexts = contexts;
        }
    }
}

/// Calls `f` with the table of the calling fibre or kernel thread, unless that thread is ending.
fn with_locals<R>(f: impl FnOnce(&Locals) -> R) -> Result<R, AccessError> {
    struct OfThread(Locals);
    impl Drop for OfThread {
        fn drop(&mut self) {
            self.0.clear();
        }
    }
    thread_local!(static THREAD: OfThread = const { OfThread(Locals::new()) });
    with_record(|record| match record {
        Some(record) => Ok(f(record.locals())),
        None => THREAD.try_with(|of_thread| f(&of_thread.0)).map_err(|_| AccessError),
    })
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn keys_have_different_numbers_beyond_32_bits() {
        let last = AtomicU64::new(u64::from(u32::MAX) - 1);
        let keys = [const { LocalKey::new(|| ()) }; 3];
        let numbers = keys.each_ref().map(|key| key.number_slow(&last));
        assert_eq!(numbers, [1, 2, 3].map(|more| u64::from(u32::MAX) - 1 + more));
        let again = keys.each_ref().map(|key| key.number() as u64);
        assert_eq!(again, numbers, "a key keeps its number");
    }
}
