//! Events: those of one colour run in order and never two at once, and their handlers may block.

mod fixture;

use fixture::{LONG, Setup, alone, in_set_ups, message, spin_until, wait_until};
use sinew::event::{Colour, Colours, Handler, NoTurn, Reason};
use sinew::sync::{Mutex, Semaphore};
use sinew::{Leftovers, Runtime, time};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Runs `body` in every set-up for which `fits` returns `true`, also with the scheduler for colours.
#[track_caller]
fn wherever(fits: impl Fn(&Setup) -> bool, body: impl Fn(&Runtime, Setup)) {
    in_set_ups(Setup::all().chain(Setup::coloured()).filter(fits), body);
}

#[track_caller]
fn everywhere(body: impl Fn(&Runtime, Setup)) {
    wherever(|_| true, body);
}

fn add_one(count: &AtomicUsize) {
    count.fetch_add(1, SeqCst);
}

/// Counts events of one colour, and fails if two run at the same time.
#[derive(Default)]
struct Alone {
    running: AtomicBool,
    count: AtomicUsize,
}

impl Alone {
    fn enter(&self, f: impl FnOnce()) {
        assert!(!self.running.swap(true, SeqCst), "two events of one colour run at the same time");
        f();
        self.running.store(false, SeqCst);
        self.count.fetch_add(1, SeqCst);
    }
}

#[test]
fn events_of_a_colour_run_in_the_order_in_which_a_fibre_posted_them() {
    everywhere(|rt, _| {
        let order = Arc::new(Mutex::new(Vec::new()));
        rt.run(|| {
            let colour = Colour::new();
            for number in 0..1000 {
                let order = Arc::clone(&order);
                colour.post(move || order.lock().unwrap().push(number)).unwrap();
            }
            colour.run(|| assert!(order.lock().unwrap().iter().copied().eq(0..1000))).unwrap();
        });
    });
}

#[test]
fn two_events_of_a_colour_never_run_at_the_same_time() {
    everywhere(|rt, _| {
        let alone = Arc::new(Alone::default());
        rt.run(|| {
            let colour = Colour::new();
            sinew::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        for number in 0..100 {
                            let alone = Arc::clone(&alone);
                            let block = move || match number % 5 {
                                0 => sinew::yield_now(),
                                1 => sinew::sleep(Duration::from_micros(10)),
                                _ => (),
                            };
                            colour.post(move || alone.enter(block)).unwrap();
                        }
                    });
                }
            });
            colour.run(|| assert_eq!(alone.count.load(SeqCst), 800)).unwrap();
        });
        assert_eq!(alone.count.load(SeqCst), 800);
    });
}

#[test]
fn events_of_two_colours_run_at_the_same_time() {
    wherever(
        |setup| setup.processors > 1,
        |rt, _| {
            // Posted by a kernel thread: a fibre would be held up with its processor.
            let here = [(); 2].map(|_| Arc::new(AtomicBool::new(false)));
            let colours = [(); 2].map(|_| Colour::builder().cluster(rt.main_cluster()).build());
            for (number, colour) in colours.iter().enumerate() {
                let here = here.clone();
                let meet = move || {
                    here[number].store(true, SeqCst);
                    spin_until(|| here[1 - number].load(SeqCst));
                };
                colour.post(meet).unwrap();
            }
            colours.iter().for_each(|colour| colour.run(|| ()).unwrap());
        },
    );
}

static DOUBLE: Handler<(u32, Arc<Mutex<Vec<u32>>>)> = Handler::new("double", double).takes_us(1);

fn double((number, results): (u32, Arc<Mutex<Vec<u32>>>)) {
    results.lock().unwrap().push(2 * number);
}

#[test]
fn a_handler_gets_its_argument() {
    everywhere(|rt, _| {
        let results = Arc::new(Mutex::new(Vec::new()));
        rt.run(|| {
            let colour = Colour::new();
            for number in 0..50 {
                DOUBLE.post(&colour, (number, Arc::clone(&results))).unwrap();
            }
        });
        wait_until(|| results.lock().unwrap().len() == 50);
        assert!(results.lock().unwrap().iter().copied().eq((0..50).map(|number| 2 * number)));
        assert_eq!((DOUBLE.name(), DOUBLE.panics()), ("double", 0));
    });
}

/// While a handler waits, its processor runs other colours.
#[test]
fn a_handler_that_blocks_keeps_its_colour_and_nobody_else() {
    everywhere(|rt, _| {
        rt.run(|| {
            let gate = Arc::new(Semaphore::new(0));
            let (blocked, other) = (Colour::new(), Colour::new());
            let order = Arc::new(Mutex::new(Vec::new()));
            let note = |what: &'static str| {
                let order = Arc::clone(&order);
                move || order.lock().unwrap().push(what)
            };
            let (first, second, third) = (note("first"), note("second"), note("other"));
            let wait = Arc::clone(&gate);
            blocked
                .post(move || {
                    wait.wait();
                    first();
                })
                .unwrap();
            blocked.post(second).unwrap();
            other.run(third).unwrap();
            gate.post(1);
            blocked.run(|| ()).unwrap();
            assert_eq!(*order.lock().unwrap(), ["other", "first", "second"]);
        });
    });
}

#[test]
fn a_turn_returns_what_the_closure_returns() {
    everywhere(|rt, _| {
        rt.run(|| {
            let colour = Colour::new();
            let mut borrowed = 1;
            assert_eq!(colour.run(|| std::mem::replace(&mut borrowed, 2)), Ok(1));
            assert_eq!(borrowed, 2);
            let task = sinew::task::spawn({
                let colour = colour.clone();
                async move { colour.run_async(|| 3).await }
            });
            assert_eq!(task.join().unwrap(), Ok(3));
            let panicked = catch_unwind(AssertUnwindSafe(|| colour.run(|| panic!("as it should"))));
            assert_eq!(message(&*panicked.unwrap_err()), "as it should");
        });
        // From a kernel thread.
        let colour = Colour::builder().cluster(rt.main_cluster()).build();
        assert_eq!(colour.run(|| 4), Ok(4));
    });
}

#[test]
fn an_event_that_waits_for_its_own_colour_gets_an_error() {
    everywhere(|rt, _| {
        rt.run(|| {
            let colour = Colour::new();
            let same = colour.clone();
            assert_eq!(colour.run(move || same.run(|| ())), Ok(Err(NoTurn::Within)));
            // After it has blocked, on another processor maybe.
            let same = colour.clone();
            let late = move || {
                sinew::yield_now();
                same.run(|| ())
            };
            assert_eq!(colour.run(late), Ok(Err(NoTurn::Within)));
            let (colours, same) = (Colours::new(), Colours::new());
            assert_eq!(same.run(7, || colours.run(7, || 1)), Ok(Ok(1)), "another set of colours");
            let same = colours.clone();
            assert_eq!(colours.run(7, || same.run(7, || ())), Ok(Err(NoTurn::Within)));
        });
    });
}

static FAIL: Handler<()> = Handler::new("fail", |()| panic!("as it should"));

#[test]
fn a_panic_ends_its_event_and_not_its_colour() {
    everywhere(|rt, _| {
        rt.run(|| {
            let colour = Colour::new();
            let before = FAIL.panics();
            FAIL.post(&colour, ()).unwrap();
            colour.post(|| panic!("as it should")).unwrap();
            assert_eq!(colour.run(|| 5), Ok(5));
            assert_eq!((FAIL.panics() - before, colour.panics()), (1, 1));
        });
    });
}

#[test]
fn a_closed_colour_runs_what_it_has_and_rejects_more() {
    everywhere(|rt, _| {
        rt.run(|| {
            let colour = Colour::new();
            let count = Arc::new(AtomicUsize::new(0));
            for _ in 0..20 {
                let count = Arc::clone(&count);
                colour.post(move || add_one(&count)).unwrap();
            }
            colour.close();
            let kept = String::from("kept");
            let rejected = colour.post(move || drop(kept)).unwrap_err();
            assert_eq!(rejected.reason(), Reason::Closed);
            drop(rejected.into_event());
            assert_eq!(colour.run(|| ()), Err(NoTurn::Closed));
            wait_until(|| count.load(SeqCst) == 20 && colour.is_idle());
        });
    });
}

static SIZE: Handler<String> = Handler::new("size", drop);

#[test]
fn an_event_comes_back_when_the_runtime_has_ended() {
    alone(|| {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        let colour = Colour::builder().cluster(runtime.main_cluster()).build();
        assert_eq!(colour.run(|| 1), Ok(1));
        drop(runtime);
        let rejected = SIZE.post(&colour, String::from("kept")).unwrap_err();
        assert_eq!((rejected.reason(), rejected.into_event().as_str()), (Reason::Ended, "kept"));
        assert_eq!(colour.run(|| 1), Err(NoTurn::Ended));
        assert!(colour.post_after(Duration::ZERO, || ()).is_err());
    });
}

#[test]
fn a_runtime_ends_when_the_last_event_has_run() {
    alone(|| {
        for _ in 0..50 {
            let count = Arc::new(AtomicUsize::new(0));
            let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
            let idle = Colour::builder().cluster(runtime.main_cluster()).build();
            let colour = Colour::builder().cluster(runtime.main_cluster()).build();
            let (seen, next) = (Arc::clone(&count), colour.clone());
            let first = move || {
                sinew::sleep(Duration::from_millis(1));
                let again = Arc::clone(&seen);
                next.post(move || add_one(&again)).unwrap();
                seen.fetch_add(1, SeqCst);
            };
            colour.post(first).unwrap();
            drop(colour);
            drop(runtime);
            assert_eq!(count.load(SeqCst), 2);
            assert!(idle.is_idle());
        }
    });
}

#[test]
fn a_cancelled_runtime_cancels_handlers_that_block() {
    alone(|| {
        let runtime = Runtime::builder()
            .spares(0)
            .stall_limit(None)
            .processors(1)
            .leftovers(Leftovers::Cancel(LONG))
            .build()
            .unwrap();
        let colour = Colour::builder().cluster(runtime.main_cluster()).build();
        let began = Arc::new(AtomicBool::new(false));
        let (begins, ended) = (Arc::clone(&began), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&ended);
        colour
            .post(move || {
                begins.store(true, SeqCst);
                ends.store(time::try_sleep(LONG).is_err(), SeqCst);
            })
            .unwrap();
        wait_until(|| began.load(SeqCst));
        drop(runtime);
        assert!(ended.load(SeqCst));
    });
}

#[test]
fn a_deadline_ends_the_wait_of_a_handler() {
    everywhere(|rt, _| {
        rt.run(|| {
            let wait = || time::timeout(Duration::from_millis(1), || time::try_sleep(LONG));
            assert!(Colour::new().run(wait).unwrap().is_err());
        });
    });
}

#[test]
fn a_full_colour_rejects_events_or_lets_them_wait() {
    everywhere(|rt, _| {
        rt.run(|| {
            let colour = Colour::builder().bounded(2).build();
            let gate = Arc::new(Semaphore::new(0));
            let began = Arc::new(AtomicBool::new(false));
            let (wait, begins) = (Arc::clone(&gate), Arc::clone(&began));
            let first = move || {
                begins.store(true, SeqCst);
                wait.wait();
            };
            colour.post(first).unwrap();
            wait_until(|| began.load(SeqCst));
            colour.post(|| ()).unwrap();
            colour.post(|| ()).unwrap();
            assert_eq!(colour.post(|| ()).unwrap_err().reason(), Reason::Full);
            let overdue = time::timeout(Duration::from_millis(1), || colour.post_waiting(|| ()));
            assert_eq!(overdue.unwrap_err().reason(), Reason::Cancelled);
            let waiting = sinew::spawn({
                let colour = colour.clone();
                move || colour.post_waiting(|| ()).unwrap()
            });
            gate.post(1);
            waiting.join().unwrap();
            colour.run(|| ()).unwrap();
            let same = colour.clone();
            let fill = move || {
                same.post(|| ()).unwrap();
                same.post(|| ()).unwrap();
                same.post_waiting(|| ()).unwrap_err().reason()
            };
            assert_eq!(colour.run(fill), Ok(Reason::Within));
            colour.run(|| ()).unwrap();
        });
    });
}

#[test]
fn an_event_is_posted_after_its_delay_or_cancelled() {
    everywhere(|rt, _| {
        rt.run(|| {
            let colour = Colour::new();
            let count = Arc::new(AtomicUsize::new(0));
            let later = || {
                let count = Arc::clone(&count);
                move || add_one(&count)
            };
            colour.post_after(LONG, later()).unwrap().cancel();
            colour.post_after(Duration::from_millis(1), later()).unwrap();
            wait_until(|| count.load(SeqCst) == 1);
        });
    });
}

#[test]
fn keys_have_colours_while_they_have_events() {
    everywhere(|rt, _| {
        rt.run(|| {
            let colours = Colours::new();
            let alone: Arc<Vec<Alone>> = Arc::new((0..50).map(|_| Alone::default()).collect());
            sinew::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for number in 0..2_000 {
                            let (key, alone) = (number % 50, Arc::clone(&alone));
                            match number % 7 {
                                0 => colours.run(key, || alone[key].enter(|| ())).unwrap(),
                                1 => colours.post(key, move || alone[key].enter(sinew::yield_now)).unwrap(),
                                _ => colours.post(key, move || alone[key].enter(|| ())).unwrap(),
                            }
                        }
                    });
                }
            });
            wait_until(|| colours.is_empty());
            assert!(alone.iter().all(|alone| alone.count.load(SeqCst) == 160));
        });
    });
}

/// A handle to the fibre that carries an event leads to no later event.
#[test]
fn a_handle_to_a_carrier_does_not_reach_the_next_event() {
    everywhere(|rt, _| {
        rt.run(|| {
            let colour = Colour::new();
            let carrier = colour.run(sinew::current).unwrap();
            carrier.cancel();
            assert!(!colour.run(|| sinew::current().is_cancelled()).unwrap());
        });
    });
}

sinew::fibre_local! {
    static SEEN: std::cell::Cell<u32> = std::cell::Cell::new(0);
}

#[test]
fn fibre_local_variables_do_not_outlive_their_event() {
    everywhere(|rt, _| {
        rt.run(|| {
            let colour = Colour::new();
            for _ in 0..3 {
                assert_eq!(colour.run(|| SEEN.replace(7)), Ok(0));
            }
        });
    });
}

/// Colours that are posted to at random, by fibres and kernel threads, with handlers that block or not. Each
/// counts what it has run.
#[test]
fn no_event_is_lost() {
    everywhere(|rt, _| {
        let cluster = rt.main_cluster();
        let colours: Vec<_> = (0..20).map(|_| Colour::builder().cluster(cluster).build()).collect();
        let counts: Arc<Vec<Alone>> = Arc::new((0..20).map(|_| Alone::default()).collect());
        fixture::on_fibres_and_threads(rt, 4, 2, |number| {
            let mut random = fixture::Random::new(number as u64 + 1);
            for _ in 0..500 {
                let which = random.below(20) as usize;
                let (counts, blocks) = (Arc::clone(&counts), random.below(10) == 0);
                let block = move || {
                    if blocks {
                        sinew::yield_now()
                    }
                };
                colours[which].post(move || counts[which].enter(block)).unwrap();
            }
        });
        wait_until(|| counts.iter().map(|alone| alone.count.load(SeqCst)).sum::<usize>() == 3_000);
    });
}

/// Memory is the bound of a colour that has no other.
#[test]
fn a_million_events_wait_in_one_colour_and_all_run() {
    alone(|| {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        let (colour, count) =
            (Colour::builder().cluster(runtime.main_cluster()).build(), Arc::new(AtomicUsize::new(0)));
        let gate = Arc::new(Semaphore::new(0));
        let wait = Arc::clone(&gate);
        colour.post(move || wait.wait()).unwrap();
        for _ in 0..1_000_000 {
            let count = Arc::clone(&count);
            colour.post(move || add_one(&count)).unwrap();
        }
        assert_eq!(count.load(SeqCst), 0);
        gate.post(1);
        colour.run(|| assert_eq!(count.load(SeqCst), 1_000_000)).unwrap();
    });
}

/// A colour that always has events, because each posts the next one, keeps nobody else waiting.
#[test]
fn a_colour_that_is_never_idle_lets_others_run() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                let (busy, stop) = (Colour::new(), Arc::new(AtomicBool::new(false)));
                fn again(colour: Colour, stop: Arc<AtomicBool>) {
                    if !stop.load(SeqCst) {
                        let next = colour.clone();
                        colour.post(move || again(next, stop)).unwrap();
                    }
                }
                again(busy.clone(), Arc::clone(&stop));
                let other = Colour::new();
                (0..100).for_each(|_| other.run(|| ()).unwrap());
                (0..100).for_each(|_| sinew::yield_now());
                sinew::task::spawn(sinew::task::yield_now_async()).join().unwrap();
                stop.store(true, SeqCst);
            });
        },
    );
}

#[test]
fn a_processor_that_is_removed_leaves_no_event_behind() {
    wherever(
        |setup| setup.processors == 4,
        |rt, _| {
            let (cluster, count) = (rt.main_cluster(), Arc::new(AtomicUsize::new(0)));
            let colours: Vec<_> = (0..50).map(|_| Colour::builder().cluster(cluster).build()).collect();
            let post = |rounds: usize| {
                for number in 0..50 * rounds {
                    let count = Arc::clone(&count);
                    let event = move || {
                        if number % 10 == 0 {
                            sinew::yield_now();
                        }
                        add_one(&count);
                    };
                    colours[number % 50].post(event).unwrap();
                }
            };
            for _ in 0..3 {
                post(20);
                cluster.remove_processor().unwrap();
                post(20);
            }
            cluster.add_processor().unwrap();
            post(20);
            wait_until(|| count.load(SeqCst) == 50 * 140);
        },
    );
}
