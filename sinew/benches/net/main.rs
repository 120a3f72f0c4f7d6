//! Servers: one small session function on each runtime, and a bare `epoll` loop; what
//! a request, a connection and an idle connection cost, and a call that blocks.
//!
//! `cargo bench -p sinew --bench net -- [experiment ...] [options]`.

mod bare;
mod blocking;
mod generator;
mod idle;
mod plaintext;
mod protocol;
mod servers;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

use support::Entry;

const EXPERIMENTS: [Entry; 4] = [
    Entry {
        name: plaintext::KEEP_ALIVE,
        summary: "small requests on connections that stay, 64 and 1,000 of them",
        measure: servers::serve,
        conduct: plaintext::conduct_keep_alive,
    },
    Entry {
        name: plaintext::ONE_EACH,
        summary: "one request for each connection: accept, read, write, close",
        measure: servers::serve,
        conduct: plaintext::conduct_one_each,
    },
    Entry {
        name: idle::NAME,
        summary: "resident bytes per idle connection",
        measure: servers::serve,
        conduct: idle::conduct,
    },
    Entry {
        name: blocking::NAME,
        summary: "a round trip to the pool for calls that block",
        measure: blocking::measure,
        conduct: blocking::conduct,
    },
];

fn main() -> ExitCode {
    support::run("net", &EXPERIMENTS)
}
