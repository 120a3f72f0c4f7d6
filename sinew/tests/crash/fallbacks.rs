//! The runtime works without each optional facility of the machine: every fallback is forced.

use crate::fixture::rerun::{Rerun, SIGABRT};
use crate::overflow::overflow;
use sinew::{FibreBuilder, Runtime};
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const FACILITIES: [&str; 8] = [
    "",
    "membarrier",
    "madvise-guards",
    "batched-madvise",
    "topology",
    "pidfd",
    "io-uring",
    "membarrier,madvise-guards,batched-madvise,topology,pidfd,io-uring",
];

const FIBRES: u32 = 500;

/// Uses a little of everything, then overflows a stack.
fn check() {
    let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
    runtime.run(|| {
        let sum: u32 = (0..FIBRES).map(|n| sinew::spawn(move || n)).map(|h| h.join().unwrap()).sum();
        assert_eq!(sum, FIBRES * (FIBRES - 1) / 2);

        let woken = AtomicU32::new(0);
        sinew::scope(|scope| {
            let park = || {
                sinew::park();
                sinew::yield_now();
                woken.fetch_add(1, Ordering::Relaxed);
            };
            let parked: Vec<_> = (0..FIBRES).map(|_| scope.spawn(park)).collect();
            let mappings = fs::read_to_string("/proc/self/maps").unwrap().lines().count();
            println!("{mappings} mappings");
            parked.iter().for_each(|fibre| fibre.fibre().unpark());
        });
        assert_eq!(woken.into_inner(), FIBRES);

        let began = Instant::now();
        sinew::sleep(Duration::from_millis(5));
        assert!(began.elapsed() >= Duration::from_millis(5));
        println!("checked");
        overflow(FibreBuilder::new().name("last"));
    });
}

#[test]
fn the_runtime_works_without_optional_facilities_of_the_machine() {
    for facilities in FACILITIES {
        let Some(outcome) = Rerun::new().without(facilities).run(name_of_test!(), facilities, check) else { continue };
        outcome.assert_killed(SIGABRT, &["fibre 'last' has overflowed its stack of 256 KiB"]);
        assert!(outcome.stdout.contains("checked"), "without {facilities}: {outcome:#?}");
        let mappings = outcome.stdout.lines().find_map(|line| line.strip_suffix(" mappings")).unwrap();
        let mappings: u32 = mappings.rsplit(' ').next().unwrap().parse().unwrap();
        // Guards that are mappings show up in the number of mappings. So the fallback was really
        // used.
        assert_eq!(mappings > FIBRES, facilities.contains("madvise-guards"), "{facilities}: {mappings} mappings");
    }
}
