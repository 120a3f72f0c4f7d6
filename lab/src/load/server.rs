//! Servers as processes of their own, pinned apart from the load.

use std::io::{self, BufRead};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::case::Case;
use crate::kernel;
use crate::measure::procfs::{self, Usage};
use crate::peers;
use crate::process::Process;

/// The hidden command of a server.
const COMMAND: &str = "serve";

/// Connections that a server allows beyond those of the case: for a foreign generator, and for
/// slow clients.
pub const FURTHER_CONNECTIONS: usize = 1100;

const STARTING: Duration = Duration::from_secs(5);

/// A server that this process has started. Dropping it ends the server and removes its folder.
pub struct Server {
    process: Process,
    pub address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.end();
        let _ = std::fs::remove_dir_all(folder_of(self.process.id()));
    }
}

impl Server {
    /// Starts the server of a case, and returns when it listens. The server first prints its
    /// port.
    pub fn start(case: &Case) -> io::Result<Server> {
        let mut process = Process::start(COMMAND, case)?;
        let mut line = String::new();
        process.output().read_line(&mut line)?;
        let mut server = Server { process, address: (Ipv4Addr::LOCALHOST, 0).into() };
        let begun = Instant::now();
        while let Some(port) = line.trim().parse().ok().filter(|_| begun.elapsed() < STARTING) {
            server.address.set_port(port);
            if TcpStream::connect(server.address).is_ok() {
                return Ok(server);
            }
            if let Some(status) = server.process.try_wait()? {
                let complaint = server.process.complaints();
                return Err(io::Error::other(format!("the server ended ({status}): {complaint}")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        server.process.end();
        let complaint = server.process.complaints();
        Err(io::Error::other(format!("the server says {line:?} and does not listen: {complaint}")))
    }

    /// Returns the CPU time of the server and of the processes that it has started. Threads that
    /// have ended count: a server with a thread for each connection has many.
    pub fn cpu(&self) -> Duration {
        procfs::family_of(self.process.id()).into_iter().filter_map(kernel::process_cpu_time).sum()
    }

    /// Returns the number and the CPU time of each of the server's threads.
    pub fn cpu_by_thread(&self) -> Vec<(i32, Duration)> {
        let threads = procfs::other_threads(self.process.id()).into_iter();
        threads.map(|thread| (thread, Duration::from_nanos(Usage::of(&[thread]).cpu_ns))).collect()
    }

    /// Returns the resident bytes of the server, and of the processes that it has started, that
    /// belong to no file.
    pub fn anonymous_bytes(&self) -> u64 {
        procfs::family_of(self.process.id()).into_iter().map(procfs::anonymous_bytes).sum()
    }
}

/// Returns the folder for the files of the server with that process number. Ending the server
/// removes it.
pub fn folder_of(process: u32) -> PathBuf {
    std::env::temp_dir().join(format!("sinew-lab-server-{process}"))
}

/// Returns a listener at a port that the kernel chooses, and prints the port.
pub fn listener() -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    Ok(listener)
}

/// Returns a port that was free a moment ago, for a program that cannot choose its own.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Prints the port at which another program will listen, and becomes that program. Returns only
/// if that fails.
pub fn become_program(mut command: Command, port: u16) -> io::Error {
    println!("{port}");
    command.stdin(Stdio::null()).stdout(Stdio::null()).exec()
}

/// Returns the command `sinew server` for a peer: without io_uring, if its name says so.
///
/// # Errors
/// The command is not built.
pub fn sinew_command_for(peer: &str, server: &str) -> io::Result<Command> {
    let mut command = sinew_command(server).map_err(io::Error::other)?;
    if peer.ends_with(peers::BY_EPOLL) {
        command.env("SINEW_IO", "epoll");
    }
    Ok(command)
}

/// Returns the command `sinew server` of the program beside this one.
///
/// # Errors
/// Says how to build it.
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

/// Returns the path of an installed program. Also looks where only root has its search path.
pub fn path_of(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Returns the command that starts an installed program.
pub fn installed(program: &str) -> io::Result<Command> {
    path_of(program).map(Command::new).ok_or_else(|| io::Error::other(format!("{program} is not installed")))
}
