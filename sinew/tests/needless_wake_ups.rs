//! A processor that is awake does not wake another one for work that it gets to next.

mod fixture;

use fixture::{Setup, one_of, wherever};
use sinew::sync::mpsc;
use std::time::{Duration, Instant};

const ROUNDS: u64 = 5_000;

/// Returns how often the threads of this process have given up their CPU to wait for something.
#[allow(unsafe_code)]
fn waits() -> u64 {
    // SAFETY: zero is a valid value for each byte.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for writing.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) }, 0);
    usage.ru_nvcsw as u64
}

/// Runs `f` on a fibre. It alternates between two sides, `ROUNDS` times. If each side had a
/// processor that sleeps meanwhile, each turn would be a wait.
///
/// Fibres that cannot move may have begun on different processors, and then have to wake each other.
/// So these tests only run where fibres move.
fn assert_few_waits(rt: &sinew::Runtime, f: impl Fn() + Sync) {
    one_of(5, || {
        let (waits, took) = rt.run(|| {
            let (before, began) = (waits(), Instant::now());
            f();
            (waits() - before, began.elapsed())
        });
        // The sentinel looks once a millisecond, and more often at first. Besides, the kernel may
        // take a CPU away at a bad moment, and a processor that finds work left wakes another one.
        let looks = took.div_duration_f64(Duration::from_millis(1)) as u64;
        println!("{waits} waits in {took:?}");
        if waits < ROUNDS / 5 + 4 * looks { Ok(()) } else { Err((waits, took)) }
    });
}

#[test]
fn two_fibres_that_answer_each_other_leave_other_processors_asleep() {
    wherever(Setup::lets_fibres_move, |rt, _| {
        assert_few_waits(rt, || {
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
    wherever(Setup::lets_fibres_move, |rt, _| {
        assert_few_waits(rt, || {
            (0..ROUNDS).for_each(|n| assert_eq!(sinew::spawn(move || n).join().unwrap(), n));
        });
    });
}
