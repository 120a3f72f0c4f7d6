//! Events that end the process, or might: stack overflow, lack of memory, panics that nothing can
//! receive, the end of `main`. Also every fallback, forced.

#[macro_use]
#[path = "../fixture/mod.rs"]
mod fixture;

mod exit;
mod fallbacks;
mod fork;
mod guards;
mod memory;
mod overflow;
mod panics;
