#![doc = include_str!("../../docs/works-with.md")]
//! # This crate
//!
//! Tests, one file for each group of libraries, and examples. It has no code of its own.

/// The README of the project: its code is compiled and run by `cargo test`.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct ReadMe;
