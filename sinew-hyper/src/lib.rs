#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod executor;
mod io;
mod timer;

pub use executor::SinewExecutor;
pub use io::SinewIo;
pub use timer::SinewTimer;
