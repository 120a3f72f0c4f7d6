//! The command line.

use crate::metrics::MetricsOptions;
use crate::runtime::{RuntimeOptions, seconds};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Serves a directory over HTTP/1.1
///
/// Each connection has a fibre of its own, or a colour with --events. Files outside of the directory are never served.
/// Symbolic links are not followed unless an option asks for it.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  sinew web site                            serve site/ at http://127.0.0.1:8080
  sinew web . --list --listen 0.0.0.0:80    with listings, to everybody
  sinew web site --tls site.crt site.key    over HTTPS
  sinew web site --events                   by events instead of fibres
  sinew web site --max-age 3600 --log -     with caching, and a log on standard output

Try it:
  curl -i http://127.0.0.1:8080/")]
pub struct Options {
    /// Directory to serve
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// Address to listen at; may be given several times
    #[arg(short, long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8080")]
    pub listen: Vec<String>,

    /// Speak HTTPS, with this certificate chain and this private key, both in PEM
    #[arg(long, num_args = 2, value_names = ["CERT", "KEY"])]
    pub tls: Option<Vec<PathBuf>>,

    /// Serve by events instead of fibres: a request is a chain of handlers, and the events of a
    /// connection have one colour. For comparison; without TLS
    #[arg(long)]
    pub events: bool,

    /// With --events: keep each connection on the kernel thread where its events began
    #[arg(long, requires = "events")]
    pub no_stealing: bool,

    /// Answer /plaintext with "Hello, World!", for web benchmarks
    #[arg(long)]
    pub plaintext: bool,

    /// List a directory that has no index.html
    #[arg(long)]
    pub list: bool,

    /// Follow symbolic links, but not out of the directory
    #[arg(long)]
    pub follow_links: bool,

    /// Serve names that begin with a dot
    #[arg(long)]
    pub hidden: bool,

    /// Time for which clients may keep a file without asking again
    #[arg(long, value_name = "SECONDS")]
    pub max_age: Option<u32>,

    /// Append a line for each request to this file; - is standard output. SIGHUP opens it again
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// Largest number of connections at a time; further clients wait to be accepted
    #[arg(short, long, value_name = "NUM", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: u32,

    /// Time that a client has to send the head of a request
    #[arg(long, value_name = "SECONDS", default_value = "20", value_parser = seconds)]
    pub header_timeout: Duration,

    /// Time that a connection may be idle between requests, give or take a second
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub idle_timeout: Duration,

    /// Time that a client has to receive a piece of an answer, 256 KiB at most
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub send_timeout: Duration,

    /// Largest body of a request that is read and discarded
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub max_body: u64,

    /// Largest number of files that are kept open or in memory
    #[arg(long, value_name = "NUM", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub cached_files: u32,

    /// Metrics of the runtime and the server.
    #[command(flatten)]
    pub metrics: MetricsOptions,

    /// Kernel threads and how they are scheduled.
    #[command(flatten)]
    pub runtime: RuntimeOptions,
}
