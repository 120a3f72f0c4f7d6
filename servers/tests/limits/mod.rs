//! What a process may have.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// As many descriptors for this process as a test with many connections needs.
pub fn allow_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("what is allowed");
}

/// Lets another process have so much of something, and no more.
pub fn starve(pid: u32, what: Resource, most: u64) {
    let limit = Rlimit { current: Some(most), maximum: getrlimit(what).maximum };
    prlimit(Pid::from_raw(pid as i32), what, limit).expect("a limit for it");
}

/// Bytes that it has of a kind of memory, by the name that the kernel has for it.
pub fn memory(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("the name");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}
