//! The order in which fibres run, and that every fibre runs.

mod fixture;

use fixture::{
    Random, SOON, Scheduling, Setup, beside_yielding_fibres, everywhere, happens_while_spinning, happens_within,
    wait_asleep_until, wait_until, wherever,
};
use sinew::{FibreBuilder, JoinHandle, Priority, Runtime};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

fn spawn_with<T: Send + 'static>(priority: Priority, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    FibreBuilder::new().priority(priority).spawn(f).unwrap()
}

#[test]
fn urgent_fibres_begin_first() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            let log: Arc<Mutex<Vec<Priority>>> = Arc::default();
            rt.run(|| {
                let spawn = |priority| {
                    let log = Arc::clone(&log);
                    spawn_with(priority, move || log.lock().unwrap().push(priority))
                };
                let order = [Priority::Background, Priority::Low, Priority::Normal, Priority::High];
                let fibres: Vec<_> = order.into_iter().cycle().take(20).map(spawn).collect();
                assert!(log.lock().unwrap().is_empty(), "a fibre ran on the only processor while the caller kept it");
                fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
            });
            let log = log.lock().unwrap();
            assert_eq!(log.len(), 20);
            assert!(log.is_sorted(), "{log:?}");
        },
    );
}

#[test]
fn an_urgent_fibre_that_becomes_ready_runs_next() {
    const ROUNDS: usize = 100;
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            let (stop, log) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(String::new())));
            rt.run(|| {
                let fibre = |letter: char, wait: fn()| {
                    let (stop, log) = (Arc::clone(&stop), Arc::clone(&log));
                    move || {
                        while !stop.load(Ordering::Relaxed) {
                            wait();
                            log.lock().unwrap().push(letter);
                        }
                    }
                };
                let normal: Vec<_> = (0..5).map(|_| sinew::spawn(fibre('n', sinew::yield_now))).collect();
                let high = spawn_with(Priority::High, fibre('H', sinew::park));
                // By then the urgent fibre has begun and is parked.
                wait_until(|| log.lock().unwrap().len() > 20);
                for round in 0..ROUNDS {
                    log.lock().unwrap().push('!');
                    high.fibre().unpark();
                    (0..round % 7).for_each(|_| sinew::yield_now());
                    sinew::yield_now();
                }
                stop.store(true, Ordering::Relaxed);
                high.fibre().unpark();
                high.join().unwrap();
                normal.into_iter().for_each(|fibre| fibre.join().unwrap());
            });
            let log = log.lock().unwrap();
            assert_eq!(log.matches('!').count(), ROUNDS);
            assert_eq!(log.matches("!H").count(), ROUNDS, "{log}");
        },
    );
}

/// A level that waits for more urgent levels gets one turn of this number.
const TURNS: u32 = 64;

/// A background strand gets a turn after this wait, and not earlier.
const BACKGROUND_WAIT: Duration = Duration::from_millis(10);

/// A number of fibres that yield until `end`, and the count of their turns.
struct Yielding {
    turns: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    handles: Vec<JoinHandle<()>>,
}

impl Yielding {
    fn spawn(priority: Priority, fibres: usize) -> Yielding {
        let (turns, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let yields = || {
            let (turns, stop) = (Arc::clone(&turns), Arc::clone(&stop));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    turns.fetch_add(1, Ordering::Relaxed);
                    sinew::yield_now();
                }
            }
        };
        let handles = (0..fibres).map(|_| spawn_with(priority, yields())).collect();
        Yielding { turns, stop, handles }
    }

    fn turns(&self) -> u32 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Tells the fibres to end, and waits for them.
    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.handles.into_iter().for_each(|handle| handle.join().unwrap());
    }
}

#[test]
fn a_low_fibre_gets_exactly_one_turn_in_64_beside_normal_fibres() {
    wherever(
        |setup| setup.processors == 1,
        |rt, setup| {
            rt.run(|| {
                let (low, normal) = (Yielding::spawn(Priority::Low, 5), Yielding::spawn(Priority::Normal, 5));
                wait_until(|| low.turns() > 0);
                let (low_before, normal_before) = (low.turns(), normal.turns());
                wait_until(|| normal.turns() - normal_before > 100 * TURNS);
                let (low_turns, normal_turns) = (low.turns() - low_before, normal.turns() - normal_before);
                low.end();
                normal.end();
                // The caller is a normal fibre and takes one turn of six.
                let expected = normal_turns * 6 / 5 / TURNS;
                let is_near = low_turns.abs_diff(expected) <= expected / 10;
                assert!(is_near, "{low_turns} turns instead of {expected} at {setup}");
            });
        },
    );
}

#[test]
fn a_background_fibre_gets_at_most_one_turn_in_10_ms_beside_others() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                let background = Yielding::spawn(Priority::Background, 5);
                let normal = Yielding::spawn(Priority::Normal, 5);
                wait_until(|| background.turns() > 0);
                let (began, before) = (Instant::now(), background.turns());
                wait_until(|| background.turns() - before >= 3);
                let (turns, elapsed) = (background.turns() - before, began.elapsed());
                background.end();
                normal.end();
                assert!(elapsed >= BACKGROUND_WAIT * (turns - 1), "{turns} turns in {elapsed:?}");
            });
        },
    );
}

/// Lets a fibre of priority `holder` hold a lock that a fibre of priority `waiter` wants, while
/// fibres of priority `between` never rest. Returns after the waiter has had the lock.
fn invert(rt: &Runtime, processors: usize, holder: Priority, between: Priority, waiter: Priority) {
    let lock = Arc::new(sinew::sync::Mutex::new(()));
    let (is_held, is_wanted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    rt.run(|| {
        let (its_lock, says_held, sees_wanted) = (Arc::clone(&lock), Arc::clone(&is_held), Arc::clone(&is_wanted));
        let holder = spawn_with(holder, move || {
            let _guard = its_lock.lock().unwrap();
            says_held.store(true, Ordering::Relaxed);
            wait_until(|| sees_wanted.load(Ordering::Relaxed));
            (0..3).for_each(|_| sinew::yield_now());
        });
        wait_asleep_until(|| is_held.load(Ordering::Relaxed));
        let restless = Yielding::spawn(between, 4 * processors);
        wait_until(|| restless.turns() > 100);
        let waiter = spawn_with(waiter, move || {
            is_wanted.store(true, Ordering::Relaxed);
            drop(lock.lock().unwrap());
        });
        waiter.join().unwrap();
        holder.join().unwrap();
        restless.end();
    });
}

#[test]
fn a_lock_is_released_although_busy_fibres_are_more_urgent_than_its_holder() {
    everywhere(|rt, setup| {
        invert(rt, setup.processors, Priority::Low, Priority::Normal, Priority::High);
        invert(rt, setup.processors, Priority::Low, Priority::High, Priority::High);
        invert(rt, setup.processors, Priority::Normal, Priority::High, Priority::High);
    });
}

#[test]
fn a_lock_is_released_although_its_holder_is_a_background_fibre() {
    everywhere(|rt, setup| {
        invert(rt, setup.processors, Priority::Background, Priority::Normal, Priority::High);
        invert(rt, setup.processors, Priority::Background, Priority::Low, Priority::Low);
    });
}

#[test]
fn a_fibre_begins_although_more_urgent_fibres_never_rest() {
    everywhere(|rt, setup| {
        rt.run(|| {
            let restless = Yielding::spawn(Priority::High, 4 * setup.processors);
            wait_until(|| restless.turns() > 100);
            let priorities = [Priority::Background, Priority::Low, Priority::Normal];
            let begins = priorities.map(|priority| spawn_with(priority, || ()));
            begins.into_iter().for_each(|fibre| fibre.join().unwrap());
            restless.end();
        });
    });
}

#[test]
fn a_fibre_goes_on_although_more_urgent_tasks_never_rest() {
    use sinew::task;
    everywhere(|rt, setup| {
        rt.run(|| {
            let (stop, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
            let priorities = [Priority::Background, Priority::Low];
            // Without migration, fibres that have begun wait in their processor's lane.
            let count = Arc::new(AtomicU32::new(0));
            let begun = priorities.map(|priority| {
                let count = Arc::clone(&count);
                spawn_with(priority, move || {
                    count.fetch_add(1, Ordering::Relaxed);
                    sinew::park();
                })
            });
            wait_asleep_until(|| count.load(Ordering::Relaxed) == 2);
            let restless = || {
                let (stop, turns) = (Arc::clone(&stop), Arc::clone(&turns));
                async move {
                    while !stop.load(Ordering::Relaxed) {
                        turns.fetch_add(1, Ordering::Relaxed);
                        task::yield_now_async().await;
                    }
                }
            };
            let tasks: Vec<_> = (0..4 * setup.processors).map(|_| task::spawn(restless())).collect();
            wait_until(|| turns.load(Ordering::Relaxed) > 100);
            for fibre in begun {
                fibre.fibre().unpark();
                fibre.join().unwrap();
            }
            stop.store(true, Ordering::Relaxed);
            tasks.into_iter().for_each(|task| task.join().unwrap());
        });
    });
}

#[test]
fn background_fibres_take_turns_among_themselves() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                // Without migration, the first fibre is bound to its processor before the second
                // one comes.
                let first = Yielding::spawn(Priority::Background, 1);
                wait_asleep_until(|| first.turns() > 0);
                spawn_with(Priority::Background, || ()).join().unwrap();
                first.end();
            });
        },
    );
}

#[test]
fn background_fibres_run_when_there_is_nothing_else_to_do() {
    everywhere(|rt, setup| {
        let spawn = || {
            let builder = FibreBuilder::new().priority(Priority::Background).cluster(rt.main_cluster());
            let parks = || {
                (0..10).for_each(|_| sinew::yield_now());
                sinew::sleep(MS / 10);
                sinew::park();
            };
            let handle = builder.spawn(parks).unwrap();
            handle.fibre().unpark();
            handle
        };
        // In an idle runtime, and in one that is busy at first.
        (0..10).map(|_| spawn()).collect::<Vec<_>>().into_iter().for_each(|handle| handle.join().unwrap());
        let handles = beside_yielding_fibres(rt, 4 * setup.processors, || (0..10).map(|_| spawn()).collect::<Vec<_>>());
        handles.into_iter().for_each(|handle| handle.join().unwrap());
        // Spawned by a fibre that then waits for them.
        let sum = rt.run(|| {
            let fibres: Vec<_> = (0..10).map(|n| spawn_with(Priority::Background, move || n)).collect();
            fibres.into_iter().map(|fibre| fibre.join().unwrap()).sum::<u32>()
        });
        assert_eq!(sum, 45);
    });
}

/// Calls `round` up to 5,000 times, for about 300 ms. Where there are fewer CPUs than processors,
/// each round may have to wait for the kernel.
fn for_a_while(round: impl FnMut(u32)) {
    let began = Instant::now();
    (0..5000).take_while(|_| began.elapsed() < 300 * MS).for_each(round);
}

fn spawn_outside(rt: &Runtime, priority: Priority) -> JoinHandle<()> {
    FibreBuilder::new().priority(priority).cluster(rt.main_cluster()).spawn(|| ()).unwrap()
}

#[test]
fn a_fibre_that_arrives_while_a_processor_turns_to_background_work_is_run() {
    everywhere(|rt, _| {
        let mut random = Random::new(0x5eed_0004);
        for_a_while(|round| {
            // A processor wakes up for the first fibre. The second one arrives at a random moment
            // meanwhile.
            let background = spawn_outside(rt, Priority::Background);
            (0..random.below(2000)).for_each(|_| std::hint::spin_loop());
            let normal = spawn_outside(rt, Priority::Normal);
            let both = || background.is_finished() && normal.is_finished();
            assert!(happens_within(SOON, both), "{background:?} or {normal:?} was not run in round {round}");
        });
    });
}

#[test]
fn a_fibre_that_arrives_while_processors_do_background_work_is_run() {
    everywhere(|rt, _| {
        let stop = Arc::new(AtomicBool::new(false));
        let background: Vec<_> = (0..3)
            .map(|n| {
                let stop = Arc::clone(&stop);
                let builder = FibreBuilder::new().priority(Priority::Background).cluster(rt.main_cluster());
                builder.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        if n == 0 { sinew::sleep(MS / 50) } else { sinew::yield_now() }
                    }
                })
            })
            .collect();
        thread::scope(|scope| {
            for priority in [Priority::Low, Priority::Normal] {
                scope.spawn(move || {
                    for_a_while(|round| {
                        let fibre = spawn_outside(rt, priority);
                        assert!(happens_within(SOON, || fibre.is_finished()), "{fibre:?} was not run in round {round}");
                    });
                });
            }
        });
        stop.store(true, Ordering::Relaxed);
        background.into_iter().for_each(|fibre| fibre.unwrap().join().unwrap());
    });
}

#[test]
fn every_processor_runs_a_fibre_at_the_same_time() {
    everywhere(|rt, setup| {
        let meeting = |begun: &Arc<AtomicUsize>| {
            let (begun, count) = (Arc::clone(begun), setup.processors);
            move || {
                // No fibre gives way before all have begun.
                begun.fetch_add(1, Ordering::Relaxed);
                let all_have = happens_while_spinning(SOON, || begun.load(Ordering::Relaxed) == count);
                assert!(all_have, "a fibre waits although a processor is idle");
            }
        };
        for_a_while(|_| {
            let begun = Arc::default();
            let fibres: Vec<_> = (0..setup.processors).map(|_| rt.spawn(meeting(&begun))).collect();
            fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        });
        for_a_while(|_| {
            rt.run(|| {
                let begun = Arc::default();
                let fibres: Vec<_> = (1..setup.processors).map(|_| sinew::spawn(meeting(&begun))).collect();
                meeting(&begun)();
                fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
            });
        });
    });
}

/// Fibres that count their own turns.
struct Crowd {
    counts: Arc<Vec<AtomicU64>>,
    stop: Arc<AtomicBool>,
    handles: Vec<JoinHandle<()>>,
}

impl Crowd {
    /// Returns when all fibres have begun.
    fn gather(rt: &Runtime, size: usize) -> Crowd {
        let counts: Arc<Vec<AtomicU64>> = Arc::new((0..size).map(|_| AtomicU64::new(0)).collect());
        let stop = Arc::new(AtomicBool::new(false));
        let fibre = |n: usize| {
            let (counts, stop) = (Arc::clone(&counts), Arc::clone(&stop));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    counts[n].fetch_add(1, Ordering::Relaxed);
                    sinew::yield_now();
                }
            }
        };
        let handles = (0..size).map(|n| rt.spawn(fibre(n))).collect();
        wait_until(|| counts.iter().all(|count| count.load(Ordering::Relaxed) > 0));
        Crowd { counts, stop, handles }
    }

    fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.handles.into_iter().for_each(|handle| handle.join().unwrap());
    }
}

#[test]
fn a_fibre_that_does_not_yield_keeps_no_other_fibre_from_running() {
    wherever(Setup::lets_fibres_move, |rt, _| {
        let crowd = Crowd::gather(rt, 200);
        for _ in 0..3 {
            let counts = Arc::clone(&crowd.counts);
            let spinning = rt.spawn(move || {
                let now = || counts.iter().map(|count| count.load(Ordering::Relaxed));
                let before: Vec<u64> = now().collect();
                happens_while_spinning(SOON, || now().zip(&before).all(|(now, &before)| now > before))
            });
            assert!(spinning.join().unwrap(), "a fibre waits for the one that does not yield");
        }
        crowd.end();
    });
}

#[test]
fn fibres_that_yield_run_about_as_often_as_each_other() {
    wherever(
        |setup| setup.lets_fibres_move() && setup.scheduling == Scheduling::Fair && setup.processors == 2,
        |rt, _| {
            let crowd = Crowd::gather(rt, 200);
            let measure = || {
                let before = crowd.counts();
                let turns = |counts: &[u64]| counts.iter().sum::<u64>();
                wait_until(|| turns(&crowd.counts()) - turns(&before) >= 500_000);
                let mut runs: Vec<u64> =
                    crowd.counts().iter().zip(before).map(|(after, before)| after - before).collect();
                runs.sort();
                // Leaves out the top tenth. When the kernel takes a CPU away, the fibre that ran
                // there may be alone on its processor afterwards.
                (runs[0], runs[runs.len() * 9 / 10])
            };
            let is_even = |&(least, most): &(u64, u64)| most <= 2 * least;
            // Measures again if other programs kept the CPUs busy.
            let mut measured = Vec::new();
            while measured.len() < 10 && !measured.last().is_some_and(is_even) {
                measured.push(measure());
            }
            crowd.end();
            assert!(measured.last().is_some_and(is_even), "least and most runs were {measured:?}");
        },
    );
}

#[test]
fn groups_of_fibres_that_are_always_ready_all_progress() {
    everywhere(|rt, setup| {
        // A fibre spawns one group, a kernel thread the second. The third one alternates.
        let from_outside = Crowd::gather(rt, 2 * setup.processors);
        let from_inside = rt.run(|| Crowd::gather(rt, 2 * setup.processors));
        let ball = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (its_ball, its_stop) = (Arc::clone(&ball), Arc::clone(&stop));
        let playing = rt.spawn(move || {
            while !its_stop.load(Ordering::Relaxed) {
                its_ball.fetch_add(1, Ordering::Relaxed);
                sinew::spawn(|| ()).join().unwrap();
            }
        });
        wait_until(|| ball.load(Ordering::Relaxed) > 0);
        let counts = || [from_outside.counts(), from_inside.counts(), vec![ball.load(Ordering::Relaxed)]].concat();
        let before = counts();
        let all_go_on = || counts().iter().zip(&before).all(|(now, before)| *now > before + 100);
        assert!(happens_within(SOON, all_go_on), "from {before:?} to {:?}", counts());
        stop.store(true, Ordering::Relaxed);
        playing.join().unwrap();
        from_outside.end();
        from_inside.end();
    });
}

#[test]
fn a_fibre_spawned_from_outside_runs_although_all_processors_are_busy() {
    everywhere(|rt, setup| {
        beside_yielding_fibres(rt, 8 * setup.processors, || {
            for round in 0..50 {
                let began = Instant::now();
                let parking = rt.spawn(|| {
                    sinew::park();
                    7
                });
                parking.fibre().unpark();
                assert!(happens_within(SOON, || parking.is_finished()), "round {round} took {:?}", began.elapsed());
                assert_eq!(parking.join().unwrap(), 7);
            }
        });
    });
}
