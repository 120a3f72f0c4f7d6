//! The flight recorder counts what it writes, and what it overwrites.

use sinew::inspect::{record, recorded};
use sinew::{Cluster, Runtime};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The switch is the process's, so these tests take turns.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn entries(cluster: &Cluster) -> u64 {
    recorded(cluster).entries
}

/// Yields at least `times` times to another fibre, and for longer than a beat.
fn work(runtime: &Runtime, times: u32) {
    runtime.run(|| {
        let other = sinew::spawn(move || (0..times).for_each(|_| sinew::yield_now()));
        (0..times).for_each(|_| sinew::yield_now());
        other.join().expect("no panic");
    });
}

/// Works until a condition holds: a processor follows the switch at a beat.
fn work_until(runtime: &Runtime, holds: impl Fn() -> bool) {
    while !holds() {
        work(runtime, 1000);
    }
}

#[test]
fn a_recorder_that_is_off_records_nothing() {
    let _alone = alone();
    let runtime = Runtime::builder().processors(1).record(0).build().expect("a runtime");
    work(&runtime, 10_000);
    let recorded = recorded(runtime.main_cluster());
    assert_eq!((recorded.entries, recorded.overwritten), (0, 0));
}

#[test]
fn every_dispatch_is_recorded_and_the_ring_wraps() {
    let _alone = alone();
    // Rounded up to 1024.
    let runtime = Runtime::builder().processors(1).record(1000).build().expect("a runtime");
    work(&runtime, 100);
    let few = recorded(runtime.main_cluster());
    assert!((200..1024).contains(&few.entries) && few.overwritten == 0, "{few:?}");
    work(&runtime, 10_000);
    let many = recorded(runtime.main_cluster());
    assert!(many.entries >= few.entries + 20_000, "{many:?}");
    assert_eq!(many.overwritten, many.entries - 1024);
}

#[test]
fn all_processors_follow_the_switch_while_they_run() {
    let _alone = alone();
    let runtime = Runtime::builder().processors(2).record(0).build().expect("a runtime");
    let cluster = runtime.main_cluster();
    work(&runtime, 1000);
    assert_eq!(entries(cluster), 0);
    record(true);
    work_until(&runtime, || entries(cluster) > 1000);
    record(false);
    // Off when nothing is added by work of many beats.
    let mut before = entries(cluster);
    loop {
        work(&runtime, 10_000);
        let now = entries(cluster);
        if now == before {
            break;
        }
        before = now;
    }
    record(true);
    work_until(&runtime, || entries(cluster) > before);
    record(false);
}
