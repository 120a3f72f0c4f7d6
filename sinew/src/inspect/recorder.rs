//! Switches the flight recorder.

use crate::processor::cluster::Cluster;
use crate::processor::recorder;

/// Switches the flight recorder on or off, for all processors of the process.
///
/// Each processor then keeps the last things that it did in a ring: which fibre, task or mailbox ran, when it had
/// become ready, why it stopped, and for what it waits; what was spawned, made ready and stolen; when the processor
/// slept. `sinew trace` makes a trace of it, of a process that runs or of a core. Nothing is sent anywhere, and the
/// program does not stop for a reader.
///
/// A processor follows at its next beat, every 16 µs while it runs, or when it has work again. Rings have 32,768 slots
/// of 16 bytes, unless [`Builder::record`](crate::Builder::record) or the variable `SINEW_RECORD` of the environment
/// says otherwise. With `SINEW_RECORD=1` runtimes record from their start; a larger number is the number of slots.
///
/// ```
/// use sinew::{Cluster, inspect};
/// inspect::record(true);
/// sinew::run(|| {
///     let cluster = Cluster::current().unwrap();
///     // The processors follow at a beat.
///     while inspect::recorded(&cluster).entries == 0 {
///         sinew::yield_now();
///     }
/// });
/// # inspect::record(false);
/// ```
pub fn record(is_on: bool) {
    recorder::order(is_on);
}

/// Counters of the flight recorders of a cluster. All numbers count from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recorded {
    /// The number of entries that were written, each counted by its slots: one or two, and one for the time of several.
    pub entries: u64,
    /// The number of these slots that were overwritten since. A reader that did not read them in time has lost them.
    pub overwritten: u64,
}

/// Returns the counters of the flight recorders of a cluster.
pub fn recorded(cluster: &Cluster) -> Recorded {
    let count = |sum: Recorded, (written, left): (u64, u64)| Recorded {
        entries: sum.entries + written,
        overwritten: sum.overwritten + written - left,
    };
    cluster.shared().rings().fold(Recorded::default(), count)
}
