//! actix: its system's own arbiter, and one more for each further processor. An arbiter is a kernel
//! thread, and an actor stays on the arbiter where it was started. New actors go to the arbiters in
//! turn, by one counter; an actor for the caller's own arbiter is started without a detour. The root
//! runs on the system's arbiter, so one processor means one thread.

use std::cell::Cell;
use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::actix::{self as library, Actor, ActorContext, Addr, Arbiter, ArbiterHandle, Context, Handler, Message};

use super::{Behaviour, Flow, Sum, System};
use crate::case::Case;
use crate::peers::tokio_tasks::TokioTasks;

pub struct Actix;

/// The arbiters; the first is the system's.
static ARBITERS: OnceLock<Vec<ArbiterHandle>> = OnceLock::new();
/// The number of actors so far.
static SPAWNED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of this thread's arbiter.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// An actor.
pub struct Host<B>(B);

/// A message to it.
struct Letter<B: Behaviour<Actix>>(B::Message);

/// A question to the actor that is asked.
struct Question(u64);

impl<B: Unpin + 'static> Actor for Host<B> {
    type Context = Context<Host<B>>;
}

impl<B: Behaviour<Actix>> Message for Letter<B> {
    type Result = ();
}

impl<B: Behaviour<Actix>> Handler<Letter<B>> for Host<B> {
    type Result = ();

    #[inline]
    fn handle(&mut self, Letter(message): Letter<B>, context: &mut Context<Host<B>>) {
        if self.0.receive(message) == Flow::End {
            context.stop();
        }
    }
}

impl Message for Question {
    type Result = u64;
}

impl Handler<Question> for Host<Sum> {
    type Result = u64;

    fn handle(&mut self, Question(number): Question, _: &mut Context<Host<Sum>>) -> u64 {
        self.0.add(number)
    }
}

/// Starts an actor on the arbiter whose turn it is.
fn start<B: Unpin + Send + 'static>(behaviour: B) -> Addr<Host<B>> {
    let arbiters = ARBITERS.get().expect("a system that runs");
    let next = match arbiters.len() {
        1 => 0,
        several => SPAWNED.fetch_add(1, Ordering::Relaxed) % several,
    };
    match OWN.get() == next {
        true => Host(behaviour).start(),
        false => Host::start_in_arbiter(&arbiters[next], move |_| Host(behaviour)),
    }
}

impl System for Actix {
    /// The root is a future on a Tokio runtime of one thread. Nothing else of these is used.
    type Strands = TokioTasks;
    type Address<B: Behaviour<Actix>> = Addr<Host<B>>;
    type Asked = Addr<Host<Sum>>;

    fn run<R: Send + 'static>(case: &Case, root: impl Future<Output = R> + Send + 'static) -> R {
        let runner = library::System::new();
        let mut arbiters = vec![library::System::current().arbiter().clone()];
        for number in 1..case.processors {
            let arbiter = Arbiter::new().handle();
            assert!(arbiter.spawn_fn(move || OWN.set(number)), "an arbiter that runs");
            arbiters.push(arbiter);
        }
        assert!(ARBITERS.set(arbiters).is_ok(), "one system in a process");
        runner.block_on(root)
    }

    fn spawn<B: Behaviour<Actix>>(behaviour: B) -> Addr<Host<B>> {
        start(behaviour)
    }

    #[inline]
    fn tell<B: Behaviour<Actix>>(to: &Addr<Host<B>>, message: B::Message) {
        to.do_send(Letter::<B>(message));
    }

    fn spawn_sum() -> Addr<Host<Sum>> {
        start(Sum::default())
    }

    async fn ask(sum: &Addr<Host<Sum>>, number: u64) -> u64 {
        sum.send(Question(number)).await.expect("a reply")
    }
}
