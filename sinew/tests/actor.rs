//! Actors: order, replies, ends, restarts, cycles, bounds.

mod fixture;

use fixture::{Setup, in_set_ups};
use sinew::Runtime;
use sinew::actor::{self, Actor, Address, AskError, Context, End, Full, Handle, Mailbox, Reason};
use sinew::sync::{Mutex, Semaphore, mpsc};
use std::sync::Arc;
use std::time::Duration;

/// Runs `body` in every set-up, also with the schedulers for colours and actors.
#[track_caller]
fn everywhere(body: impl Fn(&Runtime, Setup)) {
    in_set_ups(Setup::all().chain(Setup::coloured()), body);
}

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
            let task = sinew::task::spawn({
                let account = account.clone();
                async move { account.ask_async(Deposit(1)).await }
            });
            assert_eq!(task.join().unwrap(), Ok(5051));
        });
    });
}

/// Tells a channel what happens to it.
struct Talker(mpsc::Sender<String>);

impl Actor for Talker {
    fn started(&mut self, _: &mut Context<'_, Self>) -> Result<(), actor::Failure> {
        self.0.send("started".into())?;
        Ok(())
    }

    fn stopped(&mut self, why: &End) {
        let _ = self.0.send(format!("stopped: {why}"));
    }
}

struct Say(&'static str);

impl Handle<Say> for Talker {
    type Reply = ();

    fn handle(&mut self, say: Say, _: &mut Context<'_, Self>) {
        let _ = self.0.send(say.0.to_owned());
        assert_ne!(say.0, "panic");
    }
}

fn heard(received: &mpsc::Receiver<String>) -> Vec<String> {
    received.iter().collect()
}

#[test]
fn stop_lets_waiting_messages_run_and_refuses_later_ones() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (sender, received) = mpsc::channel();
            let talker = actor::spawn(Talker(sender));
            talker.tell(Say("one")).unwrap();
            talker.stop();
            let refused = talker.tell(Say("two")).unwrap_err();
            assert_eq!(refused.reason(), &Reason::Stopped);
            assert_eq!(refused.into_message().0, "two");
            assert!(matches!(talker.join(), End::Stopped));
            assert_eq!(heard(&received), ["started", "one", "stopped: stopped"]);
        });
    });
}

#[test]
fn the_last_address_ends_the_actor_after_its_messages() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (sender, received) = mpsc::channel();
            let talker = actor::spawn(Talker(sender));
            talker.tell(Say("one")).unwrap();
            drop(talker);
            assert_eq!(heard(&received), ["started", "one", "stopped: no address was left"]);
        });
    });
}

/// Waits at a semaphore in its handler.
struct Sleeper(Arc<Semaphore>, mpsc::Sender<String>);

impl Actor for Sleeper {
    fn stopped(&mut self, why: &End) {
        let _ = self.1.send(why.to_string());
    }
}

struct Sleep;

impl Handle<Sleep> for Sleeper {
    type Reply = ();

    fn handle(&mut self, _: Sleep, _: &mut Context<'_, Self>) {
        let _ = self.1.send("asleep".into());
        let woken = self.0.acquire();
        let _ = self.1.send(format!("{:?}", woken.map(drop)));
    }
}

#[test]
fn a_kill_cancels_a_blocked_handler_and_tells_askers() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (sender, received) = mpsc::channel();
            let sleeper = actor::spawn(Sleeper(Arc::new(Semaphore::new(0)), sender));
            sleeper.tell(Sleep).unwrap();
            assert_eq!(received.recv().unwrap(), "asleep");
            let asker = sinew::spawn({
                let sleeper = sleeper.clone();
                move || sleeper.ask(Sleep)
            });
            sinew::yield_now();
            sleeper.kill();
            assert_eq!(asker.join().unwrap(), Err(AskError::Stopped));
            assert!(matches!(sleeper.join(), End::Killed));
            drop(sleeper);
            assert_eq!(heard(&received), ["Err(Cancelled)", "killed"]);
        });
    });
}

#[test]
fn a_restart_keeps_the_address_and_the_waiting_messages() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (sender, received) = mpsc::channel();
            let restart = actor::Restart::limit(1, Duration::from_secs(60));
            let talker = actor::supervised(restart, move || Talker(sender.clone()));
            ["panic", "kept"].into_iter().for_each(|word| talker.tell(Say(word)).unwrap());
            assert_eq!(talker.ask(Say("asked")), Ok(()));
            assert_eq!(talker.ask(Say("panic")), Err(AskError::Panicked));
            let End::Failed(failure) = talker.join() else { panic!("it did not fail") };
            assert!(failure.is_panic());
            let words: Vec<_> = heard(&received).into_iter().map(|word| word[..word.len().min(7)].to_owned()).collect();
            assert_eq!(words, ["started", "panic", "stopped", "started", "kept", "asked", "panic", "stopped"]);
        });
    });
}

/// Asks the next one of a ring.
struct Link(Arc<Mutex<Vec<Address<Link>>>>, usize);

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
                ring.lock().unwrap().clear();
            }
        });
    });
}

/// Waits for its messages' order.
struct Slow(Arc<Semaphore>, Arc<Mutex<Vec<u32>>>);

impl Actor for Slow {
    const MAILBOX: Mailbox = Mailbox::bounded(2, Full::DropOldest);
}

impl Handle<u32> for Slow {
    type Reply = u32;

    fn handle(&mut self, number: u32, _: &mut Context<'_, Self>) -> u32 {
        self.0.wait();
        self.1.lock().unwrap().push(number);
        number
    }
}

#[test]
fn a_full_mailbox_drops_its_oldest_message() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (gate, seen) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
            let slow = actor::spawn(Slow(Arc::clone(&gate), Arc::clone(&seen)));
            slow.tell(0).unwrap();
            // The first message is being handled when its handler waits at the gate.
            fixture::wait_until(|| gate.available() == 0 && !slow.is_idle());
            let asker = sinew::spawn({
                let slow = slow.clone();
                move || slow.ask(1)
            });
            gate.post(100);
            let _ = asker.join();
            slow.stop();
            slow.join();
            assert!(!seen.lock().unwrap().is_empty());
        });
    });
}
