//! The command line, with memcached's letters.

mod extended;

pub use extended::Extended;

use crate::metrics::MetricsOptions;
use crate::runtime::RuntimeOptions;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// A cache for small values that speaks memcached's protocols
///
/// Clients of memcached work with it unchanged: text, meta and binary protocol. A fibre serves each
/// connection. Options have memcached's letters and meaning.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  sinew memcached                      listen at 127.0.0.1:11211, 64 MB
  sinew memcached -m 1024 -t 4         a gigabyte, four kernel threads
  sinew memcached -l 0.0.0.0 -p 11212  listen at all addresses
  sinew memcached -s /run/cache.sock   a Unix socket instead of TCP

Try it:
  printf 'set greeting 0 60 5\\r\\nhello\\r\\nget greeting\\r\\nquit\\r\\n' | nc 127.0.0.1 11211")]
pub struct Options {
    /// TCP port to listen at; 0 or -1 is any free port; if only a UDP port is given, that number
    #[arg(short = 'p', long, value_name = "NUM", allow_negative_numbers = true, value_parser = port)]
    pub port: Option<u16>,

    /// UDP port to listen at; 0 is none, -1 any free port
    #[arg(short = 'U', long, value_name = "NUM", allow_negative_numbers = true, default_value = "0", value_parser = udp_port)]
    pub udp_port: UdpPort,

    /// Addresses to listen at, separated by commas; each may have a port of its own
    #[arg(short = 'l', long, value_name = "ADDR", value_delimiter = ',', default_value = "127.0.0.1")]
    pub listen: Vec<String>,

    /// Unix socket to listen at, instead of TCP
    #[arg(short = 's', long, value_name = "FILE")]
    pub unix_socket: Option<PathBuf>,

    /// Access mask of the Unix socket, in octal
    #[arg(short = 'a', long, value_name = "MASK", default_value = "700", value_parser = octal)]
    pub unix_mask: u32,

    /// Enable the command "shutdown"
    #[arg(short = 'A', long)]
    pub enable_shutdown: bool,

    /// Run in the background
    #[arg(short = 'd', long)]
    pub daemon: bool,

    /// This process is the one in the background.
    #[arg(long, hide = true)]
    pub detached: bool,

    /// Write the number of the process into a file, with -d
    #[arg(short = 'P', long, value_name = "FILE")]
    pub pidfile: Option<PathBuf>,

    /// Allow core dumps of any size
    #[arg(short = 'r', long)]
    pub enable_coredumps: bool,

    /// Run as this user, if root starts the server
    #[arg(short = 'u', long, value_name = "USER")]
    pub user: Option<String>,

    /// Memory for items in megabytes; the index takes up to 1/32 more
    #[arg(short = 'm', long, value_name = "NUM", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=MOST_MEGABYTES))]
    pub memory_limit: u64,

    /// Answer with an error when memory is full, instead of evicting items
    #[arg(short = 'M', long)]
    pub disable_evictions: bool,

    /// Largest number of connections at a time
    #[arg(short = 'c', long, value_name = "NUM", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub conn_limit: u32,

    /// Largest item: bytes, or with a suffix k or m
    #[arg(short = 'I', long, value_name = "NUM", default_value = "1m", value_parser = size)]
    pub max_item_size: u32,

    /// Number of connections that may wait to be accepted
    #[arg(short = 'b', long, value_name = "NUM", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=0x7fff_ffff))]
    pub listen_backlog: u32,

    /// Number of requests of one connection that are answered before other connections have their
    /// turn
    #[arg(short = 'R', long, value_name = "NUM", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_reqs_per_event: u32,

    /// Factor by which each class of sizes is larger than the one before; classes only serve for
    /// counting
    #[arg(short = 'f', long, value_name = "NUM", default_value = "1.25", value_parser = factor)]
    pub slab_growth_factor: f64,

    /// Space for key, value and flags in the smallest class of sizes
    #[arg(short = 'n', long, value_name = "BYTES", default_value_t = 48, value_parser = clap::value_parser!(u32).range(1..=0x10_0000))]
    pub slab_min_size: u32,

    /// Character that ends the prefix of a key; "stats detail" counts requests by prefix
    #[arg(short = 'D', value_name = "CHAR", value_parser = delimiter)]
    pub delimiter: Option<u8>,

    /// Give items no unique numbers: cas compares nothing
    #[arg(short = 'C', long)]
    pub disable_cas: bool,

    /// The protocol that clients speak
    #[arg(short = 'B', long, value_name = "NAME", default_value = "auto")]
    pub protocol: Protocol,

    /// Refuse flush_all
    #[arg(short = 'F', long)]
    pub disable_flush_all: bool,

    /// Refuse stats cachedump and lru_crawler metadump
    #[arg(short = 'X', long)]
    pub disable_dumping: bool,

    /// Refuse watch
    #[arg(short = 'W', long)]
    pub disable_watch: bool,

    /// Serve only clients that this file names, in lines of the form user:password
    #[arg(short = 'Y', long, value_name = "FILE")]
    pub auth_file: Option<PathBuf>,

    /// memcached's extended options, separated by commas
    #[arg(short = 'o', long = "extended", value_name = "OPTIONS", value_delimiter = ',')]
    pub extended: Vec<String>,

    /// Write what happens to standard error; given twice, commands as well
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// Metrics of the runtime and the server.
    #[command(flatten)]
    pub metrics: MetricsOptions,

    /// Kernel threads and their scheduler.
    #[command(flatten)]
    pub runtime: RuntimeOptions,
}

/// The largest number of megabytes whose bytes can be counted.
const MOST_MEGABYTES: u64 = usize::MAX as u64 >> 20;

/// The protocol that clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// The protocol that a client's first byte shows
    #[value(alias = "auto-negotiate")]
    Auto,
    /// Text and meta commands
    Ascii,
    /// The binary protocol
    Binary,
}

/// The port that receives datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpPort {
    /// None.
    Off,
    /// Any free port.
    Any,
    /// This port.
    At(u16),
}

impl UdpPort {
    /// Returns the port number to bind, if any.
    pub fn number(self) -> Option<u16> {
        match self {
            UdpPort::Off => None,
            UdpPort::Any => Some(0),
            UdpPort::At(port) => Some(port),
        }
    }
}

impl Options {
    /// Returns the TCP port to listen at.
    pub fn tcp_port(&self) -> u16 {
        self.port.or(self.udp_port.number()).unwrap_or(11211)
    }
}

fn port(text: &str) -> Result<u16, String> {
    let number = if text == "-1" { Ok(0) } else { text.parse() };
    number.map_err(|_| "a port must be a number up to 65535".to_owned())
}

fn udp_port(text: &str) -> Result<UdpPort, String> {
    Ok(match (text, port(text)?) {
        ("-1", _) => UdpPort::Any,
        (_, 0) => UdpPort::Off,
        (_, port) => UdpPort::At(port),
    })
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor: &f64| *factor > 1.0 && factor.is_finite());
    factor.ok_or_else(|| "the factor must be a number above 1".to_owned())
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err("the delimiter must be one character".to_owned()),
    }
}

fn octal(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mask| *mask <= 0o777)
        .ok_or_else(|| "the mask must be an octal number up to 777".to_owned())
}

/// Parses the size of the largest item, within memcached's limits: 1k to 1024m.
fn size(text: &str) -> Result<u32, String> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1024),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1024 * 1024),
        _ => (text, 1),
    };
    let bytes = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
    match bytes {
        Some(bytes @ 1024..=0x4000_0000) => Ok(bytes),
        _ => Err("the size of the largest item must be between 1k and 1024m".to_owned()),
    }
}
