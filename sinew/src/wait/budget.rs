//! A fibre that never has to wait gives way all the same.
//!
//! Nothing is preempted, so a fibre that always finds bytes to read, a message to
//! receive or a lock free would keep its processor for ever. So each operation that may
//! block spends of a budget when it does not block, and the one that finds it spent
//! yields. Operations that only try (`try_lock`) spend nothing: their callers may not be
//! prepared for others to run. Nor does reading what is there for good, an initialised
//! `OnceLock`.
//!
//! The budget is the processor's, not the fibre's: that is one word nearer, and needs
//! no filling up when another fibre comes. A fibre that gives way is not short-changed
//! by those before it, and one that does not is the only one that spends.

use crate::processor;

/// What a processor has to spend between two yields. A unit is some 20 ns, so this is
/// some 20 to 50 µs; and it is a thousand times what the cheapest operation costs, so
/// that giving way, which is 15 ns to nobody and some 100 ns to somebody whose memory
/// has left the cache, is a hundredth of it at most.
const UNITS: u32 = 1024;

/// What a call of the kernel spends: there are 64 of them between two yields. One
/// takes from 300 ns to some microseconds.
pub(crate) const KERNEL_CALL: u32 = UNITS / 64;

/// What an operation in memory spends, which takes 5 to 30 ns.
pub(crate) const MESSAGE: u32 = 1;

/// What an operation on a lock spends. It takes 5 to 10 ns, as cheap messages do.
pub(crate) const LOCK: u32 = MESSAGE;

/// To be called for an operation that succeeds at once, or may, by whoever may be
/// suspended. Six instructions.
#[inline(always)]
pub(crate) fn spend(units: u32) {
    let is_spent = processor::with_current(|processor| {
        processor.is_some_and(|processor| {
            let (left, is_spent) = processor.budget().get().overflowing_sub(units);
            processor.budget().set(left);
            is_spent
        })
    });
    if is_spent {
        give_way();
    }
}

#[cold]
#[inline(never)]
fn give_way() {
    processor::with_current(|processor| {
        if let Some(processor) = processor {
            processor.budget().set(UNITS);
            processor.read_clock_next();
        }
    });
    // A task has a budget of its own, and gives way where it awaits.
    if !crate::task::is_running() {
        crate::yield_now();
    }
}
