//! The `sinew` command: servers that run one plain blocking function for each session.

mod descriptors;
mod lobby;
mod manual;
mod memcached;
mod memory;
mod message;
mod runtime;
mod serving;
mod web;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Servers with one thread for each session, on the Sinew runtime.
#[derive(Parser)]
#[command(name = "sinew", version)]
struct Command {
    #[command(subcommand)]
    server: Server,
}

#[derive(Subcommand)]
enum Server {
    Memcached(memcached::Options),
    Web(web::Options),
    #[command(flatten)]
    Manual(manual::Manual),
}

fn main() -> ExitCode {
    let outcome = match Command::parse().server {
        Server::Memcached(options) => memcached::run(options),
        Server::Web(options) => web::run(options),
        Server::Manual(asked) => manual::run::<Command>(asked),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            message::say(format_args!("sinew: {error}"));
            ExitCode::FAILURE
        }
    }
}
