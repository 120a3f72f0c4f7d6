//! Crates of others on Sinew: one test for each, and examples. `docs/works-with.md` has the list.

/// The README of the project: its code is compiled and run by `cargo test`.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct ReadMe;
