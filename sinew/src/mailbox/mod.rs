#![doc = include_str!("README.md")]

mod carrier;
mod carry;
mod letter;
mod memory;
mod meter;
#[cfg(all(test, sinew_loom))]
mod models;
mod post;
mod visit;
mod word;

pub(crate) use carry::{Carrying, work};
pub(crate) use letter::{Content, Enclosed, Unread};
pub(crate) use memory::{ENTRIES, Handle, Mailbox, Nature, Owned, State, mark, offset_of_state, portray};
pub(crate) use meter::Meter;
pub(crate) use post::{Refused, spend};
pub(crate) use visit::Visit;
pub(crate) use word::Order;
#[cfg(all(test, sinew_loom))]
pub(crate) use word::Word;
