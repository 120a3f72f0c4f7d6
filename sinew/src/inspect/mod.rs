#![doc = include_str!("README.md")]
#![debugger_visualizer(gdb_script_file = "gdb.py")]

mod description;
#[cfg(feature = "inspect")]
mod look;
mod recorder;

#[cfg(feature = "inspect")]
pub use look::{deadlocks, dump};
pub use recorder::{Recorded, record, recorded};
/// The reader: dumps, and what they consist of.
#[cfg(feature = "inspect")]
pub use sinew_inspect as reader;
