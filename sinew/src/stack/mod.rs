#![doc = include_str!("README.md")]

pub(crate) mod arena;
pub(crate) mod high_water;
pub(crate) mod pool;
mod switch;
pub(crate) mod unwinding;

pub(crate) use switch::{Entry, Stack, current_stack, peek_strand};

use crate::base::describe;

/// The entries of the description.
pub(crate) const ENTRIES: &[&[describe::Entry]] = &[arena::ENTRIES, switch::ENTRIES];
