//! The memory that the process holds for fibres and tasks.

pub use crate::stack::pool::Memory;

use crate::fibre::yield_now;
use crate::stack::pool;

/// Counts the stacks of the process, and the memory of its records.
pub fn usage() -> Memory {
    pool::usage()
}

/// Gives memory back to the kernel that the stacks of finished fibres still hold: one page for
/// each, up to 64 MiB in all. Returns the number of bytes.
///
/// The pages are kept because the next fibre is likely to come soon. Call this when many fibres
/// have ended and no others are expected for a while. Each processor keeps some tens of stacks
/// for itself; they are left alone. A fibre that calls this gives other fibres turns.
///
/// ```
/// sinew::run(|| {
///     let fibres: Vec<_> = (0..1000).map(|_| sinew::spawn(sinew::yield_now)).collect();
///     fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
///     println!("{} bytes less", sinew::memory::trim());
/// });
/// ```
pub fn trim() -> usize {
    pool::trim(yield_now)
}
