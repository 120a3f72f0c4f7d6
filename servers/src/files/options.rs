//! The command line.

use super::noise::CipherName;
use crate::runtime::{RuntimeOptions, seconds};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Serves a directory to clients with keys, encrypted, and reads from such a server
///
/// Server and clients have key pairs. A client needs the server's public key, and the server needs
/// the public keys of its clients.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  sinew files keys server && sinew files keys alice       make two key pairs
  cat alice.pub > clients                                 let alice in
  sinew files serve DIR --key server --clients clients    serve DIR at 127.0.0.1:7433
  sinew files ls 127.0.0.1:7433 --key alice --server server.pub
  sinew files get 127.0.0.1:7433 notes.txt --key alice --server server.pub")]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    Serve(ServeOptions),
    Keys(KeysOptions),
    Get(GetOptions),
    Ls(LsOptions),
    Read(ReadOptions),
}

/// Serve a directory to the clients whose public keys are in a file
///
/// Files outside of the directory are never served. SIGHUP reads the file of clients again.
#[derive(Args, Clone, Debug)]
pub struct ServeOptions {
    /// Directory to serve
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// The server's secret key
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,

    /// Public keys of the clients: one in each line, with an optional name behind it
    #[arg(long, value_name = "FILE")]
    pub clients: PathBuf,

    /// Address to listen at; may be given several times
    #[arg(short, long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7433")]
    pub listen: Vec<String>,

    /// Follow symbolic links, but not out of the directory
    #[arg(long)]
    pub follow_links: bool,

    /// Serve names that begin with a dot
    #[arg(long)]
    pub hidden: bool,

    /// Largest number of connections at a time; further clients wait to be accepted
    #[arg(short, long, value_name = "NUM", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: u32,

    /// Time that a client has for the handshake, and for each request from its first byte
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub request_timeout: Duration,

    /// Time that a connection may be idle between requests; by default it may be idle for ever
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub idle_timeout: Option<Duration>,

    /// Time that a client has to take a record, 64 KiB at most
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub send_timeout: Duration,

    /// Write a message for each connection and each request
    #[arg(short, long)]
    pub verbose: bool,

    /// Kernel threads and how they are scheduled.
    #[command(flatten)]
    pub runtime: RuntimeOptions,
}

/// Make a key pair: the secret key in FILE, the public key in FILE.pub
#[derive(Args, Clone, Debug)]
pub struct KeysOptions {
    /// File for the secret key; it must not exist
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// How a client reaches a server.
#[derive(Args, Clone, Debug)]
pub struct Access {
    /// Address of the server
    #[arg(value_name = "HOST:PORT")]
    pub address: String,

    /// The client's secret key
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,

    /// The server's public key
    #[arg(long, value_name = "FILE")]
    pub server: PathBuf,

    /// Cipher
    #[arg(long, value_name = "NAME", default_value = "aes")]
    pub cipher: CipherName,

    /// Longest time to wait for the server
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub timeout: Duration,
}

/// Copy a file from a server
///
/// A file that exists is replaced, but only when the new one is complete.
#[derive(Args, Clone, Debug)]
pub struct GetOptions {
    #[command(flatten)]
    pub access: Access,

    /// Path of the file in the served directory
    #[arg(value_name = "PATH")]
    pub path: PathBuf,

    /// File to write; - is standard output. By default, the file's own name in this directory
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// List a directory of a server: sizes, times of change (UTC) and names
#[derive(Args, Clone, Debug)]
pub struct LsOptions {
    #[command(flatten)]
    pub access: Access,

    /// Path of a directory in the served directory; by default, the served directory itself
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
}

/// Measure a server: read a file over several connections at once, and discard it
#[derive(Args, Clone, Debug)]
pub struct ReadOptions {
    #[command(flatten)]
    pub access: Access,

    /// Path of the file in the served directory
    #[arg(value_name = "PATH")]
    pub path: PathBuf,

    /// Number of connections
    #[arg(short, long, value_name = "NUM", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: u32,

    /// Number of times that each connection reads the file
    #[arg(long, value_name = "NUM", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub times: u32,

    /// Decrypt only the first record of each answer, and count the bytes of the others. Then this
    /// command takes little CPU time, and the measurement is about the server
    #[arg(long)]
    pub skip: bool,

    /// Kernel threads and how they are scheduled.
    #[command(flatten)]
    pub runtime: RuntimeOptions,
}
