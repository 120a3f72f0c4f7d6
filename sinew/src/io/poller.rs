//! Asking the kernel which descriptors have become ready: epoll.
//!
//! A processor polls in three situations. When it runs out of work, it looks without waiting. When it
//! sleeps, it may sleep in a poller instead of on its own word. Under constant load it looks at a beat
//! when the last look is a millisecond old. `pollers.rs` says which processor minds which poller.

use super::event_scope::do_there;
use super::event_scoped::EventScoped;
use super::ring::Ring;
use super::slots::{self, Event, Key, Side};
use crate::base::{clock, fork, kernel};
use crate::processor::driver::{Bed, Bell};
use crate::processor::{recorder, with_current};
use crate::wait::Signalled;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The largest number of events that one system call returns. For more events, the cost of a second
/// call is small.
const EVENTS: usize = 256;

/// The CPU fetches the waiter of an event this number of events ahead, and its slot twice as far
/// ahead. With 1,000 connections that saves 0.25 µs of 1.6 µs for each event. Other distances are
/// unmeasured.
const AHEAD: usize = 4;

/// The user data of the bell: no slot has this number.
const BELL: u64 = u64::MAX;

/// The user data of inherited pollers.
const INHERITED: u64 = u64::MAX - 1;

/// The user data of the cluster's ring.
const RING: u64 = u64::MAX - 2;

/// Under constant load a processor looks at this distance. Half of it costs one more call for every
/// 15 requests of a server that a tracer slows down.
const LOOK_US: u64 = 1000;

/// A processor looks at this distance while strands yield: they want to let others run, and only a
/// look finds strands that wait for the kernel. A look takes half a microsecond.
const LOOK_FOR_OTHERS_US: u64 = 100;

/// The bell of a poller: ends a wait in it.
pub(crate) struct PollerBell(EventScoped<OwnedFd>);

impl PollerBell {
    fn new() -> io::Result<PollerBell> {
        Ok(PollerBell(EventScoped::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    /// Stops the ringing. By the processor that waits in the poller, while no other processor can come
    /// to wait there. So it stops no ring that was meant for another processor.
    fn stop(&self) {
        // If the bell does not ring, there is nothing to read.
        let _ = rustix::io::read(self.0.peek(), &mut [0; size_of::<u64>()]);
    }
}

impl Bell for PollerBell {
    /// Rings until the bell is [stopped](PollerBell::stop): a look by another processor must not take
    /// the ring away from the processor that is to hear it.
    fn ring(self: Arc<Self>) {
        fork::check();
        let Ok(descriptor) = self.0.get() else {
            return do_there(self.0.scope(), move || self.ring());
        };
        // If the counter is full, the bell rings already.
        let _ = rustix::io::write(descriptor, &1u64.to_ne_bytes());
    }
}

/// An epoll instance, and the bell of the processor that sleeps in it.
pub(crate) struct Poller {
    /// Not 0, and different for each poller.
    number: u32,
    epoll: EventScoped<OwnedFd>,
    bell: Arc<PollerBell>,
    /// The ring of the cluster, if its completions are reported here.
    ring: OnceLock<Arc<Ring>>,
    /// The pollers of retired processors. The kernel reports on them as on descriptors.
    inherited: Mutex<Vec<Arc<Poller>>>,
    /// Whether no processor sleeps in here any more.
    abandoned: AtomicBool,
    /// Whether a thread looks at this moment.
    busy: AtomicBool,
    /// When a thread looked last, in cycles.
    looked: AtomicU64,
    /// The calls of the kernel by a thread that is no processor, and the events that they brought.
    looks_aside: AtomicU64,
    events_aside: AtomicU64,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        let epoll = EventScoped::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let poller = Poller {
            number: NEXT.fetch_add(1, Relaxed),
            epoll,
            bell: Arc::new(PollerBell::new()?),
            ring: OnceLock::new(),
            inherited: Mutex::default(),
            abandoned: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            looked: AtomicU64::new(0),
            looks_aside: AtomicU64::new(0),
            events_aside: AtomicU64::new(0),
        };
        epoll::add(poller.fd(), poller.bell.0.peek(), EventData::new_u64(BELL), EventFlags::IN)?;
        Ok(poller)
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns the epoll descriptor. For callers in its event scope.
    fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.peek().as_fd()
    }

    pub(crate) fn bell(&self) -> &Arc<PollerBell> {
        &self.bell
    }

    /// Tells the kernel to report on a descriptor: on bytes to read, and on room to write only if
    /// `side` says so. `is_known` says that the kernel reports on the descriptor already.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn watch(&self, descriptor: BorrowedFd<'_>, key: Key, side: Side, is_known: bool) -> io::Result<()> {
        fork::check();
        let room = if side == Side::Write { EventFlags::OUT } else { EventFlags::empty() };
        let events = EventFlags::IN | EventFlags::RDHUP | EventFlags::PRI | EventFlags::ET | room;
        let data = EventData::new_u64(key.0);
        if !is_known {
            match epoll::add(self.fd(), descriptor, data, events) {
                // The kernel knows it from another owner, which left a copy of the descriptor behind.
                Err(Errno::EXIST) => {}
                done => return Ok(done?),
            }
        }
        Ok(epoll::modify(self.fd(), descriptor, data, events)?)
    }

    /// Tells the kernel to forget a descriptor that stays open.
    pub(crate) fn forget(&self, descriptor: BorrowedFd<'_>) {
        fork::check();
        // An error means that the kernel did not know the descriptor.
        let _ = epoll::delete(self.fd(), descriptor);
    }

    /// Minds the ring of the cluster from now on. Once.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn mind_ring(&self, ring: &Arc<Ring>) -> io::Result<()> {
        self.ring.get_or_init(|| Arc::clone(ring));
        let events = EventFlags::IN | EventFlags::ET;
        Ok(epoll::add(self.fd(), ring.fd()?, EventData::new_u64(RING), events)?)
    }

    fn inherited(&self) -> MutexGuard<'_, Vec<Arc<Poller>>> {
        self.inherited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Minds another poller from now on. Also takes over the pollers which that one has inherited: the
    /// kernel bounds how deep pollers may be nested.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn inherit(&self, poller: &Arc<Poller>) -> io::Result<()> {
        let others = poller.inherited().clone();
        for other in others {
            self.inherit(&other)?;
            poller.give_back(&other);
        }
        epoll::add(self.fd(), poller.fd(), EventData::new_u64(INHERITED), EventFlags::IN)?;
        self.inherited().push(Arc::clone(poller));
        Ok(())
    }

    /// Stops minding a poller that this one has inherited.
    pub(crate) fn give_back(&self, poller: &Arc<Poller>) {
        self.forget(poller.fd());
        self.inherited().retain(|inherited| !Arc::ptr_eq(inherited, poller));
    }

    pub(crate) fn set_abandoned(&self, abandoned: bool) {
        self.abandoned.store(abandoned, Relaxed);
    }

    /// Looks at all inherited pollers. Holds their lock throughout, so it never looks at a poller that
    /// has been given back.
    #[cold]
    fn look_at_inherited(&self, now: u64, signalled: &mut Signalled) {
        for poller in self.inherited().iter() {
            // No processor hears its bell any more, but a late ring may have come.
            if poller.abandoned.load(Relaxed) {
                poller.bell.stop();
            }
            poller.look_for(now, signalled);
        }
    }

    /// Looks for events without waiting, unless another thread looks at this moment. Returns whether a
    /// party goes on.
    pub(crate) fn look(&self, now: u64) -> bool {
        let mut signalled = Signalled::new();
        self.look_for(now, &mut signalled);
        signalled.go_on() > 0
    }

    /// As [`look`](Poller::look), but collects the parties in `signalled`, which lets them go on later.
    fn look_for(&self, now: u64, signalled: &mut Signalled) {
        // Acquire pairs with the Release below: one thread looks at a time.
        if self.busy.load(Relaxed) || self.busy.swap(true, Acquire) {
            return;
        }
        self.looked.store(now, Relaxed);
        self.collect(Some(Duration::ZERO), || {}, signalled);
        self.busy.store(false, Release);
    }

    /// Looks if no thread has looked for a while: [`LOOK_US`], or [`LOOK_FOR_OTHERS_US`] if a strand has
    /// just yielded. Returns whether a party goes on.
    pub(crate) fn look_at_times(&self, now: u64, gave_way: bool) -> bool {
        let while_us = if gave_way { LOOK_FOR_OTHERS_US } else { LOOK_US };
        now.saturating_sub(self.looked.load(Relaxed)) > clock::cycles_in_us(while_us) && self.look(now)
    }

    /// Waits for events, for `timeout` at most. Then calls `woke`, and lets the parties go on whose
    /// events have come. Returns the number of these parties.
    pub(crate) fn wait(&self, timeout: Option<Duration>, woke: impl FnOnce()) -> usize {
        let mut signalled = Signalled::new();
        self.collect(timeout, woke, &mut signalled);
        signalled.go_on()
    }

    /// As [`wait`](Poller::wait), but collects the parties in `signalled`, which lets them go on later:
    /// the caller may hold a lock, or keep other threads from polling.
    fn collect(&self, timeout: Option<Duration>, woke: impl FnOnce(), signalled: &mut Signalled) {
        // Uninitialised: to fill it would write 3 KiB at each look.
        let mut room = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        let events = self.wait_for(&mut room, timeout);
        woke();
        if !events.is_empty() {
            recorder::note_polled(events.len());
        }
        let (mut inherited, mut completed, mut others) = (false, false, 0);
        for (index, event) in events.iter().enumerate() {
            if let Some(later) = events.get(index + 2 * AHEAD) {
                slots::prefetch_slot(Key(later.data.u64()));
            }
            if let Some(later) = events.get(index + AHEAD) {
                slots::prefetch_waiter(Key(later.data.u64()));
            }
            match event.data.u64() {
                BELL => {
                    others += 1;
                    if timeout != Some(Duration::ZERO) {
                        self.bell.stop();
                    }
                }
                INHERITED => {
                    others += 1;
                    inherited = true;
                }
                RING => completed = true,
                key => slots::announce(Key(key), said(event.flags), signalled),
            }
        }
        self.count_look((events.len() - others) as u64);
        if let Some(ring) = self.ring.get() {
            // Also without an event: a completion interrupts the sleep of the thread that submitted.
            if completed { ring.reap(signalled) } else { ring.reap_if_flying(signalled) }
        }
        if inherited {
            self.look_at_inherited(clock::cycles(), signalled);
        }
    }

    /// Counts a call of the kernel that brought this number of events.
    fn count_look(&self, events: u64) {
        with_current(|processor| match processor {
            Some(processor) => processor.post().meters().count_look(events),
            None => {
                self.looks_aside.fetch_add(1, Relaxed);
                self.events_aside.fetch_add(events, Relaxed);
            }
        });
    }

    /// Returns the number of calls of the kernel by threads that are no processors, and the number of
    /// events that they brought.
    pub(crate) fn looks_aside(&self) -> (u64, u64) {
        (self.looks_aside.load(Relaxed), self.events_aside.load(Relaxed))
    }

    /// Waits for events, for `timeout` at most. Returns them; none if the wait was interrupted.
    fn wait_for<'a>(&self, room: &'a mut [MaybeUninit<epoll::Event>], timeout: Option<Duration>) -> &'a [epoll::Event] {
        fork::check();
        /// Whether the kernel has timeouts in nanoseconds (since Linux 5.11).
        static IS_EXACT: AtomicBool = AtomicBool::new(true);
        let is_short = |timeout: &Duration| !timeout.is_zero() && *timeout < Duration::from_millis(20);
        if let Some(timeout) = timeout.filter(is_short)
            && IS_EXACT.load(Relaxed)
        {
            return kernel::epoll_wait_exactly(self.fd(), room, timeout).unwrap_or_else(|error| {
                // A processor that wakes up too early sleeps again.
                IS_EXACT.store(error.raw_os_error() != Some(libc::ENOSYS), Relaxed);
                &[]
            });
        }
        // The kernel rounds up to milliseconds. A timeout that is out of range means no timeout.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match epoll::wait(self.fd(), room, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(_) => &[],
        }
    }
}

impl Bed for Poller {
    fn bell(&self) -> Arc<dyn Bell> {
        Arc::<PollerBell>::clone(&self.bell)
    }

    fn sleep(&self, timeout: Option<Duration>, woke: &dyn Fn()) -> usize {
        self.wait(timeout, woke)
    }
}

/// Translates the kernel's flags. Both sides see an error, and that the peer is gone.
fn said(events: EventFlags) -> Event {
    let any = |flags| events.intersects(flags);
    let broken = any(EventFlags::ERR | EventFlags::HUP);
    let (read, write) = (any(EventFlags::IN | EventFlags::RDHUP | EventFlags::PRI), any(EventFlags::OUT));
    // A read stops at urgent data, and there may be more bytes behind it.
    let endless = any(EventFlags::RDHUP | EventFlags::PRI);
    Event { ready: [read || broken, write || broken], closed: [endless || broken, broken] }
}
