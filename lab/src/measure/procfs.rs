//! What `/proc` says about this process and others.

use std::fs;
use std::path::PathBuf;

use crate::kernel;

/// Resident bytes.
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    field(&status, "VmRSS:").expect("VmRSS in /proc/self/status") * 1024
}

/// Resident bytes of a process that are no file's; 0 if it has ended.
pub fn anonymous_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    field(&status, "RssAnon:").unwrap_or(0) * 1024
}

/// The kernel threads of a process but for the calling one.
pub fn other_threads(process: u32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&thread| thread != kernel::thread_id()).collect()
}

fn threads_of(process: u32) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Returns a process and all its descendants, the eldest first.
pub fn family_of(process: u32) -> Vec<u32> {
    let mut family = vec![process];
    let mut next = 0;
    while let Some(&process) = family.get(next) {
        next += 1;
        for thread in threads_of(process) {
            let children = fs::read_to_string(thread.join("children")).unwrap_or_default();
            family.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    family
}

/// The CPU time and turns of some threads so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub cpu_ns: u64,
    /// How often a thread was given a CPU.
    pub turns: u64,
}

impl Usage {
    /// Of threads of any process.
    pub fn of(threads: &[i32]) -> Usage {
        Usage::sum(threads.iter().map(|thread| format!("/proc/{thread}/task/{thread}")))
    }

    fn sum(folders: impl Iterator<Item = String>) -> Usage {
        let mut sum = Usage::default();
        for folder in folders {
            // A thread may have ended since.
            let Ok(schedstat) = fs::read_to_string(format!("{folder}/schedstat")) else { continue };
            let mut fields = schedstat.split_whitespace().map(|field| field.parse::<u64>().unwrap_or(0));
            sum.cpu_ns += fields.next().unwrap_or(0);
            // Between the two: how long it waited for one.
            sum.turns += fields.nth(1).unwrap_or(0);
        }
        sum
    }
}

/// Returns the number that follows `name` at the start of a line.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Bytes of this process's page tables. The kernel keeps them; they are not resident bytes.
pub fn page_table_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    field(&status, "VmPTE:").expect("VmPTE in /proc/self/status") * 1024
}
