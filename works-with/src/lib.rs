#![doc = include_str!("../../docs/works-with.md")]
//! # This crate
//!
//! Tests, one file for each group of libraries, and examples. It has no code of its own.

/// The README of the project and the chapters of the guide: their code is compiled and run by
/// `cargo test`.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    struct ReadMe;

    #[doc = include_str!("../../docs/guide/src/README.md")]
    struct Guide;

    #[doc = include_str!("../../docs/guide/src/first-server.md")]
    struct FirstServer;

    #[doc = include_str!("../../docs/guide/src/porting.md")]
    struct Porting;

    #[doc = include_str!("../../docs/guide/src/cancellation.md")]
    struct Cancellation;

    #[doc = include_str!("../../docs/guide/src/full-duplex.md")]
    struct FullDuplex;

    #[doc = include_str!("../../docs/guide/src/fibre-or-task.md")]
    struct FibreOrTask;

    #[doc = include_str!("../../docs/guide/src/events.md")]
    struct Events;

    #[doc = include_str!("../../docs/guide/src/actors.md")]
    struct Actors;

    #[doc = include_str!("../../docs/guide/src/migrating.md")]
    struct Migrating;

    #[doc = include_str!("../../docs/guide/src/testing.md")]
    struct Testing;

    #[doc = include_str!("../../docs/guide/src/deployment.md")]
    struct Deployment;
}
