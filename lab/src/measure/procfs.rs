//! Figures from `/proc` about this process and others.

use std::fs;

use crate::kernel;

/// Returns the resident bytes of this process.
pub fn resident_bytes() -> u64 {
    own_bytes("VmRSS:")
}

/// Returns the bytes of this process's page tables. They belong to the kernel, and are not
/// resident bytes.
pub fn page_table_bytes() -> u64 {
    own_bytes("VmPTE:")
}

fn own_bytes(name: &str) -> u64 {
    bytes("self", name).unwrap_or_else(|| panic!("{name} in /proc/self/status"))
}

/// Returns the resident bytes of a process that belong to no file; 0 if it has ended.
pub fn anonymous_bytes(process: u32) -> u64 {
    bytes(&process.to_string(), "RssAnon:").unwrap_or(0)
}

/// Returns the kilobytes behind `name` in the status of a process, as bytes.
fn bytes(process: &str, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Returns the numbers of a process's kernel threads, without the calling one.
pub fn other_threads(process: u32) -> Vec<i32> {
    threads_of(process).filter(|&thread| thread != kernel::thread_id()).collect()
}

fn threads_of(process: u32) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns a process and all its descendants, the eldest first.
pub fn family_of(process: u32) -> Vec<u32> {
    let mut family = vec![process];
    let mut next = 0;
    while let Some(&process) = family.get(next) {
        next += 1;
        for thread in threads_of(process) {
            let children = fs::read_to_string(format!("/proc/{process}/task/{thread}/children")).unwrap_or_default();
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
    /// Returns the sum over threads of any process.
    pub fn of(threads: &[i32]) -> Usage {
        let mut sum = Usage::default();
        for thread in threads {
            // A thread may have ended since.
            let Ok(schedstat) = fs::read_to_string(format!("/proc/{thread}/task/{thread}/schedstat")) else { continue };
            let mut fields = schedstat.split_whitespace().map(|field| field.parse::<u64>().unwrap_or(0));
            sum.cpu_ns += fields.next().unwrap_or(0);
            // The field between the two is the time that the thread waited for a CPU.
            sum.turns += fields.nth(1).unwrap_or(0);
        }
        sum
    }
}
