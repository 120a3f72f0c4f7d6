//! `idle-connections`: what a server keeps in memory for each connection that has been
//! used and is idle. What the kernel keeps for the socket is not in it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::protocol::{ANSWER, REQUEST};
use crate::servers::LISTENING;
use crate::support::case::{Case, Contender};
use crate::support::child::{Outcome, Reading, Running};
use crate::support::options::Options;
use crate::support::procfs::anonymous_bytes;
use crate::support::report::{Bound, Column, Report};

pub const NAME: &str = "idle-connections";

const LIMIT: Duration = Duration::from_secs(60);
const MOST_CONNECTIONS: u64 = 10_000;
/// Descriptors that are not connections.
const OTHERS: u64 = 100;
const BYTES_PER_CONNECTION: f64 = 5.0 * 1024.0;

/// Lets this process and its children have as many descriptors as they may.
#[allow(unsafe_code)]
fn raise_descriptors() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is valid for writing, then for reading.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
    limit.rlim_cur
}

fn connect(address: SocketAddr, count: u64) -> io::Result<Vec<TcpStream>> {
    let connect = |_| {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(REQUEST)?;
        stream.read_exact(&mut [0; ANSWER.len()])?;
        Ok(stream)
    };
    (0..count).map(connect).collect()
}

fn measure(case: &Case) -> Outcome {
    let server = Running::start(case, LIMIT);
    let address = match server.wait_for_prefix(LISTENING) {
        Ok(address) => address.parse().expect("an address"),
        Err(outcome) => return outcome,
    };
    let before = anonymous_bytes(server.pid());
    let streams = connect(address, case.amount);
    let after = anonymous_bytes(server.pid());
    match (streams, before, after) {
        (Ok(_), Some(before), Some(after)) => {
            Outcome::Measured(Reading::of([("bytes", after.saturating_sub(before) as f64 / case.amount as f64)]))
        }
        (Err(error), ..) => Outcome::Failed(error.to_string()),
        _ => Outcome::Failed("the server is gone".to_owned()),
    }
}

pub fn conduct(options: &Options, report: &mut Report) {
    let connections = raise_descriptors().saturating_sub(OTHERS).min(MOST_CONNECTIONS);
    let contenders = options.contenders(&[Contender::Epoll, Contender::Tokio, Contender::May]);
    let cases = contenders.iter().map(|&who| Case::new(NAME, who, 1, "-", connections)).collect();
    let results = report.measure_with(cases, options.repeats.min(3), measure);
    report.heading(&format!("{NAME}: {connections} connections, each used once"));
    report.table("resident bytes per connection", &results, |_| true, Column { figure: "bytes", unit: 1.0 });
    for sinew in results.sinews() {
        let claim = format!("{NAME}, at most {BYTES_PER_CONNECTION} bytes each");
        let bytes = results.median("bytes", sinew, 1, "-");
        report.bar(&results, sinew, &claim, bytes, Bound::AtMost(BYTES_PER_CONNECTION));
    }
}
