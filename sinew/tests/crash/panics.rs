//! Panics that nothing can receive, and panics that happen at the same time.

use crate::fixture::rerun::{Rerun, SIGABRT};
use sinew::actor::{self, Actor, Context, Handle};
use sinew::event::Colour;
use sinew::{FibreBuilder, JoinHandle, Runtime};
use std::thread::panicking;

/// Panics when it is dropped.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic!("the destructor's panic");
    }
}

/// Spins in the calling fibre until the other one has ended.
fn wait_until_finished<T>(handle: &JoinHandle<T>) {
    while !handle.is_finished() {
        sinew::yield_now();
    }
}

#[test]
fn a_panic_in_a_destructor_during_unwinding_aborts_as_in_a_thread() {
    let outcome = in_child!(Rerun::new(), || {
        let _ = sinew::run(|| {
            sinew::spawn(|| {
                let _grenade = Grenade;
                panic!("the fibre's panic");
            })
            .join()
        });
    });
    outcome.assert_killed(
        SIGABRT,
        &["the fibre's panic", "the destructor's panic", "panic in a destructor during cleanup"],
    );
}

#[test]
fn a_result_that_panics_when_its_fibre_drops_it_aborts() {
    let outcome = in_child!(Rerun::new(), || {
        sinew::run(|| drop(sinew::spawn(|| Grenade)));
    });
    outcome.assert_killed(SIGABRT, &["sinew: fatal: a fibre's result panicked when it was dropped"]);
}

#[test]
fn a_result_that_panics_when_its_handle_drops_it_aborts() {
    let outcome = in_child!(Rerun::new(), || {
        sinew::run(|| {
            let handle = sinew::spawn(|| Grenade);
            wait_until_finished(&handle);
            drop(handle);
        });
    });
    outcome.assert_killed(SIGABRT, &["sinew: fatal: a fibre's result panicked when it was dropped"]);
}

#[test]
fn a_joined_result_that_panics_when_it_is_dropped_is_an_ordinary_panic() {
    let outcome = in_child!(Rerun::new(), || {
        let outer = sinew::run(|| sinew::spawn(|| drop(sinew::spawn(|| Grenade).join().unwrap())).join());
        let payload = outer.unwrap_err();
        println!("caught: {}", payload.downcast_ref::<&str>().unwrap());
    });
    outcome.assert_success("caught: the destructor's panic");
}

#[test]
fn a_fibre_local_that_panics_when_it_is_dropped_aborts() {
    sinew::fibre_local!(static LOCAL: Grenade = Grenade);
    let outcome = in_child!(Rerun::new(), || {
        let _ = sinew::run(|| sinew::spawn(|| LOCAL.with(|_| ())).join());
    });
    outcome.assert_killed(SIGABRT, &["sinew: fatal: a fibre-local variable panicked when it was dropped"]);
}

#[test]
fn a_refused_spawn_names_its_caller_in_the_panic() {
    let outcome = in_child!(Rerun::new(), || {
        let refused = std::panic::catch_unwind(|| sinew::spawn(|| ()));
        println!("refused: {}", refused.is_err());
    });
    outcome.assert_success("refused: true");
    let place = concat!("panicked at ", file!(), ":");
    assert!(outcome.stderr.contains(place), "{place:?} is missing: {outcome:#?}");
    assert!(outcome.stderr.contains("cannot spawn a fibre: there is no runtime here"), "{outcome:#?}");
}

/// Gives up the processor while it is dropped, several times and in both ways.
struct Blocks(sinew::Fibre);

impl Drop for Blocks {
    fn drop(&mut self) {
        assert!(panicking());
        for _ in 0..5 {
            sinew::yield_now();
            self.0.unpark();
            sinew::park_timeout(std::time::Duration::from_millis(1));
        }
        assert!(panicking(), "the panic continued on another kernel thread");
    }
}

/// Unwinds several fibres at once. Each of them blocks in a destructor.
fn unwind_at_once(runtime: &Runtime) {
    let unwinding = |number: u32| {
        move || {
            let _blocks = Blocks(sinew::current());
            std::panic::panic_any(number);
        }
    };
    runtime.run(|| {
        let fibres: Vec<JoinHandle<()>> = (0..4).map(|number| sinew::spawn(unwinding(number))).collect();
        let payloads = fibres.into_iter().map(|fibre| *fibre.join().unwrap_err().downcast::<u32>().unwrap());
        assert!(payloads.eq(0..4), "a fibre got another one's payload");
    });
    runtime.run(|| assert!(!panicking(), "the kernel thread still counts a panic"));
}

#[test]
fn fibres_that_unwind_at_once_and_block_keep_their_own_payloads() {
    let outcome = in_child!(Rerun::new(), || {
        for processors in [1, 2] {
            for _ in 0..20 {
                unwind_at_once(&Runtime::builder().spares(0).stall_limit(None).processors(processors).build().unwrap());
            }
        }
        println!("all unwound");
    });
    outcome.assert_success("all unwound");
}

#[test]
fn a_fibre_that_unwinds_does_not_migrate() {
    #[allow(unsafe_code)]
    fn migrating(processors: usize) -> Runtime {
        // SAFETY: these fibres hold nothing that is bound to a kernel thread.
        unsafe { Runtime::builder().spares(0).stall_limit(None).processors(processors).migrating() }.build().unwrap()
    }
    let outcome = in_child!(Rerun::new(), || {
        for processors in [1, 2, 4] {
            for _ in 0..20 {
                unwind_at_once(&migrating(processors));
            }
        }
        println!("all unwound");
    });
    outcome.assert_success("all unwound");
}

#[test]
fn a_panic_hook_that_blocks_lets_other_fibres_run_and_panic() {
    use sinew::sync::{Mutex, mpmc};
    let outcome = in_child!(Rerun::new(), || {
        static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());
        std::panic::set_hook(Box::new(|info| {
            sinew::yield_now();
            let mut log = LOG.lock().unwrap();
            sinew::sleep(std::time::Duration::from_millis(1));
            log.push(info.payload().downcast_ref::<&str>().unwrap().to_string());
        }));
        for processors in [1, 2] {
            Runtime::builder().spares(0).stall_limit(None).processors(processors).build().unwrap().run(|| {
                let (tx, rx) = mpmc::channel();
                let fibres: Vec<JoinHandle<()>> = (0..8)
                    .map(|_| {
                        let tx = tx.clone();
                        sinew::spawn(move || {
                            tx.send(()).unwrap();
                            panic!("in a fibre")
                        })
                    })
                    .collect();
                (0..8).for_each(|_| rx.recv().unwrap());
                assert!(fibres.into_iter().all(|fibre| fibre.join().is_err()));
                assert!(!panicking());
            });
        }
        let log = LOG.lock().unwrap();
        assert!(log.len() == 16 && log.iter().all(|line| line == "in a fibre"), "{log:?}");
        drop(std::panic::take_hook());
        println!("all told");
    });
    outcome.assert_success("all told");
}

#[test]
fn a_panic_hook_that_blocks_and_then_panics_aborts() {
    let outcome = in_child!(Rerun::new(), || {
        std::panic::set_hook(Box::new(|_| {
            sinew::yield_now();
            std::panic::resume_unwind(Box::new("the hook's panic"));
        }));
        let _ = sinew::run(|| sinew::spawn(|| panic!("in a fibre")).join());
        println!("the panic went unnoticed");
    });
    outcome.assert_killed(SIGABRT, &["sinew: fatal: a panic hook panicked"]);
}

/// Runs a fibre that panics, and a kernel thread that does.
fn panic_in_both() {
    sinew::run(|| FibreBuilder::new().name("worker").spawn(|| panic!("it failed")).unwrap().join().unwrap_err());
    let thread = std::thread::Builder::new().name("plain".to_owned());
    thread.spawn(|| panic!("it failed, too")).unwrap().join().unwrap_err();
}

#[test]
fn the_message_of_a_panic_names_the_fibre() {
    let outcome = in_child!(Rerun::new(), || {
        panic_in_both();
        println!("both panicked");
    });
    outcome.assert_success("both panicked");
    let line = outcome.stderr.lines().find(|line| line.starts_with("fibre 'worker' (id ")).expect(&outcome.stderr);
    assert!(line.contains(concat!(" panicked at ", file!(), ":")) && line.contains(") on thread 'sinew-"), "{line}");
    let site = concat!("it failed\nnote: the fibre was spawned at ", file!(), ":");
    for words in [site, "thread 'plain'", "it failed, too", "RUST_BACKTRACE=1"] {
        assert!(outcome.stderr.contains(words), "{words:?} is missing: {outcome:#?}");
    }
    assert!(!outcome.stderr.contains("thread 'sinew-0' ("), "{outcome:#?}");
    assert!(!outcome.stderr.contains("stack backtrace"), "{outcome:#?}");
}

struct Clumsy;

impl Actor for Clumsy {}

impl Handle<()> for Clumsy {
    type Reply = ();

    fn handle(&mut self, (): (), _: &mut Context<'_, Self>) {
        panic!("the actor failed");
    }
}

/// An actor whose handlers do not block runs without a fibre.
struct Quick;

impl Actor for Quick {
    const BLOCKS: bool = false;
}

impl Handle<()> for Quick {
    type Reply = ();

    fn handle(&mut self, (): (), _: &mut Context<'_, Self>) {
        panic!("the quick actor failed");
    }
}

#[test]
fn the_message_of_a_panic_names_the_task_or_the_actor() {
    async fn clumsy_task() {
        panic!("the task failed");
    }
    let outcome = in_child!(Rerun::new(), || {
        sinew::run(|| {
            assert!(sinew::task::spawn(clumsy_task()).join().is_err());
            let named = actor::Builder::new().name("ann").spawn(Clumsy);
            assert!(named.ask(()).is_err());
            assert!(actor::spawn(Clumsy).ask(()).is_err());
            actor::spawn(Quick).tell(()).unwrap();
            let colour = Colour::new();
            colour.post(|| panic!("the event failed")).unwrap();
        });
        println!("all panicked");
    });
    outcome.assert_success("all panicked");
    // The message is the line behind the one that names the strand.
    let namer = |message: &str| {
        let before = |pair: &&[&str]| pair[1] == message;
        let lines: Vec<_> = outcome.stderr.lines().collect();
        let pair = lines.windows(2).find(before).unwrap_or_else(|| panic!("{message:?} is missing: {outcome:#?}"));
        pair[0].split(" on thread ").next().unwrap().to_owned()
    };
    assert!(namer("the task failed").starts_with("task ("), "{outcome:#?}");
    assert!(namer("the task failed").ends_with("::clumsy_task::{{closure}})"), "{outcome:#?}");
    assert!(outcome.stderr.contains(concat!("note: the task was spawned at ", file!(), ":")), "{outcome:#?}");
    assert!(namer("the actor failed").starts_with("actor 'ann' (") && namer("the actor failed").ends_with("::Clumsy)"));
    assert!(outcome.stderr.contains("\nactor (crash::panics::Clumsy) on thread "), "{outcome:#?}");
    assert_eq!(namer("the quick actor failed"), "actor (crash::panics::Quick)");
    assert_eq!(namer("the event failed"), "event");
}

#[test]
fn the_message_of_a_panic_has_a_backtrace_if_that_is_asked_for() {
    let outcome = in_child!(Rerun::new().variable("RUST_BACKTRACE", "1"), || {
        sinew::run(|| sinew::spawn(|| panic!("it failed")).join().unwrap_err());
        println!("it panicked");
    });
    outcome.assert_success("it panicked");
    for words in ["fibre '<unnamed>' (id ", "stack backtrace:", "the_message_of_a_panic_has_a_backtrace"] {
        assert!(outcome.stderr.contains(words), "{words:?} is missing: {outcome:#?}");
    }
}

#[test]
fn a_panic_hook_that_the_program_has_set_before_is_kept() {
    let outcome = in_child!(Rerun::new(), || {
        std::panic::set_hook(Box::new(|_| println!("hook: {:?}", sinew::current().name())));
        panic_in_both();
    });
    outcome.assert_success("hook: Some(\"worker\")");
    outcome.assert_success("hook: Some(\"plain\")");
    assert!(!outcome.stderr.contains("panicked"), "{outcome:#?}");
}

#[test]
fn a_panic_hook_that_the_program_sets_later_decides() {
    let outcome = in_child!(Rerun::new(), || {
        sinew::run(|| ());
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            println!("hook");
            before(info);
        }));
        panic_in_both();
        std::panic::set_hook(Box::new(|_| println!("last hook")));
        panic_in_both();
    });
    assert_eq!(outcome.stdout.matches("last hook\n").count(), 2, "{outcome:#?}");
    assert_eq!(outcome.stderr.matches("fibre 'worker'").count(), 1, "{outcome:#?}");
    assert_eq!(outcome.stderr.matches("thread 'plain'").count(), 1, "{outcome:#?}");
}
