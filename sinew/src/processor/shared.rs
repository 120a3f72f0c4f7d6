//! What the clusters of a runtime share, and how a runtime ends.

use super::cluster::ClusterShared;
use super::drain::{Drain, Way};
use super::recorder::Setting;
use super::roll::Roll;
use super::stall::{Portray, StallPlan};
use super::warden::Warden;
use crate::identity::Libc;
use crate::strand::Owed;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The part of a runtime that its clusters share.
pub(crate) struct RuntimeShared {
    migrating: bool,
    /// The C library, if fibres have identities of their own.
    libc: Option<&'static Libc>,
    clusters: Mutex<Vec<Arc<ClusterShared>>>,
    drain: Drain,
    warden: Warden,
    /// Says which strand a processor runs.
    portray: Portray,
    /// How stalls are reported, if they are.
    stalls: Option<StallPlan>,
    /// The live strands, if the runtime keeps a roll. Set before the first strand is spawned.
    roll: OnceLock<Roll>,
    recording: Setting,
    /// Signals the party that waits for the end. Parties belong to the layer above.
    signal: fn(Owed),
}

impl RuntimeShared {
    pub(crate) fn new(
        migrating: bool,
        libc: Option<&'static Libc>,
        portray: Portray,
        stalls: Option<StallPlan>,
        signal: fn(Owed),
    ) -> RuntimeShared {
        RuntimeShared {
            migrating,
            libc,
            clusters: Mutex::default(),
            drain: Drain::new(),
            warden: Warden::new(),
            portray,
            stalls,
            roll: OnceLock::new(),
            recording: Setting::new(),
            signal,
        }
    }

    pub(crate) fn is_migrating(&self) -> bool {
        self.migrating
    }

    /// Returns what fibres need that have identities of their own, if they have.
    pub(crate) fn libc(&self) -> Option<&'static Libc> {
        self.libc
    }

    /// Makes the runtime keep a roll of its strands. Before the first strand is spawned.
    pub(crate) fn keep_roll(&self) {
        self.roll.get_or_init(Roll::new);
    }

    /// Makes processors record, in rings of this number of slots; 0 if they are not to. Before the first cluster.
    pub(crate) fn record(&self, slots: usize) {
        self.recording.set(slots);
    }

    pub(super) fn recording(&self) -> &Setting {
        &self.recording
    }

    /// Returns the roll of the runtime's strands, if it keeps one.
    #[inline]
    pub(crate) fn roll(&self) -> Option<&Roll> {
        self.roll.get()
    }

    fn clusters(&self) -> MutexGuard<'_, Vec<Arc<ClusterShared>>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, cluster: &ClusterShared) {
        self.clusters().push(cluster.to_arc());
        self.warden.start(cluster);
    }

    pub(crate) fn all_clusters(&self) -> Vec<Arc<ClusterShared>> {
        self.clusters().clone()
    }

    pub(super) fn portray(&self) -> Portray {
        self.portray
    }

    pub(super) fn stalls(&self) -> Option<&StallPlan> {
        self.stalls.as_ref()
    }

    #[inline]
    pub(super) fn warden(&self) -> &Warden {
        &self.warden
    }

    /// Counts a strand that a caller from outside the runtime is about to spawn. Returns `false` if
    /// the runtime ends: then the caller must not spawn it.
    pub(super) fn count_spawned_outside(&self) -> bool {
        match self.drain.let_in() {
            Way::Open => true,
            Way::Closed(drainer) => {
                drainer.into_iter().for_each(self.signal);
                false
            }
        }
    }

    /// Takes back a count of [`count_spawned_outside`](RuntimeShared::count_spawned_outside): the strand
    /// was not spawned.
    pub(super) fn take_back_outside(&self) {
        if let Some(drainer) = self.drain.take_back() {
            (self.signal)(drainer);
        }
    }

    /// Returns the number of strands that callers from outside the runtime have spawned.
    pub(crate) fn spawned_outside(&self) -> u64 {
        self.drain.spawned_outside()
    }

    /// Returns the number of strands that have been spawned and have not finished.
    pub(crate) fn live(&self) -> u64 {
        let clusters = self.clusters();
        self.drain.live(clusters.iter().flat_map(|cluster| cluster.tallies()))
    }

    /// Signals the drainer if it waits. By a processor, after it has counted a strand that has
    /// finished.
    #[inline]
    pub(super) fn one_finished(&self) {
        if let Some(drainer) = self.drain.one_finished() {
            (self.signal)(drainer);
        }
    }

    /// Ends the runtime: refuses spawns from outside, waits for the last strand, then stops all
    /// processors. See [`Drain::wait`] for `block`.
    pub(crate) fn end(&self, block: impl Fn(&dyn Fn(NonZeroU64) -> bool)) {
        self.drain.close();
        self.drain.wait(|| self.live() == 0, block);
        self.warden.stop();
        let clusters = std::mem::take(&mut *self.clusters());
        for cluster in clusters {
            cluster.stop();
        }
    }
}
