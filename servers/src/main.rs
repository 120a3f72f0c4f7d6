//! The `sinew` command: servers that run one plain blocking function for each session.

mod chat;
mod dates;
mod descriptors;
mod doors;
mod dump;
mod files;
mod lobby;
mod manual;
mod memcached;
mod memory;
mod message;
mod metrics;
mod room;
mod runtime;
mod serving;
mod top;
mod trace;
mod tree;
mod version;
mod web;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Servers with one thread for each session, on the Sinew runtime.
#[derive(Parser)]
#[command(name = "sinew", version, disable_version_flag = true)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
struct Command {
    /// Print version
    #[arg(short = 'V', long)]
    version: bool,

    /// With --version: also print the kernel, the number of CPUs, and how I/O is done
    #[arg(short, long, requires = "version")]
    verbose: bool,

    /// `None` if the version is asked for.
    #[command(subcommand)]
    server: Option<Server>,
}

#[derive(Subcommand)]
enum Server {
    Memcached(memcached::Options),
    Web(web::Options),
    Files(files::Options),
    Chat(chat::Options),
    Dump(dump::Options),
    Top(top::Options),
    Trace(trace::Options),
    #[command(flatten)]
    Manual(manual::Manual),
}

fn main() -> ExitCode {
    let command = Command::parse();
    let outcome = match command.server {
        Some(Server::Memcached(options)) => memcached::run(options),
        Some(Server::Web(options)) => web::run(options),
        Some(Server::Files(options)) => files::run(options),
        Some(Server::Chat(options)) => chat::run(options),
        Some(Server::Dump(options)) => dump::run(options),
        Some(Server::Top(options)) => top::run(options),
        Some(Server::Trace(options)) => trace::run(options),
        Some(Server::Manual(asked)) => manual::run::<Command>(asked),
        None => version::print::<Command>(command.verbose),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            message::say(format_args!("sinew: {error}"));
            ExitCode::FAILURE
        }
    }
}
