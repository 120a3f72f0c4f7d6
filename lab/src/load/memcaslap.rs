//! `memcaslap`, if it is installed: a foreign load on a memcached server, beside the lab's own.
//! It sends nine gets to one set, which is its default.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use super::server;

/// One thread is enough for a server on one core.
const THREADS: &str = "1";

/// Returns requests per second; `None` without `memcaslap`. It counts requests, not seconds,
/// and runs where the caller may run.
pub fn per_second(address: SocketAddr, connections: usize, requests: usize) -> Option<f64> {
    let output = Command::new(server::path_of("memcaslap")?)
        .args(["-s", &address.to_string(), "-T", THREADS, "-X", "100"])
        .args(["-c", &connections.to_string(), "-x", &requests.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    rate(&String::from_utf8_lossy(&output.stdout))
}

fn rate(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.starts_with("Run time:"))?;
    line.split_once("TPS:")?.1.split_whitespace().next()?.parse().ok().filter(|&rate| rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn the_rate_stands_in_the_last_line() {
        let said = "object_bytes: 335872\n\nRun time: 0.9s Ops: 19968 TPS: 21495 Net_rate: 5.1M/s\n";
        assert_eq!(rate(said), Some(21495.0));
        assert_eq!(rate("Run time: 0.0s Ops: 0 TPS: 0 Net_rate: 0\n"), None);
        assert_eq!(rate(""), None);
    }
}
