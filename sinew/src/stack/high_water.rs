//! How much of their stacks fibres use: the high-water mark of each spawn site.
//!
//! A fibre is *measured* or not; that is decided when it begins. A measured fibre gets a stack without
//! pages below the top one, and when it ends, the kernel is asked for the lowest page that has memory. So
//! a measured fibre costs two calls of the kernel, and the pages that it cannot take over from the fibre
//! before. The first fibres of a site are all measured, later ones are a sample.

use super::arena::Class;
use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of fibres of each site that are measured, from the first one on ...
const ALL_UP_TO: u64 = 16;
/// ... and the number of later fibres of which one is measured. Unmeasured.
const ONE_IN: u64 = 64;

static IS_RECORDING: AtomicBool = AtomicBool::new(cfg!(debug_assertions));

/// Says whether fibres that begin now may be measured.
#[inline(always)]
pub(crate) fn is_recording() -> bool {
    IS_RECORDING.load(Ordering::Relaxed)
}

pub(crate) fn set_recording(is_recording: bool) {
    IS_RECORDING.store(is_recording, Ordering::Relaxed);
}

/// A spawn site, and a size of stack by its index.
type Key = (&'static Location<'static>, usize);

#[derive(Default)]
struct Counts {
    begun: u64,
    measured: u64,
    high_water: usize,
}

static SITES: Mutex<Option<HashMap<Key, Counts>>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<HashMap<Key, Counts>>> {
    SITES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a fibre that begins. Returns whether it is to be measured.
#[cold]
pub(crate) fn begin(site: &'static Location<'static>, class: Class) -> bool {
    let mut sites = lock();
    let counts = sites.get_or_insert_default().entry((site, class.index())).or_default();
    counts.begun += 1;
    counts.begun <= ALL_UP_TO || counts.begun.is_multiple_of(ONE_IN)
}

/// Notes that a measured fibre has ended and has used this number of bytes.
#[cold]
pub(crate) fn note(site: &'static Location<'static>, class: Class, used: usize) {
    let mut sites = lock();
    let counts = sites.get_or_insert_default().entry((site, class.index())).or_default();
    counts.measured += 1;
    counts.high_water = counts.high_water.max(used);
}

/// The largest use of a stack by the fibres of one spawn site: see
/// [`stack_use`](crate::memory::stack_use).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackUse {
    /// The place in the program that spawned the fibres.
    pub site: &'static Location<'static>,
    /// The size of their stacks, in bytes.
    pub stack_size: usize,
    /// The number of fibres that were measured.
    pub measured: u64,
    /// The largest number of bytes that one of them has used, in whole pages.
    pub high_water: usize,
}

impl fmt::Display for StackUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, size) = (self.high_water / 1024, self.stack_size / 1024);
        write!(f, "{}: {used} of {size} KiB, {} fibres measured", self.site, self.measured)
    }
}

/// Returns what has been measured: the fullest stacks first.
pub(crate) fn rows() -> Vec<StackUse> {
    let row = |((site, class), counts): (&Key, &Counts)| StackUse {
        site,
        stack_size: Class::all().nth(*class).map_or(0, Class::stack_size),
        measured: counts.measured,
        high_water: counts.high_water,
    };
    let sites = lock();
    let mut rows: Vec<_> = sites.iter().flatten().map(row).filter(|row| row.measured > 0).collect();
    drop(sites);
    let fullness = |row: &StackUse| row.high_water as f64 / row.stack_size as f64;
    rows.sort_by(|one, other| fullness(other).total_cmp(&fullness(one)).then_with(|| one.site.cmp(other.site)));
    rows
}
