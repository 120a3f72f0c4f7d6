//! The memory that the process holds for fibres and tasks.

pub use crate::stack::high_water::StackUse;
pub use crate::stack::pool::Memory;

use crate::fibre::yield_now;
use crate::stack::{high_water, pool};

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

/// Sets whether the runtime records how much of their stacks fibres use, for [`stack_use`]. In a build
/// with debug assertions it does so from the start. This holds for all fibres of the process that begin
/// from now on.
///
/// The first 16 fibres of each spawn site are measured, then one in 64. A fibre that is measured takes a
/// few microseconds more. All others take a lock and look into a table when they begin. While nothing is
/// recorded, a fibre pays four instructions.
pub fn record_stack_use(is_recording: bool) {
    high_water::set_recording(is_recording);
}

/// Returns the high-water mark of each spawn site: the largest part of a stack that one of its fibres
/// has used. Fuller stacks come first. A fibre is counted when it has ended.
///
/// Print the rows at the end of a test, or when a server is asked for its state. If a row comes near to
/// the size of the stack, give the fibres of that site a larger one
/// ([`FibreBuilder::stack_size`](crate::FibreBuilder::stack_size)). Debug builds use several times more
/// stack than release builds.
///
/// ```
/// sinew::memory::record_stack_use(true);
/// sinew::run(|| {
///     let session = || println!("{}", 6 * 7);
///     sinew::spawn(session).join().unwrap();
/// });
/// for row in sinew::memory::stack_use() {
///     println!("{row}"); // src/main.rs:4:5: 12 of 256 KiB, 1 fibres measured
///     assert!(row.high_water < row.stack_size);
/// }
/// ```
pub fn stack_use() -> Vec<StackUse> {
    high_water::rows()
}
