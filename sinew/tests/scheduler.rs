//! Schedulers written by an application: correct ones work, and a mistake in one ends the process
//! with a message instead of corrupting it. The schedulers for actors work as well.

#[macro_use]
mod fixture;

use fixture::rerun::{Rerun, SIGABRT};
use fixture::{Setup, alone, migrating, wait_until};
use sinew::sched::{Claim, Effort, Local, Placement, Ready, Scheduler, Wake};
use sinew::{Fibre, Runtime, task};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The method that a scheduler is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Attach,
    Inject,
    Push,
    PushAll,
    Next,
    Exchange,
    Claim,
    Search,
    Retract,
    Beat,
    Drain,
    DropLocal,
    DropScheduler,
}

const METHODS: [Method; 13] = [
    Method::Attach,
    Method::Inject,
    Method::Push,
    Method::PushAll,
    Method::Next,
    Method::Exchange,
    Method::Claim,
    Method::Search,
    Method::Retract,
    Method::Beat,
    Method::Drain,
    Method::DropLocal,
    Method::DropScheduler,
];

type During = Arc<dyn Fn(Method) + Send + Sync>;

/// One queue, and a closure that runs during each method, after the method's own work.
#[derive(Clone)]
struct Queue {
    strands: Arc<Mutex<VecDeque<Ready>>>,
    during: During,
}

struct Mine(Queue);
struct MyEnd(Queue);

impl Mine {
    fn new(during: impl Fn(Method) + Send + Sync + 'static) -> Mine {
        Mine(Queue { strands: Arc::default(), during: Arc::new(during) })
    }
}

impl Queue {
    fn put(&self, strand: Ready) {
        self.strands.lock().unwrap().push_back(strand);
    }

    fn take(&self) -> Option<Ready> {
        self.strands.lock().unwrap().pop_front()
    }

    /// Calls `f`, then the closure for `method`.
    fn does<T>(&self, method: Method, f: impl FnOnce() -> T) -> T {
        let result = f();
        (self.during)(method);
        result
    }
}

impl Scheduler for Mine {
    fn name(&self) -> &'static str {
        "mine"
    }

    fn attach(&self, _placement: Placement) -> Box<dyn Local> {
        self.0.does(Method::Attach, || Box::new(MyEnd(self.0.clone())))
    }

    fn inject(&self, strand: Ready, _now: u64) -> Wake {
        self.0.does(Method::Inject, || self.0.put(strand));
        Wake::Backlog
    }
}

impl Local for MyEnd {
    fn push(&self, strand: Ready, _now: u64) -> Wake {
        self.0.does(Method::Push, || self.0.put(strand));
        Wake::Backlog
    }

    fn push_all(&self, strands: &mut dyn Iterator<Item = Ready>, _now: u64, tell: &mut dyn FnMut(Wake)) {
        // Leaves one of the strands for the runtime to push.
        self.0.does(Method::PushAll, || strands.next().map(|strand| self.0.put(strand)));
        tell(Wake::Backlog);
    }

    fn next(&self, _now: u64) -> Option<Ready> {
        self.0.does(Method::Next, || self.0.take())
    }

    fn exchange(&self, strand: Ready, _now: u64) -> Result<Ready, Ready> {
        self.0.does(Method::Exchange, || {
            let mut strands = self.0.strands.lock().unwrap();
            strands.push_back(strand);
            Ok(strands.pop_front().unwrap())
        })
    }

    fn claim(&self) -> Option<Claim> {
        self.0.does(Method::Claim, || self.0.strands.lock().unwrap().front().map(Claim::of))
    }

    fn search(&self, _now: u64, _effort: Effort) -> Option<Ready> {
        self.0.does(Method::Search, || self.0.take())
    }

    fn retract(&self, _now: u64) -> Wake {
        self.0.does(Method::Retract, || Wake::Nobody)
    }

    fn beat(&self, _now: u64) {
        self.0.does(Method::Beat, || ());
    }

    fn drain(&self) -> Option<Ready> {
        self.0.does(Method::Drain, || None)
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        (self.0.during)(Method::DropScheduler);
    }
}

impl Drop for MyEnd {
    fn drop(&mut self) {
        (self.0.during)(Method::DropLocal);
    }
}

/// Uses every method: fibres and tasks begin, yield, park, sleep and wait for each other, and
/// processors come and go.
fn use_everything(runtime: Runtime) {
    let cluster = runtime.main_cluster().clone();
    cluster.add_processor().unwrap();
    runtime.run(|| {
        let fibres: Vec<_> = (0..20)
            .map(|number| {
                sinew::spawn(move || {
                    for _ in 0..number {
                        sinew::yield_now();
                        sinew::sleep(Duration::from_micros(100));
                    }
                    let task = task::spawn(async move {
                        for _ in 0..50 {
                            task::yield_now_async().await;
                        }
                        number
                    });
                    task.join().unwrap()
                })
            })
            .collect();
        assert_eq!(fibres.into_iter().map(|fibre| fibre.join().unwrap()).sum::<u32>(), 190);
        let lock = sinew::sync::Mutex::new(0);
        sinew::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    let mut number = lock.lock().unwrap();
                    sinew::yield_now();
                    *number += 1;
                });
            }
        });
        assert_eq!(*lock.lock().unwrap(), 10);
    });
    cluster.remove_processor().unwrap();
    wait_until(|| cluster.retiring() == 0);
}

fn with(scheduler: impl Scheduler, processors: usize, is_migrating: bool) -> Runtime {
    let builder = Runtime::builder().spares(0).stall_limit(None).processors(processors).scheduler(scheduler);
    if is_migrating { migrating(builder) } else { builder }.build().unwrap()
}

fn with_each_setup(mut f: impl FnMut(usize, bool)) {
    for processors in [1, 2] {
        for is_migrating in [false, true] {
            f(processors, is_migrating);
        }
    }
}

#[test]
fn every_method_of_an_application_s_scheduler_is_called() {
    alone(|| {
        let count = Arc::new([const { AtomicU32::new(0) }; METHODS.len()]);
        with_each_setup(|processors, is_migrating| {
            let its_count = Arc::clone(&count);
            let scheduler = Mine::new(move |method| {
                its_count[method as usize].fetch_add(1, Relaxed);
            });
            use_everything(with(scheduler, processors, is_migrating));
        });
        for method in METHODS {
            assert_ne!(count[method as usize].load(Relaxed), 0, "{method:?} was never called");
        }
    });
}

/// A scheduler with the required methods only.
#[derive(Clone, Default)]
struct Plain(Arc<Mutex<VecDeque<Ready>>>);

struct PlainEnd(Plain);

impl Scheduler for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn attach(&self, _placement: Placement) -> Box<dyn Local> {
        Box::new(PlainEnd(self.clone()))
    }

    fn inject(&self, strand: Ready, _now: u64) -> Wake {
        self.0.lock().unwrap().push_back(strand);
        Wake::Backlog
    }
}

impl Local for PlainEnd {
    fn push(&self, strand: Ready, now: u64) -> Wake {
        self.0.inject(strand, now)
    }

    fn next(&self, _now: u64) -> Option<Ready> {
        self.0.0.lock().unwrap().pop_front()
    }

    fn claim(&self) -> Option<Claim> {
        self.0.0.lock().unwrap().front().map(Claim::of)
    }

    fn search(&self, now: u64, _effort: Effort) -> Option<Ready> {
        self.next(now)
    }

    fn drain(&self) -> Option<Ready> {
        None
    }
}

#[test]
fn a_scheduler_with_only_the_required_methods_works() {
    alone(|| {
        with_each_setup(|processors, is_migrating| {
            (0..5).for_each(|_| use_everything(with(Plain::default(), processors, is_migrating)));
        });
    });
}

#[test]
fn the_schedulers_for_actors_serve_everything() {
    for setup in Setup::for_actors() {
        alone(|| use_everything(setup.build()));
    }
}

#[test]
fn a_scheduler_method_that_blocks_holds_up_its_kernel_thread_and_suspends_no_fibre() {
    alone(|| {
        with_each_setup(|processors, is_migrating| {
            let (count, lock) = (AtomicU32::new(0), sinew::sync::Mutex::new(()));
            let scheduler = Mine::new(move |_| {
                assert!(sinew::current().is_kernel_thread());
                match count.fetch_add(1, Relaxed) % 1000 {
                    0 => sinew::sleep(Duration::from_micros(1)),
                    1 => sinew::park_timeout(Duration::from_micros(1)),
                    2..100 => sinew::yield_now(),
                    _ => drop(lock.lock().unwrap()),
                }
            });
            use_everything(with(scheduler, processors, is_migrating));
        });
    });
}

#[test]
fn a_scheduler_that_panics_ends_the_process() {
    for method in METHODS {
        let outcome = Rerun::new().run(name_of_test!(), &format!("{method:?}"), || {
            // Not every method is called in each run.
            for is_migrating in [true, false] {
                let is_armed = Arc::new(AtomicBool::new(method == Method::Attach));
                let its_arm = Arc::clone(&is_armed);
                let panics = move |during| {
                    if during == method && its_arm.load(Relaxed) {
                        panic!("the panic of the scheduler");
                    }
                };
                let runtime = with(Mine::new(panics), 2, is_migrating);
                is_armed.store(true, Relaxed);
                // If the panic unwound this frame, fibres would still borrow from it.
                use_everything(runtime);
            }
            println!("nothing happened");
        });
        if let Some(outcome) = outcome {
            outcome.assert_killed(SIGABRT, &["the panic of the scheduler", "sinew: fatal: a scheduler panicked"]);
        }
    }
}

#[test]
fn a_scheduler_that_mixes_strands_of_two_runtimes_ends_the_process() {
    let outcome = in_child!(Rerun::new(), || {
        let Mine(ref queue) = Mine::new(|_| ());
        let first = with(Mine(queue.clone()), 1, false);
        let second = with(Mine(queue.clone()), 1, false);
        let keeps_busy = |runtime: &Runtime| {
            for _ in 0..10 {
                runtime.spawn(|| (0..1000).for_each(|_| sinew::yield_now()));
            }
        };
        for _ in 0..1000 {
            keeps_busy(&first);
            keeps_busy(&second);
        }
        drop((first, second));
        println!("nothing happened");
    });
    let words = "sinew: fatal: a scheduler gave a processor a strand of another cluster";
    outcome.assert_killed(SIGABRT, &[words]);
}

#[test]
fn a_scheduler_that_drops_a_strand_ends_the_process() {
    struct Drops;
    impl Scheduler for Drops {
        fn name(&self) -> &'static str {
            "drops"
        }

        fn attach(&self, placement: Placement) -> Box<dyn Local> {
            Mine::new(|_| ()).attach(placement)
        }

        fn inject(&self, strand: Ready, _now: u64) -> Wake {
            drop(strand);
            Wake::Nobody
        }
    }
    let outcome = in_child!(Rerun::new(), || with(Drops, 1, false).run(|| ()));
    outcome.assert_killed(SIGABRT, &["sinew: fatal: a scheduler dropped a strand that was ready to run"]);
}

#[test]
fn a_scheduler_method_that_makes_a_strand_ready_ends_the_process() {
    let outcome = in_child!(Rerun::new(), || {
        let parked: Arc<Mutex<Option<Fibre>>> = Arc::default();
        let its_parked = Arc::clone(&parked);
        let scheduler = Mine::new(move |_| {
            if let Some(fibre) = its_parked.try_lock().ok().and_then(|mut fibre| fibre.take()) {
                fibre.unpark();
            }
        });
        with(scheduler, 1, true).run(|| {
            let fibre = sinew::spawn(sinew::park);
            (0..10).for_each(|_| sinew::yield_now());
            *parked.lock().unwrap() = Some(fibre.fibre().clone());
            fibre.join().unwrap();
        });
        println!("nothing happened");
    });
    outcome.assert_killed(SIGABRT, &["sinew: fatal: a scheduler was entered from one of its own methods"]);
}

#[test]
fn a_scheduler_method_that_spawns_ends_the_process() {
    let outcome = in_child!(Rerun::new(), || {
        let scheduler = Mine::new(|method| {
            if method == Method::Next {
                sinew::spawn(|| ());
            }
        });
        with(scheduler, 1, true).run(|| sinew::spawn(|| ()).join().unwrap());
        println!("nothing happened");
    });
    outcome.assert_killed(SIGABRT, &["there is no runtime here", "sinew: fatal: a scheduler panicked"]);
}
