//! `Barrier` and `WaitGroup`.

mod fixture;

use fixture::{LONG, Random, alone, everywhere, on_fibres_and_threads, wait_until, wherever};
use sinew::sync::{Barrier, BarrierTimeout, WaitGroup};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(2);

#[test]
fn no_party_passes_before_all_have_come_and_one_leads() {
    const GENERATIONS: usize = 50;
    everywhere(|rt, _| {
        for (fibres, threads) in [(1, 0), (2, 0), (7, 0), (4, 2), (0, 2)] {
            let parties = fibres + threads;
            let (barrier, arrived) = (Barrier::new(parties), AtomicUsize::new(0));
            let led = on_fibres_and_threads(rt, fibres, threads, |number| {
                let generation = |generation: usize| {
                    if (number + generation).is_multiple_of(3) {
                        sinew::yield_now();
                    }
                    arrived.fetch_add(1, Relaxed);
                    let result = barrier.wait();
                    let seen = arrived.load(Relaxed);
                    let (all, more) = (parties * generation, parties * (generation + 1));
                    assert!((all..more).contains(&seen), "{seen} instead of {all} in generation {generation}");
                    result.is_leader()
                };
                (1..=GENERATIONS).filter(|&number| generation(number)).count()
            });
            assert_eq!(led.into_iter().sum::<usize>(), GENERATIONS);
        }
    });
}

#[test]
fn two_thousand_fibres_pass_a_barrier_together() {
    wherever(
        |setup| setup.processors == 2,
        |rt, _| {
            let (barrier, arrived) = (Barrier::new(2_000), AtomicUsize::new(0));
            let leads = on_fibres_and_threads(rt, 2_000, 0, |_| {
                arrived.fetch_add(1, Relaxed);
                let leads = barrier.wait().is_leader();
                assert_eq!(arrived.load(Relaxed), 2_000);
                leads
            });
            assert_eq!(leads.into_iter().filter(|&leads| leads).count(), 1);
        },
    );
}

#[test]
fn a_barrier_for_zero_parties_is_one_for_one() {
    static NOBODY: Barrier = Barrier::new(0);
    let body = || {
        for barrier in [&NOBODY, &Barrier::new(1)] {
            assert!(barrier.wait().is_leader());
            assert!(barrier.wait_timeout(Duration::ZERO).is_ok_and(|result| result.is_leader()));
            assert!(barrier.wait_deadline(Instant::now()).is_ok_and(|result| result.is_leader()));
        }
        let theirs = std::sync::Barrier::new(0).wait();
        assert_eq!(format!("{:?}", NOBODY.wait()), format!("{theirs:?}"));
    };
    everywhere(|rt, _| rt.run(body));
    alone(body);
}

#[test]
fn a_party_that_times_out_is_not_counted() {
    everywhere(|rt, _| {
        let barrier = Barrier::new(2);
        let body = || {
            let began = Instant::now();
            assert_eq!(barrier.wait_timeout(Duration::ZERO).unwrap_err(), BarrierTimeout);
            assert_eq!(barrier.wait_timeout(SHORT).unwrap_err(), BarrierTimeout);
            assert_eq!(barrier.wait_deadline(began + 2 * SHORT).unwrap_err(), BarrierTimeout);
            assert!(began.elapsed() >= 2 * SHORT);
        };
        rt.run(body);
        body();
        let leads = on_fibres_and_threads(rt, 1, 1, |_| barrier.wait_timeout(LONG).unwrap().is_leader());
        assert!(leads[0] != leads[1]);
        body();
        let leads = on_fibres_and_threads(rt, 2, 0, |_| barrier.wait_timeout(Duration::MAX).unwrap().is_leader());
        assert!(leads[0] != leads[1]);
    });
}

/// There are two parties. One of them may time out just when the other arrives. In each round both
/// pass, or both time out.
#[test]
fn a_party_that_times_out_while_the_last_one_arrives_is_counted_by_both_or_by_none() {
    const ROUNDS: usize = 150;
    let mut random = Random::new(0xba_44_1e_44);
    let limits: Vec<[Duration; 2]> =
        (0..ROUNDS).map(|_| [(); 2].map(|()| Duration::from_micros(random.below(100)))).collect();
    wherever(
        |setup| setup.processors > 1,
        |rt, _| {
            let barrier = Barrier::new(2);
            for (fibres, threads) in [(2, 0), (1, 1)] {
                let passed = on_fibres_and_threads(rt, fibres, threads, |number| {
                    let pass =
                        |limit: &[Duration; 2]| barrier.wait_timeout(limit[number]).map(|result| result.is_leader());
                    limits.iter().map(pass).collect::<Vec<_>>()
                });
                let count = |which: usize, leads| passed[which].iter().filter(|&&result| result == Ok(leads)).count();
                for (one, other) in [(0, 1), (1, 0)] {
                    assert_eq!(count(one, true), count(other, false), "a leader had no follower");
                }
            }
            assert!(barrier.wait_timeout(Duration::ZERO).is_err(), "the barrier still counts a party");
            let leads = on_fibres_and_threads(rt, 2, 0, |_| barrier.wait().is_leader());
            assert!(leads[0] != leads[1]);
        },
    );
}

#[test]
fn waiting_at_a_barrier_does_not_block_the_processor() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            let (barrier, group) = (Barrier::new(4), WaitGroup::new());
            rt.run(|| {
                sinew::scope(|scope| {
                    let (barrier, party) = (&barrier, group.clone());
                    (0..3).for_each(|_| drop(scope.spawn(|| barrier.wait())));
                    let waiting = scope.spawn(move || group.wait());
                    (0..10).for_each(|_| sinew::yield_now());
                    scope.spawn(move || {
                        barrier.wait();
                        drop(party);
                    });
                    waiting.join().unwrap();
                });
            });
        },
    );
}

#[test]
fn a_wait_group_waits_for_all_its_clones() {
    everywhere(|rt, _| {
        for threads in [0, 2] {
            let (group, finished) = (WaitGroup::new(), AtomicUsize::new(0));
            let parties: Vec<_> = (0..50 + threads).map(|_| std::sync::Mutex::new(Some(group.clone()))).collect();
            thread::scope(|outside| {
                outside.spawn(|| {
                    on_fibres_and_threads(rt, 50, threads, |number| {
                        let party = parties[number].lock().unwrap().take().unwrap();
                        // A clone that is made late counts as well.
                        let late = party.clone();
                        drop(party);
                        (0..number % 4).for_each(|_| sinew::yield_now());
                        finished.fetch_add(1, Relaxed);
                        drop(late);
                    });
                });
                let waiting = group.clone();
                let waits = |group: WaitGroup| {
                    group.wait();
                    assert_eq!(finished.load(Relaxed), 50 + threads);
                };
                outside.spawn(move || rt.run(|| waits(waiting)));
                waits(group);
            });
        }
    });
}

#[test]
fn a_waiting_party_does_not_keep_others_waiting() {
    everywhere(|rt, _| {
        WaitGroup::new().wait();
        rt.run(|| WaitGroup::default().wait());
        let group = WaitGroup::new();
        let groups: Vec<_> = (0..12).map(|_| std::sync::Mutex::new(Some(group.clone()))).collect();
        drop(group);
        on_fibres_and_threads(rt, 10, 2, |number| groups[number].lock().unwrap().take().unwrap().wait());
    });
}

#[test]
fn a_party_that_times_out_is_a_party_again() {
    everywhere(|rt, _| {
        let group = WaitGroup::new();
        let other = group.clone();
        let began = Instant::now();
        let group = rt.run(|| {
            let group = group.wait_timeout(Duration::ZERO).unwrap_err();
            let group = group.wait_timeout(SHORT).unwrap_err();
            group.wait_deadline(began + 2 * SHORT).unwrap_err()
        });
        assert!(began.elapsed() >= 2 * SHORT);
        let other = other.wait_timeout(SHORT).expect_err("the first party does not count again");
        assert_eq!(format!("{other:?}"), "WaitGroup { parties: 2, waiters: 0 }");
        drop(other);
        rt.run(|| group.wait_timeout(LONG)).unwrap();
        assert!(WaitGroup::new().wait_timeout(Duration::ZERO).is_ok());
    });
}

/// One party drops out just when another one times out. Either the second is a party again and a
/// third one waits for it, or the group has ended for both.
#[test]
fn a_group_that_ends_when_a_wait_times_out_has_ended_for_all_or_for_none() {
    const ROUNDS: usize = 150;
    let mut random = Random::new(0x94_004b);
    let limits: Vec<Duration> = (0..ROUNDS).map(|_| Duration::from_micros(20 + random.below(100))).collect();
    wherever(
        |setup| setup.processors > 1,
        |rt, _| {
            for &limit in &limits {
                let (group, ended) = (WaitGroup::new(), AtomicBool::new(false));
                let [patient, party] = [(); 2].map(|()| group.clone());
                rt.run(|| {
                    sinew::scope(|scope| {
                        scope.spawn(|| {
                            patient.wait();
                            ended.store(true, Relaxed);
                        });
                        let deadline = Instant::now() + limit;
                        scope.spawn(move || {
                            wait_until(|| Instant::now() >= deadline);
                            drop(party);
                        });
                        if let Err(group) = group.wait_deadline(deadline) {
                            (0..5).for_each(|_| sinew::yield_now());
                            assert!(!ended.load(Relaxed), "the group ended although a party came back");
                            drop(group);
                        }
                    });
                });
                assert!(ended.load(Relaxed));
            }
        },
    );
}

#[test]
fn a_party_that_panics_counts_as_finished() {
    everywhere(|rt, _| {
        let group = WaitGroup::new();
        let party = group.clone();
        let begun = AtomicBool::new(false);
        rt.run(|| {
            sinew::scope(|scope| {
                let panicking = scope.spawn(|| {
                    let _party = party;
                    begun.store(true, Relaxed);
                    sinew::yield_now();
                    std::panic::resume_unwind(Box::new(()));
                });
                wait_until(|| begun.load(Relaxed));
                group.wait();
                assert!(panicking.join().is_err());
            });
        });
    });
}
