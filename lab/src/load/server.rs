//! Servers as processes of their own, pinned apart from the load.

use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::case::Case;
use crate::measure::procfs::Usage;

/// The hidden command of a server.
pub const COMMAND: &str = "serve";

const STARTING: Duration = Duration::from_secs(5);

/// A server that this process has started. Dropping it stops it.
pub struct Server {
    process: Child,
    pub address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
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
            .arg(case)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut line)?;
        let mut server = Server { process, address: (Ipv4Addr::LOCALHOST, 0).into() };
        let port = line.trim().parse().map_err(|_| io::Error::other(format!("a server that says {line:?}")))?;
        server.address.set_port(port);
        let begun = Instant::now();
        while let Err(error) = TcpStream::connect(server.address) {
            if begun.elapsed() > STARTING {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// CPU time of all its threads and of processes that it has started.
    pub fn cpu(&self) -> Duration {
        Duration::from_nanos(Usage::of_process(self.process.id()).cpu_ns)
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
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).exec()
}

/// Whether a command of that name can be started.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.any(|folder| folder.join(program).is_file())
}
