#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod census;
mod clock;
mod dump;
mod error;
mod file;
mod layout;
pub mod memory;
mod module;
mod offsets;
mod own;
mod sampler;
mod stacks;
mod symbols;
mod target;
mod text;
pub mod trace;
mod unwind;
mod waits;

pub use dump::{Deadlock, Dump, Group, Lock, Options, OwnerReport, Processor, Stack, State, StrandReport, What};
pub use error::Error;
pub use layout::Layout;
pub use module::Module;
pub use own::backtrace_of;
pub use sampler::{Meters, Sampler};
pub use symbols::{Frame, Symbols};
pub use target::Target;
pub use unwind::{Registers, StackCopy, Walker};
