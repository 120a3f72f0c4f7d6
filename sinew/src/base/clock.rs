//! The clock of the schedulers: a counter of the CPU, read without a system call, in units called
//! *cycles*.
//!
//! It orders and compares waiting times, as precisely as a scheduler needs. Deadlines that a program
//! sets do not use it. Its reading may differ a little between CPUs, so differences are taken with
//! `saturating_sub`.

use super::cpu;
use super::describe::Entry;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Returns the present time in cycles.
#[inline(always)]
pub(crate) fn cycles() -> u64 {
    cpu::counter()
}

/// Returns the number of cycles in `us` microseconds, to within a few per cent.
pub(crate) fn cycles_in_us(us: u64) -> u64 {
    (us * cycles_per_ms()) / 1000
}

/// Returns the time that this number of cycles takes, to within a few per cent.
pub(crate) fn duration_of(cycles: u64) -> Duration {
    Duration::from_micros(cycles.saturating_mul(1000) / cycles_per_ms())
}

/// Returns the number of nanoseconds that this number of cycles takes, to within a few per cent.
pub(crate) fn ns_of(cycles: u64) -> u64 {
    cycles.saturating_mul(1_000_000) / cycles_per_ms()
}

/// Returns the present time on the time base of timers: nanoseconds since the first call. It is that
/// of the machine's monotonic clock, or of another clock that the caller goes by.
pub(crate) fn now_ns() -> u64 {
    match OTHER.get().and_then(|now_ns| now_ns()) {
        Some(now_ns) => now_ns,
        None => real_ns(),
    }
}

/// Says by which clock the caller goes, from the first call of [`follow`].
static OTHER: OnceLock<fn() -> Option<u64>> = OnceLock::new();

/// Lets [`now_ns`] ask `now_ns` first. All calls pass the same function.
pub(crate) fn follow(now_ns: fn() -> Option<u64>) {
    OTHER.get_or_init(|| now_ns);
}

/// As [`now_ns`], by the machine's clock.
pub(crate) fn real_ns() -> u64 {
    instant_ns(Instant::now())
}

/// Returns `instant` on the time base of [`now_ns`]; 0 if it lies before the base.
pub(crate) fn instant_ns(instant: Instant) -> u64 {
    u64::try_from(instant.saturating_duration_since(base()).as_nanos()).unwrap_or(u64::MAX)
}

/// Reverses [`instant_ns`].
pub(crate) fn instant_at(ns: u64) -> Instant {
    base() + Duration::from_nanos(ns)
}

fn base() -> Instant {
    static BASE: OnceLock<Instant> = OnceLock::new();
    *BASE.get_or_init(Instant::now)
}

/// The rate of the counter, for readers of memory; 0 until it has been measured.
static RATE: AtomicU64 = AtomicU64::new(0);

/// The entries of the description.
pub(crate) const ENTRIES: &[Entry] = &[Entry::place("clock.cycles_per_ms", &RATE)];

/// Returns the rate of the counter. Measures it once in a process, over 200 µs: that gives an error of
/// about one per cent on a machine where reading the clock takes 30 ns.
fn cycles_per_ms() -> u64 {
    static ONCE: OnceLock<u64> = OnceLock::new();
    *ONCE.get_or_init(|| {
        let (began, first) = (Instant::now(), cycles());
        while began.elapsed().as_micros() < 200 {
            std::hint::spin_loop();
        }
        let (took, last) = (began.elapsed(), cycles());
        let ns = (took.as_nanos() as u64).max(1);
        let rate = (last.saturating_sub(first).saturating_mul(1_000_000) / ns).max(1);
        RATE.store(rate, Relaxed);
        rate
    })
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn cycles_follow_the_monotonic_clock() {
        let per_ms = cycles_in_us(1000);
        let (began, first) = (now_ns(), cycles());
        while now_ns() - began < 5_000_000 {}
        let (ns, elapsed) = (now_ns() - began, cycles() - first);
        let expected = ns * per_ms / 1_000_000;
        assert!(elapsed.abs_diff(expected) < expected / 4, "{elapsed} cycles, expected about {expected}");
    }
}
