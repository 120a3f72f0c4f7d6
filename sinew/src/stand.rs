//! A stand for tests of actors.
//!
//! A test puts an actor on a [`Stand`], sends it messages, lets time pass, and looks at what it has become. It needs no
//! runtime: the stand has one of its own, with one processor, whose time stands still.
//!
//! ```
//! use sinew::actor::{Actor, Context, Handle, Recipient};
//! use sinew::stand::Stand;
//! use std::time::Duration;
//!
//! /// Reports when nobody has fed it for a minute.
//! struct Watchdog {
//!     report: Recipient<&'static str>,
//!     feedings: u32,
//! }
//!
//! struct Feed;
//! struct Look(u32);
//!
//! impl Actor for Watchdog {}
//!
//! impl Handle<Feed> for Watchdog {
//!     type Reply = ();
//!
//!     fn handle(&mut self, _: Feed, cx: &mut Context<'_, Self>) {
//!         self.feedings += 1;
//!         cx.after(Duration::from_secs(60), Look(self.feedings));
//!     }
//! }
//!
//! impl Handle<Look> for Watchdog {
//!     type Reply = ();
//!
//!     fn handle(&mut self, look: Look, _: &mut Context<'_, Self>) {
//!         if look.0 == self.feedings {
//!             let _ = self.report.tell("hungry");
//!         }
//!     }
//! }
//!
//! let probe = sinew::stand::Probe::new();
//! let dog = Stand::with(|stand| Watchdog { report: stand.recipient(&probe), feedings: 0 });
//! dog.tell(Feed);
//! dog.pass(Duration::from_secs(50));
//! dog.tell(Feed);
//! dog.pass(Duration::from_secs(50));
//! assert!(probe.take().is_empty());
//! dog.pass(Duration::from_secs(10));
//! assert_eq!(probe.take(), ["hungry"]);
//! assert_eq!(dog.look(|dog| dog.feedings), Some(2));
//! ```

use crate::actor::{self, Actor, Address, AskError, Context, End, Handle, Recipient};
use crate::processor::cluster::Cluster;
use crate::runtime::Runtime;
use crate::time::TestClock;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An actor with a runtime of its own, for a test. Each call returns when the actor, and all that it has spawned or told,
/// have nothing more to do.
pub struct Stand<A: Actor> {
    // Dropped in this order: the runtime waits for what is left.
    address: Address<A>,
    ground: Ground,
}

/// The runtime of a stand: a test may put other actors on it.
pub struct Ground {
    clock: TestClock,
    runtime: Runtime,
}

impl Ground {
    fn new() -> Ground {
        let clock = TestClock::stopped();
        let runtime = Runtime::builder().processors(1).spares(0).test_clock(&clock).build();
        Ground { clock, runtime: runtime.expect("a runtime with one processor") }
    }

    fn cluster(&self) -> &Cluster {
        self.runtime.main_cluster()
    }

    /// Spawns another actor.
    pub fn spawn<B: Actor>(&self, other: B) -> Address<B> {
        actor::Builder::new().cluster(self.cluster()).spawn(other)
    }

    /// Returns an address whose messages the probe collects.
    pub fn recipient<M: Send + 'static>(&self, probe: &Probe<M>) -> Recipient<M> {
        self.spawn(Collector(Arc::clone(&probe.messages))).recipient()
    }

    /// Waits until every strand waits, or has ended. Hardly any time passes.
    fn settle(&self) {
        self.clock.advance(Duration::from_nanos(1));
    }
}

impl<A: Actor> Stand<A> {
    /// Puts an actor on a stand.
    ///
    /// # Panics
    /// If the runtime cannot be built. In a task.
    #[must_use]
    pub fn new(actor: A) -> Stand<A> {
        Stand::with(|_| actor)
    }

    /// Puts an actor on a stand that is made of other actors there.
    ///
    /// # Panics
    /// As [`new`](Stand::new).
    #[must_use]
    pub fn with(make: impl FnOnce(&Ground) -> A) -> Stand<A> {
        let ground = Ground::new();
        let address = ground.spawn(make(&ground));
        ground.settle();
        Stand { address, ground }
    }

    /// Returns the address of the actor.
    pub fn address(&self) -> &Address<A> {
        &self.address
    }

    /// Returns the runtime of the stand.
    pub fn ground(&self) -> &Ground {
        &self.ground
    }

    /// Sends a message, and waits until everything has settled.
    ///
    /// # Panics
    /// If the actor has ended, or has no room.
    #[track_caller]
    pub fn tell<M: Send + 'static>(&self, message: M)
    where
        A: Handle<M>,
    {
        if let Err(error) = self.address.try_tell(message) {
            panic!("{error}");
        }
        self.ground.settle();
    }

    /// Sends a message, waits for the reply, and until everything has settled.
    ///
    /// # Errors
    /// As [`Address::ask`].
    pub fn ask<M: Send + 'static>(&self, message: M) -> Result<A::Reply, AskError>
    where
        A: Handle<M>,
    {
        let reply = self.address.ask(message);
        self.ground.settle();
        reply
    }

    /// Lets time pass. Timers that are due meanwhile go off in their order.
    pub fn pass(&self, duration: Duration) {
        self.ground.clock.advance(duration);
        self.ground.settle();
    }

    /// Returns the time on the stand.
    pub fn now(&self) -> Instant {
        self.ground.clock.now()
    }

    /// Looks at the value of the actor. Returns `None` if the actor has ended.
    pub fn look<R: Send + 'static>(&self, look: impl FnOnce(&mut A) -> R + Send + 'static) -> Option<R> {
        self.address.look(look)
    }

    /// Stops the actor, and returns why it has ended: it may have failed before.
    pub fn stop(self) -> End {
        self.address.stop();
        self.address.join()
    }
}

impl<A: Actor> fmt::Debug for Stand<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stand").field(&self.address).finish()
    }
}

impl fmt::Debug for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ground").finish_non_exhaustive()
    }
}

/// Collects messages of one type: [`Ground::recipient`] gives an address for them.
#[derive(Debug)]
pub struct Probe<M> {
    messages: Arc<Mutex<Vec<M>>>,
}

impl<M> Probe<M> {
    /// Makes a probe that has collected nothing.
    #[must_use]
    pub fn new() -> Probe<M> {
        Probe { messages: Arc::default() }
    }

    /// Takes the messages that have been collected, in the order in which they came.
    pub fn take(&self) -> Vec<M> {
        std::mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<M> Default for Probe<M> {
    fn default() -> Probe<M> {
        Probe::new()
    }
}

struct Collector<M>(Arc<Mutex<Vec<M>>>);

impl<M: Send + 'static> Actor for Collector<M> {}

impl<M: Send + 'static> Handle<M> for Collector<M> {
    type Reply = ();

    fn handle(&mut self, message: M, _: &mut Context<'_, Self>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }
}
