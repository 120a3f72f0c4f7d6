//! Fibres that migrate meet no stale thread-local address, neither in the
//! runtime nor in code that keeps the contract. To be run with `lto = "fat"` as
//! well, where everything is inlined into everything.

use sinew::{Cluster, Runtime, migrate_to};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

thread_local!(static HERE: Cell<Option<ThreadId>> = const { Cell::new(None) });

/// The value of a thread-local variable, in the way that the contract asks for.
#[inline(never)]
fn kernel_thread() -> ThreadId {
    std::hint::black_box(HERE.with(|here| {
        let id = here.get().unwrap_or_else(|| std::thread::current().id());
        here.set(Some(id));
        id
    }))
}

/// Two clusters of one processor each, so that each migration changes threads.
#[allow(unsafe_code)]
fn two_clusters() -> (Runtime, Cluster, Cluster) {
    // SAFETY: the fibres of these tests use thread-local variables by
    // `kernel_thread` only, which is not inlined and returns a value.
    let runtime = unsafe { Runtime::builder().processors(1).migrating() }.build().unwrap();
    let here = runtime.main_cluster().clone();
    let there = runtime.cluster(Runtime::builder().name("there").processors(1)).unwrap();
    (runtime, here, there)
}

#[test]
fn a_thread_local_value_is_that_of_the_present_thread_after_each_migration() {
    let (runtime, here, there) = two_clusters();
    runtime.run(|| {
        let first = kernel_thread();
        migrate_to(&there).unwrap();
        let second = kernel_thread();
        assert_ne!(first, second);
        for _ in 0..1000 {
            migrate_to(&here).unwrap();
            assert_eq!(kernel_thread(), first);
            migrate_to(&there).unwrap();
            assert_eq!(kernel_thread(), second);
        }
    });
}

#[test]
fn what_a_fibre_does_right_after_a_migration_happens_where_it_is() {
    let (runtime, here, there) = two_clusters();
    runtime.run(|| {
        let me = sinew::current().id();
        for round in 0..1000 {
            let cluster = if round % 2 == 0 { &there } else { &here };
            migrate_to(cluster).unwrap();
            let thread = kernel_thread();
            assert_eq!(sinew::current().id(), me);
            assert_eq!(Cluster::current().as_ref(), Some(cluster));
            // A child belongs to the cluster of its parent, which has one thread.
            assert_eq!(sinew::spawn(kernel_thread).join().unwrap(), thread);
            sinew::yield_now();
            sinew::current().unpark();
            sinew::park();
            assert_eq!(kernel_thread(), thread);
        }
    });
}

sinew::fibre_local!(static STEPS: Cell<u64> = Cell::new(0));

#[test]
fn fibres_that_migrate_spawn_and_unpark_at_every_step_lose_nothing() {
    const FIBRES: u64 = 64;
    const ROUNDS: u64 = 200;
    let (runtime, here, there) = two_clusters();
    let children = Arc::new(AtomicU64::new(0));
    let walk = |number: u64| {
        let (here, there, children) = (here.clone(), there.clone(), Arc::clone(&children));
        move || {
            for round in 0..ROUNDS {
                migrate_to(if (round + number) % 2 == 0 { &here } else { &there }).unwrap();
                let (parent, children) = (sinew::current(), Arc::clone(&children));
                let child = sinew::spawn(move || {
                    children.fetch_add(1, Ordering::Relaxed);
                    parent.unpark();
                });
                sinew::park();
                child.join().unwrap();
                STEPS.set(STEPS.get() + 1);
            }
            STEPS.get()
        }
    };
    let walkers: Vec<_> = (0..FIBRES).map(|number| runtime.spawn(walk(number))).collect();
    let steps: u64 = walkers.into_iter().map(|walker| walker.join().unwrap()).sum();
    assert_eq!((steps, children.load(Ordering::Relaxed)), (FIBRES * ROUNDS, FIBRES * ROUNDS));
}

#[test]
#[allow(unsafe_code)]
fn fibres_that_are_helped_by_another_processor_find_themselves_there() {
    // SAFETY: as above.
    let runtime = unsafe { Runtime::builder().processors(4).migrating() }.build().unwrap();
    let moved = Arc::new(AtomicU64::new(0));
    let body = |_| {
        let moved = Arc::clone(&moved);
        move || {
            let me = sinew::current().id();
            let mut before = kernel_thread();
            for _ in 0..2000 {
                sinew::yield_now();
                let now = kernel_thread();
                assert_eq!(now, std::thread::current().id());
                assert_eq!(sinew::current().id(), me);
                moved.fetch_add(u64::from(now != before), Ordering::Relaxed);
                before = now;
            }
        }
    };
    // From one fibre, so that the others have to take them.
    let fibres: Vec<_> = (0..100).map(body).collect();
    runtime.run(move || {
        let handles: Vec<_> = fibres.into_iter().map(sinew::spawn).collect();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
    });
    assert!(moved.load(Ordering::Relaxed) > 0, "nobody has migrated");
}
