//! Colours: events of one colour run one after the other.
#![allow(unsafe_code)]

use super::delayed::Delayed;
use super::errors::{NoTurn, Reason, Rejected};
use super::turn;
use crate::mailbox::{self, Content, Handle, Mailbox, Meter, Refused, State};
use crate::processor::cluster::Cluster;
use crate::processor::spawn::SpawnError;
use crate::processor::with_current;
use crate::strand::Priority;
use crate::sync::{OwnedPermit, Semaphore, oneshot};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A colour. Events of the same colour run one after the other, in the order in which they were posted.
/// Events of different colours run at the same time if there are processors for it.
///
/// A colour is a handle of 8 bytes, and clones are the same colour. An idle colour costs 128 bytes. It is bound to
/// no processor: between two turns it has no stack, so it moves to any processor of its cluster, in every
/// runtime. Colours may be posted to from anywhere: an event, a fibre, a task, a kernel thread.
///
/// Dropping all handles does not drop events that have been posted.
#[derive(Clone)]
pub struct Colour {
    handle: Handle<Bound>,
}

/// The permits for events that wait, if their number is bounded.
type Bound = Option<Arc<Semaphore>>;

impl State for Bound {}

/// An event of a bounded colour. It gives its permit back when it begins.
struct Bounded<C> {
    permit: OwnedPermit,
    content: C,
}

impl<C: Content> Content for Bounded<C> {
    fn run(self, mailbox: &Mailbox) {
        drop(self.permit);
        self.content.run(mailbox);
    }
}

impl Colour {
    /// Makes a colour of the caller's cluster.
    ///
    /// # Panics
    /// If the caller is neither a fibre nor a task nor an event: then there is no runtime. See
    /// [`ColourBuilder::cluster`].
    #[track_caller]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Colour {
        Colour::builder().build()
    }

    /// Returns a builder for a colour with other properties.
    pub fn builder() -> ColourBuilder {
        ColourBuilder { priority: Priority::Normal, cluster: None, bound: None }
    }

    /// Posts a closure: it runs after all events that have been posted to this colour before, and never at
    /// the same time as one of them.
    ///
    /// # Errors
    /// The colour rejects events, or is full. Then the closure comes back.
    #[inline]
    pub fn post<F: FnOnce() + Send + 'static>(&self, f: F) -> Result<(), Rejected<F>> {
        let posted = self.post_content(self.mailbox().meter(), 1, f);
        mailbox::spend();
        posted
    }

    /// As [`post`](Colour::post), but waits for room if the colour is bounded and full.
    ///
    /// # Errors
    /// The colour rejects events, or the wait was cancelled. Then the closure comes back.
    pub fn post_waiting<F: FnOnce() + Send + 'static>(&self, f: F) -> Result<(), Rejected<F>> {
        self.post_content_waiting(self.mailbox().meter(), 1, f)
    }

    /// Posts a closure when `delay` has passed. Until then the runtime does not end, unless the result is used
    /// to [cancel](Delayed::cancel) it. A closure that the colour rejects at that time is dropped.
    ///
    /// # Errors
    /// The runtime has ended. Then the closure has been dropped.
    pub fn post_after<F>(&self, delay: Duration, f: F) -> Result<Delayed, SpawnError>
    where
        F: FnOnce() + Send + 'static,
    {
        Delayed::new(self.clone(), delay, f)
    }

    /// Runs a closure in its turn, and returns its result. Waits until all events before it have run. The
    /// closure may borrow. The wait is not cancelled, as that for a lock is not.
    ///
    /// ```
    /// sinew::run(|| {
    ///     let colour = sinew::event::Colour::new();
    ///     let mut total = 0;
    ///     colour.run(|| total += 1).unwrap();
    ///     assert_eq!(total, 1);
    /// });
    /// ```
    ///
    /// A bound does not count here: the caller waits anyway.
    ///
    /// # Errors
    /// [`NoTurn`] says why the closure did not run. In particular, an event cannot wait for its own colour.
    ///
    /// # Panics
    /// If the closure does, with the same payload. In a task, which may not block its processor: see
    /// [`run_async`](Colour::run_async).
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> Result<R, NoTurn> {
        if self.mailbox().is_carried_by_caller() {
            return Err(NoTurn::Within);
        }
        turn::run(self.mailbox(), f, || ())
    }

    /// As [`run`](Colour::run), for tasks. The closure is posted when this is called, and runs even if the future is
    /// dropped.
    ///
    /// # Errors
    /// As `run`.
    ///
    /// # Panics
    /// When it is awaited: if the closure panicked.
    pub fn run_async<R, F>(&self, f: F) -> impl Future<Output = Result<R, NoTurn>> + Send + use<R, F>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let (sender, mut receiver) = oneshot::channel();
        let mailbox = self.mailbox();
        // SAFETY: the meter is the mailbox's, and nothing is borrowed.
        let posted = unsafe { mailbox.post(mailbox.meter(), 1, move || drop(sender.send(f()))) };
        async move {
            posted.map_err(|(refused, _)| NoTurn::from(refused))?;
            Ok(receiver.recv_async().await.expect("the closure of a turn panicked"))
        }
    }

    /// Rejects all events from now on. Those that have been posted still run.
    pub fn close(&self) {
        self.mailbox().word().close();
    }

    /// Returns whether the colour is [closed](Colour::close).
    pub fn is_closed(&self) -> bool {
        self.mailbox().word().is_closed()
    }

    /// Returns whether no event of this colour waits or runs. The answer may be out of date.
    pub fn is_idle(&self) -> bool {
        !self.mailbox().word().is_active()
    }

    /// Returns the number of closures of this colour that have panicked. A [`Handler`](super::Handler) counts
    /// its own calls.
    pub fn panics(&self) -> u32 {
        self.mailbox().meter().panics()
    }

    /// Returns whether the caller is an event of this colour.
    pub fn is_current(&self) -> bool {
        self.mailbox().is_carried_by_caller()
    }

    pub(super) fn mailbox(&self) -> &Mailbox {
        self.handle.mailbox()
    }

    /// Posts a content that counts for `meter`, which is the mailbox's own or lives for ever.
    #[inline]
    pub(super) fn post_content<C: Content + Send + 'static>(
        &self,
        meter: &Meter,
        penalty: u32,
        content: C,
    ) -> Result<(), Rejected<C>> {
        match self.handle.state() {
            None => self.post_unbounded(meter, penalty, content),
            Some(room) => match Arc::clone(room).try_acquire_owned() {
                Some(permit) => self.post_permitted(meter, penalty, permit, content),
                None => Err(Rejected::new(Reason::Full, content)),
            },
        }
    }

    /// As `post_content`, but waits for room.
    pub(super) fn post_content_waiting<C: Content + Send + 'static>(
        &self,
        meter: &Meter,
        penalty: u32,
        content: C,
    ) -> Result<(), Rejected<C>> {
        let Some(room) = self.handle.state() else { return self.post_unbounded(meter, penalty, content) };
        if self.is_current() {
            // Somebody else may make room, but not if all letters wait behind this one.
            return match Arc::clone(room).try_acquire_owned() {
                Some(permit) => self.post_permitted(meter, penalty, permit, content),
                None => Err(Rejected::new(Reason::Within, content)),
            };
        }
        match Arc::clone(room).acquire_owned() {
            Ok(permit) => self.post_permitted(meter, penalty, permit, content),
            Err(_) => Err(Rejected::new(Reason::Cancelled, content)),
        }
    }

    fn post_permitted<C: Content + Send + 'static>(
        &self,
        meter: &Meter,
        penalty: u32,
        permit: OwnedPermit,
        content: C,
    ) -> Result<(), Rejected<C>> {
        let posted = self.post_unbounded(meter, penalty, Bounded { permit, content });
        posted.map_err(|rejected| rejected.map(|bounded| bounded.content))
    }

    #[inline]
    fn post_unbounded<C: Content + Send + 'static>(
        &self,
        meter: &Meter,
        penalty: u32,
        content: C,
    ) -> Result<(), Rejected<C>> {
        // SAFETY: the meter is the mailbox's, or that of a handler, which lives for ever. Nothing is borrowed.
        let posted = unsafe { self.mailbox().post(meter, penalty, content) };
        posted.map_err(|(refused, content)| Rejected::new(Reason::from(refused), content))
    }
}

impl From<Refused> for Reason {
    fn from(refused: Refused) -> Reason {
        match refused {
            Refused::Closed => Reason::Closed,
            Refused::Ended => Reason::Ended,
        }
    }
}

impl From<Refused> for NoTurn {
    fn from(refused: Refused) -> NoTurn {
        match refused {
            Refused::Closed => NoTurn::Closed,
            Refused::Ended => NoTurn::Ended,
        }
    }
}

/// Colours are equal if they are the same one.
impl PartialEq for Colour {
    fn eq(&self, other: &Colour) -> bool {
        std::ptr::eq(self.mailbox(), other.mailbox())
    }
}

impl Eq for Colour {}

impl fmt::Debug for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Colour")
            .field("is_idle", &self.is_idle())
            .field("is_closed", &self.is_closed())
            .field("bound", &self.handle.state().as_ref().map(|room| room.available()))
            .finish()
    }
}

/// Makes colours with other properties than those of [`Colour::new`].
///
/// ```
/// use sinew::event::Colour;
/// let runtime = sinew::Runtime::builder().processors(1).build().unwrap();
/// // From any kernel thread.
/// let colour = Colour::builder().cluster(runtime.main_cluster()).bounded(100).build();
/// assert_eq!(colour.run(|| 6 * 7), Ok(42));
/// ```
#[derive(Debug)]
#[must_use]
pub struct ColourBuilder {
    priority: Priority,
    cluster: Option<Cluster>,
    bound: Option<usize>,
}

impl ColourBuilder {
    /// Makes the events of the colour more or less urgent than others.
    pub fn priority(mut self, priority: Priority) -> ColourBuilder {
        self.priority = priority;
        self
    }

    /// Lets the events run on `cluster` instead of the caller's.
    pub fn cluster(mut self, cluster: &Cluster) -> ColourBuilder {
        self.cluster = Some(cluster.clone());
        self
    }

    /// Lets no more than `most` events wait. An event that has begun does not count. Without this, memory is the
    /// bound: an event takes 64 bytes and more.
    pub fn bounded(mut self, most: usize) -> ColourBuilder {
        self.bound = Some(most);
        self
    }

    /// Makes the colour.
    ///
    /// # Panics
    /// If no cluster was named, and the caller is neither a fibre nor a task nor an event.
    #[track_caller]
    pub fn build(self) -> Colour {
        let bound = self.bound.map(|most| Arc::new(Semaphore::new(most)));
        let make = |cluster: &_| Colour { handle: Handle::new(cluster, self.priority, bound) };
        match &self.cluster {
            Some(cluster) => make(cluster.shared()),
            None => match with_current(|processor| processor.map(|processor| processor.cluster().to_arc())) {
                Some(cluster) => make(&cluster),
                None => SpawnError::NoRuntime.panic("make a colour"),
            },
        }
    }
}
