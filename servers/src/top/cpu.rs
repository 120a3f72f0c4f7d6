//! The CPU time of kernel threads, as the kernel counts it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The CPU time that each thread had used at a point in time.
pub struct Times {
    at: Instant,
    by_thread: HashMap<u32, Duration>,
}

impl Times {
    /// Reads the times of these threads of a process. A thread that has ended has none.
    pub fn read(process: u32, threads: impl Iterator<Item = u32>) -> Times {
        let time = |thread: u32| {
            let text = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/schedstat")).ok()?;
            let ns = text.split(' ').next()?.parse().ok()?;
            Some((thread, Duration::from_nanos(ns)))
        };
        Times { at: Instant::now(), by_thread: threads.filter_map(time).collect() }
    }

    /// Returns the share of a CPU that a thread has used since `before`, in per cent.
    pub fn share_since(&self, before: &Times, thread: u32) -> Option<f64> {
        let used = self.by_thread.get(&thread)?.saturating_sub(*before.by_thread.get(&thread)?);
        let passed = self.at.saturating_duration_since(before.at);
        (!passed.is_zero()).then(|| 100.0 * used.as_secs_f64() / passed.as_secs_f64())
    }
}
