//! Several clusters side by side, and fibres that move between them.

mod fixture;

use fixture::{
    SOON, Scheduling, everywhere, happens_while_spinning, happens_within, kernel_thread, kernel_thread_name,
    own_thread_locals, spin_until, wait_until, wherever,
};
use sinew::sched::{Fair, Inverted, Shared};
use sinew::{Cluster, FibreBuilder, MigrateError, Runtime, migrate_to, pinned};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn three_clusters(rt: &Runtime) -> [Cluster; 3] {
    let builder = |name: &str| Cluster::builder().processors(2).name(name);
    [
        rt.cluster(builder("fair one").scheduler(Fair::default())).unwrap(),
        rt.cluster(builder("inverted one").scheduler(Inverted::default())).unwrap(),
        rt.cluster(builder("shared one").scheduler(Shared::default())).unwrap(),
    ]
}

#[test]
fn a_cluster_runs_its_fibres_with_its_own_scheduler() {
    everywhere(|rt, setup| {
        let clusters = three_clusters(rt);
        let schedulers = clusters.each_ref().map(Cluster::scheduler);
        assert_eq!(schedulers, ["fair", "inverted", "shared"]);
        for cluster in &clusters {
            assert_eq!(cluster.processors(), 2);
            let fibre = || {
                // A child stays on its parent's cluster.
                let child = sinew::spawn(|| (Cluster::current().unwrap(), kernel_thread_name()));
                (Cluster::current().unwrap(), child.join().unwrap())
            };
            let from_outside: Vec<_> = (0..20).map(|_| cluster.spawn(fibre)).collect();
            let inside = cluster.clone();
            let from_main = rt.run(move || {
                let spawned: Vec<_> = (0..20).map(|_| inside.spawn(fibre)).collect();
                assert!(Cluster::current().is_some_and(|main| main != inside));
                spawned
            });
            for handle in from_outside.into_iter().chain(from_main) {
                let (parent, (child, thread)) = handle.join().unwrap();
                assert_eq!((&parent, &child), (cluster, cluster));
                assert!(thread.starts_with(cluster.name()), "{thread}");
            }
        }
        assert_eq!(rt.main_cluster().processors(), setup.processors);
        assert!(rt.run(|| Cluster::current().as_ref() == Some(rt.main_cluster())));
    });
}

#[test]
fn fibres_of_different_clusters_wake_each_other() {
    const ROUNDS: u32 = 1000;
    everywhere(|rt, _| {
        // Passes a number round a ring over four clusters.
        let mut clusters = vec![rt.main_cluster().clone()];
        clusters.extend(three_clusters(rt));
        let number = Arc::new(AtomicU32::new(0));
        let ring: Arc<Mutex<Vec<sinew::Fibre>>> = Arc::default();
        let member = |place: u32| {
            let (number, ring) = (Arc::clone(&number), Arc::clone(&ring));
            move || {
                wait_until(|| ring.lock().unwrap().len() == 4);
                let next = ring.lock().unwrap()[(place as usize + 1) % 4].clone();
                for round in 0..ROUNDS {
                    while number.load(Ordering::Acquire) != 4 * round + place {
                        sinew::park();
                    }
                    number.fetch_add(1, Ordering::AcqRel);
                    next.unpark();
                }
            }
        };
        let members: Vec<_> = clusters.iter().zip(0..).map(|(cluster, place)| cluster.spawn(member(place))).collect();
        *ring.lock().unwrap() = members.iter().map(|member| member.fibre().clone()).collect();
        members.into_iter().for_each(|member| member.join().unwrap());
        assert_eq!(number.load(Ordering::Relaxed), 4 * ROUNDS);
    });
}

#[test]
fn a_fibre_moves_to_another_cluster_and_back() {
    wherever(
        |setup| setup.migrating,
        |rt, _| {
            let clusters = three_clusters(rt);
            let traveller = || {
                for round in 0..30 {
                    for cluster in clusters.iter().chain([rt.main_cluster()]) {
                        migrate_to(cluster).unwrap();
                        assert_eq!(Cluster::current().as_ref(), Some(cluster));
                        assert!(kernel_thread_name().starts_with(cluster.name()));
                        // All blocking calls work on the new cluster.
                        match round % 4 {
                            0 => sinew::yield_now(),
                            1 => sinew::sleep(Duration::from_micros(10)),
                            2 => sinew::spawn(sinew::yield_now).join().unwrap(),
                            _ => migrate_to(cluster).unwrap(),
                        }
                        assert_eq!(Cluster::current().as_ref(), Some(cluster));
                    }
                }
                30
            };
            let total: u32 = rt.run(|| {
                sinew::scope(|scope| {
                    let travellers: Vec<_> = (0..10).map(|_| scope.spawn(traveller)).collect();
                    travellers.into_iter().map(|traveller| traveller.join().unwrap()).sum()
                })
            });
            assert_eq!(total, 300);
        },
    );
}

#[test]
fn a_fibre_that_may_not_move_gets_the_reason_and_stays() {
    everywhere(|rt, setup| {
        let cluster = rt.cluster(setup.cluster_builder()).unwrap();
        let elsewhere = setup.build();
        assert_eq!(migrate_to(&cluster), Err(MigrateError::NotAFibre));
        rt.run(|| {
            let foreign = elsewhere.main_cluster();
            assert_eq!(migrate_to(foreign), Err(MigrateError::OtherRuntime));
            if !setup.migrating {
                assert_eq!(migrate_to(&cluster), Err(MigrateError::NotMigrating));
                return assert_eq!(Cluster::current().as_ref(), Some(rt.main_cluster()));
            }
            pinned(|| {
                assert_eq!(migrate_to(&cluster), Err(MigrateError::Bound));
                pinned(|| assert_eq!(migrate_to(&cluster), Err(MigrateError::Bound)));
                assert_eq!(migrate_to(&cluster), Err(MigrateError::Bound));
            });
            assert_eq!(Cluster::current().as_ref(), Some(rt.main_cluster()));
            assert_eq!(migrate_to(&cluster), Ok(()));
        });
        if setup.migrating {
            let main = FibreBuilder::new().pinned().cluster(rt.main_cluster());
            let target = cluster.clone();
            let outcome = main.spawn(move || (migrate_to(&target), pinned(|| ()), migrate_to(&target)).2).unwrap();
            assert_eq!(outcome.join().unwrap(), Err(MigrateError::Bound));
            // The count of panics is the kernel thread's, unless fibres have thread-local variables of their own.
            let expected = if own_thread_locals() { Ok(()) } else { Err(MigrateError::Bound) };
            assert_eq!(rt.run(|| unwinding(&cluster)), Some(expected));
        }
        for error in
            [MigrateError::NotAFibre, MigrateError::NotMigrating, MigrateError::Bound, MigrateError::OtherRuntime]
        {
            assert!(!error.to_string().is_empty());
        }
    });
}

/// Returns what `migrate_to` says to a fibre that unwinds.
fn unwinding(cluster: &Cluster) -> Option<Result<(), MigrateError>> {
    struct MovesInDrop<'a>(&'a Cluster, &'a Mutex<Option<Result<(), MigrateError>>>);
    impl Drop for MovesInDrop<'_> {
        fn drop(&mut self) {
            *self.1.lock().unwrap() = Some(migrate_to(self.0));
        }
    }
    let outcome = Mutex::new(None);
    sinew::scope(|scope| {
        let panicking = scope.spawn(|| {
            let _moves = MovesInDrop(cluster, &outcome);
            resume_unwind(Box::new(()));
        });
        panicking.join().unwrap_err();
    });
    outcome.into_inner().unwrap()
}

#[test]
fn a_pinned_fibre_keeps_its_kernel_thread() {
    everywhere(|rt, _| {
        let fibre = |n: u32| {
            move || {
                let wait = |n| match n % 3 {
                    0 => sinew::yield_now(),
                    1 => sinew::sleep(Duration::from_micros(20)),
                    _ => sinew::spawn(|| ()).join().unwrap(),
                };
                for _ in 0..3 {
                    (0..20).for_each(|step| wait(n + step));
                    pinned(|| {
                        let before = kernel_thread();
                        for step in 0..20 {
                            wait(n + step);
                            pinned(|| wait(n));
                            assert_eq!(kernel_thread(), before);
                        }
                    });
                }
            }
        };
        let fibres: Vec<_> = (0..60).map(|n| rt.spawn(fibre(n))).collect();
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
    });
}

#[test]
fn a_fibre_moves_unless_it_is_pinned() {
    wherever(
        |setup| setup.migrating && setup.processors > 1 && setup.scheduling == Scheduling::Shared,
        |rt, setup| {
            // With one queue for all processors, a fibre soon runs on another one.
            let stop = Arc::new(AtomicBool::new(false));
            let may_stop = || Arc::clone(&stop);
            let others: Vec<_> = (0..4 * setup.processors)
                .map(|_| {
                    let may_stop = may_stop();
                    rt.spawn(move || wait_until(|| may_stop.load(Ordering::Relaxed)))
                })
                .collect();
            rt.run(|| {
                let moves = || {
                    let before = kernel_thread();
                    happens_within(SOON, || kernel_thread() != before)
                };
                assert!(moves());
                pinned(|| {
                    let before = kernel_thread();
                    for _ in 0..10_000 {
                        sinew::yield_now();
                        assert_eq!(kernel_thread(), before);
                    }
                });
                assert!(moves());
            });
            stop.store(true, Ordering::Relaxed);
            others.into_iter().for_each(|other| other.join().unwrap());
        },
    );
}

#[test]
fn a_fibre_spawned_as_pinned_keeps_its_kernel_thread() {
    everywhere(|rt, _| {
        let stays = || {
            let before = kernel_thread();
            (0..100).all(|_| (sinew::yield_now(), kernel_thread()).1 == before)
        };
        let builder = || FibreBuilder::new().pinned().cluster(rt.main_cluster());
        let fibres: Vec<_> = (0..50).map(|_| builder().spawn(stays).unwrap()).collect();
        assert!(fibres.into_iter().all(|fibre| fibre.join().unwrap()));
    });
}

/// Returns the CPUs that the kernel lets this thread run on.
fn allowed_cpus() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse::<usize>().unwrap()..=last.parse().unwrap()
    };
    list.trim().split(',').flat_map(range).collect()
}

/// Returns what `f` returns on each of the cluster's processors, by the processor's name.
fn ask_each<T: Send + 'static>(
    cluster: &Cluster,
    question: impl Fn() -> T + Clone + Send + 'static,
) -> Vec<(String, T)> {
    let begun = Arc::new(AtomicUsize::new(0));
    let count = cluster.processors();
    let asked: Vec<_> = (0..count)
        .map(|_| {
            let (begun, question) = (Arc::clone(&begun), question.clone());
            cluster.spawn(move || {
                // Each fibre keeps its processor until every processor has one.
                begun.fetch_add(1, Ordering::Relaxed);
                happens_while_spinning(Duration::from_secs(20), || begun.load(Ordering::Relaxed) == count);
                (kernel_thread_name(), question())
            })
        })
        .collect();
    let mut answers: Vec<_> = asked.into_iter().map(|fibre| fibre.join().unwrap()).collect();
    answers.sort_by(|one, other| one.0.cmp(&other.0));
    answers
}

#[test]
fn processors_run_on_the_cpus_that_they_are_pinned_to() {
    everywhere(|rt, setup| {
        let all = allowed_cpus();
        for cpus in [vec![all[0]], vec![all[all.len() - 1]], all.clone()] {
            let builder = setup.cluster_builder().name("pin").pin_cpus(cpus.clone());
            let cluster = rt.cluster(builder).unwrap();
            let answers = ask_each(&cluster, allowed_cpus);
            for (n, (name, allowed)) in answers.into_iter().enumerate() {
                assert_eq!((name, allowed), (format!("pin-{n}"), vec![cpus[n % cpus.len()]]));
            }
            // A processor that is added later is pinned as well.
            cluster.add_processor().unwrap();
            let answers = ask_each(&cluster, allowed_cpus);
            assert!(answers.iter().all(|(_, allowed)| allowed.len() == 1 && cpus.contains(&allowed[0])));
        }
        assert!(ask_each(rt.main_cluster(), allowed_cpus).iter().all(|(_, allowed)| *allowed == all));
        assert_eq!(allowed_cpus(), all, "the caller's own CPUs have changed");
    });
}

#[test]
fn a_cluster_is_served_by_its_own_processors_only() {
    everywhere(|rt, setup| {
        // One cluster is busy with fibres that never yield. The other one goes on.
        let other = rt.cluster(setup.cluster_builder().processors(1)).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let may_stop = Arc::clone(&stop);
        let busy = other.spawn(move || spin_until(|| may_stop.load(Ordering::Relaxed)));
        let waiting = other.spawn(|| Cluster::current().unwrap());
        let handles: Vec<_> = (0..100).map(|n| rt.spawn(move || (sinew::yield_now(), n).1)).collect();
        let sum: u32 = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
        assert_eq!((sum, waiting.is_finished()), ((0..100).sum(), false));
        stop.store(true, Ordering::Relaxed);
        busy.join().unwrap();
        assert_eq!(waiting.join().unwrap(), other);
    });
}
