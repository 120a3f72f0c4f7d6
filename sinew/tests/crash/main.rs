//! What ends the process, or might: stack overflow, lack of memory, panics with
//! nobody to tell, the ends of `main`. And every fallback, forced.

#[path = "../rerun/mod.rs"]
#[macro_use]
mod rerun;

mod exit;
mod fallbacks;
mod fork;
mod guards;
mod memory;
mod overflow;
mod panics;
