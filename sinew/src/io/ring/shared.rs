//! The ring of a cluster: any processor submits, any thread that polls reaps.
#![allow(unsafe_code)]

use super::super::event_scope::{OtherScope, do_there, here};
use super::flight::{Flight, ROOM, sweep};
use super::plan::Plan;
use super::queues::{Landing, Queues};
use super::room::Room;
use crate::wait::Signalled;
use io_uring::squeue::Entry;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::task::Waker;

/// The largest number of operations in flight, unless the environment says otherwise. The kernel's queues
/// take 40 KiB then. Unmeasured: more than a disk has use for.
const OPERATIONS: u32 = 256;

/// Environment variable: the largest number of operations in flight, for tests of small rings.
const VARIABLE: &str = "SINEW_RING_OPERATIONS";

/// A ring for operations that wait and have no readiness.
pub(crate) struct Ring {
    queues: Queues,
    /// Each operation in flight takes [`ROOM`].
    room: Room,
    /// The room of all operations in flight, as far as this thread knows. Written by submitters and
    /// reapers.
    flying: AtomicUsize,
    /// Whether the kernel cannot cancel all operations at once. Written by reapers.
    no_sweep: AtomicBool,
}

impl Ring {
    /// Makes a ring in the caller's event scope.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn new() -> io::Result<Ring> {
        let asked = std::env::var(VARIABLE).ok().and_then(|number| number.parse().ok());
        Ring::with_operations(asked.unwrap_or(OPERATIONS).clamp(1, 4096))
    }

    fn with_operations(operations: u32) -> io::Result<Ring> {
        let room = operations * ROOM as u32;
        let queues = Queues::new(room.next_power_of_two())?;
        let (room, flying) = (Room::new(room as usize), AtomicUsize::new(0));
        Ok(Ring { queues, room, flying, no_sweep: AtomicBool::new(false) })
    }

    /// Returns the descriptor, which is ready to be read while there are completions.
    ///
    /// # Errors
    /// If the caller is in another event scope.
    pub(crate) fn fd(&self) -> Result<BorrowedFd<'_>, OtherScope> {
        self.queues.fd()
    }

    /// Returns the largest number of operations in flight.
    pub(super) fn operations(&self) -> usize {
        self.room.total() / ROOM
    }

    /// Says whether the kernel does not take operations any more.
    pub(super) fn has_refused(&self) -> bool {
        self.queues.has_refused()
    }

    pub(super) fn room(&self) -> &Room {
        &self.room
    }

    /// Lets the idle operations of a flight depart, for which the caller has taken room. `kept` is for
    /// [`Flight::depart`].
    ///
    /// # Errors
    /// If the caller is in another event scope: then nothing has been submitted.
    ///
    /// # Safety
    /// Neither the flight nor what the plans point at is moved, used or freed before the flight is over.
    pub(super) unsafe fn launch(
        &self,
        flight: &Flight,
        kept: Option<Waker>,
        plan: impl FnMut(usize) -> Plan,
    ) -> Result<(), OtherScope> {
        if here() != self.queues.scope() {
            return Err(OtherScope);
        }
        self.flying.fetch_add(flight.idle() * ROOM, Relaxed);
        flight.depart(kept);
        let mut signalled = Signalled::new();
        // SAFETY: the caller promises it.
        unsafe { self.submit(flight.entries(plan), &mut signalled) };
        // An operation that did not have to wait is done by now.
        self.reap(&mut signalled);
        signalled.go_on();
        Ok(())
    }

    /// # Safety
    /// What an entry points at stays as it is until the entry has landed.
    unsafe fn submit(&self, entries: impl IntoIterator<Item = Entry>, signalled: &mut Signalled) {
        let mut landed = Vec::new();
        // SAFETY: the caller promises it.
        let submitted = unsafe { self.queues.submit(entries, &mut landed) };
        submitted.expect("entries are submitted in the ring's event scope");
        if !landed.is_empty() {
            self.land_all(|land| landed.into_iter().for_each(land), signalled);
        }
    }

    /// Takes out the completions that have come. Adds what can go on to `signalled`. In the ring's event
    /// scope.
    pub(crate) fn reap(&self, signalled: &mut Signalled) {
        self.land_all(|land| self.queues.reap(land), signalled);
    }

    /// As [`reap`](Ring::reap), for a thread that was not told of a completion: it does not look if it
    /// knows of nothing in flight.
    #[inline]
    pub(crate) fn reap_if_flying(&self, signalled: &mut Signalled) {
        if self.flying.load(Relaxed) > 0 {
            self.reap(signalled);
        }
    }

    fn land_all(&self, each: impl FnOnce(&mut dyn FnMut(Landing)), signalled: &mut Signalled) {
        let (mut room, mut help) = (0, Vec::new());
        each(&mut |landing: Landing| {
            if landing.refuses_sweep() {
                self.no_sweep.store(true, Relaxed);
            }
            let landed = landing.land(signalled);
            room += landed.room;
            help.extend(landed.help);
        });
        if room > 0 {
            self.flying.fetch_sub(room, Relaxed);
            self.room.give_for(room, signalled);
        }
        if !help.is_empty() {
            // SAFETY: a flight is not over before its helpers have landed.
            unsafe { self.submit(help, signalled) };
        }
    }

    /// Has the operations of a flight cancelled. They land soon. In the ring's event scope.
    pub(super) fn cancel(&self, flight: &Flight) {
        let mut signalled = Signalled::new();
        // SAFETY: as in `land_all`.
        unsafe { self.submit(flight.ask(), &mut signalled) };
        self.reap(&mut signalled);
        signalled.go_on();
    }

    /// Calls `f` in the ring's event scope: at once if the caller is there, soon otherwise.
    pub(super) fn call_there(self: &Arc<Self>, f: impl FnOnce(&Ring) + Send + 'static) {
        if here() == self.queues.scope() {
            return f(self);
        }
        let ring = Arc::clone(self);
        do_there(self.queues.scope(), move || f(&ring));
    }

    /// Ends the ring: cancels what futures have left in flight, and waits until nothing is. By the thread
    /// that ends the runtime, after the processors.
    pub(crate) fn stop(self: &Arc<Self>) {
        self.room.close();
        let (report, reported) = mpsc::channel();
        self.call_there(move |ring| {
            ring.drain();
            drop(report);
        });
        // Nothing is ever sent: this waits until the sender is gone.
        let _: Result<(), _> = reported.recv();
    }

    fn drain(&self) {
        loop {
            let mut signalled = Signalled::new();
            self.reap(&mut signalled);
            if !self.room.is_empty() {
                // SAFETY: the entry has no pointers.
                unsafe { self.submit([sweep()], &mut signalled) };
                self.reap(&mut signalled);
            }
            signalled.go_on();
            // An older kernel does not sweep. There a record that is still in flight keeps itself, with its
            // buffers, for ever.
            if self.room.is_empty() || self.no_sweep.load(Relaxed) || self.queues.wait().is_err() {
                return;
            }
        }
    }
}
