//! What the kernel may lack, and how a test pretends that it does.
//!
//! The environment variable `SINEW_WITHOUT` holds a comma-separated list of facilities that the runtime
//! does without: `SINEW_WITHOUT=membarrier,madvise-guards`. So every fallback can be run on a machine
//! that does not need it.

use std::sync::OnceLock;

/// A facility of the machine for which the runtime has a fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Facility {
    /// `membarrier(2)`. Fallback: a full fence on the hot side.
    Membarrier,
    /// `MADV_GUARD_INSTALL`. Fallback: `mprotect`, one mapping per guard.
    MadviseGuards,
    /// Many ranges in one `process_madvise`. Fallback: one call per range.
    BatchedMadvise,
    /// `/sys/devices/system/cpu`. Fallback: one cache for all CPUs.
    Topology,
    /// `pidfd_open`. Fallback: a kernel thread that waits for a child process.
    Pidfd,
    /// io_uring. Fallback: a call for each operation, and the pool of threads.
    IoUring,
    /// Calls on files that fail instead of waiting. Fallback: the pool of threads.
    CachedFiles,
    /// Thread-local variables of a fibre's own. No fallback: a runtime that asks for them is refused.
    OwnThreadLocals,
}

const NAMES: [(&str, Facility); 8] = [
    ("membarrier", Facility::Membarrier),
    ("madvise-guards", Facility::MadviseGuards),
    ("batched-madvise", Facility::BatchedMadvise),
    ("topology", Facility::Topology),
    ("pidfd", Facility::Pidfd),
    ("io-uring", Facility::IoUring),
    ("cached-files", Facility::CachedFiles),
    ("own-thread-locals", Facility::OwnThreadLocals),
];

/// Says whether `SINEW_WITHOUT` names `facility`.
pub(crate) fn denied(facility: Facility) -> bool {
    static DENIED: OnceLock<Vec<Facility>> = OnceLock::new();
    DENIED.get_or_init(|| parse(&std::env::var("SINEW_WITHOUT").unwrap_or_default())).contains(&facility)
}

fn parse(list: &str) -> Vec<Facility> {
    let known = |word: &str| NAMES.iter().find(|(name, _)| *name == word).map(|(_, facility)| *facility);
    list.split(',').filter_map(|word| known(word.trim())).collect()
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_facilities_and_ignores_the_rest() {
        assert_eq!(parse(" topology,nonsense,,membarrier"), [Facility::Topology, Facility::Membarrier]);
        assert_eq!(parse(""), []);
    }
}
