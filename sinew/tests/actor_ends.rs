//! How actors end: by stop, kill, abandonment, and with their runtime.

#[path = "fixture/actors.rs"]
mod actors;
mod fixture;

use actors::{Call, Calls, Counts, Log, Note, Plain, Quick, Script, by_the_clock, everywhere, in_few};
use fixture::loopback::pair;
use fixture::{LONG, SOON, Setup, alone, everywhere_owning, happens_within, wait_until};
use sinew::actor::{self, Address, AskError, Context, End, Reason, WeakAddress};
use sinew::sync::{Mutex, Semaphore};
use sinew::{Leftovers, Runtime, task, time};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn spawn(log: &Log) -> Address<Script> {
    actor::spawn(Script::new(log))
}

#[test]
fn stop_lets_waiting_messages_be_handled_and_gives_later_ones_back() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (log, counts) = (Log::default(), Counts::default());
            let script = spawn(&log);
            let held = script.hold();
            script.tell(Note("one")).unwrap();
            let asker = sinew::spawn({
                let (script, counted) = (script.clone(), counts.make());
                move || script.ask(counted).is_ok()
            });
            // It is the only one that makes a value. Its question may still come too late.
            (0..10).for_each(|_| sinew::yield_now());
            script.stop();
            script.stop();
            let refused = script.tell(Note("late")).unwrap_err();
            assert_eq!((refused.reason(), refused.to_string().is_empty()), (&Reason::Stopped, false));
            assert_eq!(refused.into_message().0, "late");
            assert_eq!(script.ask(counts.make()).err(), Some(AskError::Stopped));
            assert!(script.is_alive() && script.join_timeout(Duration::ZERO).is_none());
            held.release();
            asker.join().unwrap();
            assert!(matches!(script.join(), End::Stopped));
            assert!(!script.is_alive());
            wait_until(|| script.is_idle());
            assert_eq!(counts.left(), 0);
            let notes = log.take();
            assert_eq!((&notes[1][..], &notes[notes.len() - 1][..]), ("one", "stopped: stopped"));
        });
    });
}

#[test]
fn kill_drops_the_messages_that_wait_and_tells_their_askers() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (log, counts) = (Log::default(), Counts::default());
            let script = spawn(&log);
            let kept = counts.make();
            script.tells(move |script, _| script.kept.push(Box::new(kept)));
            let held = script.hold();
            (0..50).for_each(|_| script.tell(counts.make()).unwrap());
            let askers: Vec<_> = (0..5)
                .map(|_| {
                    let (script, counted) = (script.clone(), counts.make());
                    sinew::spawn(move || script.ask(counted).err())
                })
                .collect();
            (0..10).for_each(|_| sinew::yield_now());
            script.kill();
            script.kill();
            assert_eq!(script.tell(Note("late")).unwrap_err().reason(), &Reason::Stopped);
            held.release();
            for asker in askers {
                assert_eq!(asker.join().unwrap(), Some(AskError::Stopped));
            }
            assert!(matches!(script.join(), End::Killed));
            assert_eq!(log.take(), ["started", "stopped: killed"]);
            assert_eq!((counts.made(), counts.left()), (56, 0));
        });
    });
}

#[test]
fn an_idle_actor_can_be_stopped_and_killed() {
    everywhere(|rt, _| {
        rt.run(|| {
            for quick in [false, true] {
                for kills in [false, true] {
                    let log = Log::default();
                    let (plain, fast) = (spawn(&log), actor::spawn(Script::<Quick>::new(&log)));
                    wait_until(|| plain.is_idle() && fast.is_idle());
                    let end = match (quick, kills) {
                        (false, false) => (plain.stop(), plain.join()).1,
                        (false, true) => (plain.kill(), plain.join()).1,
                        (true, false) => (fast.stop(), fast.join()).1,
                        (true, true) => (fast.kill(), fast.join()).1,
                    };
                    assert!(matches!((kills, end), (false, End::Stopped) | (true, End::Killed)));
                }
            }
        });
    });
}

#[test]
fn a_kill_comes_before_a_stop_that_has_not_been_carried_out_and_not_after() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let script = spawn(&log);
            let held = script.hold();
            script.tell(Note("waits")).unwrap();
            script.stop();
            script.kill();
            held.release();
            assert!(matches!(script.join(), End::Killed));
            assert!(!log.has("waits"));
            let script = spawn(&log);
            script.stop();
            assert!(matches!(script.join(), End::Stopped));
            script.kill();
            assert!(matches!(script.join(), End::Stopped), "the end changed");
        });
    });
}

#[test]
fn an_actor_may_stop_and_kill_itself() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let script = spawn(&log);
            script.tells(|_, cx| {
                cx.tell_self(Note("waits"));
                cx.stop();
                cx.tell_self(Note("late"));
            });
            assert!(matches!(script.join(), End::Stopped));
            assert_eq!(log.take(), ["started", "waits", "stopped: stopped"]);
            let script = spawn(&log);
            script.tells(|script, cx| {
                cx.tell_self(Note("waits"));
                cx.address().kill();
                // The handler runs to its end, but blocks no more.
                script.log.note(format!("{:?}", time::try_sleep(LONG)));
            });
            assert!(matches!(script.join(), End::Killed));
            assert_eq!(log.take(), ["started", "Err(Requested)", "stopped: killed"]);
        });
    });
}

/// Kills an actor that blocks in `block`, which notes how that ended.
fn kill_blocked(block: impl FnOnce(&mut Script, &Semaphore) -> String + Send + 'static) -> String {
    let (log, begun) = (Log::default(), Arc::new(Semaphore::new(0)));
    let script = spawn(&log);
    let begins = Arc::clone(&begun);
    script.tells(move |script, _| {
        let ended = block(script, &begins);
        script.log.note(ended);
    });
    begun.wait();
    fixture::let_others_wait();
    script.kill();
    assert!(matches!(script.join(), End::Killed));
    log.take().swap_remove(1)
}

#[test]
fn a_kill_ends_a_sleep_a_lock_a_read_a_question_and_a_wait_for_room() {
    everywhere(|rt, setup| {
        if setup.processors == 4 {
            return;
        }
        rt.run(|| {
            let slept = kill_blocked(|_, begun| {
                begun.post(1);
                format!("{:?}", time::try_sleep(LONG))
            });
            assert_eq!(slept, "Err(Requested)");
            let acquired = kill_blocked(|_, begun| {
                begun.post(1);
                format!("{:?}", Semaphore::new(0).acquire().is_err())
            });
            assert_eq!(acquired, "true");
            let (mut here, _there) = pair();
            let read = kill_blocked(move |_, begun| {
                begun.post(1);
                format!("{:?}", here.read(&mut [0]).is_err())
            });
            assert_eq!(read, "true");
            let other = spawn(&Log::default());
            let held = other.hold();
            let there = other.clone();
            let asked = kill_blocked(move |_, begun| {
                begun.post(1);
                format!("{:?}", there.asks(|_, _| ()))
            });
            assert_eq!(asked, "Err(Cancelled)");
            held.release();
            let full = actor::spawn(Script::<actors::Waits<1>>::new(&Log::default()));
            let held = full.hold();
            full.tell(Note("fills")).unwrap();
            let there = full.clone();
            let told = kill_blocked(move |_, begun| {
                begun.post(1);
                format!("{:?}", there.tell(Note("waits")).map_err(|error| error.reason().clone()))
            });
            assert_eq!(told, "Err(Cancelled)");
            held.release();
        });
    });
}

/// A carrier that was cancelled with its handler does not cancel the handlers of other actors.
#[test]
fn a_kill_cancels_no_other_actor() {
    everywhere(|rt, _| {
        rt.run(|| {
            let others: Vec<_> = (0..4).map(|_| spawn(&Log::default())).collect();
            let cancelled = Arc::new(AtomicUsize::new(0));
            for _ in 0..20 {
                let victim = spawn(&Log::default());
                let (begun, go) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
                let (begins, goes) = (Arc::clone(&begun), Arc::clone(&go));
                victim.tells(move |_, _| {
                    begins.post(1);
                    while !goes.load(SeqCst) && time::try_sleep(Duration::from_micros(1)).is_ok() {}
                });
                for other in &others {
                    let cancelled = Arc::clone(&cancelled);
                    other.tells(move |_, _| {
                        if time::try_sleep(Duration::from_micros(1)).is_err() {
                            cancelled.fetch_add(1, SeqCst);
                        }
                    });
                }
                begun.wait();
                go.store(true, SeqCst);
                victim.kill();
                for other in &others {
                    assert_eq!(other.asks(|_, _| time::try_sleep(Duration::from_micros(1))), Ok(Ok(())));
                }
                victim.join();
            }
            assert_eq!(cancelled.load(SeqCst), 0);
        });
    });
}

#[test]
fn kills_at_any_moment_end_an_actor_that_blocks_again_and_again() {
    in_few(|rt, setup| {
        rt.run(|| {
            let mut random = fixture::Random::new(0x5eed_a001 + setup.processors as u64);
            let counts = Counts::default();
            for _ in 0..100 {
                let script = spawn(&Log::default());
                for _ in 0..20 {
                    let counted = counts.make();
                    script.tells(move |_, _| {
                        let _counted = counted;
                        let _ = time::try_sleep(Duration::from_micros(5));
                    });
                }
                (0..random.below(40)).for_each(|_| sinew::yield_now());
                script.kill();
                assert!(matches!(script.join(), End::Killed));
            }
            assert_eq!(counts.left(), 0);
        });
    });
}

#[test]
fn the_last_address_ends_an_actor_when_it_is_idle_and_when_it_is_active() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (log, counts) = (Log::default(), Counts::default());
            let script = spawn(&log);
            let kept = counts.make();
            script.tells(move |script, _| script.kept.push(Box::new(kept)));
            wait_until(|| script.is_idle());
            drop(script);
            wait_until(|| counts.left() == 0);
            assert_eq!(log.take(), ["started", "stopped: no address was left"]);
            // A message that was sent before is handled, and one that it sends to itself.
            let script = spawn(&log);
            let held = script.hold();
            script.tells(|_, cx| cx.tell_self(Note("self")));
            drop(script);
            held.release();
            wait_until(|| log.len() == 3);
            assert_eq!(log.take(), ["started", "self", "stopped: no address was left"]);
        });
    });
}

#[test]
fn an_actor_without_addresses_lives_on_if_its_handler_gives_one_away() {
    everywhere(|rt, _| {
        rt.run(|| {
            for idles in [false, true] {
                let (log, given) = (Log::default(), Arc::new(Mutex::new(None)));
                let script = spawn(&log);
                let held = script.hold();
                let gives = Arc::clone(&given);
                script.tells(move |_, cx| *gives.lock().unwrap() = Some(cx.address()));
                drop(script);
                held.release();
                wait_until(|| given.lock().unwrap().is_some());
                let script: Address<Script> = given.lock().unwrap().take().unwrap();
                if idles {
                    wait_until(|| script.is_idle());
                }
                assert_eq!(script.asks(|_, _| 1), Ok(1));
                assert_eq!(log.take(), ["started"]);
                let weak = script.downgrade();
                drop(script);
                wait_until(|| log.len() == 1);
                wait_until(|| weak.upgrade().is_none());
                assert_eq!(log.take(), ["stopped: no address was left"]);
            }
        });
    });
}

/// Addresses are dropped, made anew by the handler, upgraded, and used, all at the same time.
#[test]
fn addresses_that_come_and_go_at_the_same_time_never_lose_a_message_or_end_an_actor_early() {
    in_few(|rt, _| {
        rt.run(|| {
            for _ in 0..150 {
                let (log, counts) = (Log::default(), Counts::default());
                let script = spawn(&log);
                let weak = script.downgrade();
                let (passed, told) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
                let passes = Arc::clone(&passed);
                script.tells(move |_, cx| *passes.lock().unwrap() = Some(cx.address()));
                sinew::scope(|scope| {
                    let upgrade = |weak: WeakAddress<Script>| {
                        let (told, counts) = (&told, &counts);
                        move || {
                            while let Some(address) = weak.upgrade() {
                                if address.tell(counts.make()).is_ok() {
                                    told.fetch_add(1, SeqCst);
                                }
                                drop(address);
                                sinew::yield_now();
                                if told.load(SeqCst) > 20 {
                                    break;
                                }
                            }
                        }
                    };
                    scope.spawn(upgrade(weak.clone()));
                    scope.spawn(upgrade(weak.clone()));
                    scope.spawn(move || drop(script));
                });
                wait_until(|| passed.lock().unwrap().is_some());
                drop(passed.lock().unwrap().take());
                wait_until(|| log.has("stopped: no address was left"));
                wait_until(|| weak.upgrade().is_none());
                assert_eq!(counts.left(), 0);
                assert_eq!(log.len(), 2 + told.load(SeqCst), "a message was lost");
            }
        });
    });
}

#[test]
fn join_returns_the_end_before_during_and_after_it() {
    everywhere(|rt, _| {
        let script = actor::Builder::new().cluster(rt.main_cluster()).spawn(Script::<Plain>::new(&Log::default()));
        assert!(script.join_timeout(Duration::ZERO).is_none());
        assert!(script.join_timeout(MS).is_none());
        let (fibre, thread, task) = (script.clone(), script.clone(), script.clone());
        let fibre = rt.spawn(move || fibre.join());
        let thread = std::thread::spawn(move || thread.join());
        let task = rt.spawn_task(async move { task.join_async().await });
        let held = script.hold();
        script.stop();
        held.release();
        let ends = [fibre.join().unwrap(), thread.join().unwrap(), task.join().unwrap(), script.join()];
        assert!(ends.iter().all(|end| matches!(end, End::Stopped)), "{ends:?}");
        assert!(matches!(script.join_timeout(LONG), Some(End::Stopped)));
        let late = script.clone();
        assert!(matches!(rt.spawn_task(async move { late.join_async().await }).join().unwrap(), End::Stopped));
    });
}

#[test]
fn a_join_may_come_at_any_moment_of_the_end() {
    in_few(|rt, _| {
        rt.run(|| {
            for _ in 0..300 {
                let script = actor::spawn(Script::<Quick>::new(&Log::default()));
                let joiner = sinew::spawn({
                    let script = script.clone();
                    move || script.join()
                });
                script.stop();
                assert!(matches!(script.join(), End::Stopped));
                assert!(matches!(joiner.join().unwrap(), End::Stopped));
            }
        });
    });
}

#[test]
fn a_runtime_with_idle_actors_ends_and_their_values_are_dropped_with_their_addresses() {
    everywhere_owning(|rt, _| {
        let (log, counts) = (Log::default(), Counts::default());
        let actors: Vec<_> = (0..10)
            .map(|_| {
                let script = actor::Builder::new().cluster(rt.main_cluster()).spawn(Script::<Plain>::new(&log));
                let kept = counts.make();
                script
                    .asks(move |script, cx| {
                        script.kept.push(Box::new(kept));
                        // Neither a weak address nor a timer keeps the runtime.
                        script.kept.push(Box::new(cx.address().downgrade()));
                        drop(cx.every(LONG, Note("tick")));
                    })
                    .unwrap();
                script
            })
            .collect();
        wait_until(|| actors.iter().all(Address::is_idle));
        let weak = actors[0].downgrade();
        drop(rt);
        assert_eq!(counts.left(), 10);
        for actor in &actors {
            let refused = actor.tell(Note("late")).unwrap_err();
            assert_eq!(refused.reason(), &Reason::Ended);
            assert_eq!(refused.into_message(), Note("late"));
            assert_eq!(actor.ask(Note("late")), Err(AskError::Ended));
            assert_eq!(actor.recipient().tell(Note("late")).unwrap_err().reason(), &Reason::Ended);
            drop(actor.tell_after(Duration::ZERO, Note("late")));
            actor.stop();
            actor.kill();
        }
        drop(actors);
        assert_eq!(counts.left(), 0);
        assert!(weak.upgrade().is_none());
    });
}

/// The runtime waits for messages, and for the actors that they make active.
#[test]
fn a_runtime_ends_after_all_messages_have_been_handled() {
    everywhere_owning(|rt, _| {
        let (log, over) = (Log::default(), Arc::new(AtomicUsize::new(0)));
        let scripts: Vec<_> = (0..4)
            .map(|_| actor::Builder::new().cluster(rt.main_cluster()).spawn(Script::<Plain>::new(&log)))
            .collect();
        for round in 0..20 {
            let (next, over) = (scripts[(round + 1) % 4].clone(), Arc::clone(&over));
            scripts[round % 4].tells(move |_, _| {
                sinew::sleep(Duration::from_micros(50));
                let over = Arc::clone(&over);
                // This is sent by a strand of the runtime, which may have begun to end.
                next.tells(move |_, _| {
                    over.fetch_add(1, SeqCst);
                });
            });
        }
        drop(rt);
        assert_eq!(over.load(SeqCst), 20);
        drop(scripts);
    });
}

/// Nobody can run it any more, not even to end it.
#[test]
fn an_idle_actor_whose_runtime_has_ended_stays_as_it_is() {
    everywhere_owning(|rt, _| {
        let log = Log::default();
        let script = actor::Builder::new().cluster(rt.main_cluster()).spawn(Script::<Plain>::new(&log));
        script.asks(|_, _| ()).unwrap();
        wait_until(|| script.is_idle());
        drop(rt);
        script.stop();
        assert!(script.join_timeout(MS).is_none() && script.is_alive());
        assert_eq!(script.tell(Note("late")).unwrap_err().reason(), &Reason::Stopped);
        drop(script);
        assert_eq!(log.take(), ["started"]);
    });
}

fn cancelling(setup: Setup) -> Runtime {
    setup.builder().leftovers(Leftovers::Cancel(LONG)).build().unwrap()
}

#[test]
fn leftover_actors_that_block_are_cancelled_with_their_runtime() {
    alone(|| {
        for setup in Setup::all() {
            let rt = cancelling(setup);
            let (log, counts) = (Log::default(), Counts::default());
            let blocked: Vec<_> = (0..10)
                .map(|_| {
                    let script = actor::Builder::new().cluster(rt.main_cluster()).spawn(Script::<Plain>::new(&log));
                    let counted = counts.make();
                    script.tells(move |script, _| {
                        let _counted = counted;
                        script.log.note("begun");
                        while time::try_sleep(LONG).is_ok() {}
                    });
                    script.tell(Note("after")).unwrap();
                    script
                })
                .collect();
            wait_until(|| log.len() == 20);
            drop(rt);
            assert_eq!(counts.left(), 0);
            assert_eq!(log.take().iter().filter(|note| *note == "after").count(), 10);
            drop(blocked);
        }
    });
}

#[test]
fn an_actor_that_fails_again_and_again_does_not_keep_a_runtime_that_cancels() {
    alone(|| {
        for setup in Setup::all() {
            let rt = cancelling(setup);
            let tries = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&tries);
            let make = move || {
                assert_eq!(counter.fetch_add(1, SeqCst), 0, "it cannot be made again");
                Script::<Plain>::new(&Log::default())
            };
            let restart = actor::Restart::always().back_off(LONG, LONG);
            let script = actor::Builder::new().cluster(rt.main_cluster()).supervised(restart, make);
            script.tells(|_, _| panic!("as it should"));
            wait_until(|| !script.is_idle() && rt.live_strands() == 1);
            drop(rt);
            assert!(happens_within(SOON, || !script.is_alive()), "it goes on");
            assert!(tries.load(SeqCst) <= 2);
        }
    });
}

#[test]
fn a_kill_ends_a_back_off() {
    by_the_clock(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let its = log.clone();
            let restart = actor::Restart::always().back_off(LONG, LONG);
            let script = actor::supervised(restart, move || Script::<Plain>::new(&its));
            script.tells(|_, _| panic!("as it should"));
            wait_until(|| log.len() == 2);
            script.tell(Note("kept")).unwrap();
            script.kill();
            assert!(matches!(script.join(), End::Killed));
            // By a clock that jumps, the actor may have been restarted first.
            assert!(matches!(log.len(), 2..=5));
        });
    });
}

/// 100,000 actors come and go. The fixture sees that none is left.
#[test]
fn nothing_is_left_of_many_actors() {
    let one = Setup::all().filter(|setup| setup.migrating && setup.processors == 2).take(1);
    fixture::in_set_ups(one, |rt, _| {
        let counts = Counts::default();
        rt.run(|| {
            struct Small(#[allow(dead_code)] actors::Counted);
            impl actor::Actor for Small {}
            impl actor::Handle<u32> for Small {
                type Reply = u32;
                fn handle(&mut self, number: u32, cx: &mut Context<'_, Self>) -> u32 {
                    if number == 1 {
                        cx.stop();
                    }
                    number
                }
            }
            for round in 0..100 {
                let actors: Vec<_> = (0..1000).map(|_| actor::spawn(Small(counts.make()))).collect();
                for (number, actor) in actors.iter().enumerate() {
                    match number % 4 {
                        0 => actor.tell(1).unwrap(),
                        1 => actor.kill(),
                        2 => actor.stop(),
                        _ => actor.tell(0).unwrap(),
                    }
                }
                drop(actors);
                wait_until(|| counts.left() < 5000 || round < 5);
            }
            wait_until(|| counts.left() == 0);
        });
        assert_eq!(counts.dropped(), 100_000);
    });
}

#[test]
fn nothing_is_left_of_a_million_letters() {
    let one = Setup::all().filter(|setup| setup.migrating && setup.processors == 2).take(1);
    fixture::in_set_ups(one, |rt, _| {
        let (counts, handled) = (Counts::default(), Arc::new(AtomicUsize::new(0)));
        rt.run(|| {
            struct Sink(Arc<AtomicUsize>);
            impl actor::Actor for Sink {}
            impl actor::Handle<actors::Counted> for Sink {
                type Reply = ();
                fn handle(&mut self, _: actors::Counted, _: &mut Context<'_, Self>) {
                    self.0.fetch_add(1, SeqCst);
                }
            }
            let sink = actor::spawn(Sink(Arc::clone(&handled)));
            sinew::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..250_000).for_each(|_| sink.tell(counts.make()).unwrap()));
                }
            });
            sink.stop();
            assert!(matches!(sink.join(), End::Stopped));
        });
        assert_eq!((handled.load(SeqCst), counts.dropped()), (1_000_000, 1_000_000));
    });
}

/// A future that waits for the end may be dropped.
#[test]
fn a_join_in_a_task_may_be_given_up() {
    everywhere(|rt, _| {
        rt.run(|| {
            let script = spawn(&Log::default());
            let there = script.clone();
            let task = task::spawn(async move { fixture::within_turns(3, there.join_async()).await.is_none() });
            assert!(task.join().unwrap());
            assert_eq!(script.ask(Call(Box::new(|_: &mut Script, _: &mut Context<'_, Script>| 1))), Ok(1));
            script.stop();
            script.join();
        });
    });
}
