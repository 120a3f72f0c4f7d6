//! Fibre-local variables.

#[macro_use]
mod fixture;

use fixture::rerun::Rerun;
use fixture::{everywhere, wait_until, wherever};
use sinew::{AccessError, JoinHandle, fibre_local};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

static MADE: AtomicUsize = AtomicUsize::new(0);

fibre_local! {
    static NUMBER: Cell<u32> = const { Cell::new(5) };
    static LIST: RefCell<Vec<u32>> = RefCell::new(Vec::new());
    static COUNTED: usize = MADE.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn every_fibre_has_its_own_value() {
    everywhere(|rt, _| {
        let fibre = |n: u32| {
            move || {
                assert_eq!((NUMBER.get(), LIST.with_borrow(Vec::len)), (5, 0));
                NUMBER.set(n);
                for step in 0..20 {
                    LIST.with_borrow_mut(|list| list.push(n + step));
                    sinew::yield_now();
                    assert_eq!(NUMBER.get(), n);
                }
                LIST.with_borrow(|list| list.iter().copied().eq(n..n + 20))
            }
        };
        let fibres: Vec<_> = (0..100).map(|n| rt.spawn(fibre(100 * n))).collect();
        assert!(fibres.into_iter().all(|fibre| fibre.join().unwrap()));
        // A reused stack brings no values along.
        assert_eq!(rt.run(|| (NUMBER.get(), LIST.with_borrow(Vec::len))), (5, 0));
    });
}

#[test]
fn cells_can_be_used_in_place() {
    everywhere(|rt, _| {
        rt.run(|| {
            assert_eq!(NUMBER.replace(6), 5);
            assert_eq!(NUMBER.take(), 6);
            assert_eq!(NUMBER.try_with(Cell::get), Ok(0));
            // One variable creates its value while another one is in use.
            NUMBER.with(|number| LIST.with_borrow_mut(|list| list.push(number.get())));
            assert_eq!(LIST.with_borrow(Vec::len), 1);
        });
    });
}

#[test]
fn a_value_is_made_once_for_each_fibre_that_uses_it() {
    everywhere(|rt, _| {
        let before = MADE.load(Ordering::Relaxed);
        let using = || {
            let first = COUNTED.with(|made| *made);
            (0..10).for_each(|_| {
                sinew::yield_now();
                assert_eq!(COUNTED.with(|made| *made), first);
            });
            first
        };
        let fibres: Vec<_> = (0..50).map(|_| (rt.spawn(using), rt.spawn(sinew::yield_now))).collect();
        let values: HashSet<usize> = fibres
            .into_iter()
            .map(|(using, other)| {
                other.join().unwrap();
                using.join().unwrap()
            })
            .collect();
        assert_eq!((values.len(), MADE.load(Ordering::Relaxed)), (50, before + 50));
    });
}

#[test]
fn a_value_follows_its_fibre_to_other_kernel_threads() {
    wherever(
        |setup| setup.migrating && setup.processors > 1,
        |rt, setup| {
            let other = rt.cluster(setup.cluster_builder()).unwrap();
            let main = rt.main_cluster();
            rt.run(|| {
                let mut threads = HashSet::new();
                NUMBER.set(77);
                let address = NUMBER.with(std::ptr::from_ref).addr();
                for round in 0..100 {
                    sinew::migrate_to(if round % 2 == 0 { &other } else { main }).unwrap();
                    threads.insert(fixture::kernel_thread());
                    assert_eq!((NUMBER.get(), NUMBER.with(std::ptr::from_ref).addr()), (77, address));
                }
                assert!(threads.len() > 1);
            });
        },
    );
}

/// What the destructors of one fibre's variables saw.
#[derive(Default)]
struct Seen {
    drops: AtomicU32,
    /// The results of using the variable itself, another one, and a fresh one.
    uses: Mutex<Vec<Result<(), AccessError>>>,
}

/// Uses fibre-local variables in its destructor, and yields there.
struct Curious(RefCell<Option<Arc<Seen>>>);

impl Drop for Curious {
    fn drop(&mut self) {
        let Some(seen) = self.0.take() else { return };
        sinew::yield_now();
        let uses = [CURIOUS.try_with(|_| ()), BESIDE.try_with(|_| ()), NUMBER.try_with(|_| ())];
        seen.uses.lock().unwrap().extend(uses);
        seen.drops.fetch_add(1, Ordering::Relaxed);
    }
}

fibre_local! {
    static CURIOUS: Curious = Curious(RefCell::new(None));
    static BESIDE: Curious = Curious(RefCell::new(None));
}

/// Makes both variables of the caller report to `seen`.
fn arm(seen: &Arc<Seen>) {
    for key in [&CURIOUS, &BESIDE] {
        key.with(|curious| *curious.0.borrow_mut() = Some(Arc::clone(seen)));
    }
}

fn check(seen: &Arc<Seen>) {
    assert_eq!(seen.drops.load(Ordering::Relaxed), 2);
    assert_eq!(*seen.uses.lock().unwrap(), [Err(AccessError); 6]);
    assert_eq!(Arc::strong_count(seen), 1);
}

#[test]
fn variables_are_dropped_before_join_returns_and_cannot_be_used_afterwards() {
    everywhere(|rt, _| {
        for panics in [false, true] {
            let seen = Arc::new(Seen::default());
            let its_seen = Arc::clone(&seen);
            let handle: JoinHandle<()> = rt.spawn(move || {
                arm(&its_seen);
                drop(its_seen);
                if panics {
                    resume_unwind(Box::new(()));
                }
            });
            assert_eq!(handle.join().is_err(), panics);
            check(&seen);
        }
        // A detached fibre has nothing that waits for it.
        let seen = Arc::new(Seen::default());
        let its_seen = Arc::clone(&seen);
        rt.spawn(move || {
            arm(&its_seen);
            drop(its_seen);
        });
        wait_until(|| rt.live_strands() == 0);
        check(&seen);
    });
}

#[test]
fn the_result_of_a_fibre_may_outlive_its_variables() {
    everywhere(|rt, _| {
        let list = rt.run(|| {
            LIST.with_borrow_mut(|list| list.extend([1, 2, 3]));
            LIST.with(RefCell::take)
        });
        assert_eq!(list, [1, 2, 3]);
    });
}

fibre_local! {
    static DEPTH: Cell<u32> = Cell::new(0);
    static RECURSIVE: u32 = {
        DEPTH.set(DEPTH.get() + 1);
        // The innermost value is created first, and stays.
        if DEPTH.get() < 3 { 10 * RECURSIVE.with(|value| *value) } else { 1 }
    };
}

#[test]
fn an_initialiser_may_use_its_own_variable() {
    everywhere(|rt, _| {
        let (first, again, depth) = rt.run(|| {
            let first = RECURSIVE.with(|value| *value);
            sinew::yield_now();
            (first, RECURSIVE.with(|value| *value), DEPTH.get())
        });
        assert_eq!((first, again, depth), (1, 1, 3));
    });
}

static FAILS: AtomicBool = AtomicBool::new(false);

fibre_local! {
    static FRAGILE: u32 = if FAILS.load(Ordering::Relaxed) { resume_unwind(Box::new(())) } else { 3 };
}

#[test]
fn an_initialiser_that_panicked_runs_again() {
    everywhere(|rt, _| {
        rt.run(|| {
            FAILS.store(true, Ordering::Relaxed);
            std::panic::catch_unwind(|| FRAGILE.with(|value| *value)).unwrap_err();
            FAILS.store(false, Ordering::Relaxed);
            assert_eq!(FRAGILE.with(|value| *value), 3);
        });
    });
}

#[test]
fn a_kernel_thread_has_its_own_values() {
    everywhere(|rt, _| {
        thread::scope(|scope| {
            scope.spawn(|| {
                NUMBER.set(1);
                assert_eq!(rt.run(|| NUMBER.get()), 5);
                assert_eq!(NUMBER.get(), 1);
            });
            scope.spawn(|| assert_eq!(NUMBER.get(), 5));
        });
        // The fibres of a processor do not share the values of its kernel thread.
        rt.run(|| NUMBER.set(9));
        assert_eq!(rt.run(|| NUMBER.get()), 5);
    });
}

#[test]
fn variables_of_a_kernel_thread_are_dropped_at_its_end_like_those_of_a_fibre() {
    // Runs in a process of its own, because a failure would end the process.
    let outcome = in_child!(Rerun::new(), || {
        let seen = Arc::new(Seen::default());
        let its_seen = Arc::clone(&seen);
        thread::spawn(move || arm(&its_seen)).join().unwrap();
        check(&seen);
        println!("all were dropped");
    });
    outcome.assert_success("all were dropped");
}
