//! What everything stands on: the machine, and nothing of ours.
//!
//! | module | what it gives |
//! | --- | --- |
//! | `atomic` | std's atomics, or loom's in a model |
//! | `clock` | the CPU's cycle counter, and nanoseconds |
//! | `deadline` | a point in time, or never |
//! | `fallback` | facilities of the kernel that a test can take away |
//! | `fence` | one cheap and one expensive fence that pair |
//! | `fork` | how a forked child is kept from using the runtime of its parent |
//! | `here` | two words of each kernel thread: its processor, its stack |
//! | `kernel` | system calls |
//! | `prefetch` | a hint to the CPU's cache |
//! | `spin` | a lock for a few instructions |

pub(crate) mod atomic;
pub(crate) mod clock;
mod deadline;
pub(crate) mod fallback;
pub(crate) mod fence;
pub(crate) mod fork;
pub(crate) mod here;
pub(crate) mod kernel;
#[cfg(all(test, sinew_loom))]
pub(crate) mod models;
pub(crate) mod prefetch;
pub(crate) mod spin;

pub(crate) use deadline::Deadline;

/// Ends the process with one line: an invariant is broken, or a state cannot be left.
#[cold]
pub(crate) fn fatal(message: &str) -> ! {
    use std::io::Write;
    // One write, because several threads may come here at once. `eprintln` panics if it fails.
    let line = format!("sinew: fatal: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    std::process::abort()
}
