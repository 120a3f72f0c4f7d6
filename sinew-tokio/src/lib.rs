#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod compat;
mod helper;
mod io;

pub use compat::{Compat, WithTokio, block_on};
pub use helper::{enter, handle};
pub use io::SinewIo;
