//! `memcached`: Sinew's server beside the real one, with nine reads to one write.

use std::io;
use std::process::Command;

use super::web::{METRICS, drive};
use super::{Depth, Experiment, PLAIN, Plot, Variant};
use crate::case::{Case, Outcome};
use crate::load::Request;
use crate::load::server;

const VALUE_BYTES: usize = 100;

pub static MEMCACHED: Experiment = Experiment {
    name: "memcached",
    source: "Barghi's thesis, 4.6; Delisle 2022, 8.1",
    measures: "Requests per second of a memcached server, nine reads to one write of 100 bytes, as fast as it can and for each second of its CPU time, and how long a reply takes when requests come at 10,000 per second whatever the server does.",
    good: "At least the real memcached’s throughput, and a p99 that is no worse.",
    metrics: METRICS,
    plots: &[Plot::Bars { metric: "ops_per_cpu_s" }, Plot::Bars { metric: "ops_per_s" }, Plot::Quantiles],
    is_pinned: false,
    variants: |depth, _, _| {
        let connections: &[usize] = if depth == Depth::Tour { &[64] } else { &[64, 1000] };
        connections.iter().map(|&many| Variant::new(format!("{many} connections"), many)).collect()
    },
    measure,
    serve: Some(serve),
    ..PLAIN
};

fn whole_value(bytes: &[u8]) -> Option<usize> {
    bytes.ends_with(b"END\r\n").then_some(bytes.len())
}

fn stored(bytes: &[u8]) -> Option<usize> {
    bytes.ends_with(b"STORED\r\n").then_some(bytes.len())
}

/// The write is first, so that there is something to read when the reply's length is
/// learnt.
fn requests() -> Vec<Request> {
    let value = "v".repeat(VALUE_BYTES);
    let write = format!("set greeting 0 0 {VALUE_BYTES}\r\n{value}\r\n").into_bytes();
    vec![
        Request { bytes: write, share: 0.1, whole: stored },
        Request { bytes: b"get greeting\r\n".to_vec(), share: 0.9, whole: whole_value },
    ]
}

fn measure(case: &Case) -> Outcome {
    match drive(case, requests(), None) {
        Ok(reading) => Outcome::Measured(reading),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// In the server's process.
fn serve(case: &Case) -> io::Result<()> {
    let port = server::free_port()?;
    let mut command = match case.peer.strip_prefix("sinew/") {
        Some(scheduler) => {
            let mut command = server::sinew_command(MEMCACHED.name).map_err(io::Error::other)?;
            command.args(["--scheduler", scheduler]);
            command
        }
        None => {
            let mut command = Command::new("memcached");
            command.args(["-u", "root"]);
            command
        }
    };
    let connections = case.threads + 100;
    command.args(["-l", "127.0.0.1"]).arg("-p").arg(port.to_string());
    command.arg("-t").arg(case.processors.to_string()).arg("-c").arg(connections.to_string());
    Err(server::become_program(command, port))
}
