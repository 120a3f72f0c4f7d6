//! Processors that are added and removed while everything runs.

mod fixture;

use fixture::{
    Random, SOON, everywhere, happens_within, kernel_thread, kernel_thread_name, let_others_wait, wait_until, wherever,
};
use sinew::sched::ProcessorId;
use sinew::{Cluster, FibreBuilder, ResizeError, Runtime, pinned};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Returns the processor that runs the caller at this moment. It serves its cluster.
fn my_processor() -> ProcessorId {
    let name = kernel_thread_name();
    let index: usize = name.rsplit_once('-').unwrap().1.parse().unwrap();
    let serving = Cluster::current().unwrap().processor_ids();
    serving.into_iter().find(|id| id.index() == index).unwrap()
}

/// Work of every kind, which goes on until it is told to stop.
struct Load {
    stop: AtomicBool,
    /// The iterations of all fibres.
    iterations: AtomicU64,
}

impl Load {
    fn goes_on(&self) -> bool {
        self.iterations.fetch_add(1, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }

    /// Iterates with `wait` in between. Returns the number of iterations.
    fn iterate(&self, mut wait: impl FnMut()) -> u64 {
        let mut count = 1;
        while self.goes_on() {
            wait();
            count += 1;
        }
        count
    }

    /// Parks after each iteration. A partner that does the same unparks it, so that one lost
    /// wake-up stops both for ever.
    fn ping_pong(&self, ball: &AtomicU32, me: u32) -> u64 {
        let partner = sinew::current();
        let mut count = 0;
        sinew::scope(|scope| {
            let other = scope.spawn(|| self.hit(ball, me + 1, &partner));
            count += self.hit(ball, me, other.fibre());
            count += other.join().unwrap();
        });
        count
    }

    fn hit(&self, ball: &AtomicU32, me: u32, partner: &sinew::Fibre) -> u64 {
        const OVER: u32 = u32::MAX;
        let mut count = 0;
        loop {
            let holder = ball.load(Ordering::Acquire);
            if holder == OVER {
                return count;
            }
            if holder != me {
                sinew::park();
                continue;
            }
            count += 1;
            let next = if self.goes_on() { 1 - me } else { OVER };
            ball.store(next, Ordering::Release);
            partner.unpark();
        }
    }
}

fn spawn_load(rt: &Runtime, load: &Arc<Load>) -> Vec<sinew::JoinHandle<u64>> {
    let spawn = |kind: u32| {
        let load = Arc::clone(load);
        rt.spawn(move || match kind {
            0 => load.iterate(sinew::yield_now),
            1 => load.iterate(|| sinew::spawn(|| ()).join().unwrap()),
            2 => load.iterate(|| sinew::sleep(Duration::from_micros(30))),
            3 => load.iterate(|| pinned(sinew::yield_now)),
            _ => load.ping_pong(&AtomicU32::new(0), 0),
        })
    };
    (0..20).map(|n| spawn(n % 5)).collect()
}

#[test]
fn no_work_is_lost_while_processors_come_and_go() {
    const CHANGES: u32 = 200;
    // The number of processors changes, so its first value matters little.
    let begins_with_two = |setup: &fixture::Setup| setup.processors == 2;
    wherever(begins_with_two, |rt, setup| {
        let mut random = Random::new(0x5eed_0003);
        let load = Arc::new(Load { stop: AtomicBool::new(false), iterations: AtomicU64::new(0) });
        let mut fibres = spawn_load(rt, &load);
        let cluster = rt.main_cluster();
        let mut processors = setup.processors;
        for change in 0..CHANGES {
            if processors == 1 || (processors < 6 && random.below(2) == 0) {
                cluster.add_processor().unwrap();
                processors += 1;
            } else {
                cluster.remove_processor().unwrap();
                processors -= 1;
            }
            assert_eq!(cluster.processors(), processors);
            if change % 50 == 49 {
                fibres.extend(spawn_load(rt, &load));
            }
            let before = load.iterations.load(Ordering::Relaxed);
            let goes_on = || load.iterations.load(Ordering::Relaxed) > before + 20;
            assert!(happens_within(SOON, goes_on), "no fibre runs after change {change}");
        }
        load.stop.store(true, Ordering::Relaxed);
        let sum: u64 = fibres.into_iter().map(|fibre| fibre.join().unwrap()).sum();
        assert_eq!(sum, load.iterations.load(Ordering::Relaxed));
        assert!(happens_within(SOON, || cluster.retiring() == 0), "{} processors still retire", cluster.retiring());
        assert_eq!(cluster.processors(), processors);
    });
}

#[test]
fn a_fibre_bound_to_a_removed_processor_goes_on_there() {
    everywhere(|rt, setup| {
        for spawned_pinned in [false, true] {
            let cluster = rt.main_cluster();
            let (removed, step) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
            let (is_removed, its_step) = (Arc::clone(&removed), Arc::clone(&step));
            let begun = Arc::new(std::sync::Mutex::new(None));
            let it_began = Arc::clone(&begun);
            let body = move || {
                let own_thread = kernel_thread();
                *it_began.lock().unwrap() = Some(my_processor());
                while !is_removed.load(Ordering::Acquire) {
                    sinew::park();
                }
                for step in 1..=50 {
                    match step % 3 {
                        0 => sinew::yield_now(),
                        1 => sinew::sleep(Duration::from_micros(100)),
                        _ => assert_ne!(
                            sinew::spawn(kernel_thread).join().unwrap(),
                            own_thread,
                            "a new fibre began on the removed processor"
                        ),
                    }
                    assert_eq!(kernel_thread(), own_thread);
                    its_step.store(step, Ordering::Relaxed);
                }
                // The partner waits as well, so the wake-up comes from outside.
                while its_step.load(Ordering::Acquire) != 100 {
                    sinew::park();
                }
                kernel_thread() == own_thread
            };
            let builder = FibreBuilder::new().cluster(cluster);
            let handle = match (setup.migrating, spawned_pinned) {
                (true, false) => builder.spawn(|| pinned(body)),
                (_, false) => builder.spawn(body),
                (_, true) => builder.pinned().spawn(body),
            };
            let handle = handle.unwrap();
            wait_until(|| begun.lock().unwrap().is_some());
            let own_processor = begun.lock().unwrap().unwrap();
            cluster.add_processor().unwrap();
            cluster.remove_processor_by_id(own_processor).unwrap();
            assert_eq!((cluster.processors(), cluster.retiring()), (setup.processors, 1));
            assert!(matches!(
                cluster.remove_processor_by_id(own_processor),
                Err(ResizeError::NoSuchProcessor | ResizeError::LastProcessor)
            ));
            removed.store(true, Ordering::Release);
            handle.fibre().unpark();
            assert!(happens_within(SOON, || step.load(Ordering::Relaxed) == 50), "the fibre does not go on");
            assert_eq!(cluster.retiring(), 1);
            step.store(100, Ordering::Release);
            handle.fibre().unpark();
            assert!(handle.join().unwrap());
            assert!(happens_within(SOON, || cluster.retiring() == 0), "the processor does not end");
        }
    });
}

#[test]
fn a_fibre_may_remove_its_own_processor() {
    everywhere(|rt, setup| {
        let cluster = rt.main_cluster();
        for _ in 0..10 {
            cluster.add_processor().unwrap();
            let (before, after) = rt.run(|| {
                let before = kernel_thread();
                cluster.remove_processor_by_id(my_processor()).unwrap();
                sinew::spawn(sinew::yield_now).join().unwrap();
                if setup.migrating {
                    assert!(happens_within(SOON, || kernel_thread() != before), "it stays");
                }
                sinew::yield_now();
                (before, kernel_thread())
            });
            assert_eq!(before == after, !setup.migrating);
            // Until the processor has noticed its removal, it may take the fibre of the next round.
            assert!(happens_within(SOON, || cluster.retiring() == 0));
        }
        assert_eq!(cluster.processors(), setup.processors);
    });
}

#[test]
fn the_last_processor_stays() {
    everywhere(|rt, setup| {
        let cluster = rt.main_cluster();
        for left in (1..setup.processors).rev() {
            cluster.remove_processor().unwrap();
            assert_eq!(cluster.processors(), left);
        }
        assert!(matches!(cluster.remove_processor(), Err(ResizeError::LastProcessor)));
        let [last] = cluster.processor_ids()[..] else { panic!("one processor is left") };
        assert!(matches!(cluster.remove_processor_by_id(last), Err(ResizeError::LastProcessor)));
        assert_eq!(rt.run(|| sinew::spawn(|| 8).join().unwrap()), 8);
        let (added, gone) = (cluster.add_processor().unwrap(), cluster.add_processor().unwrap());
        cluster.remove_processor_by_id(gone).unwrap();
        assert!(matches!(cluster.remove_processor_by_id(gone), Err(ResizeError::NoSuchProcessor)));
        cluster.remove_processor_by_id(added).unwrap();
        assert!(matches!(cluster.remove_processor_by_id(added), Err(ResizeError::LastProcessor)));
        assert_eq!(rt.run(|| sinew::spawn(|| 9).join().unwrap()), 9);
    });
}

#[test]
fn processor_ids_name_those_that_serve_in_the_order_in_which_they_came() {
    everywhere(|rt, setup| {
        let cluster = rt.main_cluster();
        let began_with = cluster.processor_ids();
        assert!(began_with.iter().map(|id| id.index()).eq(0..setup.processors));
        let (first, second) = (cluster.add_processor().unwrap(), cluster.add_processor().unwrap());
        // It stays until its fibre has ended, and does not serve any more.
        let (sender, receiver) = sinew::sync::mpsc::channel::<()>();
        let its_processor = Arc::new(OnceLock::new());
        let tells = Arc::clone(&its_processor);
        let bound = FibreBuilder::new().cluster(cluster).pinned().spawn(move || {
            tells.set(my_processor()).unwrap();
            receiver.recv().unwrap_err()
        });
        wait_until(|| its_processor.get().is_some());
        let retiring = *its_processor.get().unwrap();
        cluster.remove_processor_by_id(retiring).unwrap();
        assert_eq!(cluster.retiring(), 1);
        let serve: Vec<_> = began_with.iter().copied().chain([first, second]).filter(|id| *id != retiring).collect();
        assert_eq!(cluster.processor_ids(), serve);
        drop(sender);
        bound.unwrap().join().unwrap();
        assert!(happens_within(SOON, || cluster.retiring() == 0));
    });
}

#[test]
fn remove_takes_the_newest_processor_or_the_named_one() {
    everywhere(|rt, _| {
        let cluster = rt.main_cluster();
        let (first, second) = (cluster.add_processor().unwrap(), cluster.add_processor().unwrap());
        assert_ne!(first, second);
        assert_eq!(cluster.remove_processor().unwrap(), second);
        cluster.remove_processor_by_id(first).unwrap();
        // A processor's number is reused after the processor has ended.
        assert!(happens_within(SOON, || cluster.retiring() == 0));
        assert_eq!(cluster.add_processor().unwrap(), first);
        assert_eq!(first.index(), cluster.processors() - 1);
    });
}

#[test]
fn timers_go_on_when_any_sleeping_processor_is_removed() {
    wherever(
        |setup| setup.processors > 1,
        |rt, _| {
            let cluster: &Cluster = rt.main_cluster();
            for victim in cluster.processor_ids() {
                let sleeper = rt.spawn(|| sinew::sleep(Duration::from_millis(20)));
                let_others_wait();
                cluster.remove_processor_by_id(victim).unwrap();
                let woken = happens_within(SOON, || sleeper.is_finished());
                assert!(woken, "no processor minds the timers after {victim:?} has left");
                sleeper.join().unwrap();
                assert!(happens_within(SOON, || cluster.retiring() == 0));
                assert_eq!(cluster.add_processor().unwrap(), victim);
            }
        },
    );
}

#[test]
fn fibres_queued_on_a_processor_move_to_others_when_it_leaves() {
    everywhere(|rt, setup| {
        let cluster = rt.main_cluster();
        for _ in 0..20 {
            let added: Vec<_> = (0..3).map(|_| cluster.add_processor().unwrap()).collect();
            let fibres: Vec<_> = (0..300).map(|n: u64| rt.spawn(move || (sinew::yield_now(), n).1)).collect();
            added.into_iter().for_each(|id| cluster.remove_processor_by_id(id).unwrap());
            let sum: u64 = fibres.into_iter().map(|fibre| fibre.join().unwrap()).sum();
            assert_eq!(sum, (0..300).sum::<u64>());
        }
        assert!(happens_within(SOON, || cluster.retiring() == 0));
        assert_eq!(cluster.processors(), setup.processors);
    });
}
