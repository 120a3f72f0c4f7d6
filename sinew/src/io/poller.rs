//! Asking the kernel which descriptors have become ready: epoll.
//!
//! Who polls: a processor that runs out of work, without waiting; one that sleeps in
//! here instead of on its futex; and under constant load whoever has a tick when the last
//! look is a millisecond old. `pollers.rs` has who minds which poller.
#![allow(unsafe_code)]

use super::descriptor::{owned, result};
use super::event_scope::do_there;
use super::event_scoped::EventScoped as Scoped;
use super::slots::{self, Event, Key, Side};
use crate::base::clock;
use crate::base::fork;
use crate::processor::driver::{Bed, Bell};
use crate::wait::Signalled;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Events that one call may bring. Beyond this a second call is cheap in comparison.
const EVENTS: usize = 256;

/// So many events before its turn the one who waits for an event is fetched, and twice as
/// many its slot. With 1,000 connections that saves a quarter of a microsecond of 1.6 for
/// each; other distances are unmeasured.
const AHEAD: usize = 4;

/// The user data of the bell: no slot has this number.
const BELL: u64 = u64::MAX;

/// The user data of inherited pollers.
const INHERITED: u64 = u64::MAX - 1;

/// Under constant load somebody looks this often. Twice as often cost one call more for
/// every 15 requests of a server that a tracer slowed down.
const LOOK_US: u64 = 1000;

/// As often while strands give way in the midst of their work: they mean to let
/// others run, and only a look finds those who wait for the kernel. A look takes half a microsecond.
const LOOK_FOR_OTHERS_US: u64 = 100;

/// Rings in a poller: whoever waits there returns.
pub(crate) struct PollerBell(Scoped<OwnedFd>);

impl PollerBell {
    fn new() -> io::Result<PollerBell> {
        // SAFETY: no memory is involved, and the descriptor is a new one.
        let descriptor = unsafe { owned(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)) };
        Ok(PollerBell(Scoped::new(descriptor?)))
    }

    /// By the one who waits in the poller, while nobody else can come to wait there: so
    /// it stops no ring that was for another.
    fn stop(&self) {
        let mut count = 0u64;
        // If it does not ring, there is nothing to be read.
        // SAFETY: eight bytes of `count` are written.
        unsafe { libc::read(self.0.peek().as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
    }
}

impl Bell for PollerBell {
    /// Rings until it is [stopped](PollerBell::stop): a look of another's must not take it away
    /// from the processor that is to hear it.
    fn ring(self: Arc<Self>) {
        fork::check();
        let Ok(descriptor) = self.0.get() else {
            return do_there(self.0.scope(), move || self.ring());
        };
        // If the number is full, it has rung often enough.
        let one = 1u64;
        // SAFETY: eight bytes of `one` are read.
        unsafe { libc::write(descriptor.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    }
}

pub(crate) struct Poller {
    /// Not 0, and no other's.
    number: u32,
    epoll: Scoped<OwnedFd>,
    bell: Arc<PollerBell>,
    /// Those of processors that are gone. The kernel reports on them as on descriptors.
    inherited: Mutex<Vec<Arc<Poller>>>,
    /// Whether nobody sleeps in here any more.
    abandoned: AtomicBool,
    /// Whether somebody is at it.
    busy: AtomicBool,
    /// When somebody looked last, in ticks.
    looked: AtomicU64,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        // SAFETY: as in `PollerBell::new`.
        let epoll = Scoped::new(unsafe { owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }?);
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let poller = Poller {
            number: NEXT.fetch_add(1, Relaxed),
            epoll,
            bell: Arc::new(PollerBell::new()?),
            inherited: Mutex::default(),
            abandoned: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            looked: AtomicU64::new(0),
        };
        poller.control(libc::EPOLL_CTL_ADD, poller.bell.0.peek().as_raw_fd(), libc::EPOLLIN, BELL)?;
        Ok(poller)
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// By those who are in its scope.
    fn raw(&self) -> RawFd {
        self.epoll.peek().as_raw_fd()
    }

    pub(crate) fn bell(&self) -> &Arc<PollerBell> {
        &self.bell
    }

    fn control(&self, operation: libc::c_int, descriptor: RawFd, events: libc::c_int, data: u64) -> io::Result<()> {
        fork::check();
        let mut event = libc::epoll_event { events: events as u32, u64: data };
        // SAFETY: the event is valid for the call.
        result(unsafe { libc::epoll_ctl(self.raw(), operation, descriptor, &mut event) })
    }

    /// Tells the kernel to report on a descriptor: on what is to be read, and on room
    /// to write only where that has been waited for.
    pub(crate) fn watch(&self, descriptor: RawFd, key: Key, side: Side, known: bool) -> io::Result<()> {
        let room = if side == Side::Write { libc::EPOLLOUT } else { 0 };
        let events = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLPRI | libc::EPOLLET | room;
        if !known {
            match self.control(libc::EPOLL_CTL_ADD, descriptor, events, key.0) {
                // Known by another owner, which left a copy of the descriptor behind.
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                done => return done,
            }
        }
        self.control(libc::EPOLL_CTL_MOD, descriptor, events, key.0)
    }

    /// Tells the kernel to forget a descriptor that lives on.
    pub(crate) fn forget(&self, descriptor: RawFd) {
        // It may never have known it: then there is nothing to forget.
        let _ = self.control(libc::EPOLL_CTL_DEL, descriptor, 0, 0);
    }

    fn inherited(&self) -> MutexGuard<'_, Vec<Arc<Poller>>> {
        self.inherited.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Minds another poller from now on, and those that it has inherited: in its stead,
    /// for the kernel bounds how deep they may lie.
    pub(crate) fn inherit(&self, poller: &Arc<Poller>) -> io::Result<()> {
        let others = poller.inherited().clone();
        for other in others {
            self.inherit(&other)?;
            poller.give_back(&other);
        }
        self.control(libc::EPOLL_CTL_ADD, poller.raw(), libc::EPOLLIN, INHERITED)?;
        self.inherited().push(Arc::clone(poller));
        Ok(())
    }

    /// Ceases to mind a poller that it has inherited.
    pub(crate) fn give_back(&self, poller: &Arc<Poller>) {
        let _ = self.control(libc::EPOLL_CTL_DEL, poller.raw(), 0, 0);
        self.inherited().retain(|inherited| !Arc::ptr_eq(inherited, poller));
    }

    pub(crate) fn set_abandoned(&self, abandoned: bool) {
        self.abandoned.store(abandoned, Relaxed);
    }

    /// Under the lock throughout: one that has been given back is left alone.
    #[cold]
    fn look_at_inherited(&self, now: u64, signalled: &mut Signalled) {
        for poller in self.inherited().iter() {
            // Nobody hears it any more, but it may have been rung late.
            if poller.abandoned.load(Relaxed) {
                poller.bell.stop();
            }
            poller.look_for(now, signalled);
        }
    }

    /// Looks, unless somebody else does. Returns whether anybody goes on.
    pub(crate) fn look(&self, now: u64) -> bool {
        let mut signalled = Signalled::new();
        self.look_for(now, &mut signalled);
        signalled.go_on() > 0
    }

    /// As [`look`](Poller::look), but leaves it to `signalled` that they go on.
    fn look_for(&self, now: u64, signalled: &mut Signalled) {
        // Acquire and Release: one at a time.
        if self.busy.load(Relaxed) || self.busy.swap(true, Acquire) {
            return;
        }
        self.looked.store(now, Relaxed);
        self.collect(Some(Duration::ZERO), || {}, signalled);
        self.busy.store(false, Release);
    }

    /// Looks if nobody has for a while, which is shorter if a strand has just given way. Whether
    /// anybody can go on.
    pub(crate) fn look_at_times(&self, now: u64, gave_way: bool) -> bool {
        let while_us = if gave_way { LOOK_FOR_OTHERS_US } else { LOOK_US };
        now.saturating_sub(self.looked.load(Relaxed)) > clock::cycles_in_us(while_us) && self.look(now)
    }

    /// Waits for events, for no longer than `timeout`, says when that is over, and lets
    /// those go on who can. Returns how many these are.
    pub(crate) fn wait(&self, timeout: Option<Duration>, waited: impl FnOnce()) -> usize {
        let mut signalled = Signalled::new();
        self.collect(timeout, waited, &mut signalled);
        signalled.go_on()
    }

    /// As [`wait`](Poller::wait), but leaves it to `signalled` that they go on: the caller may
    /// have a lock, or keep others from polling.
    fn collect(&self, timeout: Option<Duration>, waited: impl FnOnce(), signalled: &mut Signalled) {
        // Not filled first: that would be 3 KiB at each look.
        let mut events = [const { MaybeUninit::<libc::epoll_event>::uninit() }; EVENTS];
        let count = self.wait_for(&mut events, timeout);
        waited();
        let mut inherited = false;
        // SAFETY: the kernel has written as many.
        let event = |index: usize| unsafe { events[index].assume_init() };
        for index in 0..count {
            if index + 2 * AHEAD < count {
                slots::prefetch_slot(Key(event(index + 2 * AHEAD).u64));
            }
            if index + AHEAD < count {
                slots::prefetch_waiter(Key(event(index + AHEAD).u64));
            }
            let event = event(index);
            match event.u64 {
                BELL if timeout == Some(Duration::ZERO) => {}
                BELL => self.bell.stop(),
                INHERITED => inherited = true,
                key => slots::announce(Key(key), said(event.events as libc::c_int), signalled),
            }
        }
        if inherited {
            self.look_at_inherited(clock::cycles(), signalled);
        }
    }

    /// Gives how many of the events it has filled.
    fn wait_for(&self, events: &mut [MaybeUninit<libc::epoll_event>], timeout: Option<Duration>) -> usize {
        fork::check();
        // Rounded up: a sleeper that wakes too early sleeps again.
        let whole = |timeout: Duration| {
            libc::c_int::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
        };
        let exact = timeout.is_some_and(|timeout| !timeout.is_zero() && timeout < Duration::from_millis(20));
        if exact && let Some(count) = self.wait_exactly(events, timeout) {
            return count;
        }
        // SAFETY: the events are valid for writing.
        let count = unsafe {
            libc::epoll_wait(
                self.raw(),
                events.as_mut_ptr().cast(),
                events.len() as libc::c_int,
                timeout.map_or(-1, whole),
            )
        };
        // Interrupted is as good as nothing.
        usize::try_from(count).unwrap_or(0)
    }

    /// With nanoseconds, where the kernel can do that (5.11).
    fn wait_exactly(&self, events: &mut [MaybeUninit<libc::epoll_event>], timeout: Option<Duration>) -> Option<usize> {
        static UNKNOWN: AtomicBool = AtomicBool::new(false);
        if UNKNOWN.load(Relaxed) {
            return None;
        }
        let timeout = timeout?;
        let time = libc::timespec { tv_sec: timeout.as_secs() as libc::time_t, tv_nsec: timeout.subsec_nanos().into() };
        // SAFETY: the events are valid for writing, the time for reading.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.raw(),
                events.as_mut_ptr(),
                events.len(),
                &raw const time,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if count < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
            UNKNOWN.store(true, Relaxed);
            return None;
        }
        Some(usize::try_from(count).unwrap_or(0))
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

/// An error or a peer that is gone is for both sides to see.
fn said(events: libc::c_int) -> Event {
    let any = |mask| events & mask != 0;
    let broken = any(libc::EPOLLERR | libc::EPOLLHUP);
    let (read, write) = (any(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLPRI), any(libc::EPOLLOUT));
    // A read stops at urgent data: there is more behind it.
    let endless = any(libc::EPOLLRDHUP | libc::EPOLLPRI);
    Event { ready: [read || broken, write || broken], closed: [endless || broken, broken] }
}
