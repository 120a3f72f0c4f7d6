#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod connector;
mod resolver;
mod transport;

pub use connector::{SinewConnector, agent};
pub use resolver::SinewResolver;
pub use transport::SinewTransport;
