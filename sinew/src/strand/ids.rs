//! Numbers that tell strands apart.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the first of `count` numbers that nobody else has, or had.
pub(crate) fn fresh_ids(count: u64) -> NonZeroU64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NonZeroU64::new(NEXT.fetch_add(count, Ordering::Relaxed)).expect("2^64 strands")
}
