//! `Debug` output of fibres, tasks, sets, scopes, runtimes and intervals: their state, no addresses.

mod fixture;

use fixture::{everywhere, wait_until};
use sinew::sync::Semaphore;
use sinew::task::{self, JoinSet};
use sinew::time::Interval;
use sinew::{FibreBuilder, Runtime};
use std::fmt::Debug;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Returns what `value` prints.
fn print(value: &impl Debug) -> String {
    let printed = format!("{value:?}");
    assert!(!printed.contains("0x"), "an address: {printed}");
    printed
}

#[track_caller]
fn assert_has(printed: &str, parts: &[&str]) {
    for part in parts {
        assert!(printed.contains(part), "no {part:?} in {printed}");
    }
}

#[test]
fn a_fibre_prints_its_id_its_name_its_origin_and_its_state() {
    everywhere(|rt, _| {
        rt.run(|| {
            let handle = FibreBuilder::new().name("printed").spawn(sinew::park).unwrap();
            let (id, fibre) = (handle.fibre().id(), handle.fibre().clone());
            let waits = ["name: Some(\"printed\")", "spawned_at: ", "debug_output.rs:", "is_finished: false"];
            assert_has(&print(&fibre), &waits);
            assert_has(&print(&fibre), &[&format!("Fibre {{ id: {id},"), "is_cancelled: false"]);
            assert_has(&print(&handle), &waits);
            assert_has(&print(&handle), &["JoinHandle { fibre: Fibre { id: "]);
            fibre.cancel();
            assert_has(&print(&fibre), &["is_finished: false, is_cancelled: true"]);
            fibre.unpark();
            handle.join().unwrap();
            assert_has(&print(&fibre), &["is_finished: true, is_cancelled: true"]);
        });
    });
}

#[test]
fn a_kernel_thread_prints_its_name() {
    let named = std::thread::Builder::new().name("outside".to_owned());
    let printed = named.spawn(|| print(&sinew::current())).unwrap().join().unwrap();
    assert_has(&printed, &["KernelThread { id: ", "name: Some(\"outside\")"]);
}

#[test]
fn a_task_prints_whether_it_has_finished_and_was_aborted() {
    everywhere(|rt, _| {
        rt.run(|| {
            let task = task::spawn(pending::<()>());
            let abort = task.abort_handle();
            assert_eq!(print(&task), "JoinHandle { is_finished: false, is_aborted: false }");
            abort.abort();
            assert_has(&print(&abort), &["AbortHandle {", "is_aborted: true"]);
            task.join().unwrap_err();
            assert_eq!(print(&abort), "AbortHandle { is_finished: true, is_aborted: true }");
        });
    });
}

#[test]
fn a_set_prints_how_many_tasks_it_has_and_how_many_have_finished() {
    everywhere(|rt, _| {
        rt.run(|| {
            let mut set = JoinSet::new();
            assert_eq!(print(&set), "JoinSet { len: 0, finished: 0 }");
            let first = set.spawn(async {});
            set.spawn(pending::<()>());
            wait_until(|| first.is_finished());
            assert_eq!(print(&set), "JoinSet { len: 2, finished: 1 }");
        });
    });
}

#[test]
fn a_scope_prints_its_running_fibres_and_whether_it_was_cancelled() {
    everywhere(|rt, _| {
        rt.run(|| {
            let gate = Semaphore::new(0);
            sinew::scope(|scope| {
                assert_eq!(print(scope), "Scope { running: 0, panicked: 0, is_cancelled: false }");
                let fibre = scope.spawn(|| gate.wait());
                assert_eq!(print(scope), "Scope { running: 1, panicked: 0, is_cancelled: false }");
                assert_has(&print(&fibre), &["ScopedJoinHandle { fibre: Fibre { id: "]);
                scope.cancel();
                gate.post(1);
                fibre.join().unwrap();
                wait_until(|| !print(scope).contains("running: 1"));
                assert_eq!(print(scope), "Scope { running: 0, panicked: 0, is_cancelled: true }");
            });
        });
    });
}

#[test]
fn a_runtime_prints_its_cluster_and_the_number_of_its_strands() {
    let runtime = Runtime::builder().processors(1).name("shown").build().unwrap();
    assert_has(&print(&runtime), &["main_cluster: ", "shown", "leftovers: Wait", "live_strands: 0"]);
    static GO: AtomicBool = AtomicBool::new(false);
    let task = runtime.spawn_task(async {
        while !GO.load(Relaxed) {
            task::yield_now_async().await;
        }
    });
    assert_has(&print(&runtime), &["live_strands: 1"]);
    GO.store(true, Relaxed);
    task.join().unwrap();
}

#[test]
fn an_interval_prints_its_period_and_the_time_until_the_next_tick() {
    let mut clock = Interval::new(Duration::from_secs(3600));
    assert_eq!(print(&clock), "Interval { period: 3600s, until_next: 0ns }");
    clock.tick();
    assert_has(&print(&clock), &["period: 3600s, until_next: 35"]);
    assert_has(&print(&sinew::time::sleep_async(Duration::ZERO)), &["Sleep { remaining: 0ns }"]);
}
