#![doc = include_str!("README.md")]

mod carry;
mod letter;
mod memory;
mod meter;
#[cfg(all(test, sinew_loom))]
mod models;
mod post;
mod word;

pub(crate) use carry::{Carrying, work};
pub(crate) use letter::Content;
pub(crate) use memory::{Handle, Mailbox};
pub(crate) use meter::Meter;
pub(crate) use post::{Refused, spend};
