//! What `/proc` says about a process.

use std::fs;

/// Resident bytes of this process.
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    field(&status, "VmRSS:").expect("VmRSS in /proc/self/status") * 1024
}

/// Resident bytes of a process that are its own.
pub fn anonymous_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(field(&status, "RssAnon:")? * 1024)
}

/// The CPU time in seconds that a process has used up so far, its ended threads
/// included. The kernel counts it in hundredths.
pub fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which may contain anything: state, then ten others, then these two.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}

/// What the threads of a process have used up so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub cpu_ns: u64,
    /// How often a thread gave up its CPU: it blocked in a system call.
    pub blocked: u64,
}

impl Usage {
    /// The sum over the threads that `pid` has now.
    pub fn of(pid: u32) -> Usage {
        let mut sum = Usage::default();
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the threads of a child");
        for task in tasks.flatten() {
            // A thread may end between the listing and the reading.
            let Ok(schedstat) = fs::read_to_string(task.path().join("schedstat")) else {
                continue;
            };
            let Ok(status) = fs::read_to_string(task.path().join("status")) else {
                continue;
            };
            let ran = schedstat.split_whitespace().next();
            sum.cpu_ns += ran.and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
            sum.blocked += field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
        }
        sum
    }
}

/// The number that follows `name` at the start of a line.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
