//! `memcached`: Sinew's server beside the real one, with nine reads to one write.

use std::io;

use super::web::{METRICS, drive};
use super::{Depth, Experiment, PLAIN, Plot, Variant};
use crate::case::{Case, Outcome};
use crate::load::Request;
use crate::load::server;

const VALUE_BYTES: usize = 100;
const KEYS: usize = 100;
const READS_PER_WRITE: usize = 9;

pub static MEMCACHED: Experiment = Experiment {
    name: "memcached",
    source: "Barghi's thesis, 4.6; Delisle 2022, 8.1",
    measures: "Requests per second of a memcached server, nine reads to one write of 100 bytes under one of 100 keys, as fast as it can and for each second of its CPU time, and how long a reply takes when requests come at 10,000 per second whatever the server does.",
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

/// The writes are first, so that there is something to read when the replies' lengths are
/// learnt.
fn requests() -> Vec<Request> {
    let value = "v".repeat(VALUE_BYTES);
    let write = |key| format!("set key-{key:02} 0 0 {VALUE_BYTES}\r\n{value}\r\n").into_bytes();
    let read = |key| format!("get key-{key:02}\r\n").into_bytes();
    let writes = (0..KEYS).map(|key| Request { bytes: write(key), whole: stored });
    let reads = (0..READS_PER_WRITE * KEYS).map(|n| Request { bytes: read(n % KEYS), whole: whole_value });
    writes.chain(reads).collect()
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
            let mut command = server::installed("memcached")?;
            command.args(["-u", "root"]);
            command
        }
    };
    let connections = case.threads + 100;
    command.args(["-l", "127.0.0.1"]).arg("-p").arg(port.to_string());
    command.arg("-t").arg(case.processors.to_string()).arg("-c").arg(connections.to_string());
    Err(server::become_program(command, port))
}
