//! Spawning and joining.

mod fixture;

use fixture::{everywhere, message, wait_until};
use sinew::{FibreBuilder, FibreId, JoinHandle, Priority, Runtime, SelfJoin, SpawnError};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Counts how often it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn drops() -> (Arc<AtomicUsize>, impl Fn() -> usize) {
    let drops = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&drops);
    (drops, move || counter.load(Ordering::Relaxed))
}

#[test]
fn join_returns_the_result_of_the_closure() {
    everywhere(|rt, _| {
        let from_kernel_thread = rt.spawn(|| String::from("outside")).join().unwrap();
        let from_fibre = rt.run(|| sinew::spawn(|| vec![1, 2, 3]).join().unwrap());
        assert_eq!((from_kernel_thread.as_str(), from_fibre.as_slice()), ("outside", &[1, 2, 3][..]));
        let large = rt.spawn(|| [7u64; 500]).join().unwrap();
        assert_eq!(large, [7; 500]);
    });
}

#[test]
fn join_returns_a_panic_and_the_processor_goes_on() {
    everywhere(|rt, setup| {
        let payloads = rt.run(|| {
            let text: JoinHandle<()> = sinew::spawn(|| panic!("number {}", 17));
            let value: JoinHandle<()> = sinew::spawn(|| resume_unwind(Box::new(42u32)));
            (text.join().unwrap_err(), value.join().unwrap_err())
        });
        assert_eq!(message(&*payloads.0), "number 17");
        assert_eq!(*payloads.1.downcast::<u32>().unwrap(), 42);
        let parts: Vec<_> = (0..10 * setup.processors).map(|n| rt.spawn(move || n)).collect();
        let sum: usize = parts.into_iter().map(|part| part.join().unwrap()).sum();
        assert_eq!(sum, (0..10 * setup.processors).sum::<usize>());
    });
}

#[test]
fn fibres_may_suspend_while_they_unwind() {
    struct YieldsInDrop;
    impl Drop for YieldsInDrop {
        fn drop(&mut self) {
            (0..50).for_each(|_| sinew::yield_now());
        }
    }
    everywhere(|rt, _| {
        let panicking = |n: u32| {
            move || {
                let _yields = YieldsInDrop;
                sinew::yield_now();
                resume_unwind(Box::new(n))
            }
        };
        let handles: Vec<JoinHandle<()>> = (0..20).map(|n| rt.spawn(panicking(n))).collect();
        for (n, handle) in handles.into_iter().enumerate() {
            let payload = handle.join().unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&(n as u32)));
        }
        assert!(!rt.run(thread::panicking), "the count of panics is too high");
    });
}

#[test]
fn a_detached_fibre_runs_and_drops_its_result_once() {
    everywhere(|rt, _| {
        let (counter, dropped) = drops();
        // The handle is dropped first.
        let go = Arc::new(AtomicBool::new(false));
        let may_end = Arc::clone(&go);
        let result = Counted(Arc::clone(&counter));
        let handle = rt.spawn(move || {
            wait_until(|| may_end.load(Ordering::Relaxed));
            result
        });
        // A `Fibre` without a handle does not keep the result.
        let mut known = vec![handle.fibre().clone()];
        drop(handle);
        assert_eq!(dropped(), 0);
        go.store(true, Ordering::Relaxed);
        wait_until(|| dropped() == 1);
        // The fibre ends first.
        let result = Counted(Arc::clone(&counter));
        let handle = rt.spawn(move || result);
        wait_until(|| handle.is_finished());
        assert_eq!(dropped(), 1);
        known.push(handle.fibre().clone());
        drop(handle);
        assert_eq!(dropped(), 2);
        // Both at the same time.
        const RACES: usize = 300;
        for _ in 0..RACES {
            let result = Counted(Arc::clone(&counter));
            known.push(rt.spawn(move || result).fibre().clone());
        }
        wait_until(|| rt.live_strands() == 0);
        assert_eq!(dropped(), 2 + RACES);
        assert_eq!(Arc::strong_count(&counter), 2, "a closure or a result is left");
        assert_eq!(known.len(), 2 + RACES);
    });
}

#[test]
fn is_finished_says_whether_join_would_wait() {
    everywhere(|rt, _| {
        let go = Arc::new(AtomicBool::new(false));
        let may_end = Arc::clone(&go);
        let handle = rt.spawn(move || wait_until(|| may_end.load(Ordering::Relaxed)));
        assert!(!handle.is_finished());
        go.store(true, Ordering::Relaxed);
        wait_until(|| handle.is_finished());
        handle.join().unwrap();
        let panicking: JoinHandle<()> = rt.spawn(|| resume_unwind(Box::new(())));
        wait_until(|| panicking.is_finished());
        panicking.join().unwrap_err();
    });
}

#[test]
fn a_fibre_knows_its_name_and_id() {
    everywhere(|rt, _| {
        let named = FibreBuilder::new().name("a name, with spaces").cluster(rt.main_cluster());
        let handle = named.spawn(|| (sinew::current().id(), sinew::current().name().map(str::to_owned))).unwrap();
        assert_eq!(handle.fibre().name(), Some("a name, with spaces"));
        let fibre = handle.fibre().clone();
        let (id, name) = handle.join().unwrap();
        assert_eq!((id, name.as_deref()), (fibre.id(), fibre.name()));
        assert!(!fibre.is_kernel_thread());
        assert!(rt.run(|| sinew::current().name().is_none()));
        assert!(format!("{fibre:?}").contains("a name, with spaces"));

        // Ids come from several processors and from outside.
        let spawner = || (0..300).map(|_| sinew::spawn(|| sinew::current().id())).collect::<Vec<_>>();
        let spawners: Vec<_> = (0..8).map(|_| rt.spawn(spawner)).collect();
        let mut ids: HashSet<FibreId> = HashSet::from([id, sinew::current().id()]);
        let mut expected = 2;
        for spawner in spawners {
            expected += 1;
            ids.insert(spawner.fibre().id());
            for fibre in spawner.join().unwrap() {
                expected += 1;
                let id = fibre.fibre().id();
                assert_eq!(fibre.join().unwrap(), id);
                ids.insert(id);
            }
        }
        assert_eq!(ids.len(), expected);
    });
}

#[test]
fn a_builder_sets_the_properties_of_a_fibre() {
    everywhere(|rt, setup| {
        let other = rt.cluster(setup.cluster_builder().name("other").processors(1)).unwrap();
        let megabyte = 1 << 20;
        let builder = FibreBuilder::new().stack_size(4 * megabyte).priority(Priority::High).pinned().cluster(&other);
        let (sum, before, after, cluster) = builder
            .spawn(move || {
                // More than the default stack.
                let numbers = [1u8; 1 << 20];
                let before = fixture::kernel_thread();
                (0..100).for_each(|_| sinew::yield_now());
                let sum: usize = std::hint::black_box(&numbers).iter().step_by(4096).map(|&n| usize::from(n)).sum();
                (sum, before, fixture::kernel_thread(), sinew::Cluster::current().unwrap())
            })
            .unwrap()
            .join()
            .unwrap();
        assert_eq!((sum, before), (megabyte / 4096, after));
        assert_eq!((&cluster, cluster.name()), (&other, "other"));
        assert_ne!(&cluster, rt.main_cluster());
    });
}

#[test]
fn fibres_of_one_runtime_spawn_and_join_on_another() {
    everywhere(|rt, setup| {
        let other = Arc::new(setup.build());
        let inner = Arc::clone(&other);
        let (sum, clusters_differ) = rt.run(move || {
            let here = sinew::Cluster::current().unwrap();
            let parts: Vec<_> =
                (0..100).map(|n| inner.spawn(move || (n, sinew::Cluster::current().unwrap()))).collect();
            let parts: Vec<_> = parts.into_iter().map(|part| part.join().unwrap()).collect();
            (parts.iter().map(|part| part.0).sum::<u32>(), parts.iter().all(|part| part.1 != here))
        });
        assert_eq!((sum, clusters_differ), ((0..100).sum(), true));
        let outer = other.run(|| rt.run(|| sinew::spawn(|| 5).join().unwrap()));
        assert_eq!(outer, 5);
    });
}

/// Spawns fibres that end when `go` is set.
fn waiting(rt: &Runtime, count: u32, go: &Arc<AtomicBool>) -> Vec<JoinHandle<u32>> {
    let fibre = |n| {
        let go = Arc::clone(go);
        move || {
            wait_until(|| go.load(Ordering::Relaxed));
            n
        }
    };
    (0..count).map(|n| rt.spawn(fibre(n))).collect()
}

#[test]
fn a_thousand_fibres_join_a_thousand_others() {
    everywhere(|rt, _| {
        let go = Arc::new(AtomicBool::new(false));
        let waiting = waiting(rt, 1000, &go);
        let begun = Arc::new(AtomicUsize::new(0));
        let join = |handle: JoinHandle<u32>| {
            let begun = Arc::clone(&begun);
            move || {
                begun.fetch_add(1, Ordering::Relaxed);
                handle.join().unwrap()
            }
        };
        let joining: Vec<_> = waiting.into_iter().map(|handle| rt.spawn(join(handle))).collect();
        wait_until(|| begun.load(Ordering::Relaxed) == 1000);
        go.store(true, Ordering::Relaxed);
        for (n, handle) in joining.into_iter().enumerate() {
            assert_eq!(handle.join().unwrap(), n as u32);
        }
    });
}

#[test]
fn kernel_threads_join_a_thousand_fibres() {
    everywhere(|rt, _| {
        let go = Arc::new(AtomicBool::new(false));
        let mut waiting = waiting(rt, 1000, &go);
        let sum: u32 = thread::scope(|scope| {
            let quarters: Vec<Vec<_>> = (0..4).map(|_| waiting.split_off(waiting.len() - 250)).collect();
            let join_all =
                |handles: Vec<JoinHandle<u32>>| handles.into_iter().map(|handle| handle.join().unwrap()).sum();
            let joining: Vec<_> = quarters.into_iter().map(|quarter| scope.spawn(move || join_all(quarter))).collect();
            go.store(true, Ordering::Relaxed);
            joining.into_iter().map(|thread| -> u32 { thread.join().unwrap() }).sum()
        });
        assert_eq!(sum, (0..1000).sum::<u32>());
    });
}

#[test]
fn spawns_nest_a_hundred_deep() {
    fn nest(depth: u32) -> u32 {
        if depth == 0 { 0 } else { 1 + sinew::spawn(move || nest(depth - 1)).join().unwrap() }
    }
    everywhere(|rt, _| assert_eq!(rt.run(|| nest(100)), 100));
}

#[test]
fn a_hundred_thousand_fibres_are_spawned_at_once_and_joined() {
    /// There are enough stacks for this number even where each guard takes a mapping.
    const ALWAYS: usize = 20_000;
    everywhere(|rt, _| {
        let (count, sum) = rt.run(|| {
            let mut handles = Vec::new();
            for n in 0..100_000u64 {
                match FibreBuilder::new().spawn(move || n) {
                    Ok(handle) => handles.push(handle),
                    Err(SpawnError::OutOfStacks(_)) if handles.len() >= ALWAYS => break,
                    Err(error) => panic!("{error} after {n} fibres"),
                }
            }
            (handles.len() as u64, handles.into_iter().map(|handle| handle.join().unwrap()).sum::<u64>())
        });
        assert_eq!(sum, (0..count).sum::<u64>());
    });
}

#[test]
fn ten_thousand_fibres_live_at_once() {
    everywhere(|rt, _| {
        let go = Arc::new(AtomicBool::new(false));
        let begun = Arc::new(AtomicU32::new(0));
        let fibre = |n: u32| {
            let (go, begun) = (Arc::clone(&go), Arc::clone(&begun));
            move || {
                begun.fetch_add(1, Ordering::Relaxed);
                while !go.load(Ordering::Relaxed) {
                    sinew::park();
                }
                n
            }
        };
        let handles: Vec<_> = (0..10_000).map(|n| rt.spawn(fibre(n))).collect();
        wait_until(|| begun.load(Ordering::Relaxed) == 10_000);
        assert_eq!(rt.live_strands(), 10_000);
        go.store(true, Ordering::Relaxed);
        handles.iter().for_each(|handle| handle.fibre().unpark());
        let sum: u32 = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
        assert_eq!(sum, (0..10_000).sum::<u32>());
    });
}

#[test]
fn a_fibre_that_joins_itself_panics_with_a_message() {
    everywhere(|rt, _| {
        let own: Arc<Mutex<Option<JoinHandle<u8>>>> = Arc::default();
        let (its_own, outcome) = (Arc::clone(&own), Arc::new(Mutex::new(None)));
        let its_outcome = Arc::clone(&outcome);
        let handle = rt.spawn(move || {
            wait_until(|| its_own.lock().unwrap().is_some());
            let handle = its_own.lock().unwrap().take().unwrap();
            *its_outcome.lock().unwrap() = Some(handle.join().unwrap_err());
            7
        });
        *own.lock().unwrap() = Some(handle);
        wait_until(|| outcome.lock().unwrap().is_some());
        let payload = outcome.lock().unwrap().take().unwrap();
        assert_eq!(payload.downcast_ref(), Some(&SelfJoin));
    });
}

#[test]
fn a_panic_of_the_root_closure_leaves_run() {
    everywhere(|rt, _| {
        let payload = catch_unwind(AssertUnwindSafe(|| -> () { rt.run(|| resume_unwind(Box::new("root"))) }));
        assert_eq!(message(&*payload.unwrap_err()), "root");
        assert_eq!(rt.run(|| 3), 3);
    });
}
