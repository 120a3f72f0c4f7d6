//! Failures of actors: restarts, back-offs, links, monitors, children.

#[path = "fixture/actors.rs"]
mod actors;
mod fixture;

use actors::{Call, Calls, Counts, Log, Note, Plain, Quick, Script, Style, by_the_clock, everywhere, in_few};
use fixture::{LONG, message, wait_until};
use sinew::actor::{self, Actor, Address, AskError, Context, Down, End, Failure, Handle, Restart};
use sinew::time;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const FAILED: &str = "stopped: failed: panicked: as it should";

fn supervised<S: Style>(restart: Restart, log: &Log) -> Address<Script<S>> {
    let log = log.clone();
    actor::supervised(restart, move || Script::new(&log))
}

fn fail<S: Style>(script: &Address<Script<S>>) -> Result<(), AskError> {
    script.asks(|_, _| panic!("as it should"))
}

#[test]
fn an_actor_is_restarted_as_often_as_its_limit_says() {
    fn exhaust<S: Style>() {
        for limit in [0, 1, 3] {
            let log = Log::default();
            let script = supervised::<S>(Restart::limit(limit, LONG), &log);
            for _ in 0..=limit {
                assert_eq!(fail(&script), Err(AskError::Panicked));
            }
            let End::Failed(failure) = script.join() else { panic!("it did not fail") };
            assert!(failure.is_panic() && failure.error().is_none());
            assert_eq!(fail(&script), Err(AskError::Stopped));
            let expected = (0..=limit).flat_map(|_| ["started", FAILED]);
            assert!(log.take().iter().eq(expected));
        }
    }
    everywhere(|rt, _| {
        rt.run(|| {
            exhaust::<Plain>();
            exhaust::<Quick>();
        });
    });
}

#[test]
fn a_restart_counts_for_the_period_of_the_limit() {
    by_the_clock(|rt, _| {
        rt.run(|| {
            let script = supervised::<Plain>(Restart::limit(2, HOUR), &Log::default());
            for _ in 0..5 {
                assert_eq!(fail(&script), Err(AskError::Panicked));
                assert_eq!(fail(&script), Err(AskError::Panicked));
                assert_eq!(script.asks(|_, _| 1), Ok(1));
                sinew::sleep(HOUR);
            }
            (0..3).for_each(|_| assert_eq!(fail(&script), Err(AskError::Panicked)));
            assert!(matches!(script.join(), End::Failed(_)));
        });
    });
}

#[test]
fn messages_are_kept_over_a_restart_in_their_order() {
    fn restart<S: Style>() {
        let (log, counts) = (Log::default(), Counts::default());
        let script = supervised::<S>(Restart::always(), &log);
        let kept = counts.make();
        script.tells(move |script, _| {
            script.kept.push(Box::new(kept));
            script.log.note("holds");
        });
        for word in ["one", "two", "three"] {
            let counted = counts.make();
            script.tells(move |_, _| {
                let _counted = counted;
                panic!("as it should")
            });
            script.tell(Note(word)).unwrap();
        }
        assert_eq!(script.ask(Note("asked")), Ok(()));
        assert_eq!(counts.left(), 0, "the old value was kept, or the message that failed");
        let kept = script.asks(|script, _| script.kept.len());
        assert_eq!(kept, Ok(0), "the value is not a new one");
        let words = ["one", "two", "three"].map(|word| [FAILED, "started", word]).concat();
        let expected = [&["started", "holds"], &words[..], &["asked"]].concat();
        assert_eq!(log.take(), expected);
    }
    everywhere(|rt, _| {
        rt.run(|| {
            restart::<Plain>();
            restart::<Quick>();
        });
    });
}

#[test]
fn waits_before_restarts_double_up_to_the_longest_and_keep_messages() {
    fn back_off<S: Style>() {
        let (log, began) = (Log::default(), time::now());
        let its = log.clone();
        let make = move || {
            its.note(format!("{}", (time::now() - began).as_secs() / 3600));
            Script::<S>::new(&its)
        };
        let script = actor::supervised(Restart::limit(4, 100 * HOUR).back_off(HOUR, 5 * HOUR), make);
        for word in ["one", "two", "three", "four"] {
            script.tells(|_, _| panic!("as it should"));
            script.tell(Note(word)).unwrap();
        }
        assert_eq!(script.ask(Note("asked")), Ok(()));
        assert_eq!(time::now() - began, 12 * HOUR);
        assert_eq!(fail(&script), Err(AskError::Panicked));
        assert!(matches!(script.join(), End::Failed(_)));
        let notes: Vec<_> = log.take().into_iter().filter(|note| !note.starts_with('s')).collect();
        assert_eq!(notes, ["0", "1", "one", "3", "two", "7", "three", "12", "four", "asked"]);
    }
    by_the_clock(|rt, _| {
        rt.run(back_off::<Plain>);
        rt.run(back_off::<Quick>);
    });
}

#[test]
fn a_stop_during_a_back_off_is_carried_out_after_the_messages_that_wait() {
    by_the_clock(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let script = supervised::<Plain>(Restart::always().back_off(HOUR, HOUR), &log);
            script.tells(|_, _| panic!("as it should"));
            script.tell(Note("kept")).unwrap();
            script.stop();
            assert!(matches!(script.join(), End::Stopped));
            assert_eq!(log.take(), ["started", FAILED, "started", "kept", "stopped: stopped"]);
        });
    });
}

/// Does not start at first.
struct Starter {
    failures: Arc<AtomicUsize>,
    panics: bool,
    log: Log,
}

impl Actor for Starter {
    fn started(&mut self, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        self.log.note("starts");
        if self.failures.load(SeqCst) == 0 {
            return Ok(());
        }
        self.failures.fetch_sub(1, SeqCst);
        assert!(!self.panics, "as it should");
        Err(io::Error::other("no connection"))?
    }

    fn stopped(&mut self, why: &End) {
        self.log.note(format!("{why}"));
    }
}

impl Handle<Note> for Starter {
    type Reply = ();

    fn handle(&mut self, note: Note, _: &mut Context<'_, Self>) {
        self.log.note(note.0);
    }
}

#[test]
fn an_actor_that_fails_to_start_has_failed_before_its_first_message() {
    everywhere(|rt, _| {
        rt.run(|| {
            for panics in [false, true] {
                let (log, failures) = (Log::default(), Arc::new(AtomicUsize::new(2)));
                let why = if panics { "failed: panicked: as it should" } else { "failed: no connection" };
                let starter = Starter { failures: Arc::clone(&failures), panics, log: log.clone() };
                let starter = actor::spawn(starter);
                // The message may come before that.
                drop(starter.tell(Note("too early")));
                let End::Failed(failure) = starter.join() else { panic!("it did not fail") };
                assert_eq!(failure.is_panic(), panics);
                assert_eq!(failure.error().is_some_and(|error| error.is::<io::Error>()), !panics);
                assert_eq!(log.take(), ["starts", why]);
                // With restarts.
                failures.store(2, SeqCst);
                let (its, count) = (log.clone(), Arc::clone(&failures));
                let make = move || Starter { failures: Arc::clone(&count), panics, log: its.clone() };
                let starter = actor::supervised(Restart::limit(2, LONG), make);
                assert_eq!(starter.ask(Note("asked")), Ok(()));
                assert_eq!(log.take(), ["starts", why, "starts", why, "starts", "asked"]);
            }
        });
    });
}

#[test]
fn a_factory_that_panics_is_a_failure_too() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (log, made) = (Log::default(), Arc::new(AtomicUsize::new(0)));
            let (its, count) = (log.clone(), Arc::clone(&made));
            let make = move || {
                // The first call, and each third one, returns.
                assert!(count.fetch_add(1, SeqCst).is_multiple_of(3), "as it should");
                Script::<Plain>::new(&its)
            };
            let script = actor::supervised(Restart::limit(5, LONG), make);
            script.tells(|_, _| panic!("as it should"));
            assert_eq!(script.ask(Note("asked")), Ok(()));
            assert_eq!(made.load(SeqCst), 4);
            assert_eq!(log.take(), ["started", FAILED, "started", "asked"]);
            assert_eq!(fail(&script), Err(AskError::Panicked));
            assert!(matches!(script.join(), End::Failed(failure) if failure.is_panic()));
            // At the first call there is no actor yet.
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                actor::supervised(Restart::always(), || -> Script { panic!("first") })
            }));
            assert_eq!(message(&*panicked.unwrap_err()), "first");
        });
    });
}

#[test]
fn a_handler_may_say_that_its_actor_has_failed_and_reply_all_the_same() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let script = supervised::<Plain>(Restart::limit(1, LONG), &log);
            let asked = script.asks(|_, cx| {
                cx.fail(Failure::new("first"));
                cx.fail(io::Error::other("second"));
                7
            });
            assert_eq!(asked, Ok(7));
            assert_eq!(script.ask(Note("next")), Ok(()));
            assert_eq!(script.asks(|_, cx| cx.fail(io::Error::other("last"))), Ok(()));
            let end = script.join();
            assert!(end.is_failure() && end.to_string() == "failed: last", "{end}");
            assert_eq!(log.take(), ["started", "stopped: failed: first", "started", "next", "stopped: failed: last"]);
        });
    });
}

/// Panics when it is told of its end, and when it is dropped.
struct Bitter(Counts);

impl Actor for Bitter {
    fn stopped(&mut self, _: &End) {
        panic!("as it should");
    }
}

impl Drop for Bitter {
    fn drop(&mut self) {
        drop(self.0.make());
        assert!(std::thread::panicking(), "as it should");
    }
}

impl Handle<Note> for Bitter {
    type Reply = ();

    fn handle(&mut self, note: Note, _: &mut Context<'_, Self>) {
        assert_ne!(note.0, "panic");
    }
}

#[test]
fn an_actor_whose_hook_and_drop_panic_ends_all_the_same() {
    everywhere(|rt, _| {
        rt.run(|| {
            let counts = Counts::default();
            let bitter = actor::spawn(Bitter(counts.clone()));
            bitter.stop();
            assert!(matches!(bitter.join(), End::Stopped));
            let its = counts.clone();
            let bitter = actor::supervised(Restart::limit(1, LONG), move || Bitter(its.clone()));
            assert_eq!(bitter.ask(Note("panic")), Err(AskError::Panicked));
            assert_eq!(bitter.ask(Note("fine")), Ok(()));
            bitter.kill();
            assert!(matches!(bitter.join(), End::Killed));
            assert_eq!(counts.made(), 3);
        });
    });
}

/// Notes the ends of others.
struct Keeper(Log);

impl Actor for Keeper {
    fn down(&mut self, who: Down, _: &mut Context<'_, Self>) {
        let escalates = if who.escalates() { ", escalates" } else { "" };
        self.0.note(format!("{:?} {} {}{escalates}", who.relation, who.actor.name().unwrap_or("nobody"), who.end));
    }

    fn stopped(&mut self, why: &End) {
        self.0.note(format!("stopped: {why}"));
    }
}

impl<R: Send + 'static> Handle<Call<Keeper, R>> for Keeper {
    type Reply = R;

    fn handle(&mut self, call: Call<Keeper, R>, cx: &mut Context<'_, Self>) -> R {
        (call.0)(self, cx)
    }
}

fn named(name: &str) -> Address<Script> {
    actor::Builder::new().name(name).spawn(Script::new(&Log::default()))
}

#[test]
fn a_monitor_is_told_of_every_kind_of_end_also_if_it_comes_too_late() {
    everywhere(|rt, _| {
        rt.run(|| {
            for late in [false, true] {
                let log = Log::default();
                let keeper = actor::spawn(Keeper(log.clone()));
                let ends: [fn(Address<Script>); 4] =
                    [|script| script.stop(), |script| script.kill(), |script| drop(fail(&script)), drop];
                for (number, end) in ends.into_iter().enumerate() {
                    let script = named(&number.to_string());
                    let (watched, weak) = (script.clone(), script.downgrade());
                    let monitor = move |watched: Address<Script>| keeper_monitors(watched);
                    if late && number < 3 {
                        end(script.clone());
                        script.join();
                        keeper.asks(monitor(watched)).unwrap();
                        drop(script);
                    } else {
                        keeper.asks(monitor(watched)).unwrap();
                        end(script);
                    }
                    wait_until(|| log.len() == number + 1);
                    wait_until(|| weak.upgrade().is_none());
                }
                let failed = "Monitor 2 failed: panicked: as it should";
                assert_eq!(
                    log.take(),
                    ["Monitor 0 stopped", "Monitor 1 killed", failed, "Monitor 3 no address was left"]
                );
                assert!(keeper.is_alive());
            }
        });
    });
}

fn keeper_monitors(watched: Address<Script>) -> impl FnOnce(&mut Keeper, &mut Context<'_, Keeper>) + Send + 'static {
    move |_, cx| cx.monitor(&watched)
}

#[test]
fn monitors_can_be_undone_and_do_not_keep_their_actor() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let keeper = actor::spawn(Keeper(log.clone()));
            let script = named("watched");
            let watched = script.clone();
            keeper
                .asks(move |_, cx| {
                    cx.monitor(&watched);
                    cx.monitor(&watched);
                    cx.unmonitor(&watched);
                })
                .unwrap();
            script.kill();
            script.join();
            wait_until(|| log.len() == 1);
            assert_eq!(keeper.asks(|_, _| ()), Ok(()));
            assert_eq!(log.take(), ["Monitor watched killed"]);
            // The one that watches ends first.
            let script = named("watched");
            let watched = script.clone();
            keeper.asks(move |_, cx| cx.monitor(&watched)).unwrap();
            let weak = keeper.downgrade();
            drop(keeper);
            wait_until(|| weak.upgrade().is_none() && log.len() == 1);
            script.kill();
            assert!(matches!(script.join(), End::Killed));
            assert_eq!(log.take(), ["stopped: no address was left"]);
        });
    });
}

#[test]
fn the_end_of_each_of_two_linked_actors_comes_to_the_other() {
    everywhere(|rt, _| {
        rt.run(|| {
            for first_ends in [false, true] {
                let log = Log::default();
                let [first, second] =
                    ["first", "second"].map(|n| actor::Builder::new().name(n).spawn(Keeper(log.clone())));
                let other = second.clone();
                first.asks(move |_, cx| cx.link(&other)).unwrap();
                let (ends, name) = if first_ends { (&first, "first") } else { (&second, "second") };
                ends.kill();
                ends.join();
                let told = format!("Link {name} killed, escalates");
                wait_until(|| log.has(&told));
                assert_eq!(log.take(), ["stopped: killed".to_owned(), told]);
            }
        });
    });
}

#[test]
fn the_failure_of_a_link_is_a_failure_and_its_stop_is_not() {
    everywhere(|rt, _| {
        rt.run(|| {
            type Order = fn(&Address<Script>);
            let ends: [(Order, bool); 3] =
                [(Address::kill, true), (|script| drop(fail(script)), true), (Address::stop, false)];
            for (end, fails) in ends {
                let (here, there) = (named("here"), named("there"));
                let other = there.clone();
                here.asks(move |_, cx| cx.link(&other)).unwrap();
                end(&there);
                there.join();
                if fails {
                    let End::Failed(failure) = here.join() else { panic!("it did not fail") };
                    assert!(failure.to_string().contains("Script 'there' has ended: "), "{failure}");
                } else {
                    assert_eq!(here.asks(|_, _| 1), Ok(1));
                }
            }
        });
    });
}

#[test]
fn a_link_can_be_undone_from_both_sides() {
    everywhere(|rt, _| {
        rt.run(|| {
            for same in [false, true] {
                let (here, there) = (named("here"), named("there"));
                let (other, back) = (there.clone(), here.clone());
                here.asks(move |_, cx| {
                    cx.link(&other);
                    same.then(|| cx.unlink(&other));
                })
                .unwrap();
                if !same {
                    there.asks(move |_, cx| cx.unlink(&back)).unwrap();
                }
                there.kill();
                there.join();
                assert_eq!(here.asks(|_, _| 1), Ok(1));
                here.kill();
                assert!(matches!(here.join(), End::Killed));
            }
        });
    });
}

#[test]
fn a_link_to_an_actor_that_has_ended_is_told_at_once() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, there) = (named("here"), named("there"));
            there.kill();
            there.join();
            here.tells(move |_, cx| cx.link(&there));
            assert!(matches!(here.join(), End::Failed(_)));
            // To itself: nothing happens.
            let log = Log::default();
            let keeper = actor::spawn(Keeper(log.clone()));
            keeper.asks(|_, cx| cx.link(&cx.address())).unwrap();
            keeper.stop();
            assert!(matches!(keeper.join(), End::Stopped));
            assert_eq!(log.take(), ["stopped: stopped"]);
        });
    });
}

#[test]
fn a_failure_goes_round_a_ring_of_links_once() {
    everywhere(|rt, _| {
        rt.run(|| {
            let ring: Vec<_> = (0..8).map(|number| named(&number.to_string())).collect();
            for (number, script) in ring.iter().enumerate() {
                let next = ring[(number + 1) % 8].clone();
                script.asks(move |_, cx| cx.link(&next)).unwrap();
            }
            ring[3].kill();
            for (number, script) in ring.iter().enumerate() {
                let end = script.join();
                assert!(end.is_failure() && matches!(end, End::Killed) == (number == 3), "{number}: {end}");
            }
        });
    });
}

/// Spawns children that note their ends. Returns them.
fn children(parent: &Address<Script>, log: &Log) -> Vec<Address<Script>> {
    let log = log.clone();
    parent.asks(move |_, cx| (0..3).map(|_| cx.spawn(Script::new(&log))).collect()).unwrap()
}

#[test]
fn children_end_with_their_parent() {
    everywhere(|rt, _| {
        rt.run(|| {
            for way in ["stop", "kill", "fail", "drop"] {
                let log = Log::default();
                let parent = actor::spawn(Script::<Plain>::new(&Log::default()));
                let children = children(&parent, &log);
                let grandchild = children[0].asks({
                    let log = log.clone();
                    move |_, cx| cx.spawn(Script::<Plain>::new(&log))
                });
                // One that is kept by nobody else.
                parent
                    .asks({
                        let log = log.clone();
                        move |_, cx| drop(cx.spawn(Script::<Plain>::new(&log)))
                    })
                    .unwrap();
                match way {
                    "stop" => parent.stop(),
                    "kill" => parent.kill(),
                    "fail" => assert_eq!(fail(&parent), Err(AskError::Panicked)),
                    _ => drop(parent),
                }
                let all = children.into_iter().chain(grandchild);
                for child in all {
                    let end = child.join();
                    match way {
                        "kill" => assert!(matches!(end, End::Killed), "{end}"),
                        _ => assert!(matches!(end, End::Orphaned), "{way}: {end}"),
                    }
                }
                let stopped = if way == "kill" { "stopped: killed" } else { "stopped: its parent has ended" };
                wait_until(|| log.take_count(stopped) == 5);
            }
        });
    });
}

/// Counts notes.
trait TakeCount {
    fn take_count(&self, what: &str) -> usize;
}

impl TakeCount for Log {
    fn take_count(&self, what: &str) -> usize {
        let notes = self.take();
        notes.iter().for_each(|note| self.note(note.clone()));
        notes.iter().filter(|note| *note == what).count()
    }
}

#[test]
fn the_failure_of_a_child_fails_its_parent_and_so_its_siblings_unless_down_says_otherwise() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let parent = actor::spawn(Script::<Plain>::new(&Log::default()));
            let children = children(&parent, &log);
            // An end that is no failure changes nothing.
            children[0].stop();
            children[0].join();
            assert_eq!(parent.asks(|_, _| 1), Ok(1));
            assert_eq!(fail(&children[1]), Err(AskError::Panicked));
            let End::Failed(failure) = parent.join() else { panic!("it did not fail") };
            assert!(failure.to_string().contains("as it should"), "{failure}");
            assert!(matches!(children[2].join(), End::Orphaned));
            // A parent that hears of it.
            let keeper = actor::spawn(Keeper(log.clone()));
            log.take();
            let child = keeper.asks(|_, cx| {
                let child = actor::Builder::new().name("child").spawn(Script::<Plain>::new(&Log::default()));
                cx.adopt(child)
            });
            child.unwrap().kill();
            wait_until(|| log.has("Child child killed, escalates"));
            assert_eq!(keeper.asks(|_, _| 1), Ok(1));
        });
    });
}

#[test]
fn a_supervised_parent_is_restarted_and_a_supervised_child_bothers_it_only_when_it_ends() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let parent = supervised::<Plain>(Restart::limit(1, LONG), &log);
            let child = parent.asks(|_, cx| cx.adopt(supervised::<Plain>(Restart::limit(1, LONG), &Log::default())));
            let child = child.unwrap();
            assert_eq!(fail(&child), Err(AskError::Panicked));
            assert_eq!(child.asks(|_, _| 1), Ok(1));
            assert_eq!(parent.asks(|_, _| 1), Ok(1));
            assert_eq!(log.len(), 1);
            assert_eq!(fail(&child), Err(AskError::Panicked));
            assert!(matches!(child.join(), End::Failed(_)));
            wait_until(|| log.len() == 3);
            assert_eq!(parent.asks(|_, _| 2), Ok(2));
        });
    });
}

#[test]
fn an_actor_may_have_many_children_and_many_may_watch_it() {
    in_few(|rt, _| {
        let (counts, log) = (Counts::default(), Log::default());
        rt.run(|| {
            let parent = actor::spawn(Keeper(log.clone()));
            let made = counts.clone();
            parent
                .asks(move |_, cx| {
                    let hub = cx.address();
                    for _ in 0..2_000 {
                        let (kept, hub) = (made.make(), hub.clone());
                        let child = cx.spawn(Script::<Plain>::new(&Log::default()));
                        child.tells(move |script, cx| {
                            script.kept.push(Box::new(kept));
                            cx.monitor(&hub);
                        });
                    }
                })
                .unwrap();
            parent.kill();
            assert!(matches!(parent.join(), End::Killed));
            wait_until(|| counts.left() == 0);
        });
        assert_eq!(counts.dropped(), 2_000);
    });
}

/// Links, failures and ends at the same time: everybody is told exactly once.
#[test]
fn every_monitor_is_told_exactly_once_however_its_call_and_the_end_race() {
    in_few(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let keepers: Vec<_> = (0..3).map(|_| actor::spawn(Keeper(log.clone()))).collect();
            for _ in 0..100 {
                let script = named("watched");
                for keeper in &keepers {
                    let watched = script.clone();
                    keeper.tells(move |_, cx| cx.monitor(&watched));
                }
                script.kill();
                script.join();
            }
            keepers.iter().for_each(|keeper| keeper.asks(|_, _| ()).unwrap());
            wait_until(|| log.len() == 300);
            keepers.iter().for_each(|keeper| keeper.asks(|_, _| ()).unwrap());
            assert_eq!(log.take_count("Monitor watched killed"), 300);
        });
    });
}
