//! Fibre-local variables.

mod fixture;

use fixture::{alone, everywhere, wait_until, wherever};
use sinew::{AccessError, JoinHandle, fibre_local};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::panic::resume_unwind;
use std::process::Command;
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
fn every_fibre_has_its_own() {
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
        // A stack that has been used before brings nothing along.
        assert_eq!(rt.run(|| (NUMBER.get(), LIST.with_borrow(Vec::len))), (5, 0));
    });
}

#[test]
fn cells_are_used_in_place() {
    everywhere(|rt, _| {
        rt.run(|| {
            assert_eq!(NUMBER.replace(6), 5);
            assert_eq!(NUMBER.take(), 6);
            assert_eq!(NUMBER.try_with(Cell::get), Ok(0));
            // A value made by one variable while another is in use.
            NUMBER.with(|number| LIST.with_borrow_mut(|list| list.push(number.get())));
            assert_eq!(LIST.with_borrow(Vec::len), 1);
        });
    });
}

#[test]
fn a_variable_is_made_once_for_each_fibre_that_uses_it() {
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
fn a_variable_follows_its_fibre_to_other_kernel_threads() {
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
    /// How the use of the variable itself, of another, and of a fresh one ended.
    uses: Mutex<Vec<Result<(), AccessError>>>,
}

/// Looks at fibre-local variables when it is dropped, and takes its time.
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

/// Gives both variables of the caller somebody to report to.
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
fn variables_are_dropped_before_join_returns_and_cannot_be_used_any_more() {
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
        // A detached one has nobody who would wait.
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
fn what_a_fibre_returns_may_outlive_its_variables() {
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
        // The innermost value is the one that is made first, and stays.
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
fn an_initialiser_that_panicked_is_tried_again() {
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
fn a_kernel_thread_has_its_own_too() {
    everywhere(|rt, _| {
        thread::scope(|scope| {
            scope.spawn(|| {
                NUMBER.set(1);
                assert_eq!(rt.run(|| NUMBER.get()), 5);
                assert_eq!(NUMBER.get(), 1);
            });
            scope.spawn(|| assert_eq!(NUMBER.get(), 5));
        });
        // What the fibres of a processor have is not its kernel thread's.
        rt.run(|| NUMBER.set(9));
        assert_eq!(rt.run(|| NUMBER.get()), 5);
    });
}

#[test]
fn the_variables_of_a_kernel_thread_are_dropped_at_its_end_like_a_fibres() {
    const CHILD: &str = "SINEW_LOCALS_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let seen = Arc::new(Seen::default());
        let its_seen = Arc::clone(&seen);
        thread::spawn(move || arm(&its_seen)).join().unwrap();
        return check(&seen);
    }
    // In a process of its own, for a failure would be the end of it.
    alone(|| {
        let name = "the_variables_of_a_kernel_thread_are_dropped_at_its_end_like_a_fibres";
        let output = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    });
}
