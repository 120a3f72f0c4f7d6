//! The pollers of a cluster, and which threads poll.

use super::engine::Means;
use super::event_scope::Home;
use super::poller::Poller;
use super::ring::Ring;
use super::slots;
use crate::base::fatal;
use crate::processor::Processor;
use crate::processor::cluster::{Cluster, ClusterShared};
use crate::processor::driver::{Bed, Bell, Driver};
use crate::processor::idle::Idle;
use crate::sched::{MAX_PROCESSORS, ProcessorId};
use crate::wait::Signalled;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;

/// Says which kernel threads of a cluster ask the kernel for events.
///
/// All three settings serve the same sockets in the same way. `docs/measured.md` compares them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Polling {
    /// The processors share one poller. A processor with nothing to do looks at it. The sentinel, the
    /// first processor to fall asleep, sleeps in it.
    #[default]
    Shared,
    /// Each processor has a poller of its own and sleeps in it, as an event loop for each kernel
    /// thread does. A descriptor belongs to the poller of the processor on which a fibre first waited
    /// for it.
    PerProcessor,
    /// A kernel thread that runs no strands waits for events.
    Thread,
}

/// The pollers of a cluster, each made when a fibre first waits for a descriptor.
pub(crate) struct Pollers {
    polling: Polling,
    means: Means,
    /// By processor number, if each processor has its own; otherwise there is one.
    made: Box<[OnceLock<Arc<Poller>>]>,
    /// Each poller has a place in `made` below this. Written under `changing`, read by any processor.
    end: AtomicUsize,
    /// The ring of the cluster, made at the first operation. `None` if the kernel refused it.
    ring: OnceLock<Option<Arc<Ring>>>,
    /// Held by a thread that makes a poller, or gives one to another processor.
    changing: Mutex<Changing>,
    /// Whether the polling thread is to end. Written by `stop`.
    stopped: Arc<AtomicBool>,
}

#[derive(Default)]
struct Changing {
    /// The polling thread, if there is one.
    thread: Option<thread::JoinHandle<()>>,
    /// For each retired processor, the number of the processor that minds its poller.
    heirs: HashMap<usize, usize>,
}

impl Pollers {
    pub(crate) fn new(polling: Polling, means: Means) -> Pollers {
        let count = if polling == Polling::PerProcessor { MAX_PROCESSORS } else { 1 };
        Pollers {
            polling,
            means,
            made: std::iter::repeat_with(OnceLock::new).take(count).collect(),
            end: AtomicUsize::new(0),
            ring: OnceLock::new(),
            changing: Mutex::default(),
            stopped: Arc::default(),
        }
    }

    pub(crate) fn polling(&self) -> Polling {
        self.polling
    }

    pub(crate) fn means(&self) -> Means {
        self.means
    }

    fn changing(&self) -> MutexGuard<'_, Changing> {
        self.changing.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the place in `made` of the poller that serves a processor.
    fn place(&self, processor: ProcessorId) -> usize {
        match self.polling {
            Polling::PerProcessor => processor.index(),
            Polling::Shared | Polling::Thread => 0,
        }
    }

    /// Returns the poller for a descriptor that a strand on this processor waits for.
    ///
    /// # Errors
    /// The kernel's, if the poller has to be made.
    pub(crate) fn poller(&self, processor: ProcessorId, cluster: &ClusterShared) -> io::Result<Arc<Poller>> {
        let place = self.place(processor);
        if let Some(poller) = self.made[place].get() {
            return Ok(Arc::clone(poller));
        }
        self.poller_slow(place, cluster)
    }

    /// Makes the poller. A function of its own, so that only the first fibre that waits has this
    /// stack frame.
    #[cold]
    #[inline(never)]
    fn poller_slow(&self, place: usize, cluster: &ClusterShared) -> io::Result<Arc<Poller>> {
        let mut changing = self.changing();
        if let Some(poller) = self.made[place].get() {
            return Ok(Arc::clone(poller));
        }
        let poller = Arc::new(Poller::new()?);
        if self.polling == Polling::Thread {
            changing.thread = Some(self.start_thread(&poller, cluster)?);
        }
        self.enter(place, &poller);
        drop(changing);
        // The sentinel sleeps elsewhere, and would not notice events.
        cluster.idle().wake_sentinel();
        Ok(poller)
    }

    /// Enters a poller. The caller holds `changing`.
    fn enter(&self, place: usize, poller: &Arc<Poller>) {
        self.made[place].get_or_init(|| Arc::clone(poller));
        self.end.fetch_max(place + 1, Relaxed);
    }

    fn start_thread(&self, poller: &Arc<Poller>, cluster: &ClusterShared) -> io::Result<thread::JoinHandle<()>> {
        let (poller, stopped) = (Arc::clone(poller), Arc::clone(&self.stopped));
        cluster.threads::<Home>().spawn(format!("{}-poller", cluster.name()), move || {
            // Acquire pairs with the Release in `stop`.
            while !stopped.load(Acquire) {
                poller.wait(None, || {});
            }
        })
    }

    /// Returns the ring of the cluster, for a strand on this processor; `None` if there is none.
    fn ring(&self, processor: ProcessorId, cluster: &ClusterShared) -> Option<Arc<Ring>> {
        if !self.means.files() {
            return None;
        }
        let make = || {
            let poller = self.poller(processor, cluster).ok()?;
            let ring = Arc::new(Ring::new().ok()?);
            poller.mind_ring(&ring).ok()?;
            Some(ring)
        };
        self.ring.get_or_init(make).clone()
    }

    /// Takes out what the cluster's ring has completed, without a system call. Returns whether a party
    /// goes on.
    #[inline]
    fn reap(&self) -> bool {
        self.ring.get().is_some_and(|ring| ring.as_ref().is_some_and(|ring| reap(ring)))
    }

    /// Returns the number of calls of the kernel by the polling thread, and the number of events that they
    /// brought; `None` if there is no such thread.
    pub(crate) fn looks_of_thread(&self) -> Option<(u64, u64)> {
        if self.polling == Polling::Thread { Some(self.made[0].get()?.looks_aside()) } else { None }
    }

    /// Returns the poller that this processor minds, if it has been made.
    #[inline]
    fn minded(&self, processor: ProcessorId) -> Option<&Arc<Poller>> {
        if self.polling == Polling::Thread { None } else { self.made[self.place(processor)].get() }
    }
}

impl Driver for Pollers {
    fn look(&self, processor: ProcessorId, now: u64) -> bool {
        let found = self.minded(processor).is_some_and(|poller| poller.look(now)) | self.reap();
        if self.polling != Polling::PerProcessor {
            return found;
        }
        // The processor that minds another poller may be held up.
        let made = self.made[..self.end.load(Relaxed)].iter().filter_map(OnceLock::get);
        made.fold(found, |found, poller| poller.look_at_times(now, false) || found)
    }

    fn look_at_times(&self, processor: ProcessorId, now: u64, gave_way: bool) {
        self.reap();
        if let Some(poller) = self.minded(processor) {
            poller.look_at_times(now, gave_way);
        }
    }

    fn bed(&self, processor: ProcessorId, is_sentinel: bool) -> Option<&dyn Bed> {
        if !is_sentinel && self.polling != Polling::PerProcessor {
            return None;
        }
        self.minded(processor).map(|poller| &**poller as &dyn Bed)
    }

    /// Lets `heir` mind the poller of `retiring`: the fibres that wait there may run on any processor
    /// by now.
    fn bequeath(&self, retiring: ProcessorId, heir: ProcessorId, idle: &Idle) -> io::Result<()> {
        if self.polling != Polling::PerProcessor {
            return Ok(());
        }
        let mut changing = self.changing();
        let (retiring, heir_place) = (retiring.index(), heir.index());
        // Makes both pollers if need be: here the caller can still be told of an error.
        for place in [retiring, heir_place] {
            if self.made[place].get().is_none() {
                self.enter(place, &Arc::new(Poller::new()?));
            }
        }
        let made = |place: usize| self.made[place].get().expect("it was made just now");
        made(heir_place).inherit(made(retiring))?;
        changing.heirs.values_mut().filter(|heir| **heir == retiring).for_each(|heir| *heir = heir_place);
        changing.heirs.insert(retiring, heir_place);
        drop(changing);
        idle.wake_processor(heir);
        Ok(())
    }

    fn abandon(&self, processor: ProcessorId) {
        if self.polling != Polling::PerProcessor {
            return;
        }
        if let Some(poller) = self.made[processor.index()].get() {
            poller.set_abandoned(true);
        }
    }

    fn reclaim(&self, processor: ProcessorId) {
        if self.polling != Polling::PerProcessor {
            return;
        }
        let mut changing = self.changing();
        let heir = changing.heirs.remove(&processor.index());
        if let (Some(own), Some(heir)) = (self.made[processor.index()].get(), heir) {
            self.made[heir].get().expect("heirs have one").give_back(own);
            own.set_abandoned(false);
        }
    }

    /// Ends the polling thread and the ring, if there are any.
    fn stop(&self) {
        let thread = self.changing().thread.take();
        if let (Some(thread), Some(poller)) = (thread, self.made[0].get()) {
            // Release pairs with the Acquire in `start_thread`. The bell rings after this store.
            self.stopped.store(true, Release);
            Arc::clone(poller.bell()).ring();
            if thread.join().is_err() {
                fatal("a poller panicked");
            }
        }
        if let Some(Some(ring)) = self.ring.get() {
            ring.stop();
        }
        let ended: Vec<_> = self.made.iter().filter_map(OnceLock::get).map(|poller| poller.number()).collect();
        if !ended.is_empty() {
            slots::orphan(&ended);
        }
    }
}

fn reap(ring: &Ring) -> bool {
    let mut signalled = Signalled::new();
    ring.reap_if_flying(&mut signalled);
    signalled.go_on() > 0
}

impl Processor {
    /// Returns the ring of the processor's cluster; `None` if there is none.
    pub(crate) fn ring(&self) -> Option<Arc<Ring>> {
        self.cluster().drivers().get::<Pollers>().ring(self.post().id(), self.cluster())
    }

    /// Returns the poller for a descriptor that a strand on this processor waits for.
    ///
    /// # Errors
    /// The kernel's, if the poller has to be made.
    pub(crate) fn poller(&self) -> io::Result<Arc<Poller>> {
        self.cluster().drivers().get::<Pollers>().poller(self.post().id(), self.cluster())
    }
}

impl Cluster {
    /// Returns which kernel threads ask the kernel for events.
    pub fn polling(&self) -> Polling {
        self.shared().drivers().get::<Pollers>().polling()
    }
}
