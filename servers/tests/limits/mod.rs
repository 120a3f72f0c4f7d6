//! Limits and memory of processes.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// Raises the descriptor limit of this process to the highest that the system allows.
pub fn allow_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("the limit that is allowed");
}

/// Limits a resource of another process to `most`.
pub fn starve(pid: u32, what: Resource, most: u64) {
    let limit = Rlimit { current: Some(most), maximum: getrlimit(what).maximum };
    prlimit(Pid::from_raw(pid as i32), what, limit).expect("a limit for the process");
}

/// Returns the bytes that a process has of one kind of memory, by the kernel's name for it.
pub fn memory(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the status of the process");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("the name");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}
