//! Limits and memory of processes.

// Each test binary uses its own part of this.
#![allow(dead_code)]
#![allow(unused_imports)]

#[path = "../process/mod.rs"]
mod process;

pub use process::memory;

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
