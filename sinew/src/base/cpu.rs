//! Instructions of the CPU that have no safe name in Rust.
#![allow(unsafe_code)]

/// Reads the CPU's counter.
#[inline(always)]
#[cfg(all(target_arch = "x86_64", not(sinew_loom)))]
pub(super) fn counter() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction, and Linux leaves it enabled for user code unless
    // a process asks otherwise for itself.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Reads the CPU's counter.
#[inline(always)]
#[cfg(all(target_arch = "aarch64", not(sinew_loom)))]
pub(super) fn counter() -> u64 {
    let counter: u64;
    // SAFETY: Linux lets user code read the virtual counter; nothing else is touched.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) counter, options(nomem, nostack)) };
    counter
}

/// Returns nanoseconds where the CPU has no counter.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", sinew_loom)))]
pub(super) fn counter() -> u64 {
    super::clock::real_ns()
}

/// Stands still in a model, which has to run the same way each time.
#[cfg(sinew_loom)]
pub(super) fn counter() -> u64 {
    0
}

/// Asks the CPU for a line of memory that is needed soon.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) fn prefetch(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing and does not fault, whatever the address is.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// Does nothing where there is no such instruction.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn prefetch(_address: *const u8) {}
