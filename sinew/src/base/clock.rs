//! The clock of the schedulers: a counter of the CPU, read without a system
//! call, in units called *cycles*.
//!
//! It orders and compares waiting times, to within what a scheduler needs; it
//! is not used for deadlines that a user set. Its reading may differ between
//! CPUs by a little, so differences are taken with `saturating_sub`.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::time::Instant;

/// The present time in cycles.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(sinew_loom)))]
pub(crate) fn cycles() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction, and Linux leaves it enabled
    // for user code unless a process asks otherwise for itself.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The present time in cycles.
#[inline(always)]
#[cfg(all(target_arch = "aarch64", not(sinew_loom)))]
pub(crate) fn cycles() -> u64 {
    let counter: u64;
    // SAFETY: Linux lets user code read the virtual counter; nothing else is touched.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) counter, options(nomem, nostack)) };
    counter
}

/// The present time in cycles: nanoseconds where the CPU offers no counter.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", sinew_loom)))]
pub(crate) fn cycles() -> u64 {
    now_ns()
}

/// It stands still in a model, which has to run the same way each time.
#[cfg(sinew_loom)]
pub(crate) fn cycles() -> u64 {
    0
}

/// How many cycles there are in `us` microseconds, to within a few per cent.
pub(crate) fn cycles_in_us(us: u64) -> u64 {
    (us * ticks_per_ms()) / 1000
}

/// Nanoseconds on the monotonic clock since the first call: the time base of
/// timers.
pub(crate) fn now_ns() -> u64 {
    instant_ns(Instant::now())
}

/// `instant` on the time base of [`now_ns`]; what lies before the base is 0.
pub(crate) fn instant_ns(instant: Instant) -> u64 {
    static BASE: OnceLock<Instant> = OnceLock::new();
    let base = *BASE.get_or_init(Instant::now);
    u64::try_from(instant.saturating_duration_since(base).as_nanos()).unwrap_or(u64::MAX)
}

/// Measured once per process, over 200 µs: long enough for an error of about
/// one per cent on a machine where reading the clock takes 30 ns.
fn ticks_per_ms() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (began, first) = (Instant::now(), cycles());
        while began.elapsed().as_micros() < 200 {
            std::hint::spin_loop();
        }
        let (took, last) = (began.elapsed(), cycles());
        let ns = (took.as_nanos() as u64).max(1);
        (last.saturating_sub(first).saturating_mul(1_000_000) / ns).max(1)
    })
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn ticks_follow_the_monotonic_clock() {
        let per_ms = cycles_in_us(1000);
        let (began, first) = (now_ns(), cycles());
        while now_ns() - began < 5_000_000 {}
        let (ns, elapsed) = (now_ns() - began, cycles() - first);
        let expected = ns * per_ms / 1_000_000;
        assert!(elapsed.abs_diff(expected) < expected / 4, "{elapsed} cycles, expected about {expected}");
    }
}
