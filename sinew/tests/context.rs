//! Contexts that follow a fibre through its switches.

#[macro_use]
mod fixture;

use fixture::rerun::{Rerun, SIGABRT};
use fixture::{alone, everywhere, wait_until};
use sinew::context::{self, Attached, Context};
use sinew::sync::mpsc;
use sinew::{FibreBuilder, Runtime, fibre_local};
use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local!(static CURRENT: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });

/// Never inlined: the caller may be on another kernel thread at each call.
#[inline(never)]
fn push(number: u32) {
    CURRENT.with_borrow_mut(|current| current.push(number));
}

#[inline(never)]
fn pop() -> Option<u32> {
    CURRENT.with_borrow_mut(Vec::pop)
}

#[inline(never)]
fn current() -> Vec<u32> {
    CURRENT.with_borrow(Vec::clone)
}

/// A number that is on the stack of its kernel thread while its fibre runs.
struct Number(u32);

impl Context for Number {
    fn suspend(&self) {
        assert_eq!(pop(), Some(self.0));
    }

    fn resume(&self) {
        push(self.0);
    }
}

fn enter(number: u32) -> Attached {
    push(number);
    context::attach(Rc::new(Number(number)))
}

fn leave(number: u32, attached: Attached) {
    drop(attached);
    assert_eq!(pop(), Some(number));
}

#[test]
fn a_context_is_on_the_kernel_thread_only_while_its_fibre_runs() {
    everywhere(|rt, _| {
        let fibre = |n: u32| {
            move || {
                assert_eq!(current(), []);
                let outer = enter(n);
                sinew::yield_now();
                let inner = enter(n + 1);
                for _ in 0..20 {
                    sinew::yield_now();
                    assert_eq!(current(), [n, n + 1]);
                }
                leave(n + 1, inner);
                sinew::yield_now();
                assert_eq!(current(), [n]);
                leave(n, outer);
                sinew::yield_now();
                assert_eq!(current(), []);
            }
        };
        let fibres: Vec<_> = (0..20).map(|n| rt.spawn(fibre(10 * n))).collect();
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
    });
}

#[test]
fn a_context_follows_its_fibre_through_every_kind_of_wait() {
    everywhere(|rt, _| {
        rt.run(|| {
            let attached = enter(7);
            let (sender, receiver) = mpsc::channel();
            let other = FibreBuilder::new().spawn(move || {
                assert_eq!(current(), []);
                sender.send(current().len()).unwrap();
            });
            assert_eq!(receiver.recv(), Ok(0));
            assert_eq!(current(), [7]);
            other.unwrap().join().unwrap();
            assert_eq!(current(), [7]);
            sinew::sleep(std::time::Duration::from_micros(50));
            assert_eq!(current(), [7]);
            leave(7, attached);
        });
    });
}

#[test]
fn a_fibre_that_unwinds_keeps_its_context() {
    everywhere(|rt, _| {
        struct Yields;
        impl Drop for Yields {
            fn drop(&mut self) {
                sinew::yield_now();
                assert_eq!(current(), [3]);
            }
        }
        let failing = rt.spawn(|| {
            let attached = enter(3);
            let caught = std::panic::catch_unwind(|| {
                let _yields = Yields;
                resume_unwind(Box::new("a panic"));
            });
            assert!(caught.is_err());
            leave(3, attached);
        });
        let other = rt.spawn(|| {
            for _ in 0..5 {
                assert_eq!(current(), []);
                sinew::yield_now();
            }
        });
        failing.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn a_context_that_is_still_attached_when_its_fibre_ends_is_dropped() {
    static DROPPED: AtomicBool = AtomicBool::new(false);
    struct Leaked;
    impl Context for Leaked {
        fn suspend(&self) {}
        fn resume(&self) {}
    }
    impl Drop for Leaked {
        fn drop(&mut self) {
            DROPPED.store(true, Ordering::SeqCst);
        }
    }
    fibre_local!(static KEPT: Cell<Option<Attached>> = const { Cell::new(None) });
    everywhere(|rt, _| {
        DROPPED.store(false, Ordering::SeqCst);
        rt.spawn(|| KEPT.set(Some(context::attach(Rc::new(Leaked))))).join().unwrap();
        wait_until(|| DROPPED.load(Ordering::SeqCst));
    });
}

#[test]
fn a_context_of_a_fibre_works_while_its_variables_are_dropped() {
    struct Yields;
    impl Drop for Yields {
        fn drop(&mut self) {
            sinew::yield_now();
            assert_eq!(current(), [5]);
            assert_eq!(pop(), Some(5));
        }
    }
    fibre_local! {
        static LAST: Cell<Option<Yields>> = const { Cell::new(None) };
        static KEPT: Cell<Option<Attached>> = const { Cell::new(None) };
    }
    everywhere(|rt, _| {
        let ending = rt.spawn(|| {
            LAST.set(Some(Yields));
            KEPT.set(Some(enter(5)));
        });
        let other = rt.spawn(|| {
            for _ in 0..5 {
                assert_eq!(current(), []);
                sinew::yield_now();
            }
        });
        ending.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn a_kernel_thread_has_no_switches() {
    alone(|| {
        let attached = enter(1);
        Runtime::builder().spares(0).stall_limit(None).processors(1).run(|| assert_eq!(current(), []));
        assert_eq!(current(), [1]);
        leave(1, attached);
    });
}

/// Runs a fibre whose context calls `f` when it is suspended.
fn suspend_with(f: fn()) {
    struct Calls(fn());
    impl Context for Calls {
        fn suspend(&self) {
            (self.0)();
        }
        fn resume(&self) {}
    }
    sinew::run(|| {
        let _attached = context::attach(Rc::new(Calls(f)));
        sinew::yield_now();
    });
}

#[test]
fn a_context_that_blocks_its_fibre_ends_the_process() {
    let outcome = in_child!(Rerun::new(), || suspend_with(sinew::yield_now));
    outcome.assert_killed(SIGABRT, &["sinew: fatal: a context blocked the fibre"]);
}

#[test]
fn a_context_that_panics_ends_the_process() {
    let outcome = in_child!(Rerun::new(), || suspend_with(|| panic!("a context's panic")));
    outcome.assert_killed(SIGABRT, &["a context's panic", "sinew: fatal: a context panicked"]);
}

#[test]
fn a_context_that_attaches_another_one_ends_the_process() {
    let outcome = in_child!(Rerun::new(), || suspend_with(|| drop(enter(1))));
    outcome.assert_killed(SIGABRT, &["sinew: fatal: a context attached or detached another one"]);
}
