//! Crates whose thread-local variables say who holds, has entered or owns something. Among fibres of one kernel thread
//! they break or surprise. In a runtime with `own_thread_locals` they work as among threads, although the fibres of
//! these tests change their kernel thread all the time.
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

#[path = "../../sinew/tests/fixture/mod.rs"]
#[macro_use]
mod fixture;

use fixture::rerun::Rerun;
use fixture::{Patience, SOON, message};
use parking_lot::ReentrantMutex;
use rand::Rng;
use rand::rngs::ThreadRng;
use regex::Regex;
use sinew::sync::Barrier;
use sinew::{Builder, Cluster, Runtime, migrate_to};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::time::Duration;
use std::{array, ptr, thread};
use tokio::runtime::{self, Handle};
use tracing::{Span, dispatcher, info_span, subscriber};
use tracing_subscriber::Registry;

const FIBRES: usize = 10;
const MOVES: usize = 50;

/// Returns a builder of a runtime whose fibres have the stack that libraries need in a debug build.
fn owning() -> Builder {
    Runtime::builder().stack_size(1024 * 1024).spares(0).stall_limit(None).own_thread_locals()
}

/// The clusters of a runtime, with a processor each: a fibre that moves between them changes its kernel thread.
struct Places([Cluster; 2]);

impl Places {
    /// Moves the calling fibre to the other kernel thread.
    fn change(&self) {
        let is_there = Cluster::current().as_ref() == Some(&self.0[1]);
        migrate_to(&self.0[usize::from(!is_there)]).unwrap();
    }

    /// Calls `f` in two other fibres: one is on the kernel thread of the caller, one on the other kernel thread.
    fn beside<T: Send>(&self, f: impl Fn() -> T + Sync) -> [T; 2] {
        let own = kernel_thread();
        let results = self.0.each_ref().map(|place| {
            let there = || {
                migrate_to(place).unwrap();
                (f(), kernel_thread())
            };
            sinew::scope(|scope| scope.spawn(there).join().unwrap())
        });
        assert_ne!(results[0].1, results[1].1);
        assert!(results.iter().any(|(_, other)| *other == own));
        results.map(|(result, _)| result)
    }
}

/// Runs `body` as a fibre of such a runtime.
fn in_places<T: Send>(body: impl FnOnce(&Places) -> T + Send) -> T {
    let runtime = owning().processors(1).name("one").build().unwrap();
    let other = Cluster::builder().stack_size(1024 * 1024).spares(0).processors(1).name("two");
    let places = Places([runtime.main_cluster().clone(), runtime.cluster(other).unwrap()]);
    runtime.run(|| body(&places))
}

/// Runs `body` in several fibres at once.
fn in_fibres(body: impl Fn(&Places, usize) + Sync) {
    in_places(|places| {
        sinew::scope(|scope| {
            for own in 0..FIBRES {
                let body = &body;
                scope.spawn(move || body(places, own));
            }
        });
    });
}

/// Returns this kernel thread as the kernel knows it.
fn kernel_thread() -> PathBuf {
    std::fs::read_link("/proc/thread-self").unwrap()
}

/// Runs fibres 0 and 1 so that 0 enters, 1 enters, 0 leaves, 1 leaves. Both enter on the same kernel thread.
///
/// `session` gets the fibre's number and a function that waits for its turn to leave. This function changes the kernel
/// thread again and again, and calls its argument after each change. So does the wait before and after the session,
/// with `outside`.
fn interleave(outside: impl Fn() + Sync, session: impl Fn(usize, &dyn Fn(&dyn Fn())) + Sync) {
    in_places(|places| {
        let turn = AtomicUsize::new(0);
        let wait_for = |wanted: usize, check: &dyn Fn()| {
            let patience = Patience::new(SOON);
            for moves in 0.. {
                places.change();
                check();
                if moves >= MOVES && turn.load(Ordering::Relaxed) == wanted {
                    break;
                }
                assert!(!patience.is_over(), "the other fibre does not take its turn");
            }
        };
        let fibre = |own: usize| {
            wait_for(own, &outside);
            migrate_to(&places.0[0]).unwrap();
            session(own, &|inside| {
                inside();
                turn.store(own + 1, Ordering::Relaxed);
                wait_for(own + 2, inside);
            });
            outside();
            turn.store(own + 3, Ordering::Relaxed);
            wait_for(4, &outside);
        };
        sinew::scope(|scope| {
            let fibres = [0, 1].map(|own| scope.spawn(move || fibre(own)));
            fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        });
    });
}

scoped_tls::scoped_thread_local!(static SCOPED: String);

#[test]
fn scoped_tls_gives_each_of_interleaved_fibres_its_own_value() {
    interleave(
        || assert!(!SCOPED.is_set()),
        |own, wait| {
            let value = format!("of fibre {own}");
            SCOPED.set(&value, || {
                wait(&|| SCOPED.with(|seen| assert!(ptr::eq(seen, &value), "{seen}")));
            });
        },
    );
}

#[test]
fn scoped_tls_is_not_set_for_other_fibres() {
    in_places(|places| {
        for number in 0..MOVES {
            SCOPED.set(&number.to_string(), || {
                places.change();
                assert_eq!(places.beside(|| SCOPED.is_set()), [false; 2]);
                SCOPED.set(&"inner".to_owned(), || {
                    places.change();
                    SCOPED.with(|seen| assert_eq!(seen, "inner"));
                });
                SCOPED.with(|seen| assert_eq!(*seen, number.to_string()));
            });
            assert!(!SCOPED.is_set());
        }
    });
}

/// Returns the address of the generator, which is all that a `ThreadRng` consists of.
#[allow(unsafe_code)]
fn address(generator: &ThreadRng) -> usize {
    const { assert!(size_of::<ThreadRng>() == size_of::<usize>()) };
    // SAFETY: the sizes are the same. The generator is a pointer, of which every bit is initialised.
    unsafe { std::mem::transmute_copy(generator) }
}

#[test]
fn rand_has_a_generator_for_each_fibre_that_may_be_held_across_migrations() {
    let (addresses, numbers) = (Mutex::new(HashSet::new()), Mutex::new(HashSet::new()));
    let all_end = Barrier::new(FIBRES);
    in_fibres(|places, _| {
        let mut held = rand::rng();
        let own = address(&held);
        addresses.lock().unwrap().insert(own);
        for _ in 0..MOVES {
            let drawn = [held.next_u64(), rand::rng().next_u64()];
            numbers.lock().unwrap().extend(drawn);
            places.change();
            let copy = held.clone();
            assert_eq!([address(&copy), address(&rand::rng())], [own; 2]);
        }
        // Until here all generators exist at the same time, so their addresses differ.
        all_end.wait();
    });
    assert_eq!(addresses.into_inner().unwrap().len(), FIBRES);
    assert_eq!(numbers.into_inner().unwrap().len(), FIBRES * MOVES * 2, "no number comes twice");
}

/// Makes a registry the subscriber of the process.
fn subscribe() {
    static SUBSCRIBER: Once = Once::new();
    SUBSCRIBER.call_once(|| subscriber::set_global_default(tracing_subscriber::registry()).unwrap());
}

#[test]
fn tracing_keeps_the_spans_of_interleaved_fibres_apart_without_sinew_tracing() {
    subscribe();
    interleave(
        || assert!(Span::current().is_none()),
        |own, wait| {
            let span = info_span!("session", own);
            let _entered = span.enter();
            wait(&|| {
                assert_eq!(Span::current().id(), span.id());
                let step = info_span!("step").entered();
                assert_eq!(Span::current().id(), step.id());
            });
        },
    );
}

#[test]
fn guards_of_tracing_nest_in_their_fibre_and_no_other_fibre_is_in_their_spans() {
    subscribe();
    in_fibres(|places, fibre| {
        assert!(Span::current().is_none());
        let outer = info_span!("outer", fibre).entered();
        for step in 0..MOVES {
            places.change();
            assert_eq!(Span::current().id(), outer.id());
            let inner = info_span!("inner", step).entered();
            places.change();
            assert_eq!(Span::current().id(), inner.id());
            assert_eq!(places.beside(|| Span::current().is_none()), [true; 2]);
        }
        drop(outer);
        places.change();
        assert!(Span::current().is_none());
    });
}

#[test]
fn a_default_subscriber_of_tracing_is_that_of_its_fibre() {
    subscribe();
    let default =
        || dispatcher::get_default(|dispatch| dispatch.downcast_ref::<Registry>().map(|it| ptr::from_ref(it).addr()));
    let of_process = default();
    interleave(
        || assert_eq!(default(), of_process),
        |_, wait| {
            let _set = subscriber::set_default(tracing_subscriber::registry());
            let own = default();
            assert_ne!(own, of_process);
            wait(&|| assert_eq!(default(), own));
        },
    );
}

#[test]
fn the_registry_of_tracing_takes_any_number_of_fibres_one_after_another() {
    subscribe();
    in_places(|places| {
        for number in 0..10_000 {
            let session = || {
                let _entered = info_span!("session", number).entered();
                places.change();
            };
            sinew::scope(|scope| scope.spawn(session).join().unwrap());
        }
    });
}

/// The registry numbers the threads that are alive, and has numbers for 4096 of them.
#[test]
fn the_registry_of_tracing_has_room_for_the_spans_of_4096_fibres_at_once() {
    const ALL: usize = 5000;
    let rerun = Rerun::new();
    let outcome = in_child!(rerun, || {
        subscribe();
        let panics = Mutex::new(Vec::new());
        let all_begun = Barrier::new(ALL);
        let session = || {
            let entered = std::panic::catch_unwind(|| drop(info_span!("session").entered()));
            panics.lock().unwrap().extend(entered.err().map(|panic| message(&*panic)));
            all_begun.wait();
        };
        owning().processors(2).run(|| {
            sinew::scope(|scope| (0..ALL).for_each(|_| drop(scope.spawn(session))));
        });
        let panics = panics.into_inner().unwrap();
        assert_eq!(panics.len(), ALL - 4096);
        assert!(panics[0].contains("max threads = 4096"), "{}", panics[0]);
    });
    assert!(outcome.status.success(), "{}", outcome.stdout);
}

#[test]
fn a_reentrant_mutex_of_parking_lot_belongs_to_the_fibre() {
    in_places(|places| {
        let lock = ReentrantMutex::new(());
        for _ in 0..MOVES {
            let first = lock.lock();
            places.change();
            let again = lock.try_lock().expect("the fibre has it");
            places.change();
            assert_eq!(places.beside(|| lock.try_lock().is_some()), [false; 2]);
            drop(first);
            places.change();
            assert_eq!(places.beside(|| lock.try_lock().is_some()), [false; 2]);
            drop(again);
            assert_eq!(places.beside(|| lock.try_lock().is_some()), [true; 2]);
        }
    });
}

fn tokio_runtime() -> runtime::Runtime {
    runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

fn entered() -> Option<runtime::Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

#[test]
fn runtimes_of_tokio_may_be_entered_by_interleaved_fibres() {
    let runtimes: [_; 2] = array::from_fn(|_| tokio_runtime());
    interleave(
        || assert_eq!(entered(), None),
        |own, wait| {
            let _entered = runtimes[own].enter();
            wait(&|| assert_eq!(entered(), Some(runtimes[own].handle().id())));
        },
    );
}

#[test]
fn futures_in_block_on_of_tokio_may_block_interleaved_fibres() {
    let runtimes: [_; 2] = array::from_fn(|_| tokio_runtime());
    interleave(
        || assert_eq!(entered(), None),
        |own, wait| {
            runtimes[own].block_on(async {
                wait(&|| assert_eq!(entered(), Some(runtimes[own].handle().id())));
            });
        },
    );
}

#[test]
fn futures_of_tokio_work_in_a_fibre_that_has_entered_a_runtime_without_sinew_tokio() {
    let runtime = tokio_runtime();
    let handle = runtime.handle().clone();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(|| runtime.block_on(ended));
        in_fibres(|places, own| {
            let _entered = handle.enter();
            for step in 0..MOVES {
                places.change();
                let answer = sinew::block_on(async {
                    tokio::time::sleep(Duration::from_micros(10)).await;
                    places.change();
                    tokio::spawn(async move { own * 1000 + step }).await.unwrap()
                });
                assert_eq!(answer, own * 1000 + step);
            }
        });
        drop(end);
    });
}

#[test]
fn regex_may_be_shared_and_its_matches_held_across_migrations() {
    let words = Regex::new(r"(?<name>[a-z]+) (?<number>[0-9]+)").unwrap();
    in_fibres(|places, own| {
        let text: String = (0..MOVES).map(|number| format!("fibre {number}, ")).collect();
        let mut seen = 0;
        for word in words.find_iter(&text) {
            places.change();
            assert_eq!(word.as_str(), format!("fibre {seen}"));
            let captures = words.captures(word.as_str()).unwrap();
            assert_eq!((&captures["name"], &captures["number"]), ("fibre", &*seen.to_string()));
            seen += 1;
        }
        assert_eq!(seen, MOVES, "fibre {own}");
    });
}

/// Such a channel makes its kernel thread wait. The fibres change their places at the same time, so that they are
/// never on one kernel thread when they meet.
#[test]
fn a_channel_of_crossbeam_connects_fibres_that_change_their_kernel_threads() {
    in_places(|places| {
        let (there, back) = (crossbeam_channel::bounded(0), crossbeam_channel::bounded(0));
        let both_in_place = Barrier::new(2);
        sinew::scope(|scope| {
            scope.spawn(|| {
                migrate_to(&places.0[0]).unwrap();
                both_in_place.wait();
                for number in 0..MOVES {
                    there.0.send(number).unwrap();
                    assert_eq!(back.1.recv(), Ok(number));
                    places.change();
                }
            });
            scope.spawn(|| {
                migrate_to(&places.0[1]).unwrap();
                both_in_place.wait();
                for number in 0..MOVES {
                    assert_eq!(there.1.recv(), Ok(number));
                    back.0.send(number).unwrap();
                    places.change();
                }
            });
        });
    });
}
