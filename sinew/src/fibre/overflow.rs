//! Stack overflow: a fault in a guard becomes a message and an abort.
#![allow(unsafe_code)]

use crate::base::kernel::say;
use crate::stack::arena;
use crate::stack::current_stack;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Once;

/// The action for the signal that was installed before ours.
struct Previous(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written once, before our handler is installed; only read afterwards.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::uninit()));

/// Installs the handler, once in a process. Kernel threads of std have the alternate stack that it
/// needs.
pub(crate) fn install_overflow_handler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: an all-zero action is valid; the handler is of the kind that
        // the flags announce, and does only what a handler may. `PREVIOUS` is
        // filled before ours can run.
        unsafe {
            let previous = PREVIOUS.0.get().cast();
            libc::sigaction(libc::SIGSEGV, std::ptr::null(), previous);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
        }
    });
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid one.
    let address = unsafe { (*info).si_addr() } as usize;
    // The guard of the running fibre, or one below it: then a frame was longer than a slot.
    if let Some(hit) = arena::slot_at(address)
        && address < hit.lowest()
        && let Some(stack) = current_stack()
        && stack.slot().class == hit.class
        && stack.slot().number >= hit.number
    {
        let Some(record) = super::handle::current_record() else { return };
        say(&[
            "\nfibre '",
            record.name().unwrap_or("<unnamed>"),
            "' has overflowed its stack of ",
            decimal(record.class().stack_size() / 1024, &mut [0; 20]),
            " KiB (spawned at ",
            record.spawned_at().file(),
            ":",
            decimal(record.spawned_at().line() as usize, &mut [0; 20]),
            ")\n",
            "help: `FibreBuilder::stack_size` gives one fibre a larger stack, ",
            "`Builder::stack_size` gives one to all fibres of a runtime\n",
        ]);
        // SAFETY: always safe; nothing is left to be done.
        unsafe { libc::abort() };
    }
    forward(signal, info, context);
}

/// Leaves the fault to the handler that was installed before.
fn forward(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: written before the handler was installed.
    let previous = unsafe { (*PREVIOUS.0.get()).assume_init_ref() };
    match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // The instruction faults again when we return, unhandled.
            // SAFETY: an all-zero action is the default one.
            unsafe { libc::sigaction(signal, &std::mem::zeroed(), std::ptr::null_mut()) };
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the flag says that the handler has this type.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without the flag, the handler takes the number only.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// Returns `number` in digits. Does not allocate.
fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &str {
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return std::str::from_utf8(&digits[first..]).unwrap_or("?");
        }
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_digits() {
        for number in [0, 7, 64, 1_048_576, usize::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string());
        }
    }
}
