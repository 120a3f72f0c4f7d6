//! The command line, with memcached's letters.

use crate::runtime::RuntimeOptions;
use clap::Args;
use std::path::PathBuf;

/// A cache for small values, spoken to in memcached's protocols
///
/// Clients of memcached work with it unchanged: text, meta and binary protocol. Each
/// connection is served by a fibre of its own. Options have memcached's letters and
/// meaning.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  sinew memcached                      listen at 127.0.0.1:11211, 64 MB
  sinew memcached -m 1024 -t 4         a gigabyte, four kernel threads
  sinew memcached -l 0.0.0.0 -p 11212  listen at all addresses
  sinew memcached -s /run/cache.sock   a Unix socket instead of TCP

Try it:
  printf 'set greeting 0 60 5\\r\\nhello\\r\\nget greeting\\r\\nquit\\r\\n' | nc 127.0.0.1 11211")]
pub struct Options {
    /// TCP port to listen at
    #[arg(short = 'p', long, value_name = "NUM", default_value_t = 11211)]
    pub port: u16,

    /// Addresses to listen at, several with commas between them; one may have a port of
    /// its own
    #[arg(short = 'l', long, value_name = "ADDR", value_delimiter = ',', default_value = "127.0.0.1")]
    pub listen: Vec<String>,

    /// Unix socket to listen at, instead of TCP
    #[arg(short = 's', long, value_name = "FILE")]
    pub unix_socket: Option<PathBuf>,

    /// Access mask of the Unix socket, in octal
    #[arg(short = 'a', long, value_name = "MASK", default_value = "700", value_parser = octal)]
    pub unix_mask: u32,

    /// Memory for items in megabytes, everything included that is needed to find them
    #[arg(short = 'm', long, value_name = "NUM", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    pub memory_limit: u64,

    /// Answer with an error when memory is full, instead of evicting items
    #[arg(short = 'M', long)]
    pub disable_evictions: bool,

    /// Most connections at a time
    #[arg(short = 'c', long, value_name = "NUM", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub conn_limit: u32,

    /// Largest item: bytes, or with a suffix k or m
    #[arg(short = 'I', long, value_name = "NUM", default_value = "1m", value_parser = size)]
    pub max_item_size: u32,

    /// As many connections as may wait to be accepted
    #[arg(short = 'b', long, value_name = "NUM", default_value_t = 1024)]
    pub listen_backlog: u32,

    /// Refuse flush_all
    #[arg(short = 'F', long)]
    pub disable_flush_all: bool,

    /// Say what happens, on standard error; twice: commands as well
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// Kernel threads and how they are scheduled.
    #[command(flatten)]
    pub runtime: RuntimeOptions,
}

fn octal(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mask| *mask <= 0o777)
        .ok_or_else(|| "an octal number up to 777".to_owned())
}

/// memcached's limits: 1k to 1024m.
fn size(text: &str) -> Result<u32, String> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1024),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1024 * 1024),
        _ => (text, 1),
    };
    let bytes = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit));
    match bytes {
        Some(bytes @ 1024..=0x4000_0000) => Ok(bytes),
        _ => Err("an item may have at most between 1k and 1024m".to_owned()),
    }
}
