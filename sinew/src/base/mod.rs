//! What all other modules stand on. It knows the machine, and no other module.
//!
//! | module | what it gives |
//! | --- | --- |
//! | `atomic` | std's atomics, or loom's in a model |
//! | `clock` | the time in cycles, and in nanoseconds |
//! | `cpu` | instructions of the CPU: its counter, a prefetch |
//! | `deadline` | a point in time, or never |
//! | `describe` | words that tell a reader of memory where things are |
//! | `directory` | lists of addresses for such a reader |
//! | `fallback` | facilities of the kernel that a test can take away |
//! | `fence` | one cheap and one expensive fence that pair |
//! | `fork` | how a forked child is kept from using the runtime of its parent |
//! | `here` | two words of each kernel thread: its processor, its stack |
//! | `kernel` | system calls |
//! | `peek` | reads of memory that cannot fault |
//! | `probe` | places that a tracer of the kernel can hook into |
//! | `spin` | a lock for a few instructions |

pub(crate) mod atomic;
pub(crate) mod clock;
pub(crate) mod cpu;
mod deadline;
pub(crate) mod describe;
pub(crate) mod directory;
pub(crate) mod fallback;
pub(crate) mod fence;
pub(crate) mod fork;
pub(crate) mod here;
pub(crate) mod kernel;
#[cfg(all(test, sinew_loom))]
pub(crate) mod models;
pub(crate) mod peek;
pub(crate) mod probe;
pub(crate) mod spin;

pub(crate) use deadline::Deadline;

/// Ends the process with one line: an invariant is broken, or the runtime cannot go on.
#[cold]
pub(crate) fn fatal(message: &str) -> ! {
    use std::io::Write;
    // One write, because several threads may come here at once. `eprintln` would panic if it failed.
    let line = format!("sinew: fatal: {message}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    std::process::abort()
}
