//! A program may end while its fibres wait or run.

use crate::fixture::rerun::Rerun;
use sinew::{Leftovers, Runtime};
use std::time::Duration;

/// Spawns a fibre for every kind of wait, and one that never gives up its processor.
fn unfinished(runtime: &Runtime) {
    for _ in 0..100 {
        drop(runtime.spawn(sinew::park));
        drop(runtime.spawn(|| sinew::sleep(Duration::from_secs(1000))));
    }
    drop(runtime.spawn(|| {
        loop {
            std::hint::spin_loop();
        }
    }));
}

#[test]
fn exit_in_a_fibre_ends_the_process_with_its_code() {
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        unfinished(&runtime);
        runtime.run(|| std::process::exit(77));
    });
    assert_eq!(outcome.status.code(), Some(77), "{outcome:#?}");
}

#[test]
fn exit_in_a_kernel_thread_does_not_wait_for_fibres() {
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        unfinished(&runtime);
        std::process::exit(78);
    });
    assert_eq!(outcome.status.code(), Some(78), "{outcome:#?}");
}

#[test]
fn main_may_return_while_fibres_still_run() {
    let outcome = in_child!(Rerun::new(), || {
        let runtime =
            Runtime::builder().spares(0).stall_limit(None).processors(2).leftovers(Leftovers::LetRun).build().unwrap();
        unfinished(&runtime);
        drop(runtime);
        println!("returning");
    });
    outcome.assert_success("returning");
}

#[test]
fn main_may_return_after_forgetting_a_runtime() {
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        unfinished(&runtime);
        std::mem::forget(runtime);
        println!("returning");
    });
    outcome.assert_success("returning");
}
