//! Timers of actors, piped futures, groups, registries and recipients.

#[path = "fixture/actors.rs"]
mod actors;
mod fixture;

use actors::{Calls, Counted, Counts, Log, Note, Plain, Quick, Refuses, Script, Style, by_hand, everywhere, in_few};
use fixture::{LONG, SOON, Setup, alone, happens_within, wait_until};
use sinew::actor::{self, Actor, Address, Context, End, Group, Handle, NameTaken, Registry, Restart};
use sinew::sync::Semaphore;
use sinew::time::{self, TestClock};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn spawn<S: Style>(log: &Log) -> Address<Script<S>> {
    actor::spawn(Script::new(log))
}

/// A message that notes the minute.
#[derive(Clone)]
struct Tick(Instant);

impl<S: Style> Handle<Tick> for Script<S> {
    type Reply = ();

    fn handle(&mut self, tick: Tick, _: &mut Context<'_, Self>) {
        self.log.note(format!("{}", (time::now() - tick.0).as_secs() / 60));
    }
}

/// Advances the clock, and waits until the actor has handled what that lets come: until it has noted `notes` things.
fn advance<S: Style>(clock: &TestClock, by: Duration, script: &Address<Script<S>>, log: &Log, notes: usize) {
    clock.advance(by);
    wait_until(|| log.len() == notes && script.is_idle());
}

#[test]
fn a_message_for_later_comes_when_its_time_has_come_and_not_before() {
    fn later<S: Style>(clock: &TestClock) {
        let (log, began) = (Log::default(), time::now());
        let script = spawn::<S>(&log);
        let timers = script.asks(move |_, cx| {
            [
                cx.after(3 * HOUR, Tick(began)),
                cx.after(HOUR, Tick(began)),
                cx.address().tell_after(2 * HOUR, Tick(began)),
                cx.after(2 * HOUR, Tick(began + MINUTE)),
            ]
        });
        let timers = timers.unwrap();
        let outside = script.tell_after(4 * HOUR, Tick(began));
        clock.advance(HOUR - Duration::from_nanos(1));
        assert_eq!(script.asks(|script, _| script.log.len()), Ok(1));
        timers[3].cancel();
        assert!(timers[3].is_over() && !timers[1].is_over());
        advance(clock, Duration::from_nanos(1), &script, &log, 2);
        (3..=5).for_each(|notes| advance(clock, HOUR, &script, &log, notes));
        assert!(timers.iter().chain([&outside]).all(actor::Timer::is_over));
        assert_eq!(log.take(), ["started", "60", "120", "180", "240"]);
    }
    by_hand(|rt, clock| {
        rt.run(|| later::<Plain>(clock));
        rt.run(|| later::<Quick>(clock));
    });
}

#[test]
fn a_message_without_a_delay_comes_as_the_others_do() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let script = spawn::<Plain>(&log);
            script
                .asks(|_, cx| {
                    drop(cx.after(Duration::ZERO, Note("later")));
                    cx.tell_self(Note("self"));
                })
                .unwrap();
            wait_until(|| log.len() == 3);
            let notes = log.take();
            assert!(notes.contains(&"later".into()) && notes.contains(&"self".into()), "{notes:?}");
        });
    });
}

/// A message that is handled when a gate opens.
#[derive(Clone)]
struct Slow(Instant, Arc<Semaphore>);

impl Handle<Slow> for Script {
    type Reply = ();

    fn handle(&mut self, slow: Slow, _: &mut Context<'_, Self>) {
        self.log.note(format!("{}", (time::now() - slow.0).as_secs() / 60));
        slow.1.wait();
    }
}

#[test]
fn a_timer_that_ticks_again_keeps_its_times_and_merges_those_that_it_has_missed() {
    by_hand(|rt, clock| {
        rt.run(|| {
            let (log, began, gate) = (Log::default(), time::now(), Arc::new(Semaphore::new(0)));
            let script = spawn::<Plain>(&log);
            let slow = Slow(began, Arc::clone(&gate));
            let timer = script.asks(move |_, cx| cx.every(10 * MINUTE, slow)).unwrap();
            for notes in 2..=4 {
                gate.post(1);
                advance(clock, 10 * MINUTE, &script, &log, notes);
            }
            assert_eq!(log.take()[1..], ["10", "20", "30"]);
            // The next message takes 35 minutes: three ticks are missed, and the one after that comes in time.
            clock.advance(10 * MINUTE);
            wait_until(|| log.len() == 1);
            clock.advance(35 * MINUTE);
            gate.post(1);
            wait_until(|| script.is_idle());
            gate.post(1);
            advance(clock, 5 * MINUTE, &script, &log, 2);
            gate.post(1);
            advance(clock, 10 * MINUTE, &script, &log, 3);
            assert_eq!(log.take(), ["40", "80", "90"]);
            timer.cancel();
            assert!(timer.is_over());
            clock.advance(HOUR);
            assert_eq!(script.asks(|script, _| script.log.len()), Ok(0));
        });
    });
}

#[test]
fn ticks_that_come_while_the_actor_is_busy_with_others_are_one() {
    by_hand(|rt, clock| {
        rt.run(|| {
            let (log, began) = (Log::default(), time::now());
            let script = spawn::<Plain>(&log);
            let timer = script.asks(move |_, cx| cx.every(10 * MINUTE, Tick(began))).unwrap();
            let held = script.hold();
            clock.advance(35 * MINUTE);
            held.release();
            wait_until(|| log.len() == 2 && script.is_idle());
            advance(clock, 5 * MINUTE, &script, &log, 3);
            timer.cancel();
            assert_eq!(log.take(), ["started", "35", "40"]);
        });
    });
}

#[test]
fn a_timer_that_its_own_actor_cancels_sends_no_more() {
    by_hand(|rt, clock| {
        rt.run(|| {
            let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
            let script = spawn::<Plain>(&log);
            let opens = Arc::clone(&gate);
            script.tells(move |script, cx| {
                let once = cx.after(HOUR, Note("once"));
                let often = cx.every(HOUR, Note("often"));
                script.log.note("set");
                // Both are due before it goes on, and their letters wait behind this one.
                opens.wait();
                once.cancel();
                often.cancel();
                once.cancel();
            });
            wait_until(|| log.has("set"));
            clock.advance(2 * HOUR);
            gate.post(1);
            wait_until(|| script.is_idle());
            clock.advance(3 * HOUR);
            assert_eq!(script.asks(|script, _| script.log.take()), Ok(vec!["started".into(), "set".into()]));
        });
    });
}

/// A message for a timer that counts its clones and drops.
#[derive(Debug)]
struct Ticket(Counts, #[allow(dead_code)] Counted);

impl Clone for Ticket {
    fn clone(&self) -> Ticket {
        Ticket(self.0.clone(), self.0.make())
    }
}

impl<S: Style> Handle<Ticket> for Script<S> {
    type Reply = ();

    fn handle(&mut self, _: Ticket, _: &mut Context<'_, Self>) {
        self.log.note("ticket");
    }
}

fn ticket(counts: &Counts) -> Ticket {
    Ticket(counts.clone(), counts.make())
}

#[test]
fn timers_end_with_their_actor_and_their_messages_are_dropped() {
    by_hand(|rt, clock| {
        rt.run(|| {
            for way in ["stop", "kill", "panic", "drop"] {
                let (counts, log) = (Counts::default(), Log::default());
                let script = spawn::<Plain>(&log);
                let (its, outside) = (counts.clone(), script.tell_after(2 * HOUR, ticket(&counts)));
                let timers = script.asks(move |_, cx| {
                    (cx.every(HOUR, ticket(&its)), cx.after(HOUR, ticket(&its)), cx.every(HOUR, ticket(&its)))
                });
                let timers = timers.unwrap();
                timers.2.cancel();
                assert_eq!(counts.left(), 3);
                advance(clock, HOUR, &script, &log, 3);
                assert_eq!(counts.left(), 2);
                match way {
                    "stop" => script.stop(),
                    "kill" => script.kill(),
                    "panic" => script.tells(|_, _| panic!("as it should")),
                    _ => drop(script.clone()),
                }
                if way == "drop" {
                    drop(script);
                } else {
                    script.join();
                }
                wait_until(|| counts.left() == 0);
                assert!(timers.0.is_over() && outside.is_over());
                clock.advance(5 * HOUR);
                assert_eq!(log.len(), 4);
            }
        });
    });
}

#[test]
fn timers_of_an_actor_that_has_ended_send_nothing_and_keep_nothing() {
    everywhere(|rt, _| {
        rt.run(|| {
            let counts = Counts::default();
            let script = spawn::<Plain>(&Log::default());
            script.stop();
            script.join();
            let timers = [script.tell_after(LONG, ticket(&counts)), script.tell_after(Duration::ZERO, ticket(&counts))];
            wait_until(|| counts.left() == 0);
            assert!(timers.iter().all(actor::Timer::is_over));
        });
    });
}

#[test]
fn timers_that_an_actor_has_set_end_with_a_restart_and_those_of_others_do_not() {
    by_hand(|rt, clock| {
        rt.run(|| {
            let (log, counts) = (Log::default(), Counts::default());
            let its = log.clone();
            let script = actor::supervised(Restart::always(), move || Script::<Plain>::new(&its));
            let made = counts.clone();
            script
                .asks(move |_, cx| {
                    drop(cx.after(HOUR, ticket(&made)));
                    drop(cx.every(HOUR, Note("often")));
                    cx.fail(actor::Failure::new("as it should"));
                })
                .unwrap();
            wait_until(|| log.len() == 3 && script.is_idle());
            assert_eq!(counts.left(), 0, "the message of the timer is gone");
            drop(script.tell_after(2 * HOUR, Note("of another")));
            script.asks(|_, cx| cx.fail(actor::Failure::new("as it should"))).unwrap();
            wait_until(|| log.len() == 5 && script.is_idle());
            advance(clock, 2 * HOUR, &script, &log, 6);
            let mut notes = log.take();
            notes.sort();
            let failed = "stopped: failed: as it should";
            assert_eq!(notes, ["of another", "started", "started", "started", failed, failed]);
            script.stop();
            script.join();
            assert_eq!(counts.left(), 0);
        });
    });
}

#[test]
fn a_timer_that_is_set_in_started_goes_on_after_a_tick_that_failed_and_is_there_once() {
    by_hand(|rt, clock| {
        rt.run(|| {
            #[derive(Clone)]
            struct Shaky(Arc<AtomicUsize>);
            impl Actor for Shaky {
                fn started(&mut self, cx: &mut Context<'_, Self>) -> Result<(), actor::Failure> {
                    cx.every(HOUR, 1);
                    Ok(())
                }
            }
            impl Handle<u32> for Shaky {
                type Reply = ();
                fn handle(&mut self, odd: u32, _: &mut Context<'_, Self>) {
                    assert!(self.0.fetch_add(1, SeqCst) % 2 == odd as usize, "as it should");
                }
            }
            let ticks = Arc::new(AtomicUsize::new(0));
            let its = Shaky(Arc::clone(&ticks));
            let shaky = actor::supervised(Restart::always(), move || its.clone());
            wait_until(|| shaky.is_idle());
            for number in 1..=6 {
                clock.advance(HOUR);
                wait_until(|| ticks.load(SeqCst) == number && shaky.is_idle());
            }
            shaky.stop();
        });
    });
}

#[test]
fn timers_keep_no_runtime_from_its_end() {
    alone(|| {
        for setup in Setup::all() {
            let counts = Counts::default();
            let rt = setup.build();
            let script = actor::Builder::new().cluster(rt.main_cluster()).spawn(Script::<Plain>::new(&Log::default()));
            let its = counts.clone();
            script
                .asks(move |_, cx| {
                    drop(cx.every(LONG, ticket(&its)));
                    drop(cx.after(LONG, ticket(&its)));
                })
                .unwrap();
            drop(script.tell_after(LONG, ticket(&counts)));
            drop(rt);
            drop(script.tell_after(LONG, ticket(&counts)));
            assert_eq!(counts.left(), 4);
            drop(script);
            assert!(happens_within(SOON, || counts.left() == 0), "{} messages are left", counts.left());
        }
    });
}

/// A message whose drop panics.
#[derive(Clone)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "as it should");
    }
}

impl Handle<Bomb> for Script {
    type Reply = ();

    fn handle(&mut self, bomb: Bomb, _: &mut Context<'_, Self>) {
        std::mem::forget(bomb);
    }
}

#[test]
fn the_end_of_an_actor_is_told_also_if_the_drop_of_a_timers_message_panics() {
    everywhere(|rt, _| {
        rt.run(|| {
            let counts = Counts::default();
            let script = spawn::<Plain>(&Log::default());
            let its = counts.clone();
            let child = script.asks(move |_, cx| {
                drop(cx.after(LONG, Bomb));
                drop(cx.after(LONG, ticket(&its)));
                cx.spawn(Script::<Plain>::new(&Log::default()))
            });
            let joiner = sinew::spawn({
                let script = script.clone();
                move || script.join()
            });
            script.kill();
            assert!(matches!(joiner.join().unwrap(), End::Killed));
            assert!(matches!(child.unwrap().join(), End::Killed));
            assert_eq!(counts.left(), 0);
        });
    });
}

#[test]
fn timers_that_are_cancelled_by_others_while_they_tick_do_no_harm() {
    in_few(|rt, _| {
        rt.run(|| {
            let counts = Counts::default();
            let script = spawn::<Quick>(&Log::default());
            for _ in 0..200 {
                let its = counts.clone();
                let timer = script.asks(move |_, cx| cx.every(Duration::from_micros(20), ticket(&its))).unwrap();
                sinew::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| {
                            sinew::sleep(Duration::from_micros(40));
                            timer.cancel();
                        });
                    }
                });
                assert!(timer.is_over());
            }
            script.stop();
            script.join();
            wait_until(|| counts.left() == 0);
        });
    });
}

#[test]
fn the_result_of_a_future_comes_as_a_message_and_the_actor_handles_others_meanwhile() {
    fn pipe<S: Style>() {
        let (log, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
        let script = spawn::<S>(&log);
        let opens = Arc::clone(&gate);
        script
            .asks(move |_, cx| {
                let future = async move {
                    opens.wait_async().await;
                    "piped"
                };
                cx.pipe(future, Note);
            })
            .unwrap();
        assert_eq!(script.ask(Note("meanwhile")), Ok(()));
        gate.post(1);
        wait_until(|| log.len() == 3);
        assert_eq!(log.take(), ["started", "meanwhile", "piped"]);
    }
    everywhere(|rt, _| {
        rt.run(pipe::<Plain>);
        rt.run(pipe::<Quick>);
        rt.run(pipe::<Refuses<1>>);
    });
}

#[test]
fn what_is_piped_to_an_actor_that_has_ended_is_dropped() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (counts, gate) = (Counts::default(), Arc::new(Semaphore::new(0)));
            let script = spawn::<Plain>(&Log::default());
            let (opens, counted) = (Arc::clone(&gate), counts.make());
            script
                .asks(move |_, cx| {
                    let future = async move {
                        opens.wait_async().await;
                        counted
                    };
                    cx.pipe(future, |counted| counted);
                })
                .unwrap();
            script.kill();
            script.join();
            assert_eq!(counts.left(), 1);
            gate.post(1);
            wait_until(|| counts.left() == 0);
        });
    });
}

#[test]
fn a_group_tells_its_members_and_forgets_those_that_have_ended() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (log, group) = (Log::default(), Group::new());
            assert!(group.is_empty());
            let scripts: Vec<_> = (0..4).map(|_| spawn::<Plain>(&log)).collect();
            let full = spawn::<Refuses<1>>(&Log::default());
            for script in &scripts {
                assert!(group.join(script.recipient::<Note>()));
                assert!(!group.join(script.recipient()));
            }
            assert!(group.join(full.recipient()));
            let held = full.hold();
            full.tell(Note("fills")).unwrap();
            assert!(group.leave(&scripts[0].recipient()));
            assert!(!group.leave(&scripts[0].recipient()));
            scripts[1].kill();
            scripts[1].join();
            let published = group.publish(Note("news"));
            assert_eq!((published.told, published.full, published.ended), (2, 1, 1));
            assert_eq!(group.len(), 3);
            held.release();
            // A group keeps its members.
            let weak = scripts[2].downgrade();
            scripts.iter().for_each(|script| script.asks(|_, _| ()).map_or((), |()| ()));
            assert_eq!(log.take_all("news"), 2);
            drop(scripts);
            wait_until(|| full.is_idle());
            assert!(weak.upgrade().is_some());
            assert_eq!(group.publish(Note("more")).told, 3);
            drop(group);
            wait_until(|| weak.upgrade().is_none());
            wait_until(|| log.has("more"));
        });
    });
}

/// Counts notes.
trait TakeAll {
    fn take_all(&self, what: &str) -> usize;
}

impl TakeAll for Log {
    fn take_all(&self, what: &str) -> usize {
        self.take().iter().filter(|note| *note == what).count()
    }
}

/// An actor that has just joined is not taken for one that has ended, though it may have its memory.
#[test]
fn members_may_come_and_end_while_others_publish() {
    in_few(|rt, _| {
        rt.run(|| {
            let (group, told, handled) = (Group::new(), AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
            struct Listener(Arc<AtomicUsize>);
            impl Actor for Listener {}
            impl Handle<u32> for Listener {
                type Reply = ();
                fn handle(&mut self, _: u32, _: &mut Context<'_, Self>) {
                    self.0.fetch_add(1, SeqCst);
                }
            }
            let kept = Mutex::new(Vec::new());
            sinew::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for number in 0..200 {
                            told.fetch_add(group.publish(number).told, SeqCst);
                            sinew::yield_now();
                        }
                    });
                }
                for stays in [false, true] {
                    let (group, kept, handled) = (&group, &kept, &handled);
                    scope.spawn(move || {
                        for _ in 0..50 {
                            let listener = actor::spawn(Listener(Arc::clone(handled)));
                            assert!(group.join(listener.recipient()));
                            if stays {
                                kept.lock().unwrap().push(listener);
                            } else {
                                listener.stop();
                            }
                            sinew::yield_now();
                        }
                    });
                }
            });
            let last = group.publish(0);
            assert_eq!(last.told, 50, "a member was lost");
            assert_eq!((group.publish(0).told, group.len()), (50, 50));
            let told = told.load(SeqCst) + 100;
            wait_until(|| handled.load(SeqCst) == told);
        });
    });
}

#[test]
fn a_registry_finds_actors_by_type_and_name_until_they_end() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (registry, log) = (Registry::new(), Log::default());
            let (first, second) = (spawn::<Plain>(&log), spawn::<Plain>(&log));
            let quick = spawn::<Quick>(&log);
            assert_eq!(registry.find::<Script>("name"), None);
            registry.register("name", &first).unwrap();
            assert_eq!(registry.register("name", &second), Err(NameTaken));
            assert_eq!(registry.register("name", &first), Err(NameTaken));
            registry.register("name", &quick).unwrap();
            registry.register("other", &first).unwrap();
            assert_eq!(registry.find::<Script>("name"), Some(first.clone()));
            assert_eq!(registry.find::<Script<Quick>>("name"), Some(quick));
            assert_eq!(registry.find::<Script>("other"), Some(first.clone()));
            registry.forget::<Script>("other");
            assert_eq!(registry.find::<Script>("other"), None);
            // The name is free when its actor has ended, also while there are addresses.
            first.stop();
            first.join();
            assert_eq!(registry.find::<Script>("name"), None);
            registry.register("name", &second).unwrap();
            assert_eq!(registry.find::<Script>("name"), Some(second.clone()));
            // A registry keeps nobody.
            let weak = second.downgrade();
            drop((second, first));
            wait_until(|| weak.upgrade().is_none());
            assert_eq!(registry.find::<Script>("name"), None);
        });
    });
}

#[test]
fn recipients_of_one_actor_are_equal_and_keep_it() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let (first, second) = (spawn::<Plain>(&log), spawn::<Quick>(&log));
            let recipients = [first.recipient::<Note>(), second.recipient(), first.recipient()];
            assert!(recipients[0] == recipients[2] && recipients[0] != recipients[1]);
            assert_eq!((recipients[0].id(), recipients[1].id()), (first.id(), second.id()));
            drop(second);
            recipients.iter().for_each(|recipient| recipient.tell(Note("told")).unwrap());
            first.stop();
            first.join();
            assert!(!recipients[0].is_alive() && recipients[1].is_alive());
            assert!(recipients[2].try_tell(Note("late")).is_err());
            drop(recipients);
            wait_until(|| log.len() == 7);
            assert_eq!(log.take_all("told"), 3);
        });
    });
}
