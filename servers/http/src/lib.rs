#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod body;
pub mod condition;
pub mod encoding;
pub mod head;
pub mod media;
pub mod range;
pub mod status;
pub mod target;
pub mod upgrade;

pub use head::{Body, Fields, Limits, Method, Request, parse};
pub use status::Status;
