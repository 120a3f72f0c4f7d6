//! The handler that the kernel calls, and how it is installed.
//!
//! ```text
//!   the handler, on any thread             the dispatcher
//!   1  add the signal to CAUGHT            1  BELL = SILENT
//!   2  BELL = RUNG, wake the dispatcher    2  take CAUGHT; not empty: go and tell
//!   3  call the handler that was           3  sleep while BELL is SILENT, go to 1
//!      installed before
//! ```
//!
//! **No signal is missed.** If the dispatcher's step 2 does not find the signal, the handler's step 1
//! comes later. It then sees the dispatcher's step 1, so its RUNG overwrites the SILENT.
#![allow(unsafe_code)]

use super::number::{Set, Signal};
use crate::base::kernel::{futex_wait, futex_wake};
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// The signals that were caught and that the dispatcher has not taken.
static CAUGHT: AtomicU64 = AtomicU64::new(0);

/// The word that the dispatcher sleeps on.
static BELL: AtomicU32 = AtomicU32::new(SILENT);
const SILENT: u32 = 0;
const RUNG: u32 = 1;

/// For each signal the handler that was installed before ours: its address, doubled, and 1 if it
/// takes three arguments. 0 if there is none to call. Addresses leave the highest bit free.
static EARLIER: [AtomicUsize; 65] = [const { AtomicUsize::new(0) }; 65];

/// Waits until signals were caught, and takes them. By the dispatcher.
pub(super) fn take_caught() -> Set {
    loop {
        BELL.store(SILENT, Relaxed);
        // Release pairs with the Acquire in `on_signal`: a handler that comes later overwrites the
        // SILENT. Acquire pairs with the Release there.
        let caught = Set(CAUGHT.swap(0, AcqRel));
        if !caught.is_empty() {
            return caught;
        }
        futex_wait(&BELL, SILENT, None);
    }
}

/// Does only what a handler may: stores, a system call, and a call of another handler. In a forked
/// child it stores in the child's memory, and wakes nobody.
extern "C" fn on_signal(number: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the address is this thread's, and valid while the thread runs.
    let errno = unsafe { *libc::__errno_location() };
    if let Some(signal) = Signal::from_number(number) {
        // Release: the dispatcher sees what came before the signal. Acquire pairs with the Release
        // in `take_caught`.
        CAUGHT.fetch_or(Set::of(signal).0, AcqRel);
        BELL.store(RUNG, Release);
        futex_wake(&raw const BELL);
        // Acquire pairs with the Release in `install`.
        forward(EARLIER[number as usize].load(Acquire), number, info, context);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn forward(earlier: usize, number: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    match (earlier >> 1, earlier & 1) {
        (0, _) => {}
        (address, 0) => {
            // SAFETY: `encode` was given a handler of this type.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(address) };
            handler(number);
        }
        (address, _) => {
            // SAFETY: as above.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(address) };
            handler(number, info, context);
        }
    }
}

/// Returns the entry of [`EARLIER`] for an action.
fn encode(action: &libc::sigaction) -> usize {
    match action.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => 0,
        handler => handler << 1 | usize::from(action.sa_flags & libc::SA_SIGINFO != 0),
    }
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == on_signal as *const () as usize
}

/// The action for a signal that was in force before ours.
pub(super) struct Before(libc::sigaction);

/// Installs the handler for a signal. Returns the action that was in force.
///
/// # Errors
/// The kernel's.
pub(super) fn install(signal: Signal) -> io::Result<Before> {
    let before = exchange(signal, None)?;
    // A signal that comes at once finds the earlier handler. Release pairs with the Acquire in
    // `on_signal`.
    EARLIER[signal.number() as usize].store(encode(&before), Release);
    // SAFETY: an all-zero action is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_signal as *const () as usize;
    // The stack of a fibre may be too small for the kernel's part of a handler's frame: so the
    // handler runs on the thread's other stack, which std gives to each thread. System calls that
    // the handler interrupts go on.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    exchange(signal, Some(&action))?;
    Ok(Before(before))
}

/// Puts the action back that was in force before ours. Returns whether it did. It does not if
/// another handler was installed since: that one may call ours.
pub(super) fn restore(signal: Signal, before: &Before) -> bool {
    // Another thread that installs a handler in between loses it. The kernel has no call for both
    // steps.
    exchange(signal, None).is_ok_and(|current| is_ours(&current)) && exchange(signal, Some(&before.0)).is_ok()
}

/// Returns the action for a signal, and sets another one.
fn exchange(signal: Signal, action: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let mut before = MaybeUninit::uninit();
    let new = action.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the new action is null, or one that was in force, or has a handler of the kind that its
    // flags announce, which does only what a handler may. The kernel writes the other one.
    match unsafe { libc::sigaction(signal.number(), new, before.as_mut_ptr()) } {
        // SAFETY: the call has succeeded, so it was written.
        0 => Ok(unsafe { before.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}
