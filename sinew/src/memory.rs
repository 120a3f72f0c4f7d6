//! The memory that the process holds for fibres and tasks.

pub use crate::stack::pool::Memory;

use crate::fibre::yield_now;
use crate::stack::pool;

/// Returns the number of stacks of the process, and the memory of its records.
pub fn usage() -> Memory {
    pool::usage()
}

/// Gives back to the kernel the memory that the stacks of finished fibres still hold: one page for
/// each stack, up to 64 MiB for each stack size. Returns the number of bytes given back.
///
/// The runtime keeps these pages because the next fibre is likely to come soon. Call this function
/// when many fibres have ended and no others are expected for a while. It does not touch the stacks
/// that each processor keeps for itself, at most 64 of each size. A fibre that calls it gives other
/// fibres turns meanwhile.
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
