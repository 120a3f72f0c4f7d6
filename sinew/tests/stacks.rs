//! The high-water marks of stacks.

mod fixture;

use fixture::{Setup, wait_until, wherever};
use sinew::memory::{StackUse, record_stack_use, stack_use};
use sinew::{FibreBuilder, JoinHandle, Runtime};
use std::hint::black_box;
use std::panic::Location;

const KIB: usize = 1024;

/// Uses at least `BYTES` of the stack.
#[inline(never)]
fn fill<const BYTES: usize>() {
    let mut room = [1u8; BYTES];
    black_box(&mut room);
}

/// With one processor, each fibre takes the stack of the one before.
fn has_one_processor(setup: &Setup) -> bool {
    setup.processors == 1
}

/// The row of a site, once `measured` fibres of it have been measured.
fn row(site: &Location<'_>, measured: u64) -> StackUse {
    let find = || stack_use().into_iter().find(|row| row.site == site && row.measured >= measured);
    wait_until(|| find().is_some());
    find().unwrap()
}

#[track_caller]
fn spawn(rt: &Runtime, f: impl FnOnce() + Send + 'static) -> (JoinHandle<()>, &'static Location<'static>) {
    (FibreBuilder::new().cluster(rt.main_cluster()).spawn(f).unwrap(), Location::caller())
}

#[test]
fn each_spawn_site_has_its_own_mark() {
    wherever(has_one_processor, |rt, _| {
        record_stack_use(true);
        for _ in 0..3 {
            let (fibre, large) = spawn(rt, fill::<{ 150 * KIB }>);
            fibre.join().unwrap();
            let marked = row(large, 1);
            assert!((150 * KIB..200 * KIB).contains(&marked.high_water), "{marked}");
            assert_eq!(marked.stack_size, 256 * KIB);
            // The same stack, which has memory from the fibre before.
            let (fibre, small) = spawn(rt, fill::<10>);
            fibre.join().unwrap();
            let marked = row(small, 1);
            assert!(marked.high_water < 64 * KIB, "{marked}");
            let order: Vec<_> =
                stack_use().iter().map(|row| row.site).filter(|site| [large, small].contains(site)).collect();
            assert_eq!(order, [large, small], "the fullest stack comes first");
        }
    });
}

#[test]
fn a_larger_stack_of_the_same_site_has_a_row_of_its_own() {
    wherever(has_one_processor, |rt, _| {
        record_stack_use(true);
        let sizes = [64 * KIB, 1024 * KIB];
        let site = Location::caller();
        let spawn = |size| FibreBuilder::new().cluster(rt.main_cluster()).stack_size(size).spawn(|| ()).unwrap();
        sizes.into_iter().for_each(|size| spawn(size).join().unwrap());
        let of_site = || {
            stack_use().into_iter().filter(|row| row.site.file() == site.file() && row.site.line() == site.line() + 1)
        };
        wait_until(|| of_site().count() == 2);
        assert!(sizes.iter().all(|size| of_site().any(|row| row.stack_size == *size)));
    });
}

#[test]
fn of_many_fibres_a_sample_is_measured() {
    const FIBRES: usize = 1_000;
    static SITE: std::sync::OnceLock<&Location<'_>> = std::sync::OnceLock::new();
    wherever(has_one_processor, |rt, _| {
        record_stack_use(true);
        let before = SITE.get().map_or(0, |site| row(site, 0).measured);
        for _ in 0..FIBRES {
            let (fibre, site) = spawn(rt, || ());
            SITE.get_or_init(|| site);
            fibre.join().unwrap();
        }
        let sample = row(SITE.get().unwrap(), before + 15).measured - before;
        assert!((15..=32).contains(&sample), "{sample} fibres are measured");
    });
}

#[test]
fn nothing_is_recorded_when_that_is_switched_off() {
    wherever(has_one_processor, |rt, _| {
        record_stack_use(false);
        let (fibre, site) = spawn(rt, || ());
        fibre.join().unwrap();
        record_stack_use(true);
        let (fibre, later) = spawn(rt, || ());
        fibre.join().unwrap();
        row(later, 1);
        assert!(stack_use().iter().all(|row| row.site != site));
    });
}
