//! Spawning actors.

use super::address::Address;
use super::annex::Annex;
use super::cell::Cell;
use super::overflow::Overflow;
use super::restart::{Factory, Restart, Supervision};
use super::traits::{Actor, Full};
use crate::mailbox::Handle;
use crate::processor::cluster::Cluster;
use crate::processor::spawn::{Origin, SpawnError};
use crate::processor::with_current;
use crate::strand::Priority;
use crate::sync::Semaphore;

/// Spawns an actor in the caller's cluster.
///
/// # Panics
/// If the caller is in no runtime: see [`Builder::cluster`].
#[track_caller]
#[inline]
pub fn spawn<A: Actor>(actor: A) -> Address<A> {
    SpawnError::expect_none("spawn an actor", spawn_in(None, Priority::Normal, false, actor, None))
}

/// Spawns an actor that `make` makes, now and whenever it has to be restarted.
///
/// ```
/// use sinew::actor::{self, Actor, AskError, Context, Handle, Restart};
/// use std::time::Duration;
///
/// #[derive(Default)]
/// struct Divider;
///
/// impl Actor for Divider {}
///
/// impl Handle<(u32, u32)> for Divider {
///     type Reply = u32;
///
///     fn handle(&mut self, (number, by): (u32, u32), _: &mut Context<'_, Self>) -> u32 {
///         number / by
///     }
/// }
///
/// sinew::run(|| {
///     let divider = actor::supervised(Restart::limit(3, Duration::from_secs(1)), Divider::default);
///     assert_eq!(divider.ask((1, 0)), Err(AskError::Panicked));
///     assert_eq!(divider.ask((6, 3)), Ok(2));
/// });
/// ```
///
/// # Panics
/// As [`spawn`].
#[track_caller]
pub fn supervised<A: Actor>(restart: Restart, make: impl FnMut() -> A + Send + 'static) -> Address<A> {
    Builder::new().supervised(restart, make)
}

/// Spawns actors with other properties than [`spawn`].
#[derive(Debug, Default)]
#[must_use]
pub struct Builder {
    name: Option<Box<str>>,
    priority: Priority,
    is_hub: bool,
    cluster: Option<Cluster>,
}

impl Builder {
    /// Returns a builder for an actor as [`spawn`] makes it.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Gives the actor a name, for messages and errors.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into().into_boxed_str());
        self
    }

    /// Makes the messages of the actor more or less urgent than others.
    pub fn priority(mut self, priority: Priority) -> Builder {
        self.priority = priority;
        self
    }

    /// Says that the actor lives long and has much to do with many others. A scheduler may place such actors far from
    /// each other.
    pub fn hub(mut self) -> Builder {
        self.is_hub = true;
        self
    }

    /// Lets the actor run on `cluster` instead of the caller's.
    pub fn cluster(mut self, cluster: &Cluster) -> Builder {
        self.cluster = Some(cluster.clone());
        self
    }

    /// Spawns the actor.
    ///
    /// # Panics
    /// If no cluster was named, and the caller is in no runtime. If the runtime has ended.
    #[track_caller]
    pub fn spawn<A: Actor>(self, actor: A) -> Address<A> {
        SpawnError::expect_none("spawn an actor", self.try_spawn(actor))
    }

    /// Spawns the actor, as [`spawn`](Builder::spawn) does.
    ///
    /// # Errors
    /// The actor was not spawned, and has been dropped.
    pub fn try_spawn<A: Actor>(self, actor: A) -> Result<Address<A>, SpawnError> {
        let annex = self.name.map(|name| Box::new(Annex::named(Some(name))));
        spawn_in(self.cluster.as_ref(), self.priority, self.is_hub, actor, annex)
    }

    /// Spawns an actor that `make` makes, now and whenever it has to be restarted; see [`supervised`].
    ///
    /// # Panics
    /// As [`spawn`](Builder::spawn). If `make` does at its first call.
    #[track_caller]
    pub fn supervised<A: Actor>(self, restart: Restart, mut make: impl FnMut() -> A + Send + 'static) -> Address<A> {
        let actor = make();
        let annex = Annex::named(self.name);
        annex.shared().supervision = Some(Supervision::new(restart, Factory(Box::new(make))));
        let spawned = spawn_in(self.cluster.as_ref(), self.priority, self.is_hub, actor, Some(Box::new(annex)));
        SpawnError::expect_none("spawn an actor", spawned)
    }
}

#[inline]
fn spawn_in<A: Actor>(
    cluster: Option<&Cluster>,
    priority: Priority,
    is_hub: bool,
    actor: A,
    mut annex: Option<Box<Annex>>,
) -> Result<Address<A>, SpawnError> {
    if let Some((most, full)) = A::MAILBOX.bound {
        let annex = annex.get_or_insert_default();
        match full {
            Full::DropOldest => annex.overflow = Some(Overflow::new(most)),
            Full::Wait | Full::Refuse => annex.room = Some(Semaphore::new(most)),
        }
    }
    // A wait before a restart needs a stack.
    let waits = |annex: &Annex| annex.shared().supervision.as_ref().is_some_and(Supervision::waits);
    let is_carried = A::BLOCKS || annex.as_deref().is_some_and(waits);
    with_current(|processor| {
        let origin = Origin::admit(cluster, processor)?;
        let (ready, handle) = Handle::fresh(&origin, priority, is_hub, is_carried, Cell::new(actor, annex));
        origin.start(ready);
        Ok(Address::from_handle(handle))
    })
}
