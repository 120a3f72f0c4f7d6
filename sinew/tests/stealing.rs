//! The schedulers whose thieves can be metered, with fibres and tasks, at 1, 2 and 4 processors.

mod fixture;

use fixture::{migrating, wait_until};
use sinew::sched::{Coloured, Heuristics, Locality, Meter, Random, Stealing, Topology, Woken};
use sinew::{Builder, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Runs `body` with each way to steal.
#[track_caller]
fn stealing(body: impl Fn(&Runtime, &Meter, usize)) {
    let without_locality = Stealing::Improved(Heuristics { locality: false, ..Heuristics::default() });
    for stealing in [Stealing::Off, Stealing::Base, without_locality, Stealing::default()] {
        in_each_set_up(&body, |builder| {
            let scheduler = Coloured::new(stealing);
            (scheduler.meter(), builder.scheduler(scheduler))
        });
    }
    in_each_set_up(&body, |builder| {
        let scheduler = Random::default();
        (scheduler.meter(), builder.scheduler(scheduler))
    });
    for woken in [Woken::Here, Woken::WhereItRan] {
        in_each_set_up(&body, |builder| {
            let scheduler = Locality::new(woken);
            (scheduler.meter(), builder.scheduler(scheduler))
        });
    }
}

/// Runs `body` with a runtime of each number of processors, and with fibres that migrate and that do not.
#[track_caller]
fn in_each_set_up(body: &impl Fn(&Runtime, &Meter, usize), schedule: impl Fn(Builder) -> (Meter, Builder)) {
    for processors in [1, 2, 4] {
        for is_migrating in [false, true] {
            fixture::alone(|| {
                // Two caches, so that victims are ordered.
                let builder = Runtime::builder()
                    .spares(0)
                    .stall_limit(None)
                    .processors(processors)
                    .topology(Topology::uniform(4, 2));
                let (meter, builder) = schedule(builder);
                let builder = if is_migrating { migrating(builder) } else { builder };
                let runtime = builder.build().unwrap();
                body(&runtime, &meter, processors);
                drop(runtime);
            });
        }
    }
}

#[test]
fn fibres_and_tasks_all_run() {
    stealing(|runtime, _, _| {
        let sum = runtime.run(|| {
            let fibres: Vec<_> = (0..200)
                .map(|number| {
                    sinew::spawn(move || {
                        sinew::yield_now();
                        number
                    })
                })
                .collect();
            let tasks: Vec<_> = (0..200)
                .map(|number| {
                    sinew::task::spawn(async move {
                        sinew::task::yield_now_async().await;
                        number
                    })
                })
                .collect();
            let fibres: usize = fibres.into_iter().map(|fibre| fibre.join().unwrap()).sum();
            fibres + tasks.into_iter().map(|task| task.join().unwrap()).sum::<usize>()
        });
        assert_eq!(sum, 2 * (0..200).sum::<usize>());
    });
}

#[test]
fn strands_that_wake_each_other_go_on() {
    stealing(|runtime, _, _| {
        runtime.run(|| {
            let pairs: Vec<_> = (0..8)
                .map(|_| {
                    let (to, from) = sinew::sync::mpsc::sync_channel::<u32>(1);
                    let (back_to, back_from) = sinew::sync::mpsc::sync_channel::<u32>(1);
                    let one = sinew::spawn(move || {
                        for number in 0..200 {
                            to.send(number).unwrap();
                            assert_eq!(back_from.recv().unwrap(), number);
                        }
                    });
                    let other = sinew::spawn(move || from.iter().for_each(|number| back_to.send(number).unwrap()));
                    [one, other]
                })
                .collect();
            pairs.into_iter().flatten().for_each(|fibre| fibre.join().unwrap());
        });
    });
}

/// A strand that computes holds up its processor. Tasks that it has spawned run on the others.
#[test]
fn tasks_behind_a_strand_that_computes_run_elsewhere() {
    stealing(|runtime, meter, processors| {
        if processors == 1 {
            return;
        }
        runtime.run(|| {
            let ran = Arc::new(AtomicUsize::new(0));
            let tasks: Vec<_> = (0..100)
                .map(|_| {
                    let ran = Arc::clone(&ran);
                    sinew::task::spawn(async move { ran.fetch_add(1, Relaxed) })
                })
                .collect();
            // Not a wait of the runtime: this fibre keeps its processor.
            while ran.load(Relaxed) < 100 {
                std::hint::spin_loop();
            }
            tasks.into_iter().for_each(|task| {
                task.join().unwrap();
            });
        });
        let stolen = meter.read();
        assert!(stolen.strands > 0 && stolen.spent_ns > 0, "{stolen:?}");
    });
}

/// Threads of the kernel hand strands in while the processors fall asleep and wake up.
#[test]
fn strands_from_outside_are_found_by_processors_that_fall_asleep() {
    stealing(|runtime, _, _| {
        for _ in 0..300 {
            runtime.spawn(|| ()).join().unwrap();
        }
    });
}

#[test]
fn nothing_is_lost_when_processors_leave() {
    stealing(|runtime, _, processors| {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks: Vec<_> = (0..50)
            .map(|_| {
                let stop = Arc::clone(&stop);
                runtime.spawn_task(async move {
                    while !stop.load(Relaxed) {
                        sinew::task::yield_now_async().await;
                    }
                })
            })
            .collect();
        let cluster = runtime.main_cluster();
        for _ in 0..3 {
            cluster.add_processor().unwrap();
            wait_until(|| cluster.processors() == processors + 1);
            cluster.remove_processor().unwrap();
        }
        stop.store(true, Relaxed);
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}
