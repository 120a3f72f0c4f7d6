//! A fibre that overflows its stack ends the process with a message. Another fault is not reported
//! as an overflow.

use crate::fixture::rerun::{Rerun, SIGABRT, SIGSEGV};
use sinew::{FibreBuilder, Runtime};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Uses a few hundred bytes of stack for each step.
#[inline(never)]
pub fn dig(steps: u64) -> u64 {
    let mut room = [steps as u8; 256];
    black_box(&mut room);
    if steps == 0 { 0 } else { dig(steps - 1) + u64::from(room[0]) }
}

/// Runs a fibre that recurses without end.
pub fn overflow(builder: FibreBuilder) {
    let _ = builder.spawn(|| black_box(dig(u64::MAX))).unwrap().join();
}

#[test]
fn the_message_of_an_overflow_names_the_fibre_its_stack_size_its_spawn_site_and_the_remedy() {
    let outcome = in_child!(Rerun::new(), || {
        sinew::run(|| overflow(FibreBuilder::new().name("digger")));
    });
    let place = concat!("(spawned at ", file!(), ":");
    outcome.assert_killed(
        SIGABRT,
        &["fibre 'digger' has overflowed its stack of 256 KiB", place, "`FibreBuilder::stack_size`"],
    );
}

#[test]
fn the_message_of_an_overflow_gives_the_size_of_a_larger_stack() {
    let outcome = in_child!(Rerun::new(), || {
        sinew::run(|| overflow(FibreBuilder::new().stack_size(1 << 20)));
    });
    outcome.assert_killed(SIGABRT, &["fibre '<unnamed>' has overflowed its stack of 1024 KiB"]);
}

#[test]
fn a_fibre_that_stays_within_its_stack_goes_on() {
    let outcome = in_child!(Rerun::new(), || {
        let dug = sinew::run(|| FibreBuilder::new().stack_size(1 << 20).spawn(|| dig(500)).unwrap().join().unwrap());
        println!("dug {dug}");
    });
    outcome.assert_success("dug ");
}

#[test]
fn an_overflow_on_another_processor_is_noticed_too() {
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        runtime.run(|| {
            static BEGUN: AtomicBool = AtomicBool::new(false);
            let digger = FibreBuilder::new().name("elsewhere").spawn(|| {
                BEGUN.store(true, Ordering::Relaxed);
                black_box(dig(u64::MAX))
            });
            // This fibre does not give up its processor.
            let began = Instant::now();
            while !BEGUN.load(Ordering::Relaxed) && began.elapsed() < Duration::from_secs(60) {
                std::hint::spin_loop();
            }
            println!("begun: {}", BEGUN.load(Ordering::Relaxed));
            let _ = digger.unwrap().join();
        });
    });
    outcome.assert_killed(SIGABRT, &["fibre 'elsewhere' has overflowed its stack of 256 KiB"]);
}

#[test]
fn a_frame_larger_than_the_stack_hits_the_guard() {
    let outcome = in_child!(Rerun::new(), || {
        #[inline(never)]
        fn wide() -> u8 {
            let mut room = [0u8; 40 * 1024];
            black_box(&mut room);
            room[0]
        }
        let narrow = FibreBuilder::new().name("wide").stack_size(16 * 1024);
        sinew::run(|| {
            // Neighbours whose stacks a frame that skips the guard would hit.
            let parked: Vec<_> = (0..8).map(|_| FibreBuilder::new().stack_size(16 * 1024).spawn(sinew::park)).collect();
            sinew::yield_now();
            let _ = narrow.spawn(|| black_box(wide())).unwrap().join();
            drop(parked);
        });
    });
    outcome.assert_killed(SIGABRT, &["fibre 'wide' has overflowed its stack of 16 KiB"]);
}

#[test]
fn a_wild_pointer_in_a_fibre_is_an_ordinary_fault() {
    #[allow(unsafe_code)]
    fn fault() {
        let nowhere = black_box(std::ptr::without_provenance_mut::<u8>(8));
        // SAFETY: none; the access is meant to kill the process.
        unsafe { nowhere.write_volatile(1) };
    }
    let outcome = in_child!(Rerun::new(), || {
        sinew::run(|| sinew::spawn(fault).join()).unwrap();
    });
    outcome.assert_killed(SIGSEGV, &[]);
    assert!(!outcome.stderr.contains("overflowed"), "{outcome:#?}");
}

#[test]
fn an_overflow_of_a_kernel_thread_is_still_reported_by_std() {
    let outcome = in_child!(Rerun::new(), || {
        sinew::run(|| sinew::spawn(|| ()).join()).unwrap();
        let thread = std::thread::Builder::new().name("deep".to_owned()).stack_size(256 * 1024);
        let _ = thread.spawn(|| black_box(dig(u64::MAX))).unwrap().join();
    });
    outcome.assert_killed(SIGABRT, &["thread 'deep'", "has overflowed its stack"]);
    assert!(!outcome.stderr.contains("fibre '"), "{outcome:#?}");
}
