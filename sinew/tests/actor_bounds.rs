//! Actors whose mailboxes are bounded: what happens to one message more.

#[path = "fixture/actors.rs"]
mod actors;
mod fixture;

use actors::{
    Call, Calls, Counts, DropsOldest, Log, Note, Plain, QuickRefuses, QuickWaits, Refuses, Script, Style, Waits,
    by_the_clock, everywhere, in_few,
};
use fixture::{LONG, spin_until, wait_until};
use sinew::actor::{self, Address, AskError, Context, End, Reason, Replier};
use sinew::sync::Semaphore;
use sinew::{task, time};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn spawn<S: Style>(log: &Log) -> Address<Script<S>> {
    actor::spawn(Script::new(log))
}

fn note(
    log: &Log,
    number: u32,
) -> impl FnOnce(&mut Script<DropsOldest<3>>, &mut Context<'_, Script<DropsOldest<3>>>) + use<> {
    let log = log.clone();
    move |_, _| log.note(number.to_string())
}

#[test]
fn a_full_mailbox_that_refuses_gives_the_message_back_to_every_kind_of_sender() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (log, counts) = (Log::default(), Counts::default());
            let script = spawn::<Refuses<3>>(&log);
            let held = script.hold();
            let (clone, recipient) = (script.clone(), script.recipient::<Note>());
            script.tell(Note("one")).unwrap();
            recipient.tell(Note("two")).unwrap();
            clone.try_tell(Note("three")).unwrap();
            let full = Reason::Full;
            assert_eq!(script.tell(Note("four")).unwrap_err().into_message().0, "four");
            assert_eq!(recipient.tell(Note("four")).unwrap_err().reason(), &full);
            assert_eq!(recipient.try_tell(Note("four")).unwrap_err().reason(), &full);
            assert_eq!(clone.try_tell(counts.make()).unwrap_err().reason(), &full);
            assert_eq!(script.ask(counts.make()).err(), Some(AskError::Full));
            let (there, counted) = (script.clone(), counts.make());
            let task = task::spawn(async move {
                assert_eq!(there.tell_async(Note("four")).await.unwrap_err().reason(), &Reason::Full);
                there.ask_async(counted).await.err()
            });
            assert_eq!(task.join().unwrap(), Some(AskError::Full));
            assert_eq!(script.ask_with(|replier| (Note("four"), keep(replier)).0), Err(AskError::Full));
            assert_eq!(counts.left(), 0);
            held.release();
            wait_until(|| log.len() == 4);
            // There is room for three again, and no more.
            let held = script.hold();
            (0..3).for_each(|_| script.tell(Note("more")).unwrap());
            assert!(script.tell(Note("too much")).is_err());
            held.release();
            script.stop();
            script.join();
            assert_eq!(log.take()[1..], ["one", "two", "three", "more", "more", "more", "stopped: stopped"]);
        });
    });
}

/// Keeps the right to answer until all have been refused.
fn keep(replier: Replier<()>) -> impl Sized {
    drop(replier);
}

#[test]
fn messages_of_an_actor_to_itself_and_timers_ignore_the_bound() {
    fn fill<S: Style>() {
        let (log, over) = (Log::default(), Arc::new(Semaphore::new(0)));
        let script = spawn::<S>(&log);
        let done = Arc::clone(&over);
        script.tells(move |_, cx| {
            for _ in 0..20 {
                cx.tell_self(Note("self"));
                cx.address().tell(Note("address")).unwrap();
                cx.address().recipient().tell(Note("recipient")).unwrap();
                cx.address().try_tell(Note("try")).unwrap();
            }
            done.post(1);
        });
        over.wait();
        script.stop();
        script.join();
        assert_eq!(log.len(), 82);
    }
    everywhere(|rt, _| {
        rt.run(|| {
            fill::<Waits<1>>();
            fill::<Refuses<1>>();
            fill::<DropsOldest<1>>();
            fill::<QuickRefuses<1>>();
            fill::<QuickWaits<1>>();
        });
    });
}

#[test]
fn messages_of_an_actor_to_itself_ignore_the_bound_when_it_answers_in_place() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let (refuses, waits) = (spawn::<QuickRefuses<1>>(&log), spawn::<QuickWaits<1>>(&log));
            wait_until(|| refuses.is_idle() && waits.is_idle());
            let told = refuses.asks(|_, cx| (0..5).all(|_| cx.address().tell(Note("refuses")).is_ok()));
            assert_eq!(told, Ok(true));
            let told = waits.asks(|_, cx| (0..5).all(|_| cx.address().tell(Note("waits")).is_ok()));
            assert_eq!(told, Ok(true));
            wait_until(|| log.len() == 12);
        });
    });
}

/// The actor runs on a processor's own stack, and the sender has no stack of its own either.
#[test]
fn the_bound_of_an_actor_that_does_not_block_holds_for_kernel_threads_and_tasks() {
    in_few(|rt, _| {
        let log = Log::default();
        let script = actor::Builder::new().cluster(rt.main_cluster()).spawn(Script::<QuickRefuses<2>>::new(&log));
        let (inside, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (enters, goes) = (Arc::clone(&inside), Arc::clone(&go));
        script.tells(move |_, _| {
            enters.store(true, SeqCst);
            spin_until(|| goes.load(SeqCst));
        });
        wait_until(|| inside.load(SeqCst));
        let told = (0..5).filter(|_| script.try_tell(Note("thread")).is_ok()).count();
        let task = rt.spawn_task({
            let script = script.clone();
            async move { (0..5).filter(|_| script.try_tell(Note("task")).is_ok()).count() }
        });
        let told = told + task.join().unwrap();
        go.store(true, SeqCst);
        assert_eq!(told, 2);
        wait_until(|| log.len() == 3);
    });
}

#[test]
fn senders_wait_for_room_and_the_bound_is_never_passed() {
    everywhere(|rt, _| {
        let (waiting, most) = (Arc::new(AtomicIsize::new(0)), Arc::new(AtomicIsize::new(0)));
        let script = actor::Builder::new().cluster(rt.main_cluster()).spawn(Script::<Waits<4>>::new(&Log::default()));
        let handled = Arc::new(AtomicUsize::new(0));
        let message = || {
            let (waiting, most, handled) = (Arc::clone(&waiting), Arc::clone(&most), Arc::clone(&handled));
            move |_: &mut Script<Waits<4>>, _: &mut Context<'_, Script<Waits<4>>>| {
                most.fetch_max(waiting.fetch_sub(1, SeqCst), SeqCst);
                handled.fetch_add(1, SeqCst);
                if handled.load(SeqCst).is_multiple_of(5) {
                    sinew::yield_now();
                }
            }
        };
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let (script, messages) = (script.clone(), [(); 30].map(|()| message()));
                let waiting = Arc::clone(&waiting);
                rt.spawn_task(async move {
                    for message in messages {
                        script.tell_async(Call(Box::new(message))).await.unwrap();
                        waiting.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        fixture::on_fibres_and_threads(rt, 4, 2, |_| {
            for number in 0..30 {
                // Counted after the send: the sum may be too low. A message makes room just before it is handled, so
                // the sum may be too high by one.
                match number % 4 {
                    0 => script.asks(message()).unwrap(),
                    _ => script.tells(message()),
                }
                waiting.fetch_add(1, SeqCst);
            }
        });
        tasks.into_iter().for_each(|task| task.join().unwrap());
        script.stop();
        script.join();
        assert_eq!(handled.load(SeqCst), 240);
        assert!((1..=5).contains(&most.load(SeqCst)), "{} messages waited", most.load(SeqCst));
    });
}

/// Fills the mailbox of an actor that is held.
fn fill<S: Style>(script: &Address<Script<S>>) -> usize {
    (0..).take_while(|_| script.try_tell(Note("fills")).is_ok()).count()
}

#[test]
fn a_wait_for_room_ends_with_the_time_limit_of_the_question() {
    by_the_clock(|rt, _| {
        rt.run(|| {
            let (log, counts) = (Log::default(), Counts::default());
            let script = spawn::<Waits<2>>(&log);
            let held = script.hold();
            assert_eq!(fill(&script), 2);
            let began = time::now();
            assert_eq!(script.ask_timeout(HOUR, counts.make()).err(), Some(AskError::TimedOut));
            assert_eq!(script.ask_deadline(began + 2 * HOUR, counts.make()).err(), Some(AskError::TimedOut));
            assert_eq!(time::now() - began, 2 * HOUR);
            let carried = time::timeout(HOUR, || script.ask(counts.make()).err());
            assert_eq!(carried, Some(AskError::TimedOut));
            let carried = time::timeout(HOUR, || script.tell(counts.make()).err());
            assert_eq!(carried.unwrap().reason(), &Reason::Cancelled);
            assert_eq!(time::now() - began, 4 * HOUR);
            assert_eq!(counts.left(), 0);
            held.release();
            wait_until(|| log.len() == 3);
            // Nobody has taken a place with him.
            let held = script.hold();
            assert_eq!(fill(&script), 2);
            held.release();
        });
    });
}

#[test]
fn a_cancelled_sender_gets_its_message_back_and_leaves_no_gap() {
    everywhere(|rt, _| {
        rt.run(|| {
            let counts = Counts::default();
            let script = spawn::<Waits<1>>(&Log::default());
            let held = script.hold();
            assert_eq!(fill(&script), 1);
            let sender = |asks: bool| {
                let (script, counted) = (script.clone(), counts.make());
                sinew::spawn(move || match asks {
                    true => assert_eq!(script.ask(counted).err(), Some(AskError::Cancelled)),
                    false => assert_eq!(script.tell(counted).unwrap_err().reason(), &Reason::Cancelled),
                })
            };
            let senders = [sender(true), sender(false), sender(false)];
            sinew::yield_now();
            for sender in senders {
                sender.fibre().cancel();
                sender.join().unwrap();
            }
            assert_eq!(counts.left(), 0);
            held.release();
            wait_until(|| script.is_idle());
            let held = script.hold();
            assert_eq!(fill(&script), 1);
            held.release();
        });
    });
}

#[test]
fn senders_that_wait_for_room_get_their_messages_back_when_the_actor_ends() {
    everywhere(|rt, _| {
        rt.run(|| {
            for way in ["kill", "stop", "panic"] {
                let counts = Counts::default();
                let script = spawn::<Waits<1>>(&Log::default());
                let (gate, begun) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
                let (opens, begins) = (Arc::clone(&gate), Arc::clone(&begun));
                script.tells(move |_, _| {
                    begins.post(1);
                    opens.wait();
                    assert_ne!(way, "panic", "as it should");
                });
                begun.wait();
                assert_eq!(fill(&script), 1);
                let senders: Vec<_> = (0..6)
                    .map(|number| {
                        let (script, counted) = (script.clone(), counts.make());
                        sinew::spawn(move || match number % 3 {
                            0 => script.ask(counted).map(drop).err(),
                            1 => script.tell(counted).err().map(|error| error.reason().clone().into()),
                            _ => {
                                let told = async move { script.tell_async(counted).await };
                                task::spawn(told).join().unwrap().err().map(|error| error.reason().clone().into())
                            }
                        })
                    })
                    .collect();
                wait_until(|| counts.made() == 6);
                (0..10).for_each(|_| sinew::yield_now());
                match way {
                    "kill" => script.kill(),
                    "stop" => script.stop(),
                    _ => {}
                }
                gate.post(1);
                for sender in senders {
                    assert_eq!(sender.join().unwrap(), Some(AskError::Stopped), "{way}");
                }
                script.join();
                assert_eq!(counts.left(), 0);
            }
        });
    });
}

/// Two actors whose mailboxes are full send to each other.
#[test]
fn a_cycle_of_waits_for_room_is_an_error_that_names_the_actors() {
    everywhere(|rt, _| {
        rt.run(|| {
            let pair = [(); 2].map(|()| spawn::<Waits<1>>(&Log::default()));
            let (inside, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
            let cycles = Arc::new(AtomicUsize::new(0));
            for number in 0..2 {
                let other = pair[1 - number].clone();
                let (inside, done, cycles) = (Arc::clone(&inside), Arc::clone(&done), Arc::clone(&cycles));
                pair[number].tells(move |_, _| {
                    inside.fetch_add(1, SeqCst);
                    wait_until(|| inside.load(SeqCst) == 3);
                    match other.tell(Note("more")).map_err(|error| error.reason().clone()) {
                        Ok(()) => {}
                        Err(Reason::Cycle(actors)) => {
                            assert_eq!(actors.len(), 2);
                            cycles.fetch_add(1, SeqCst);
                        }
                        Err(reason) => panic!("{reason}"),
                    }
                    done.post(1);
                });
            }
            wait_until(|| inside.load(SeqCst) == 2);
            pair.iter().for_each(|script| assert_eq!(fill(script), 1));
            inside.fetch_add(1, SeqCst);
            (0..2).for_each(|_| done.wait());
            // Both may find the cycle at the same time.
            assert!(cycles.load(SeqCst) >= 1);
            pair.iter().for_each(|script| assert_eq!(script.asks(|_, _| 1), Ok(1)));
        });
    });
}

/// The actor waits for room first, and for the answer after that: the second wait is part of a cycle, too.
#[test]
fn a_question_by_ask_with_that_has_waited_for_room_can_be_part_of_a_cycle() {
    everywhere(|rt, _| {
        rt.run(|| {
            let [asker, asked] = [(); 2].map(|()| spawn::<Waits<2>>(&Log::default()));
            let held = asked.hold();
            assert_eq!(fill(&asked), 2);
            let (back, there, begun) = (asker.clone(), asked.clone(), Arc::new(AtomicBool::new(false)));
            let begins = Arc::clone(&begun);
            let answer = sinew::spawn(move || {
                asker.asks(move |_, _| {
                    begins.store(true, SeqCst);
                    there.ask_with(|replier: Replier<Result<u32, AskError>>| {
                        let doing = move |_: &mut Script<Waits<2>>, _: &mut Context<'_, Script<Waits<2>>>| {
                            drop(replier.answer(back.asks(|_, _| 1)));
                        };
                        Call::<_, ()>(Box::new(doing))
                    })
                })
            });
            wait_until(|| begun.load(SeqCst));
            // It is likely to wait for room by now.
            (0..10).for_each(|_| sinew::yield_now());
            held.release();
            let answer = answer.join().unwrap();
            assert!(matches!(answer, Ok(Ok(Err(AskError::Cycle(_))))), "{answer:?}");
        });
    });
}

#[test]
fn the_message_of_ask_with_may_be_answered_before_there_is_room_for_it() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let script = spawn::<Waits<1>>(&log);
            let held = script.hold();
            assert_eq!(fill(&script), 1);
            let (there, answered) = (script.clone(), Arc::new(AtomicBool::new(false)));
            let answers = Arc::clone(&answered);
            let asker = sinew::spawn(move || {
                there.ask_with(|replier| {
                    assert_eq!(replier.answer(7), Ok(()));
                    answers.store(true, SeqCst);
                    Note("answered")
                })
            });
            wait_until(|| answered.load(SeqCst));
            (0..10).for_each(|_| sinew::yield_now());
            assert!(!log.has("answered"));
            held.release();
            assert_eq!(asker.join().unwrap(), Ok(7));
            script.stop();
            script.join();
            assert_eq!(log.take(), ["started", "fills", "answered", "stopped: stopped"]);
        });
    });
}

#[test]
fn the_oldest_messages_are_dropped_and_their_askers_are_told() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (log, counts) = (Log::default(), Counts::default());
            let script = spawn::<DropsOldest<3>>(&log);
            let held = script.hold();
            let asker = sinew::spawn({
                let (script, counted) = (script.clone(), counts.make());
                move || script.ask(counted).err()
            });
            let task = task::spawn({
                let (script, counted) = (script.clone(), counts.make());
                async move { script.ask_async(counted).await.err() }
            });
            let mut last = 0;
            while last < 10 || !asker.is_finished() || !task.is_finished() {
                last += 1;
                script.tells(note(&log, last));
                sinew::sleep(Duration::from_micros(10));
            }
            assert_eq!(asker.join().unwrap(), Some(AskError::Full));
            assert_eq!(task.join().unwrap(), Some(AskError::Full));
            assert_eq!(counts.left(), 0);
            held.release();
            script.stop();
            script.join();
            let [first, second, third] = [last - 2, last - 1, last].map(|number| number.to_string());
            assert_eq!(log.take(), ["started", &first, &second, &third, "stopped: stopped"]);
        });
    });
}

#[test]
fn stop_lets_an_actor_that_drops_the_oldest_handle_all_that_waits() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let script = spawn::<DropsOldest<3>>(&log);
            let held = script.hold();
            (0..4).for_each(|number| script.tells(note(&log, number)));
            let asker = sinew::spawn({
                let script = script.clone();
                move || script.asks(|_, _| 5)
            });
            (0..10).for_each(|_| sinew::yield_now());
            script.stop();
            assert_eq!(script.tell(Note("late")).unwrap_err().reason(), &Reason::Stopped);
            held.release();
            assert!(matches!(asker.join().unwrap(), Ok(5) | Err(AskError::Stopped)));
            assert!(matches!(script.join(), End::Stopped));
            let notes = log.take();
            assert!(notes.ends_with(&["2".into(), "3".into(), "stopped: stopped".into()]), "{notes:?}");
        });
    });
}

#[test]
fn an_actor_that_drops_the_oldest_and_fails_while_it_stops_handles_the_rest_after_its_restart() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let its = log.clone();
            let make = move || Script::<DropsOldest<3>>::new(&its);
            let script = actor::supervised(actor::Restart::limit(2, LONG), make);
            let held = script.hold();
            script.tells(|_, _| panic!("as it should"));
            script.tells(note(&log, 1));
            script.tells(note(&log, 2));
            script.stop();
            held.release();
            assert!(matches!(script.join(), End::Stopped));
            let failed = "stopped: failed: panicked: as it should";
            assert_eq!(log.take(), ["started", failed, "started", "1", "2", "stopped: stopped"]);
        });
    });
}

#[test]
fn the_bound_of_an_actor_that_drops_the_oldest_holds_among_many_senders() {
    in_few(|rt, _| {
        let (counts, log) = (Counts::default(), Log::default());
        let script = actor::Builder::new().cluster(rt.main_cluster()).spawn(Script::<DropsOldest<8>>::new(&log));
        let answered = fixture::on_fibres_and_threads(rt, 4, 2, |_| {
            let mut answered = 0;
            for number in 0..200 {
                match number % 10 {
                    0 => match script.ask(counts.make()) {
                        Ok(_) => answered += 1,
                        Err(error) => assert_eq!(error, AskError::Full),
                    },
                    _ => script.tell(counts.make()).unwrap(),
                }
            }
            answered
        });
        script.stop();
        script.join();
        assert_eq!((counts.made(), counts.left()), (1200, 0));
        assert!(log.len() >= answered.into_iter().sum::<usize>() + 2);
    });
}

/// A message whose drop panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "as it should");
    }
}

impl<S: Style> actor::Handle<Bomb> for Script<S> {
    type Reply = ();

    fn handle(&mut self, bomb: Bomb, _: &mut Context<'_, Self>) {
        std::mem::forget(bomb);
    }
}

#[test]
fn a_message_whose_drop_panics_keeps_no_other_asker_waiting_when_the_actor_ends() {
    fn kill<S: Style>() {
        let counts = Counts::default();
        let script = spawn::<S>(&Log::default());
        let held = script.hold();
        script.tell(Bomb).unwrap();
        let asker = sinew::spawn({
            let (script, counted) = (script.clone(), counts.make());
            move || script.ask(counted).err()
        });
        wait_until(|| counts.made() == 1);
        (0..10).for_each(|_| sinew::yield_now());
        script.kill();
        held.release();
        assert_eq!(asker.join().unwrap(), Some(AskError::Stopped));
        assert!(matches!(script.join(), End::Killed));
        assert_eq!(counts.left(), 0);
    }
    everywhere(|rt, _| {
        rt.run(|| {
            kill::<Plain>();
            kill::<DropsOldest<4>>();
            kill::<Waits<4>>();
        });
    });
}

#[test]
fn a_sender_in_a_task_that_waits_for_room_can_be_aborted() {
    everywhere(|rt, _| {
        rt.run(|| {
            let counts = Counts::default();
            let script = spawn::<Waits<1>>(&Log::default());
            let held = script.hold();
            assert_eq!(fill(&script), 1);
            let (there, counted) = (script.clone(), counts.make());
            let task = task::spawn(async move { there.tell_async(counted).await.is_ok() });
            assert!(task::spawn(async { time::timeout_async(MS, std::future::pending::<()>()).await }).join().is_ok());
            task.abort();
            assert!(task.join().unwrap_err().is_aborted());
            assert_eq!(counts.left(), 0);
            held.release();
            wait_until(|| script.is_idle());
            let held = script.hold();
            assert_eq!(fill(&script), 1);
            held.release();
        });
    });
}
