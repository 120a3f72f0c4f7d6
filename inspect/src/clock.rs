//! The clock of the runtime: a counter of the CPU.
#![allow(unsafe_code)]

/// Reads the CPU's counter, as the runtime does.
#[cfg(target_arch = "x86_64")]
pub(crate) fn cycles() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction, and Linux leaves it enabled for user code.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Reads the CPU's counter, as the runtime does.
#[cfg(target_arch = "aarch64")]
pub(crate) fn cycles() -> u64 {
    let counter: u64;
    // SAFETY: Linux lets user code read the virtual counter; nothing else is touched.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) counter, options(nomem, nostack)) };
    counter
}

/// The present time of the process, and the length of a cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) now: u64,
    /// 0 if the process has not measured it.
    pub(crate) cycles_per_ms: u64,
}

impl Clock {
    /// Returns the milliseconds since a reading of the counter. CPUs may differ a little, so a reading may
    /// lie ahead.
    pub(crate) fn ms_since(&self, then: u64) -> Option<f64> {
        (self.cycles_per_ms != 0 && then != 0).then(|| self.now.saturating_sub(then) as f64 / self.cycles_per_ms as f64)
    }
}
