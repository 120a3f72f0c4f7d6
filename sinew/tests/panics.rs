//! A panic belongs to the fibre that panics, whatever other fibres of its kernel thread do.

mod fixture;

use fixture::{SOON, everywhere, happens_within, own_thread_locals, wait_until, wherever};
use sinew::sync::{Mutex, RwLock};
use sinew::{JoinHandle, Runtime, task};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread::panicking;

/// Unwinds without calling the hook, which would print.
fn fail() -> ! {
    resume_unwind(Box::new("a panic"))
}

/// Fibres that stay suspended during their unwinding until `is_over`.
struct Unwinding {
    suspended: AtomicU32,
    is_over: AtomicBool,
}

/// Suspends the fibre that drops it.
struct Suspends<'a>(&'a Unwinding);

impl Drop for Suspends<'_> {
    fn drop(&mut self) {
        assert!(panicking());
        self.0.suspended.fetch_add(1, SeqCst);
        while !self.0.is_over.load(SeqCst) {
            sinew::park();
            assert!(panicking(), "the panic stayed on another kernel thread");
        }
    }
}

/// Calls `body` in a fibre while `number` other fibres of the runtime are suspended during their
/// unwinding. With one processor, they are on the same kernel thread.
fn beside_unwinding_fibres<T: Send>(rt: &Runtime, number: u32, body: impl FnOnce() -> T + Send) -> T {
    let unwinding = Arc::new(Unwinding { suspended: AtomicU32::new(0), is_over: AtomicBool::new(false) });
    rt.run(|| {
        let unwind = || {
            let unwinding = Arc::clone(&unwinding);
            move || {
                let _suspends = Suspends(&unwinding);
                fail()
            }
        };
        let fibres: Vec<JoinHandle<()>> = (0..number).map(|_| sinew::spawn(unwind())).collect();
        wait_until(|| unwinding.suspended.load(SeqCst) == number);
        let result = body();
        unwinding.is_over.store(true, SeqCst);
        for fibre in fibres {
            fibre.fibre().unpark();
            let payload = fibre.join().unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&"a panic"));
        }
        assert!(!panicking());
        result
    })
}

#[test]
fn a_holder_that_panics_poisons_its_lock_beside_a_neighbour_that_unwinds() {
    everywhere(|rt, _| {
        let (mutex, rwlock, of_std) = (Mutex::new(()), RwLock::new(()), std::sync::Mutex::new(()));
        beside_unwinding_fibres(rt, 1, || {
            assert!(!panicking());
            sinew::scope(|scope| {
                let holder = scope.spawn(|| {
                    let _guards = (mutex.lock().unwrap(), rwlock.write().unwrap(), of_std.lock().unwrap());
                    fail();
                });
                drop(holder.join());
            });
        });
        assert!(mutex.is_poisoned());
        assert!(rwlock.is_poisoned());
        assert!(of_std.is_poisoned());
    });
}

#[test]
fn a_neighbour_that_unwinds_does_not_poison_a_lock() {
    everywhere(|rt, _| {
        let (mutex, rwlock, of_std) = (Mutex::new(()), RwLock::new(()), std::sync::Mutex::new(()));
        let unwinding = Unwinding { suspended: AtomicU32::new(0), is_over: AtomicBool::new(false) };
        rt.run(|| {
            sinew::scope(|scope| {
                // The fibre locks before the neighbour panics, and unlocks while it unwinds. A
                // guard of std stays on its kernel thread.
                sinew::pinned(|| {
                    let guards = (mutex.lock().unwrap(), rwlock.write().unwrap(), of_std.lock().unwrap());
                    let neighbour = scope.spawn(|| {
                        let _suspends = Suspends(&unwinding);
                        fail();
                    });
                    wait_until(|| unwinding.suspended.load(SeqCst) == 1);
                    drop(guards);
                    unwinding.is_over.store(true, SeqCst);
                    neighbour.fibre().unpark();
                    drop::<std::thread::Result<()>>(neighbour.join());
                });
            });
        });
        assert!(!mutex.is_poisoned());
        assert!(!rwlock.is_poisoned());
        assert!(!of_std.is_poisoned());
    });
}

#[test]
fn only_fibres_and_tasks_that_unwind_are_panicking() {
    everywhere(|rt, _| {
        beside_unwinding_fibres(rt, 10, || {
            assert!(!panicking());
            assert!(!sinew::spawn(panicking).join().unwrap());
            assert!(!task::spawn(async { panicking() }).join().unwrap());
            let mutex = Arc::new(Mutex::new(()));
            let its_mutex = Arc::clone(&mutex);
            let task = task::spawn(async move {
                let _guard = its_mutex.lock_async().await.unwrap();
                fail();
            });
            drop::<Result<(), _>>(task.join());
            assert!(mutex.is_poisoned());
        });
    });
}

/// Returns the number of the process's kernel threads that keep panics apart.
fn keepers() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path().join("comm"));
    names.filter(|name| std::fs::read_to_string(name).is_ok_and(|name| name.trim() == "sinew-panics")).count()
}

#[test]
fn a_thousand_fibres_that_unwind_at_once_leave_nothing_behind() {
    wherever(
        |setup| setup.processors == 2,
        |rt, _| {
            // Fibres with thread-local variables of their own need no keeper.
            let expected = usize::from(!own_thread_locals());
            beside_unwinding_fibres(rt, 1000, || assert_eq!(keepers(), expected));
            assert!(happens_within(SOON, || keepers() == 0), "a kernel thread is left");
        },
    );
}

#[test]
fn a_panic_within_a_panic_keeps_both_counts_over_a_suspension() {
    struct Nested(Arc<AtomicBool>);
    impl Drop for Nested {
        fn drop(&mut self) {
            struct Yields;
            impl Drop for Yields {
                fn drop(&mut self) {
                    sinew::yield_now();
                }
            }
            let inner = catch_unwind(AssertUnwindSafe(|| {
                let _yields = Yields;
                fail();
            }));
            assert!(inner.is_err());
            self.0.store(panicking(), SeqCst);
        }
    }
    everywhere(|rt, _| {
        let was_panicking = Arc::new(AtomicBool::new(false));
        let nested = Nested(Arc::clone(&was_panicking));
        let outer: JoinHandle<()> = rt.spawn(move || {
            let _nested = nested;
            fail();
        });
        assert!(outer.join().is_err());
        assert!(was_panicking.load(SeqCst), "the outer panic was forgotten with the inner one");
        assert!(!rt.run(panicking));
    });
}
