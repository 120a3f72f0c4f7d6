//! Actor systems, behind one shape.
//!
//! A benchmark of actors is written once, as [`Behaviour`]s over a [`System`]. The compiler makes a
//! program of its own for each system: calls are static, and a message is boxed only if the system
//! boxes it. Each system is used in the way that its own documentation calls the fastest: unbounded
//! mailboxes, and messages that are told without waiting.
//!
//! A behaviour never blocks. It knows other actors by addresses that it was given once, and
//! messages name their sender by its number: to clone an address for each message would measure
//! how addresses are counted.

pub mod actix;
pub mod channels;
pub mod kameo;
pub mod ractor;
pub mod sinew;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Contender, DEFAULT, Kind, Peer, language};
use crate::case::{Case, Outcome};

/// Sinew with random work stealing: RWS in the thesis.
pub const RANDOM: &str = "sinew/random";
/// Sinew with locality-aware stealing, in which an actor runs where it was sent to: LAS/L.
pub const LOCAL: &str = "sinew/locality/l";
/// The same, but an actor runs where it ran last: LAS/A.
pub const AFFINE: &str = "sinew/locality/a";
pub const CHANNELS: &str = "tokio/actors";
pub const RACTOR: &str = "ractor";
pub const KAMEO: &str = "kameo";
pub const ACTIX: &str = "actix";

/// Sinew's schedulers. The first is that of `sinew::run`.
const OF_SINEW: &[&str] = &[DEFAULT, RANDOM, LOCAL, AFFINE];

/// The other systems that are written in Rust.
pub const IN_RUST: &[&str] = &[CHANNELS, RACTOR, KAMEO, ACTIX];

/// Returns whether a peer has actors.
pub fn has_actors(peer: &Contender) -> bool {
    OF_SINEW.contains(&peer.name) || IN_RUST.contains(&peer.name)
}

/// Returns whether a peer has actors, or stands for them in another language.
pub fn is_written(peer: &Contender) -> bool {
    has_actors(peer) || peer.kind == Kind::Language
}

/// An actor system. There is one in a process.
pub trait System: Sized + Send + Sync + 'static {
    /// The strands beside the actors. The root of a benchmark is one.
    type Strands: Peer;
    type Address<B: Behaviour<Self>>: Clone + Send + Sync + Unpin + 'static;
    /// The address of an actor that is asked.
    type Asked: Send + Sync + 'static;

    /// Runs `root` as a strand; the calling kernel thread blocks meanwhile.
    fn run<R: Send + 'static>(case: &Case, root: impl Future<Output = R> + Send + 'static) -> R;

    /// Called from a strand or an actor, as everything below.
    fn spawn<B: Behaviour<Self>>(behaviour: B) -> Self::Address<B>;

    /// Sends a message. The actor has not ended.
    fn tell<B: Behaviour<Self>>(to: &Self::Address<B>, message: B::Message);

    /// Sends a message to each of these actors.
    fn tell_all<B: Behaviour<Self>>(to: &[Self::Address<B>], mut message: impl FnMut() -> B::Message) {
        to.iter().for_each(|to| Self::tell(to, message()));
    }

    /// Sends a message after the time `first`, and then in each period, until `is_over`. A system without timers of its
    /// own has a strand for each.
    fn every<B: Behaviour<Self>>(
        to: &Self::Address<B>,
        first: Duration,
        period: Duration,
        message: fn() -> B::Message,
        is_over: &'static AtomicBool,
    ) {
        let (to, mut due) = (to.clone(), Instant::now() + first);
        Self::Strands::spawn(async move {
            loop {
                Self::Strands::sleep(due.saturating_duration_since(Instant::now())).await;
                if is_over.load(Ordering::Relaxed) {
                    return 0;
                }
                Self::tell(&to, message());
                due += period;
            }
        });
    }

    /// Spawns an actor that has a sum.
    fn spawn_sum() -> Self::Asked;

    /// Asks it to add a number, and waits for its sum.
    fn ask(sum: &Self::Asked, number: u64) -> impl Future<Output = u64> + Send;
}

/// The behaviour of an actor.
pub trait Behaviour<S: System>: Send + Unpin + 'static {
    type Message: Send + 'static;

    /// Whether many others send to it, or it sends to many: a hub, as the thesis calls it. Only
    /// Sinew makes use of that.
    const IS_HUB: bool = false;

    fn receive(&mut self, message: Self::Message) -> Flow;
}

/// Whether an actor goes on after a message.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    GoOn,
    End,
}

/// The state of the actor that is asked.
#[derive(Default)]
pub struct Sum(u64);

impl Sum {
    #[inline]
    fn add(&mut self, number: u64) -> u64 {
        self.0 = self.0.wrapping_add(number);
        self.0
    }
}

/// A value that an actor gives to the strand that waits for it.
pub struct Promise<S: System, T> {
    value: Mutex<Option<T>>,
    waiter: <S::Strands as Peer>::Parker,
}

impl<S: System, T: Send> Promise<S, T> {
    /// Called by the strand that waits.
    pub fn new() -> Arc<Promise<S, T>> {
        Arc::new(Promise { value: Mutex::new(None), waiter: S::Strands::parker() })
    }

    pub fn keep(&self, value: T) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        S::Strands::unpark(&self.waiter);
    }

    /// Waits for the next value.
    pub async fn kept(&self) -> T {
        loop {
            let value = self.value.lock().unwrap_or_else(PoisonError::into_inner).take();
            match value {
                Some(value) => return value,
                None => S::Strands::park(&self.waiter).await,
            }
        }
    }
}

/// The root of a benchmark.
pub trait Benchmark {
    fn root<S: System>(case: Case) -> impl Future<Output = Outcome> + Send + 'static;
}

/// Measures inside of this process.
pub fn measure<B: Benchmark>(case: &Case) -> Outcome {
    fn on<S: System, B: Benchmark>(case: &Case) -> Outcome {
        S::run(case, B::root::<S>(case.clone()))
    }
    if let Some(language) = language::find(&case.peer) {
        return language.replace_process(case);
    }
    match case.peer.as_str() {
        CHANNELS => on::<channels::Channels, B>(case),
        RACTOR => on::<ractor::Ractor, B>(case),
        KAMEO => on::<kameo::Kameo, B>(case),
        ACTIX => on::<actix::Actix, B>(case),
        _ => on::<sinew::Sinew, B>(case),
    }
}
