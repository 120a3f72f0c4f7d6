//! Servers as processes of their own, pinned apart from the load.

use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::case::Case;
use crate::kernel;
use crate::measure::procfs::{self, Usage};

/// The hidden command of a server.
pub const COMMAND: &str = "serve";

/// Connections that a server is to allow beyond those of the case: a foreign generator has its
/// own, and slow clients have.
pub const FURTHER_CONNECTIONS: usize = 1100;

const STARTING: Duration = Duration::from_secs(5);

/// A server that this process has started. Dropping it stops it.
pub struct Server {
    process: Child,
    pub address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        // A process that has been waited for has no family any more.
        if let Ok(None) = self.process.try_wait() {
            kernel::kill_family(&self.process);
        }
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(folder_of(self.process.id()));
    }
}

impl Server {
    /// Starts this program again, which becomes the server of the case and first
    /// says at which port.
    pub fn start(case: &Case) -> io::Result<Server> {
        let case = serde_json::to_string(case).expect("a case is plain data");
        let mut process = Command::new(std::env::current_exe()?)
            .arg(COMMAND)
            .arg(std::process::id().to_string())
            .arg(case)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stderr = process.stderr.take().expect("a pipe");
        let complaints = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut line)?;
        let mut server = Server { process, address: (Ipv4Addr::LOCALHOST, 0).into() };
        let begun = Instant::now();
        while let Some(port) = line.trim().parse().ok().filter(|_| begun.elapsed() < STARTING) {
            server.address.set_port(port);
            if TcpStream::connect(server.address).is_ok() {
                return Ok(server);
            }
            if let Some(status) = server.process.try_wait()? {
                let complaint = complaints.join().unwrap_or_default();
                return Err(io::Error::other(format!("the server ended ({status}): {complaint}")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(server);
        let complaint = complaints.join().unwrap_or_default();
        Err(io::Error::other(format!("a server that says {line:?} and does not listen: {complaint}")))
    }

    /// CPU time of it and of processes that it has started, also of threads that have ended: a
    /// server with a thread for each connection has many.
    pub fn cpu(&self) -> Duration {
        procfs::family_of(self.process.id()).into_iter().filter_map(kernel::process_cpu_time).sum()
    }

    /// CPU time of each of its threads, with the thread's number.
    pub fn cpu_by_thread(&self) -> Vec<(i32, Duration)> {
        let threads = procfs::other_threads(self.process.id()).into_iter();
        threads.map(|thread| (thread, Duration::from_nanos(Usage::of(&[thread]).cpu_ns))).collect()
    }

    /// Resident bytes that are no file's, of it and of processes that it has started.
    pub fn anonymous_bytes(&self) -> u64 {
        procfs::family_of(self.process.id()).into_iter().map(procfs::anonymous_bytes).sum()
    }
}

/// Where the server with that number may keep files, which go when it does.
pub fn folder_of(process: u32) -> PathBuf {
    std::env::temp_dir().join(format!("sinew-lab-server-{process}"))
}

/// A listener at a port of the kernel's choice, after having said which.
pub fn listener() -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    Ok(listener)
}

/// A port that was free a moment ago, for programs that do not say theirs.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Becomes another program, after having said at which port it will listen.
pub fn become_program(mut command: Command, port: u16) -> io::Error {
    println!("{port}");
    command.stdin(Stdio::null()).stdout(Stdio::null()).exec()
}

/// The part of that name of the `sinew` command beside this one, or how to get it.
pub fn sinew_command(server: &str) -> Result<Command, &'static str> {
    let program = std::env::current_exe().map(|own| own.with_file_name("sinew"));
    let command = |program: &PathBuf| {
        let mut command = Command::new(program);
        command.arg(server);
        command
    };
    let is_there = |program: &PathBuf| {
        let help =
            command(program).arg("--help").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        help.is_ok_and(|status| status.success())
    };
    program.ok().filter(is_there).map(|program| command(&program)).ok_or(HOW_TO_BUILD)
}

const HOW_TO_BUILD: &str = match cfg!(debug_assertions) {
    true => "not in the sinew command beside the lab: cargo build -p sinew-servers",
    false => "not in the sinew command beside the lab: cargo build --release -p sinew-servers",
};

/// Where a command of that name is installed, also one that only root finds by its name.
pub fn path_of(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// To start a command of that name by.
pub fn installed(program: &str) -> io::Result<Command> {
    path_of(program).map(Command::new).ok_or_else(|| io::Error::other(format!("{program} is not installed")))
}
