//! The command line.

use crate::metrics::MetricsOptions;
use crate::runtime::{RuntimeOptions, seconds};
use clap::{Args, value_parser};
use std::path::PathBuf;
use std::time::Duration;

/// Serves a chat over WebSockets, and the page to chat with
///
/// Each session and each room is an actor. Names are taken once. A client that reads too slowly is dropped, and nobody
/// waits for it. Ctrl-C says goodbye to all, and loses no message that was accepted.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  sinew chat                                 chat at http://127.0.0.1:8090
  sinew chat --listen 0.0.0.0:8090           with everybody in this network
  sinew chat --history 500 --keep 86400      rooms remember 500 messages, and a day without members
  sinew chat --log -                         with all messages to rooms on standard output

Try it:
  open http://127.0.0.1:8090 in two windows")]
pub struct Options {
    /// Address to listen at; may be given several times
    #[arg(short, long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8090")]
    pub listen: Vec<String>,

    /// Origin of pages that may connect besides the server's own page: scheme, host and port; may be given several times
    #[arg(long, value_name = "ORIGIN")]
    pub origin: Vec<String>,

    /// Number of messages that a room remembers for those who join later
    #[arg(long, value_name = "NUM", default_value_t = 50, value_parser = value_parser!(u32).range(0..=1000))]
    pub history: u32,

    /// Time for which a room without members remembers its messages
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    pub keep: Duration,

    /// Largest number of rooms
    #[arg(long, value_name = "NUM", default_value_t = 1000, value_parser = value_parser!(u32).range(1..))]
    pub rooms: u32,

    /// Number of messages that a client may send in a second. Three times as many may come at once
    #[arg(long, value_name = "NUM", default_value_t = 10, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub rate: u32,

    /// Append each message to a room to this file, as a line of JSON; - is standard output. SIGHUP opens it again
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// Largest number of connections at a time; further clients wait to be accepted
    #[arg(short, long, value_name = "NUM", default_value_t = 10_000, value_parser = value_parser!(u32).range(1..))]
    pub connections: u32,

    /// Time that a client has to send the head of a request, and to take a name
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub header_timeout: Duration,

    /// Time after which a silent client is asked whether it is there. It is dropped if it has not answered to two such
    /// pings
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub ping: Duration,

    /// Time that a client has to receive a piece of what is sent to it
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub send_timeout: Duration,

    /// Metrics of the runtime and the server.
    #[command(flatten)]
    pub metrics: MetricsOptions,

    /// Kernel threads and how they are scheduled.
    #[command(flatten)]
    pub runtime: RuntimeOptions,
}
