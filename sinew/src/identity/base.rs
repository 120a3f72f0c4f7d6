//! The register that holds the address of the present thread's identity: `fs`.
#![allow(unsafe_code)]

use super::Identity;
use std::arch::asm;

/// Returns the identity that the caller runs with.
#[inline(always)]
pub(super) fn present() -> *mut u8 {
    let pointer;
    // SAFETY: the first word of an identity is its own address: the ABI says so. Not `pure`, because the caller may
    // change the register between two readings.
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly)) };
    pointer
}

/// Makes `identity` the present one.
///
/// # Safety
/// It is the identity of a kernel thread or of a fibre, and no other kernel thread runs with it. A function that uses
/// thread-local variables must not be compiled across the call, unless the identity before is present again.
#[inline(always)]
pub(super) unsafe fn change_to(identity: *mut u8) {
    // SAFETY: by the contract. The kernel lets programs write the register: `Libc::learn` has asked.
    unsafe { asm!("wrfsbase {}", in(reg) identity, options(nostack, preserves_flags)) };
}

/// Calls `f` with `identity` as the present one.
///
/// # Safety
/// As [`change_to`]; and `f` comes back on this kernel thread.
#[inline(never)]
pub(super) unsafe fn call_with<T>(identity: Identity, f: fn(&mut T), argument: &mut T) {
    let before = present();
    // A pointer that the compiler does not know, so that `f` is not inlined between the two changes.
    let f = std::hint::black_box(f);
    // SAFETY: by the contract.
    unsafe { change_to(identity.pointer()) };
    f(argument);
    // SAFETY: it was the present one.
    unsafe { change_to(before) };
}
