//! `wrk`, if it is installed: a foreign closed loop, beside the lab's own. It also speaks TLS,
//! which the lab's loop does not.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::http::Stay;
use super::server;
use crate::kernel;

const NAME: &str = "wrk";

/// The time between two moments at which `wrk` checks whether it shall stop.
const LEAST: Duration = Duration::from_millis(100);

pub struct Rate {
    pub per_second: f64,
    pub requests: f64,
}

pub fn is_installed() -> bool {
    server::path_of(NAME).is_some()
}

/// Asks for one URL again and again, on the CPUs that the caller may use. Returns `None` without
/// `wrk`, or if a reply was wrong.
pub fn run(url: &str, stay: Stay, connections: usize, length: Duration) -> Option<Rate> {
    let length = length.max(LEAST);
    let threads = kernel::allowed_cpus().map_or(1, |cpus| cpus.len()).min(connections);
    let close: &[&str] = if stay == Stay::Close { &["-H", "Connection: close"] } else { &[] };
    // It counts in whole seconds, and ends earlier when it is interrupted. If its parent is
    // stopped, it runs for the time that it is told here.
    let wrk = Command::new(server::path_of(NAME)?)
        .args(["-t", &threads.to_string(), "-c", &connections.to_string()])
        .args(["-d", &format!("{}s", length.as_secs() + 1)])
        .args(close)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    std::thread::sleep(length);
    // If it cannot be interrupted, it has ended.
    let _ = kernel::interrupt(&wrk);
    rate(&String::from_utf8_lossy(&wrk.wait_with_output().ok()?.stdout))
}

fn rate(said: &str) -> Option<Rate> {
    let field = |name: &str| said.lines().find_map(|line| line.trim_start().strip_prefix(name));
    if field("Non-2xx or 3xx responses:").is_some() {
        return None;
    }
    let requests = said.lines().find(|line| line.contains(" requests in "))?;
    let requests: f64 = requests.split_whitespace().next()?.parse().ok()?;
    let per_second = field("Requests/sec:")?.trim().parse().ok()?;
    (requests > 0.0).then_some(Rate { per_second, requests })
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn wrong_replies_are_no_rate() {
        let good = "  2 threads and 64 connections\n  84123 requests in 1.00s, 8.18MB read\nRequests/sec:  84123.45\n";
        let found = rate(good).expect("a rate");
        assert_eq!((found.per_second, found.requests), (84123.45, 84123.0));
        assert!(rate(&format!("  Non-2xx or 3xx responses: 12\n{good}")).is_none());
        assert!(rate("").is_none());
    }
}
