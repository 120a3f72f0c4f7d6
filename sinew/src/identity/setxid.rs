//! The signal by which the C library changes the user or group of all threads.
//!
//! The kernel has a user for each thread, and POSIX has one for a process. So `setuid` and its kin send a signal to every
//! thread of the C library's list, and go on when the record of each one says that it has followed. The handler
//! writes that into the record of the present identity. On a kernel thread that runs a fibre this would be the
//! fibre's, which is in no list, and the caller would wait for ever. Hence the handler is called with the identity of
//! the kernel thread.
#![allow(unsafe_code)]

use super::as_kernel_thread_with;
use std::ffi::{c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The signal, which the C library keeps to itself.
const SIGSETXID: c_int = 33;

/// An action as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// The C library's handler.
static LIBRARYS: AtomicUsize = AtomicUsize::new(0);

/// Puts our handler in front of the C library's. By a thread that the library has begun: it has installed its handler
/// before that.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut action = Action { handler: 0, flags: 0, restorer: 0, mask: 0 };
        // SAFETY: the kernel writes the action.
        let result = unsafe { change(std::ptr::null(), &raw mut action) };
        if result == 0 && action.handler > libc::SIG_IGN {
            LIBRARYS.store(action.handler, Relaxed);
            action.handler = on_signal as *const () as usize;
            // SAFETY: all but the handler is the library's. Ours is of the same kind, and calls it.
            unsafe { change(&raw const action, std::ptr::null_mut()) };
        }
    });
}

/// Asks the kernel: the C library refuses to tell of its own signals.
///
/// # Safety
/// As `sigaction`.
unsafe fn change(new: *const Action, old: *mut Action) -> i64 {
    // SAFETY: by the contract.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, SIGSETXID, new, old, size_of::<u64>()) }
}

struct Call(c_int, *mut libc::siginfo_t, *mut c_void);

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    as_kernel_thread_with(&mut Call(signal, info, context), |call| {
        // SAFETY: the kernel told that this is the handler, and the library's handlers of this signal are of this type.
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { std::mem::transmute(LIBRARYS.load(Relaxed)) };
        handler(call.0, call.1, call.2);
    });
}
