//! Actors: messages, order, replies, deadlines, and actors whose handlers do not block.

#[path = "fixture/actors.rs"]
mod actors;
mod fixture;

use actors::{Call, Calls, Counted, Counts, Log, Note, Plain, Quick, Script, by_the_clock, everywhere, in_few};
use fixture::loopback::pair;
use fixture::{LONG, message, spin_until, wait_until};
use sinew::actor::{self, Actor, AskError, Context, End, Handle, Replier};
use sinew::sync::Semaphore;
use sinew::{task, time};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

#[derive(Default)]
struct Account {
    balance: u64,
}

struct Deposit(u64);

impl Actor for Account {}

impl Handle<Deposit> for Account {
    type Reply = u64;

    fn handle(&mut self, deposit: Deposit, _: &mut Context<'_, Self>) -> u64 {
        self.balance += deposit.0;
        self.balance
    }
}

#[test]
fn messages_are_handled_in_order_and_replies_come_back() {
    everywhere(|rt, _| {
        rt.run(|| {
            let account = actor::spawn(Account::default());
            (1..=100).for_each(|amount| account.tell(Deposit(amount)).unwrap());
            assert_eq!(account.ask(Deposit(0)), Ok(5050));
            let task = task::spawn({
                let account = account.clone();
                async move { account.ask_async(Deposit(1)).await }
            });
            assert_eq!(task.join().unwrap(), Ok(5051));
        });
    });
}

/// Fails if a sender's messages come in another order.
#[derive(Default)]
struct Orders(Vec<u64>);

struct Numbered(usize, u64);

impl Actor for Orders {}

impl Handle<Numbered> for Orders {
    type Reply = u64;

    fn handle(&mut self, Numbered(sender, number): Numbered, _: &mut Context<'_, Self>) -> u64 {
        self.0.resize(self.0.len().max(sender + 1), 0);
        assert_eq!(self.0[sender], number, "a message of sender {sender} has overtaken another one");
        if number % 7 == 0 {
            sinew::yield_now();
        }
        self.0[sender] += 1;
        self.0.iter().sum()
    }
}

#[test]
fn messages_of_each_of_many_senders_are_handled_in_the_order_in_which_they_were_sent() {
    const EACH: u64 = 100;
    everywhere(|rt, _| {
        let orders = actor::Builder::new().cluster(rt.main_cluster()).spawn(Orders::default());
        let tasks: Vec<_> = (6..9)
            .map(|sender| {
                let orders = orders.clone();
                rt.spawn_task(async move {
                    for number in 0..EACH {
                        orders.tell_async(Numbered(sender, number)).await.unwrap();
                        if number % 10 == 0 {
                            task::yield_now_async().await;
                        }
                    }
                })
            })
            .collect();
        fixture::on_fibres_and_threads(rt, 4, 2, |sender| {
            for number in 0..EACH {
                match number % 9 {
                    // A question keeps its place among told messages.
                    0 => drop(orders.ask(Numbered(sender, number)).unwrap()),
                    _ => orders.tell(Numbered(sender, number)).unwrap(),
                }
            }
        });
        tasks.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(orders.ask(Numbered(9, 0)), Ok(9 * EACH + 1));
        assert!(orders.is_alive());
    });
}

#[test]
fn each_of_many_askers_gets_its_own_answer() {
    everywhere(|rt, _| {
        let double = actor::Builder::new().cluster(rt.main_cluster()).spawn(Script::<Plain>::new(&Log::default()));
        let tasks: Vec<_> = (1000..1010)
            .map(|number| {
                let double = double.clone();
                rt.spawn_task(async move {
                    let twice = move |_: &mut Script, _: &mut Context<'_, Script>| 2 * number;
                    assert_eq!(double.ask_async(Call(Box::new(twice))).await, Ok(2 * number));
                })
            })
            .collect();
        fixture::on_fibres_and_threads(rt, 4, 2, |asker| {
            for number in 0..20 {
                let expected = (asker, 2 * number);
                assert_eq!(double.asks(move |_, _| (asker, 2 * number)), Ok(expected));
            }
        });
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn messages_replies_and_values_are_dropped_exactly_once() {
    everywhere(|rt, _| {
        let counts = Counts::default();
        rt.run(|| {
            let script = actor::spawn(Script::<Plain>::new(&Log::default()));
            let kept = counts.make();
            script.tells(move |script, _| script.kept.push(Box::new(kept)));
            (0..10).for_each(|_| script.tell(counts.make()).unwrap());
            for _ in 0..10 {
                let reply = script.ask(counts.make()).unwrap();
                assert_eq!(counts.left(), 2, "a told reply was kept, or an asked one dropped");
                drop(reply);
            }
            let (task, its) = (script.clone(), counts.make());
            drop(task::spawn(async move { task.ask_async(its).await.unwrap() }).join().unwrap());
            assert_eq!(counts.left(), 1);
            drop(script);
            wait_until(|| counts.left() == 0);
        });
        assert_eq!(counts.dropped(), 22);
    });
}

/// Large and strictly aligned values go through blocks of other sizes.
#[test]
fn values_messages_and_replies_may_have_any_size_and_replies_any_alignment() {
    #[repr(align(256))]
    struct Aligned([u64; 40]);
    impl Actor for Aligned {}
    impl Handle<[u64; 1000]> for Aligned {
        type Reply = Aligned;
        fn handle(&mut self, numbers: [u64; 1000], _: &mut Context<'_, Self>) -> Aligned {
            assert!(std::ptr::from_ref(self).addr().is_multiple_of(256));
            Aligned([self.0[39] + numbers.iter().sum::<u64>(); 40])
        }
    }
    impl Handle<()> for Aligned {
        type Reply = ();
        fn handle(&mut self, (): (), _: &mut Context<'_, Self>) {}
    }
    everywhere(|rt, _| {
        rt.run(|| {
            let actor = actor::spawn(Aligned([1; 40]));
            assert!(actor.ask([2; 1000]).is_ok_and(|reply| reply.0 == [2001; 40]));
            assert_eq!(actor.ask(()), Ok(()));
        });
    });
}

struct Fetch(u32, Replier<u32>);

impl Handle<Fetch> for Script {
    type Reply = ();

    fn handle(&mut self, fetch: Fetch, _: &mut Context<'_, Self>) {
        self.log.note("fetch");
        self.kept.push(Box::new(fetch));
    }
}

/// Takes the questions that a script has kept.
fn fetches(script: &mut Script) -> Vec<Fetch> {
    script.kept.drain(..).filter_map(|kept| kept.downcast().ok()).map(|fetch| *fetch).collect()
}

#[test]
fn a_handler_may_keep_the_right_to_reply_and_answer_later_from_anywhere() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let script = actor::spawn(Script::<Plain>::new(&log));
            let askers: Vec<_> = (0..5)
                .map(|number| {
                    let script = script.clone();
                    sinew::spawn(move || script.ask_with(|replier| Fetch(number, replier)))
                })
                .collect();
            let outside = std::thread::spawn({
                let script = script.clone();
                move || script.ask_with(|replier| Fetch(5, replier))
            });
            wait_until(|| log.len() == 7);
            let kept = script.asks(|script, _| fetches(script)).unwrap();
            // The newest first, some by another kernel thread.
            let (here, there): (Vec<_>, Vec<_>) = kept.into_iter().rev().partition(|fetch| fetch.0 % 2 == 0);
            let answer = |fetches: Vec<Fetch>| fetches.into_iter().for_each(|f| f.1.answer(10 * f.0).unwrap());
            let thread = std::thread::spawn(move || answer(there));
            answer(here);
            for (number, asker) in askers.into_iter().enumerate() {
                assert_eq!(asker.join().unwrap(), Ok(10 * number as u32));
            }
            thread.join().unwrap();
            assert_eq!(outside.join().unwrap(), Ok(50));
        });
    });
}

#[test]
fn a_replier_that_is_dropped_is_an_error_for_its_asker() {
    everywhere(|rt, _| {
        rt.run(|| {
            let script = actor::spawn(Script::<Plain>::new(&Log::default()));
            let asker = sinew::spawn({
                let script = script.clone();
                move || script.ask_with(|replier| Fetch(1, replier))
            });
            wait_until(|| script.asks(|script, _| !script.kept.is_empty()).unwrap());
            script.tells(|script, _| drop(fetches(script)));
            assert_eq!(asker.join().unwrap(), Err(AskError::Unanswered));
            // Without a handler.
            assert_eq!(script.ask_with(|replier: Replier<()>| drop_all(replier)), Err(AskError::Unanswered));
            script.stop();
            script.join();
            assert_eq!(script.ask_with(|replier| Fetch(2, replier)), Err(AskError::Stopped));
        });
    });
}

/// Drops the replier, and returns a message all the same.
fn drop_all(replier: Replier<()>) -> Note {
    drop(replier);
    Note("nothing")
}

#[test]
fn the_message_of_ask_with_may_be_answered_before_it_is_sent() {
    everywhere(|rt, _| {
        rt.run(|| {
            let script = actor::spawn(Script::<Plain>::new(&Log::default()));
            let answered = |replier: Replier<u32>| {
                replier.answer(7).unwrap();
                Note("sent")
            };
            // So often that the asker's budget is spent now and then.
            for _ in 0..200 {
                assert_eq!(script.ask_with(answered), Ok(7));
            }
            let there = |replier: Replier<u32>| {
                std::thread::spawn(move || replier.answer(8)).join().unwrap().unwrap();
                Note("sent")
            };
            assert_eq!(script.ask_with(there), Ok(8));
        });
    });
}

#[test]
fn a_panic_of_the_function_that_makes_the_message_comes_to_the_asker() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let script = actor::spawn(Script::<Plain>::new(&log));
            let kept: Mutex<Option<Replier<Counted>>> = Mutex::new(None);
            let keep = |replier| -> Note {
                *kept.lock().unwrap() = Some(replier);
                panic!("as it should")
            };
            let panicked = catch_unwind(AssertUnwindSafe(|| script.ask_with(keep)));
            assert_eq!(message(&*panicked.unwrap_err()), "as it should");
            // The right to answer outlives its question.
            let (replier, counts) = (kept.into_inner().unwrap().unwrap(), Counts::default());
            assert!(replier.is_abandoned());
            assert!(replier.answer(counts.make()).is_err());
            assert_eq!(counts.left(), 0);
            assert_eq!(script.asks(|_, _| 1), Ok(1));
        });
    });
}

#[test]
fn a_reply_that_comes_too_late_is_dropped() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (counts, log) = (Counts::default(), Log::default());
            let script = actor::spawn(Script::<Plain>::new(&log));
            let gate = Arc::new(Semaphore::new(0));
            let (opens, reply) = (Arc::clone(&gate), counts.make());
            let late = move |script: &mut Script, _: &mut Context<'_, Script>| {
                script.log.note("begun");
                opens.wait();
                reply
            };
            assert_eq!(script.ask_timeout(MS, Call(Box::new(late))).err(), Some(AskError::TimedOut));
            gate.post(1);
            assert_eq!(script.asks(|_, _| 1), Ok(1));
            assert_eq!(counts.left(), 0);
            // The same by a replier.
            let asked = time::timeout(MS, || script.ask_with(|replier| Fetch(1, replier)));
            assert_eq!(asked, Err(AskError::TimedOut));
            let late = script.asks(|script, _| fetches(script).pop().unwrap()).unwrap();
            assert!(late.1.is_abandoned() && late.1.deadline().is_some());
            assert_eq!(late.1.answer(5), Err(5));
        });
    });
}

#[test]
fn a_question_whose_time_is_up_is_not_read_and_its_message_is_dropped() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (counts, log) = (Counts::default(), Log::default());
            let script = actor::spawn(Script::<Plain>::new(&log));
            let held = script.hold();
            assert_eq!(script.ask_timeout(MS, counts.make()).err(), Some(AskError::TimedOut));
            assert_eq!(script.ask_deadline(time::now(), counts.make()).err(), Some(AskError::TimedOut));
            let carried = time::timeout(MS, || script.ask(counts.make()));
            assert_eq!(carried.err(), Some(AskError::TimedOut));
            let asker = sinew::spawn({
                let (script, counted) = (script.clone(), counts.make());
                move || script.ask(counted).err()
            });
            wait_until(|| counts.made() == 4);
            asker.fibre().cancel();
            assert_eq!(asker.join().unwrap(), Some(AskError::Cancelled));
            // A future that is dropped.
            let (there, counted) = (script.clone(), counts.make());
            let task = task::spawn(async move {
                let asked = fixture::within_turns(3, there.ask_async(counted)).await;
                asked.is_none()
            });
            assert!(task.join().unwrap());
            // The question whose time was up before it was asked is none.
            assert_eq!(counts.left(), 4, "they are letters still");
            held.release();
            assert_eq!(script.asks(|_, _| 1), Ok(1));
            assert_eq!((counts.left(), log.take().len()), (0, 1), "one was read");
        });
    });
}

#[test]
fn the_handler_carries_the_deadline_of_its_asker_into_sleeps_sockets_and_other_questions() {
    by_the_clock(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let (script, other) = (actor::spawn(Script::<Plain>::new(&log)), actor::spawn(Script::<Plain>::new(&log)));
            let held = other.hold();
            let (mut here, _there) = pair();
            let nested = other.clone();
            let all = move |script: &mut Script, _: &mut Context<'_, Script>| {
                script.log.note(format!("{:?}", time::try_sleep(2 * HOUR)));
                script.log.note(format!("{}", here.read(&mut [0]).is_err()));
                script.log.note(format!("{:?}", nested.asks(|_, _| ())));
                script.log.note(format!("{:?}", nested.ask_timeout(2 * HOUR, Note("late"))));
            };
            let asked = script.ask_timeout(HOUR, Call(Box::new(all)));
            // Asker and handler are late at the same time.
            assert!(matches!(asked, Ok(()) | Err(AskError::TimedOut)), "{asked:?}");
            // The next message does not carry it.
            assert_eq!(script.asks(|_, _| time::try_sleep(Duration::from_micros(1))), Ok(Ok(())));
            held.release();
            assert_eq!(other.asks(|_, _| ()), Ok(()));
            let notes = log.take();
            assert_eq!(notes[2..], ["Err(Overdue)", "true", "Err(TimedOut)", "Err(TimedOut)"]);
        });
    });
}

#[test]
fn a_deadline_goes_through_a_chain_of_questions() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let chain: Vec<_> = (0..4).map(|_| actor::spawn(Script::<Plain>::new(&log))).collect();
            let [a, b, c, d] = <[_; 4]>::try_from(chain).ok().unwrap();
            let ask = move |_: &mut Script, _: &mut Context<'_, Script>| {
                b.asks(move |_, _| c.asks(move |_, _| d.asks(|_, _| time::try_sleep(LONG))))
            };
            let deadline = time::now() + MS;
            let asked = time::deadline(deadline, || a.ask(Call(Box::new(ask))));
            assert!(time::now() >= deadline);
            // Each of the four may be the first to notice.
            assert!(!matches!(asked, Ok(Ok(Ok(Ok(Ok(())))))), "{asked:?}");
        });
    });
}

#[test]
fn an_actor_cannot_be_asked_by_blocking_in_a_task() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (script, quick) = (
                actor::spawn(Script::<Plain>::new(&Log::default())),
                actor::spawn(Script::<Quick>::new(&Log::default())),
            );
            assert_eq!(quick.asks(|_, _| ()), Ok(()));
            let task = task::spawn(async move {
                let asked = [
                    catch_unwind(AssertUnwindSafe(|| drop(script.asks(|_, _| ())))),
                    catch_unwind(AssertUnwindSafe(|| drop(quick.asks(|_, _| ())))),
                    catch_unwind(AssertUnwindSafe(|| drop(script.ask_with(|replier| Fetch(1, replier))))),
                    catch_unwind(AssertUnwindSafe(|| drop(script.join()))),
                ];
                for asked in asked {
                    assert!(message(&*asked.unwrap_err()).contains("_async"));
                }
                let quick = quick.ask_async(Call(Box::new(|_: &mut Script<Quick>, _: &mut Context<'_, _>| 5))).await;
                (script.asks_nothing().await, quick)
            });
            assert_eq!(task.join().unwrap(), (Ok(()), Ok(5)));
        });
    });
}

/// Asks for nothing, for tasks.
trait AsksNothing {
    async fn asks_nothing(&self) -> Result<(), AskError>;
}

impl AsksNothing for actor::Address<Script> {
    async fn asks_nothing(&self) -> Result<(), AskError> {
        self.ask_async(Note("nothing")).await
    }
}

#[test]
fn a_panic_of_a_handler_comes_to_its_asker_as_an_error_and_ends_the_actor() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (log, counts) = (Log::default(), Counts::default());
            let script = actor::spawn(Script::<Plain>::new(&log));
            let kept = counts.make();
            script.tells(move |script, _| script.kept.push(Box::new(kept)));
            let held = script.hold();
            let counted = counts.make();
            let asker = sinew::spawn({
                let script = script.clone();
                move || script.asks(move |_, _| -> u32 { panic!("as it should {}", std::mem::size_of_val(&counted)) })
            });
            wait_until(|| counts.made() == 2);
            sinew::yield_now();
            held.release();
            assert_eq!(asker.join().unwrap(), Err(AskError::Panicked));
            let End::Failed(failure) = script.join() else { panic!("it did not fail") };
            assert!(failure.is_panic() && failure.to_string().contains("as it should"), "{failure}");
            assert_eq!(script.asks(|_, _| ()), Err(AskError::Stopped));
            assert_eq!(counts.left(), 0);
        });
    });
}

#[test]
fn an_idle_actor_that_does_not_block_answers_on_the_stack_of_its_asker() {
    everywhere(|rt, _| {
        rt.run(|| {
            let quick = actor::spawn(Script::<Quick>::new(&Log::default()));
            wait_until(|| quick.is_idle());
            let asker = sinew::current().id();
            assert_eq!(quick.asks(move |_, _| sinew::current().id() == asker), Ok(true));
            let log = Log::default();
            let noting = actor::spawn(Script::<Quick>::new(&log));
            assert_eq!(noting.ask(Note("one")), Ok(()));
            assert_eq!(log.take(), ["started", "one"], "it was asked before it had started");
        });
        // A kernel thread has no stack for it.
        let quick = actor::Builder::new().cluster(rt.main_cluster()).spawn(Script::<Quick>::new(&Log::default()));
        assert_eq!(quick.asks(|_, _| 3), Ok(3));
    });
}

#[test]
fn an_actor_that_does_not_block_never_handles_two_messages_at_the_same_time() {
    in_few(|rt, _| {
        let (inside, handled) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let quick = actor::Builder::new().cluster(rt.main_cluster()).spawn(Script::<Quick>::new(&Log::default()));
        let message = || {
            let (inside, handled) = (Arc::clone(&inside), Arc::clone(&handled));
            move |_: &mut Script<Quick>, _: &mut Context<'_, _>| {
                assert!(!inside.swap(true, SeqCst), "two handlers run at the same time");
                handled.fetch_add(1, SeqCst);
                std::hint::spin_loop();
                inside.store(false, SeqCst);
            }
        };
        fixture::on_fibres_and_threads(rt, 4, 2, |sender| {
            for number in 0..300 {
                match (sender + number) % 3 {
                    0 => quick.tells(message()),
                    _ => quick.asks(message()).unwrap(),
                }
            }
        });
        assert_eq!(quick.asks(|_, _| ()), Ok(()));
        assert_eq!(handled.load(SeqCst), 1800);
        assert!(quick.is_alive());
    });
}

#[test]
fn letters_that_come_while_an_actor_answers_in_place_are_handled_after_that() {
    everywhere(|rt, _| {
        rt.run(|| {
            let log = Log::default();
            let quick = actor::spawn(Script::<Quick>::new(&log));
            wait_until(|| quick.is_idle());
            log.take();
            let outside = quick.clone();
            let asked = quick.asks(move |script, cx| {
                cx.tell_self(Note("self"));
                cx.address().tell(Note("address")).unwrap();
                std::thread::spawn(move || outside.tell(Note("outside")).unwrap()).join().unwrap();
                script.log.note("in place");
            });
            assert_eq!(asked, Ok(()));
            assert_eq!(quick.ask(Note("next")), Ok(()));
            assert_eq!(log.take(), ["in place", "self", "address", "outside", "next"]);
        });
    });
}

#[test]
fn a_panic_in_place_is_an_error_of_the_asker_and_a_failure_of_the_actor() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (log, counts) = (Log::default(), Counts::default());
            let its = log.clone();
            let restart = actor::Restart::limit(1, LONG);
            let quick = actor::supervised(restart, move || Script::<Quick>::new(&its));
            wait_until(|| quick.is_idle());
            let (counted, late) = (counts.make(), quick.clone());
            let panics = move |_: &mut Script<Quick>, _: &mut Context<'_, Script<Quick>>| {
                let _counted = counted;
                // It waits until the actor has been restarted.
                late.tell(Note("kept")).unwrap();
                panic!("as it should")
            };
            assert_eq!(quick.ask(Call::<_, ()>(Box::new(panics))), Err(AskError::Panicked));
            assert_eq!(quick.ask(Note("asked")), Ok(()));
            assert_eq!(counts.left(), 0);
            wait_until(|| quick.is_idle());
            assert_eq!(quick.asks(|_, _| -> u32 { panic!("as it should") }), Err(AskError::Panicked));
            let End::Failed(failure) = quick.join() else { panic!("it did not fail") };
            assert!(failure.is_panic());
            let stopped = "stopped: failed: panicked: as it should";
            assert_eq!(log.take(), ["started", stopped, "started", "kept", "asked", stopped]);
        });
    });
}

#[test]
fn a_told_handler_that_promised_not_to_block_fails_with_a_reason_when_it_does() {
    everywhere(|rt, _| {
        rt.run(|| {
            let other = actor::spawn(Script::<Plain>::new(&Log::default()));
            for way in 0..4 {
                let (log, other) = (Log::default(), other.clone());
                let quick = actor::spawn(Script::<Quick>::new(&log));
                quick.tells(move |_, _| match way {
                    0 => sinew::sleep(MS),
                    1 => drop(other.asks(|_, _| ())),
                    2 => Semaphore::new(0).wait(),
                    _ => drop(other.join_timeout(MS)),
                });
                let End::Failed(failure) = quick.join() else { panic!("it did not fail") };
                assert!(failure.to_string().contains("a task may not block its processor"), "{failure}");
            }
            assert_eq!(other.asks(|_, _| 1), Ok(1));
        });
    });
}

#[test]
fn an_actor_that_answers_in_place_may_be_stopped_and_killed_meanwhile() {
    everywhere(|rt, _| {
        rt.run(|| {
            for killed in [false, true] {
                let log = Log::default();
                let quick = actor::spawn(Script::<Quick>::new(&log));
                wait_until(|| quick.is_idle());
                let asked = quick.asks(move |_, cx| {
                    cx.tell_self(Note("waits"));
                    if killed {
                        cx.address().kill()
                    } else {
                        cx.stop()
                    }
                    5
                });
                assert_eq!(asked, Ok(5));
                let end = quick.join();
                assert!(matches!((killed, end), (true, End::Killed) | (false, End::Stopped)));
                assert_eq!(log.has("waits"), !killed);
                assert_eq!(quick.asks(|_, _| ()), Err(AskError::Stopped));
            }
        });
    });
}

/// An actor that does not block asks others that do not block, on the same stack.
#[test]
fn questions_in_place_nest() {
    everywhere(|rt, _| {
        rt.run(|| {
            let quick: Vec<_> = (0..3).map(|_| actor::spawn(Script::<Quick>::new(&Log::default()))).collect();
            wait_until(|| quick.iter().all(actor::Address::is_idle));
            let (first, last) = (quick[1].clone(), quick[2].clone());
            let asked = quick[0].asks(move |_, _| first.asks(move |_, _| last.asks(|_, _| 4)));
            assert_eq!(asked, Ok(Ok(Ok(4))));
        });
    });
}

#[test]
fn a_question_in_place_to_an_actor_that_answers_on_the_same_stack_is_a_cycle() {
    everywhere(|rt, _| {
        rt.run(|| {
            let quick: Vec<_> = (0..2).map(|_| actor::spawn(Script::<Quick>::new(&Log::default()))).collect();
            wait_until(|| quick.iter().all(actor::Address::is_idle));
            let same = quick[0].clone();
            let Ok(Err(AskError::Cycle(actors))) = quick[0].asks(move |_, _| same.asks(|_, _| ())) else {
                panic!("no cycle was found")
            };
            assert_eq!(actors, [quick[0].id()]);
            let (first, second) = (quick[0].clone(), quick[1].clone());
            let asked = quick[0].asks(move |_, _| second.asks(move |_, _| first.asks(|_, _| ())));
            assert!(matches!(asked, Ok(Ok(Err(AskError::Cycle(_))))), "{asked:?}");
            // Both still work.
            quick.iter().for_each(|quick| assert_eq!(quick.asks(|_, _| 1), Ok(1)));
        });
    });
}

/// Actors that do not block answer in place on processors of their own cluster alone.
#[test]
fn actors_of_other_clusters_and_runtimes_can_be_asked_and_told() {
    everywhere(|rt, setup| {
        let (cluster, other) = (rt.cluster(setup.cluster_builder()).unwrap(), setup.build());
        for cluster in [&cluster, other.main_cluster()] {
            let plain = actor::Builder::new().cluster(cluster).spawn(Script::<Plain>::new(&Log::default()));
            let quick = actor::Builder::new().cluster(cluster).spawn(Script::<Quick>::new(&Log::default()));
            rt.run(|| {
                wait_until(|| quick.is_idle());
                let asker = sinew::current().id();
                assert_eq!(quick.asks(move |_, _| sinew::current().id() == asker), Ok(false));
                let there = quick.clone();
                assert_eq!(plain.asks(move |_, _| there.asks(|_, _| 5)), Ok(Ok(5)));
                let late = |_: &mut Script, _: &mut Context<'_, Script>| time::try_sleep(LONG).is_err();
                assert!(plain.ask_timeout(MS, Call(Box::new(late))).unwrap_or(true), "the deadline was left behind");
                let begun = Arc::new(Semaphore::new(0));
                let begins = Arc::clone(&begun);
                plain.tells(move |_, _| {
                    begins.post(1);
                    while time::try_sleep(LONG).is_ok() {}
                });
                begun.wait();
                plain.kill();
                assert!(matches!(plain.join(), End::Killed));
            });
        }
    });
}

/// Asks the next one of a ring.
struct Link(Arc<Mutex<Vec<actor::Address<Link>>>>, usize);

impl Actor for Link {}

struct Pass;

impl Handle<Pass> for Link {
    type Reply = Result<(), AskError>;

    fn handle(&mut self, _: Pass, _: &mut Context<'_, Self>) -> Self::Reply {
        let next = self.0.lock().unwrap()[self.1].clone();
        next.ask(Pass)?
    }
}

#[test]
fn a_cycle_of_questions_is_an_error_that_names_the_actors() {
    everywhere(|rt, _| {
        rt.run(|| {
            for length in [1, 2, 3, 10] {
                let ring = Arc::new(Mutex::new(Vec::new()));
                for number in 0..length {
                    let link = Link(Arc::clone(&ring), (number + 1) % length);
                    let link = actor::Builder::new().name(format!("link {number}")).spawn(link);
                    ring.lock().unwrap().push(link);
                }
                let first = ring.lock().unwrap()[0].clone();
                let Ok(Err(AskError::Cycle(actors))) = first.ask(Pass) else { panic!("no cycle was found") };
                assert_eq!(actors.len(), length);
                assert!(actors.iter().any(|actor| actor.name() == Some("link 0")), "{actors:?}");
                // The edges are gone: the same question again has the same answer.
                assert!(matches!(first.ask(Pass), Ok(Err(AskError::Cycle(_)))));
                ring.lock().unwrap().clear();
            }
        });
    });
}

/// Two actors ask each other at the same time, again and again: one of them gets the error, and none hangs.
#[test]
fn actors_that_ask_each_other_at_the_same_time_never_hang() {
    in_few(|rt, _| {
        rt.run(|| {
            let ring: Vec<_> = (0..3).map(|_| actor::spawn(Script::<Plain>::new(&Log::default()))).collect();
            let cycles = Arc::new(AtomicUsize::new(0));
            for _ in 0..100 {
                let (inside, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
                for number in 0..3 {
                    let next = ring[(number + 1) % 3].clone();
                    let (inside, done, cycles) = (Arc::clone(&inside), Arc::clone(&done), Arc::clone(&cycles));
                    ring[number].tells(move |_, _| {
                        // All three handlers have begun before one asks.
                        inside.fetch_add(1, SeqCst);
                        wait_until(|| inside.load(SeqCst) == 3);
                        match next.asks(|_, _| ()) {
                            Ok(()) => {}
                            Err(AskError::Cycle(_)) => drop(cycles.fetch_add(1, SeqCst)),
                            Err(error) => panic!("{error}"),
                        }
                        done.post(1);
                    });
                }
                (0..3).for_each(|_| done.wait());
            }
            assert!(cycles.load(SeqCst) >= 100, "a cycle was not found");
        });
    });
}

#[test]
fn a_spinning_handler_that_does_not_block_still_gets_told_letters() {
    in_few(|rt, _| {
        let quick = actor::Builder::new().cluster(rt.main_cluster()).spawn(Script::<Quick>::new(&Log::default()));
        let (seen, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (sees, goes) = (Arc::clone(&seen), Arc::clone(&go));
        quick.tells(move |_, _| {
            sees.store(true, SeqCst);
            spin_until(|| goes.load(SeqCst));
        });
        wait_until(|| seen.load(SeqCst));
        // It is active on a processor's own stack: a question from a fibre elsewhere waits as a letter does.
        let asker = rt.spawn({
            let quick = quick.clone();
            move || quick.asks(|_, _| 6)
        });
        go.store(true, SeqCst);
        assert_eq!(asker.join().unwrap(), Ok(6));
    });
}
