//! `wrk`, where it is installed: a closed loop by somebody else, beside the lab's own.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::kernel;

/// It looks at whether it shall stop no more often.
const LEAST: Duration = Duration::from_millis(100);

/// Requests per second; `None` without `wrk`. It runs where the caller may run.
pub fn per_second(address: SocketAddr, path: &str, connections: usize, length: Duration) -> Option<f64> {
    let length = length.max(LEAST);
    let threads = kernel::allowed_cpus().map_or(1, |cpus| cpus.len()).min(connections);
    // It counts in whole seconds, and ends earlier when it is interrupted. What it is
    // told is what it runs for should its parent be stopped.
    let wrk = Command::new("wrk")
        .args(["-t", &threads.to_string(), "-c", &connections.to_string()])
        .args(["-d", &format!("{}s", length.as_secs() + 1)])
        .arg(format!("http://{address}{path}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    std::thread::sleep(length);
    // Whoever cannot be interrupted has ended.
    let _ = kernel::interrupt(&wrk);
    rate(&String::from_utf8_lossy(&wrk.wait_with_output().ok()?.stdout))
}

/// What it says, unless some replies were wrong.
fn rate(said: &str) -> Option<f64> {
    let field = |name: &str| said.lines().find_map(|line| line.trim_start().strip_prefix(name));
    match field("Non-2xx or 3xx responses:") {
        Some(_) => None,
        None => field("Requests/sec:")?.trim().parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn wrong_replies_are_no_rate() {
        let good = "  2 threads and 64 connections\nRequests/sec:  84123.45\nTransfer/sec:  8.18MB\n";
        assert_eq!(rate(good), Some(84123.45));
        assert_eq!(rate(&format!("  Non-2xx or 3xx responses: 12\n{good}")), None);
        assert_eq!(rate(""), None);
    }
}
