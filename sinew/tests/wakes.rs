//! Whom the kernel has to wake: nobody, for what a processor that is awake gets to next.

mod fixture;

use fixture::{Setup, wherever};
use sinew::sync::mpsc;
use std::time::{Duration, Instant};

const ROUNDS: u64 = 5_000;

/// How often the threads of this process have given up their CPU to wait for something.
#[allow(unsafe_code)]
fn waits() -> u64 {
    // SAFETY: all bytes zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for writing.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) }, 0);
    usage.ru_nvcsw as u64
}

/// Fibres that do not migrate may have begun on different processors, and then have to
/// wake each other's.
fn is_migrating(setup: &Setup) -> bool {
    setup.migrating && setup.processors > 1
}

/// Runs `f` on a fibre: it needs both sides of something in turns, `ROUNDS` times. A
/// processor for each side that sleeps meanwhile would be one wait for each turn.
fn assert_wakes_hardly_anybody(rt: &sinew::Runtime, f: impl FnOnce() + Send) {
    let (waits, took) = rt.run(|| {
        let (before, began) = (waits(), Instant::now());
        f();
        (waits() - before, began.elapsed())
    });
    // The sentinel looks once a millisecond, and more often at first. The kernel may take a
    // CPU away at a bad moment, and who finds work left wakes another.
    let looks = took.div_duration_f64(Duration::from_millis(1)) as u64;
    println!("{waits} waits in {took:?}");
    assert!(waits < ROUNDS / 5 + 4 * looks, "{waits} waits for {ROUNDS} rounds in {took:?}");
}

#[test]
fn two_fibres_that_answer_each_other_leave_other_processors_asleep() {
    wherever(is_migrating, |rt, _| {
        assert_wakes_hardly_anybody(rt, || {
            let (request, requested) = mpsc::channel();
            let (reply, replied) = mpsc::channel();
            let answering = sinew::spawn(move || requested.iter().for_each(|n: u64| reply.send(n).unwrap()));
            for n in 0..ROUNDS {
                request.send(n).unwrap();
                assert_eq!(replied.recv(), Ok(n));
            }
            drop(request);
            answering.join().unwrap();
        });
    });
}

#[test]
fn fibres_that_are_spawned_and_joined_one_at_a_time_leave_other_processors_asleep() {
    wherever(is_migrating, |rt, _| {
        assert_wakes_hardly_anybody(rt, || {
            (0..ROUNDS).for_each(|n| assert_eq!(sinew::spawn(move || n).join().unwrap(), n));
        });
    });
}
