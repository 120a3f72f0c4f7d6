//! Strands that keep their processor for long are reported: which they are, and what they do.

#[macro_use]
mod fixture;

use fixture::rerun::{self, Rerun};
use fixture::{SOON, happens_while_spinning, wait_until};
use sinew::actor::{self, Actor, Context, Handle};
use sinew::signal::{Signal, Signals};
use sinew::{Builder, FibreBuilder, Runtime, Stall, StrandKind};
use std::io::{BufRead, BufReader, Read};
use std::panic::Location;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// The reports of a runtime.
#[derive(Clone, Default)]
struct Reports {
    stalls: Arc<Mutex<Vec<Stall>>>,
    number: Arc<AtomicUsize>,
}

impl Reports {
    /// Builds a runtime with these reports.
    fn of(&self, builder: Builder) -> Runtime {
        let its = self.clone();
        let hook = move |stall: &Stall| {
            its.stalls.lock().unwrap().push(stall.clone());
            its.number.fetch_add(1, SeqCst);
        };
        builder.on_stall(hook).build().unwrap()
    }

    fn number(&self) -> usize {
        self.number.load(SeqCst)
    }

    /// Computes until there is a report.
    #[inline(never)]
    fn compute_until_reported(&self) {
        let before = self.number();
        while self.number() == before {
            std::hint::spin_loop();
        }
    }

    /// Returns the only report.
    #[track_caller]
    fn only(&self) -> Stall {
        let reports = self.stalls.lock().unwrap();
        assert_eq!(reports.len(), 1, "{reports:#?}");
        reports[0].clone()
    }
}

fn one_processor() -> Builder {
    Runtime::builder().processors(1)
}

#[inline(never)]
fn compute_for(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn a_fibre_that_computes_is_reported_once() {
    let reports = Reports::default();
    let runtime = reports.of(one_processor());
    let its = reports.clone();
    let rude = move || {
        its.compute_until_reported();
        // The stall goes on for some looks of the warden.
        compute_for(100 * MS);
        sinew::current().id().to_string()
    };
    let line = line!() + 1;
    let fibre = FibreBuilder::new().name("rude").cluster(runtime.main_cluster()).spawn(rude).unwrap();
    let id = fibre.join().unwrap();
    drop(runtime);
    let stall = reports.only();
    assert_eq!((stall.kind, stall.name.as_deref()), (Some(StrandKind::Fibre), Some("rude")));
    assert!(id.contains(&stall.id.unwrap().to_string()), "{id}");
    let place: &Location<'_> = stall.spawned_at.unwrap();
    assert_eq!((place.file(), place.line()), (file!(), line));
    assert!(!stall.is_blocked && stall.held >= 10 * MS, "{stall:?}");
    assert_eq!((stall.cluster.as_str(), stall.processor.index()), ("sinew", 0));
    assert!(stall.frames.iter().any(|frame| frame.contains("compute_until_reported")), "{stall:#?}");
}

#[test]
fn a_fibre_that_waits_in_the_kernel_is_reported_with_the_call() {
    let reports = Reports::default();
    let runtime = reports.of(one_processor());
    let its = reports.clone();
    #[inline(never)]
    fn wait_rudely(reports: &Reports) {
        while reports.number() == 0 {
            thread::sleep(50 * MS);
        }
    }
    let rude = move || wait_rudely(&its);
    FibreBuilder::new().name("sleepy").cluster(runtime.main_cluster()).spawn(rude).unwrap().join().unwrap();
    drop(runtime);
    let stall = reports.only();
    assert_eq!((stall.kind, stall.name.as_deref()), (Some(StrandKind::Fibre), Some("sleepy")));
    assert!(stall.is_blocked && stall.held >= 10 * MS, "{stall:?}");
    assert!(stall.frames.iter().any(|frame| frame.contains("wait_rudely")), "{stall:#?}");
}

#[test]
fn a_task_is_reported_with_the_type_of_its_future() {
    async fn rude_task(reports: Reports) {
        reports.compute_until_reported();
    }
    let reports = Reports::default();
    let runtime = reports.of(one_processor());
    let line = line!() + 1;
    runtime.spawn_task(rude_task(reports.clone())).join().unwrap();
    drop(runtime);
    let stall = reports.only();
    assert_eq!(stall.kind, Some(StrandKind::Task));
    assert!(stall.type_name.unwrap().contains("rude_task"), "{stall:?}");
    assert_eq!(stall.spawned_at.unwrap().line(), line);
    assert!(stall.frames.iter().any(|frame| frame.contains("compute_until_reported")), "{stall:#?}");
}

struct Rude(Reports);

impl Actor for Rude {}

struct Compute;

impl Handle<Compute> for Rude {
    type Reply = ();

    fn handle(&mut self, _: Compute, _: &mut Context<'_, Self>) {
        self.0.compute_until_reported();
    }
}

#[test]
fn an_actor_is_reported_with_its_type_and_name() {
    let reports = Reports::default();
    let runtime = reports.of(one_processor());
    let its = reports.clone();
    runtime.run(|| {
        let actor = actor::Builder::new().name("ruth").spawn(Rude(its));
        actor.ask(Compute).unwrap();
    });
    drop(runtime);
    let stall = reports.only();
    assert_eq!((stall.kind, stall.name.as_deref()), (Some(StrandKind::Actor), Some("ruth")));
    assert!(stall.type_name.unwrap().ends_with("::Rude"), "{stall:?}");
}

#[test]
fn nothing_is_reported_if_that_is_turned_off() {
    let reports = Reports::default();
    let runtime = reports.of(one_processor().stall_limit(None));
    runtime.run(|| compute_for(100 * MS));
    drop(runtime);
    assert_eq!(reports.number(), 0);
}

#[test]
fn a_longer_limit_lets_shorter_stalls_pass() {
    let reports = Reports::default();
    let runtime = reports.of(one_processor().stall_limit(Duration::from_secs(3600)));
    runtime.run(|| {
        compute_for(50 * MS);
        thread::sleep(50 * MS);
    });
    drop(runtime);
    assert_eq!(reports.number(), 0);
}

#[test]
fn neighbours_that_may_not_move_are_counted() {
    const NEIGHBOURS: usize = 5;
    let reports = Reports::default();
    let runtime = reports.of(one_processor());
    let (its, ready) = (reports.clone(), Arc::new(AtomicUsize::new(0)));
    runtime.run(|| {
        let neighbour = |_| {
            let ready = Arc::clone(&ready);
            sinew::spawn(move || {
                ready.fetch_add(1, SeqCst);
                sinew::park();
            })
        };
        let neighbours: Vec<_> = (0..NEIGHBOURS).map(neighbour).collect();
        wait_until(|| ready.load(SeqCst) == NEIGHBOURS);
        // One is unparked by another thread, and comes by way of the inbox.
        neighbours[1..].iter().for_each(|fibre| fibre.fibre().unpark());
        let last = neighbours[0].fibre().clone();
        thread::spawn(move || last.unpark()).join().unwrap();
        its.compute_until_reported();
        neighbours.into_iter().for_each(|fibre| fibre.join().unwrap());
    });
    drop(runtime);
    assert_eq!(reports.only().neighbours, NEIGHBOURS);
}

#[test]
fn strands_that_may_move_are_served_by_others_meanwhile() {
    let reports = Reports::default();
    let runtime = reports.of(Runtime::builder().processors(2));
    let (its, done) = (reports.clone(), Arc::new(AtomicBool::new(false)));
    let rude = runtime.spawn({
        let done = Arc::clone(&done);
        move || {
            its.compute_until_reported();
            while !done.load(SeqCst) {
                std::hint::spin_loop();
            }
        }
    });
    wait_until(|| reports.number() == 1);
    let answers = runtime.run(|| (0..10).map(|n| sinew::spawn(move || n).join().unwrap()).sum::<i32>());
    assert_eq!(answers, 45);
    done.store(true, SeqCst);
    rude.join().unwrap();
}

#[test]
fn the_same_stall_again_is_counted_and_not_reported() {
    let reports = Reports::default();
    let runtime = reports.of(one_processor());
    #[inline(never)]
    fn stall_here(reports: &Reports) {
        if reports.number() == 0 {
            while reports.number() == 0 {
                thread::sleep(50 * MS);
            }
        } else {
            thread::sleep(50 * MS);
        }
    }
    for _ in 0..5 {
        let its = reports.clone();
        runtime.spawn(move || stall_here(&its)).join().unwrap();
    }
    drop(runtime);
    assert_eq!(reports.only().unreported, 0);
}

#[test]
fn a_program_that_uses_the_signal_keeps_it_and_the_report_is_without_functions() {
    let outcome = in_child!(Rerun::new(), || {
        let signals = Signals::new([Signal::USR2]).unwrap();
        let reports = Reports::default();
        let runtime = reports.of(one_processor().stall_signal(Signal::USR2));
        let its = reports.clone();
        let rude = move || its.compute_until_reported();
        FibreBuilder::new().name("rude").cluster(runtime.main_cluster()).spawn(rude).unwrap().join().unwrap();
        drop(runtime);
        let stall = reports.only();
        assert_eq!((stall.name.as_deref(), stall.frames.len()), (Some("rude"), 0), "{stall:?}");
        assert_eq!(signals.try_recv(), None);
        println!("kept");
    });
    outcome.assert_success("kept");
}

#[test]
fn without_a_hook_the_report_is_one_text_on_standard_error() {
    let outcome = in_child!(Rerun::new(), || {
        one_processor().run(|| {
            let rude = || compute_for(Duration::from_secs(1));
            FibreBuilder::new().name("rude").spawn(rude).unwrap().join().unwrap();
        });
    });
    let said = "sinew: fibre 'rude' (id ";
    assert_eq!(outcome.stderr.matches("sinew: ").count(), 1, "{outcome:#?}");
    assert!(outcome.stderr.contains(said), "{outcome:#?}");
    for words in ["spawned at sinew/tests/stalls.rs:", " stalls processor sinew-0: it has computed for "] {
        assert!(outcome.stderr.contains(words), "{words:?} is missing: {outcome:#?}");
    }
}

#[test]
fn a_hook_that_panics_does_not_end_the_watch() {
    let heard = Arc::new(AtomicUsize::new(0));
    let hook = {
        let heard = Arc::clone(&heard);
        move |_: &Stall| {
            heard.fetch_add(1, SeqCst);
            std::panic::resume_unwind(Box::new("a panic"));
        }
    };
    let runtime = one_processor().on_stall(hook).build().unwrap();
    for number in 1..=2 {
        let heard = Arc::clone(&heard);
        let until_heard = move || while heard.load(SeqCst) < number {};
        // Two sites, so that both are reported.
        match number {
            1 => runtime.spawn(until_heard).join().unwrap(),
            _ => runtime.spawn(until_heard).join().unwrap(),
        }
    }
}

/// Environment variable: the process is the one that is stuck.
const STUCK: &str = "SINEW_TEST_STUCK";

/// Is stuck in a fibre on the only processor until standard input ends.
fn be_stuck() {
    let runtime = one_processor().stall_limit(None).dump_on_quit(true).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stuck = {
        let stop = Arc::clone(&stop);
        move || {
            println!("is stuck");
            // If the parent hangs, it learns of it by the end of this process.
            if !happens_while_spinning(3 * SOON, || stop.load(SeqCst)) {
                std::process::exit(1);
            }
        }
    };
    let fibre = FibreBuilder::new().name("stuck").cluster(runtime.main_cluster()).spawn(stuck).unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    stop.store(true, SeqCst);
    fibre.join().unwrap();
}

#[test]
fn sigquit_prints_a_dump_while_every_processor_is_stuck_and_the_process_goes_on() {
    if std::env::var(STUCK).is_ok() {
        return be_stuck();
    }
    let mut command = rerun::command(name_of_test!(), STUCK, "1");
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(stdout.any(|line| line.ends_with("is stuck")));
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    for _ in 0..2 {
        let killed = Command::new("kill").args(["-QUIT", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        assert!(stderr.any(|line| line.contains("runs fibre") && line.contains("stuck")), "there is no dump");
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
