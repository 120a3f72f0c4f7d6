//! The servers that are measured.

use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Where the server runs, and where the load comes from.
const SERVER_CPU: usize = 0;
pub const LOAD_CPU: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sinew,
    Nginx,
}

/// A server that runs, and ends with this value, as does what it serves.
pub struct Server {
    pub address: SocketAddr,
    pub scheme: &'static str,
    child: Child,
    home: PathBuf,
}

pub fn are_installed() -> bool {
    // `wrk` prints its version, and fails.
    let runs = |name: &str| Command::new(name).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    runs("nginx") && runs("wrk")
}

/// Keeps this thread away from the server, if there is more than one CPU.
pub fn pin_here() {
    let mut cpus = CpuSet::new();
    cpus.set(LOAD_CPU);
    if let Err(error) = sched_setaffinity(None, &cpus) {
        println!("server and load share a CPU: {error}");
    }
}

impl Server {
    /// With files of these sizes, on one CPU.
    pub fn start(kind: Kind, files: &[(&str, usize)], options: &[&str]) -> Server {
        Server::launch(kind, files, options, false)
    }

    /// The same over TLS, with a certificate made for it.
    pub fn start_secure(kind: Kind, files: &[(&str, usize)]) -> Server {
        Server::launch(kind, files, &[], true)
    }

    fn launch(kind: Kind, files: &[(&str, usize)], options: &[&str], secure: bool) -> Server {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("sinew-bench-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let home = std::env::temp_dir().join(name);
        fs::create_dir_all(home.join("site")).expect("a directory");
        for &(name, size) in files {
            fs::write(home.join("site").join(name), vec![b'x'; size]).expect("a file");
        }
        if secure {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
            fs::write(home.join("cert.pem"), made.cert.pem()).expect("a file");
            fs::write(home.join("key.pem"), made.signing_key.serialize_pem()).expect("a file");
        }
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let address = free.expect("a free port");
        let mut command = Command::new("taskset");
        command.args(["-c", &SERVER_CPU.to_string()]);
        match kind {
            Kind::Sinew => {
                command.args([env!("CARGO_BIN_EXE_sinew"), "web", "--plaintext", "--processors", "1", "--listen"]);
                command.arg(address.to_string()).arg(home.join("site")).args(options);
                if secure {
                    command.arg("--tls").args([home.join("cert.pem"), home.join("key.pem")]);
                }
            }
            Kind::Nginx => {
                let configuration = home.join("nginx.conf");
                fs::write(&configuration, nginx(&home, address, secure)).expect("a file");
                command.arg("nginx").arg("-c").arg(configuration).arg("-p").arg(&home);
            }
        };
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("taskset, of util-linux");
        let scheme = if secure { "https" } else { "http" };
        let mut server = Server { address, scheme, child, home };
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(server.child.try_wait().expect("its state").is_none(), "{kind:?} ended");
            assert!(begin.elapsed().as_secs() < 10, "{kind:?} does not start");
        }
        server
    }

    /// The server itself, and the process that does its work: nginx has one for that.
    fn processes(&self) -> Vec<u32> {
        let own = self.child.id();
        let path = format!("/proc/{own}/task/{own}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        std::iter::once(own).chain(children).collect()
    }

    /// What its threads have used up.
    pub fn cpu_seconds(&self) -> f64 {
        let ran = |path: PathBuf| {
            let text = fs::read_to_string(path.join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<f64>().ok()
        };
        let tasks = |pid: u32| fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").flatten();
        let threads = self.processes().into_iter().flat_map(tasks);
        threads.filter_map(|task| ran(task.path())).sum::<f64>() / 1e9
    }

    pub fn resident(&self) -> u64 {
        let of = |pid: u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
            line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
        };
        self.processes().into_iter().map(of).sum()
    }
}

impl Drop for Server {
    /// By SIGTERM, so that nginx ends its worker.
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(2) && !matches!(self.child.try_wait(), Ok(Some(_))) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.home);
    }
}

/// One worker, files by `sendfile` and from the cache of open files, no log.
fn nginx(home: &Path, address: SocketAddr, secure: bool) -> String {
    let home = home.display();
    let tls = if secure {
        format!("ssl_certificate {home}/cert.pem; ssl_certificate_key {home}/key.pem;")
    } else {
        String::new()
    };
    let ssl = if secure { " ssl" } else { "" };
    format!(
        "daemon off; user root; worker_processes 1; worker_rlimit_nofile 20000;
         pid {home}/pid; error_log {home}/errors;
         events {{ worker_connections 16384; use epoll; }}
         http {{
             access_log off; sendfile on; default_type application/octet-stream;
             keepalive_requests 1000000000; keepalive_timeout 60;
             open_file_cache max=1000 inactive=60s; open_file_cache_valid 1s; open_file_cache_min_uses 1;
             client_body_temp_path {home}/b; proxy_temp_path {home}/p; fastcgi_temp_path {home}/f;
             uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;
             server {{
                 listen {address} backlog=4096{ssl}; {tls}
                 root {home}/site;
                 location = /plaintext {{ default_type text/plain; return 200 \"Hello, World!\"; }}
             }}
         }}"
    )
}
