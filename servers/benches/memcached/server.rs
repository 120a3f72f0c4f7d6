//! The servers that are measured.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::collections::HashMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Where the server runs, and where the load comes from.
const SERVER_CPU: usize = 0;
const LOAD_CPU: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sinew,
    Memcached,
}

/// A server that runs, and ends with this value.
pub struct Server {
    pub address: SocketAddr,
    child: Child,
}

pub fn is_installed() -> bool {
    Command::new("memcached").arg("-V").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Keeps this thread away from the server, if there is more than one CPU.
pub fn pin_here() {
    let mut cpus = CpuSet::new();
    cpus.set(LOAD_CPU);
    if let Err(error) = sched_setaffinity(None, &cpus) {
        println!("server and load share a CPU: {error}");
    }
}

/// As many connections as this process can have, up to `wanted`.
pub fn most_connections(wanted: usize) -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // What is allowed anyway does not fail.
    let _ = setrlimit(Resource::Nofile, limit);
    let current = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    wanted.min(usize::try_from(current).unwrap_or(usize::MAX).saturating_sub(100))
}

impl Server {
    /// On one CPU.
    pub fn start(kind: Kind, options: &[&str]) -> Server {
        Server::start_on(&SERVER_CPU.to_string(), kind, options)
    }

    /// On these CPUs.
    pub fn start_on(cpus: &str, kind: Kind, options: &[&str]) -> Server {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let address = free.expect("a free port");
        let mut command = Command::new("taskset");
        command.args(["-c", cpus]);
        match kind {
            Kind::Sinew => command.args([env!("CARGO_BIN_EXE_sinew"), "memcached"]),
            Kind::Memcached => command.args(["memcached", "-u", "root"]),
        };
        command.args(["-l", "127.0.0.1", "-p", &address.port().to_string()]).args(options);
        let child = command.stderr(Stdio::null()).spawn().expect("taskset, of util-linux");
        let mut server = Server { address, child };
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(server.child.try_wait().expect("its state").is_none(), "{kind:?} ended");
            assert!(begin.elapsed().as_secs() < 10, "{kind:?} does not start");
        }
        server
    }

    /// What its threads have used up.
    pub fn cpu_seconds(&self) -> f64 {
        self.thread_seconds().into_values().sum()
    }

    /// What each of its threads has used up.
    pub fn thread_seconds(&self) -> HashMap<OsString, f64> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("its threads");
        let ran = |path: std::path::PathBuf| {
            let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<f64>().ok()
        };
        tasks.flatten().filter_map(|task| Some((task.file_name(), ran(task.path())? / 1e9))).collect()
    }

    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
