//! When there is no memory for another stack, a spawn returns an error, and the existing fibres go
//! on.

use crate::fixture::rerun::Rerun;
use sinew::{FibreBuilder, JoinHandle, Runtime, SpawnError};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A limit below leaves room for more than 1,000 stacks of this size.
const STACK: usize = 64 * 1024;

/// More fibres than any of the limits below leaves room for.
const TOO_MANY: usize = 200_000;

/// Spawns fibres that park until there is no stack for another fibre.
fn exhaust() -> Vec<JoinHandle<usize>> {
    // Reserves the whole vector at once, because the program's own memory is short, too.
    let mut parked = Vec::with_capacity(TOO_MANY);
    loop {
        let number = parked.len();
        assert!(number < TOO_MANY, "no limit was reached");
        let spawned = FibreBuilder::new().spawn(move || {
            sinew::park();
            number
        });
        match spawned {
            Ok(handle) => parked.push(handle),
            Err(SpawnError::OutOfStacks(_)) => return parked,
            Err(other) => panic!("{other}"),
        }
        // From time to time the fibres begin, so that stacks are in use and not only promised.
        if number.is_multiple_of(100) {
            sinew::yield_now();
        }
    }
}

fn run_out_of_stacks() {
    let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).stack_size(STACK).build().unwrap();
    runtime.run(|| {
        let parked = exhaust();
        let refused = catch_unwind(AssertUnwindSafe(|| sinew::spawn(|| ()))).unwrap_err();
        println!("panic: {}", refused.downcast_ref::<String>().unwrap());
        let count = parked.len();
        for handle in &parked {
            handle.fibre().unpark();
        }
        let numbers = parked.into_iter().map(|handle| handle.join().unwrap());
        assert!(numbers.eq(0..count), "an existing fibre does not go on");
        let again = FibreBuilder::new().spawn(|| 42).expect("no stack is free again");
        assert_eq!(again.join().unwrap(), 42);
        println!("spawned {count} fibres");
    });
}

/// Returns the number of fibres that the child says it spawned.
fn spawned(stdout: &str) -> usize {
    let line = stdout.lines().find_map(|line| line.strip_prefix("spawned ")).unwrap();
    line.split(' ').next().unwrap().parse().unwrap()
}

const PANIC: &str = "panic: cannot spawn a fibre: no memory for another stack: ";

#[test]
fn a_limit_on_memory_is_an_error_of_spawn() {
    let limit = Rerun::new().limit("-d 524288");
    let outcome = in_child!(limit, run_out_of_stacks);
    outcome.assert_success(PANIC);
    assert!((1_000..8_000).contains(&spawned(&outcome.stdout)), "{outcome:#?}");
}

#[test]
fn a_limit_on_addresses_is_an_error_of_spawn() {
    let limit = Rerun::new().limit("-v 16777216");
    let outcome = in_child!(limit, run_out_of_stacks);
    outcome.assert_success(PANIC);
    assert!((1_000..120_000).contains(&spawned(&outcome.stdout)), "{outcome:#?}");
}

#[test]
fn too_few_addresses_for_any_stack_is_an_error_of_build() {
    let limit = Rerun::new().limit("-v 2097152");
    let outcome = in_child!(limit, || {
        println!("error: {}", Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap_err());
    });
    outcome.assert_success("error: no address space for stacks");
}

#[test]
fn where_guards_are_mappings_running_out_of_mappings_is_an_error() {
    let most: usize = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    if most > TOO_MANY {
        println!("SKIPPED: vm.max_map_count is {most}, which is out of reach");
        return;
    }
    let without = Rerun::new().without("madvise-guards");
    let outcome = in_child!(without, run_out_of_stacks);
    outcome.assert_success(PANIC);
    let count = spawned(&outcome.stdout);
    assert!((most * 4 / 10..most * 6 / 10).contains(&count), "{count} of {most} mappings: {outcome:#?}");
}
