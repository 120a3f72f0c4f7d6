//! The command line.

use crate::runtime::{RuntimeOptions, seconds};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Serves a directory over HTTP/1.1
///
/// Each connection is served by a fibre of its own. What is outside of the directory is
/// never served, and symbolic links are not followed unless that is asked for.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  sinew web site                            serve site/ at http://127.0.0.1:8080
  sinew web . --list --listen 0.0.0.0:80    with listings, to everybody
  sinew web site --tls site.crt site.key    over HTTPS
  sinew web site --max-age 3600 --log -     with caching, and a log on standard output

Try it:
  curl -i http://127.0.0.1:8080/")]
pub struct Options {
    /// What to serve
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Where to listen; may be given several times
    #[arg(short, long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080")]
    pub listen: Vec<String>,

    /// Speak HTTPS, with this certificate chain and this private key, both PEM
    #[arg(long, num_args = 2, value_names = ["CERT", "KEY"])]
    pub tls: Option<Vec<PathBuf>>,

    /// Answer /plaintext with "Hello, World!", as web benchmarks ask
    #[arg(long)]
    pub plaintext: bool,

    /// Show what is in a directory that has no index.html
    #[arg(long)]
    pub list: bool,

    /// Follow symbolic links, but not out of the directory
    #[arg(long)]
    pub follow_links: bool,

    /// Serve names that begin with a dot
    #[arg(long)]
    pub hidden: bool,

    /// For how long clients may keep what they got without asking again
    #[arg(long, value_name = "SECONDS")]
    pub max_age: Option<u32>,

    /// Append a line for each request to this file; - is standard output. SIGHUP opens it again
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// Most connections at a time; those beyond wait to be accepted
    #[arg(short, long, value_name = "NUM", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: u32,

    /// How long a client may take to send the head of a request
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub header_timeout: Duration,

    /// How long a connection may stay between requests, give or take a second
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub idle_timeout: Duration,

    /// How long a client may take to receive a piece of an answer, 256 KiB at most
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub send_timeout: Duration,

    /// Largest body of a request that is read, and thrown away
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub max_body: u64,

    /// Most files that are kept open, or in memory
    #[arg(long, value_name = "NUM", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub cached_files: u32,

    /// Kernel threads and how they are scheduled.
    #[command(flatten)]
    pub runtime: RuntimeOptions,
}
