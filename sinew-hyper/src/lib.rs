#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

#[cfg(feature = "client")]
mod connector;
mod executor;
mod io;
mod timer;

#[cfg(feature = "client")]
pub use connector::SinewConnector;
pub use executor::SinewExecutor;
pub use io::SinewIo;
pub use timer::SinewTimer;
