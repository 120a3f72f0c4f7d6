//! Stacks: where they come from, and how a processor switches to one and back.

pub(crate) mod arena;
pub(crate) mod pool;
mod switch;
pub(crate) mod unwinding;

pub(crate) use switch::{Entry, Stack, current_stack};
