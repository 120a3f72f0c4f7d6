#![doc = include_str!("../../docs/works-with.md")]
//! # This crate
//!
//! Tests, one file for each group of libraries, and examples. It has no code of its own.
