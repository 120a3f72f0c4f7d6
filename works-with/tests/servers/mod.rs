//! Servers of others, started on a free port of the loopback for one test.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use crate::fixture::{Patience, Scratch};
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A server that takes longer than this to start is taken to hang.
const LONGEST_START: Duration = Duration::from_secs(60);

/// A server that runs until this is dropped.
pub struct Server {
    child: Child,
    /// The signal that ends the server at once.
    signal: libc::c_int,
    pub port: u16,
    _files: Scratch,
}

impl Server {
    /// Starts a Redis server. Says so and returns `None` if it is not installed.
    pub fn redis() -> Option<Server> {
        let (setpriv, program) = (find("setpriv", "/usr/bin")?, find("redis-server", "/usr/bin")?);
        let files = Scratch::new();
        let directory = files.path().to_owned();
        start(files, None, libc::SIGKILL, "Ready to accept connections", |port| {
            let mut command = guarded(&setpriv, &program);
            command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
            command.arg("--dir").arg(&directory);
            command
        })
    }

    /// Starts a PostgreSQL server whose user `sinew` needs no password. Says so and returns `None` if
    /// it is not installed.
    pub fn postgres() -> Option<Server> {
        let setpriv = find("setpriv", "/usr/bin")?;
        let newest = newest_postgres().unwrap_or_default();
        let (initdb, postgres) = (find("initdb", &newest)?, find("postgres", &newest)?);
        let files = Scratch::new();
        // The server refuses to run as root.
        let user = if is_root() { Some(user()?) } else { None };
        if let Some((uid, gid)) = user {
            chown(files.path(), Some(uid), Some(gid)).unwrap();
        }
        let data = files.at("data");
        let mut command = Command::new(initdb);
        command.args(["--username=sinew", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--pgdata"]);
        let made = as_user(command.arg(&data), user).current_dir(files.path()).output().unwrap();
        assert!(made.status.success(), "initdb failed: {made:?}");
        let sockets = files.path().to_owned();
        // SIGQUIT ends the server without a checkpoint. It leaves no shared memory behind.
        start(files, user, libc::SIGQUIT, "ready to accept connections", |port| {
            let mut command = guarded(&setpriv, &postgres);
            command.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-p", &port.to_string(), "-F"]);
            command.arg("-k").arg(&sockets);
            command
        })
    }

    /// Returns `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        let pid = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: the call takes integers. The child is not waited for yet, so the number is its own.
        unsafe { libc::kill(pid, self.signal) };
        self.child.wait().unwrap();
    }
}

/// Starts a server, and waits until its log has the line `ready`. Tries again with another port if the
/// server ends: another process may have taken the port.
fn start(
    files: Scratch,
    user: Option<(u32, u32)>,
    signal: libc::c_int,
    ready: &str,
    command: impl Fn(u16) -> Command,
) -> Option<Server> {
    let log = files.at("log");
    for _ in 0..5 {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let output = File::create(&log).unwrap();
        let mut command = command(port);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output).current_dir(files.path());
        let mut child = as_user(&mut command, user).spawn().unwrap();
        let patience = Patience::new(LONGEST_START);
        while child.try_wait().unwrap().is_none() {
            if fs::read_to_string(&log).unwrap().contains(ready) {
                return Some(Server { child, signal, port, _files: files });
            }
            if patience.is_over() {
                child.kill().unwrap();
                child.wait().unwrap();
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
    panic!("the server does not start: {}", fs::read_to_string(&log).unwrap());
}

/// Returns a command whose process the kernel kills if this thread ends first.
fn guarded(setpriv: &Path, program: &Path) -> Command {
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

fn as_user(command: &mut Command, user: Option<(u32, u32)>) -> &mut Command {
    match user {
        Some((uid, gid)) => command.uid(uid).gid(gid),
        None => command,
    }
}

/// Returns the path of a program, from `PATH` or this directory.
fn find(program: &str, directory: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = std::env::split_paths(&path).chain([PathBuf::from(directory)]);
    let found = directories.find_map(|directory| Some(directory.join(program)).filter(|file| file.is_file()));
    if found.is_none() {
        say(&format!("skipped: {program} is not installed"));
    }
    found
}

/// Returns the directory of the newest PostgreSQL of Debian, whose servers are not in `PATH`.
fn newest_postgres() -> Option<String> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let number = |name: &str| name.parse::<u32>().ok();
    let newest = versions.filter_map(|entry| number(entry.ok()?.file_name().to_str()?)).max()?;
    Some(format!("/usr/lib/postgresql/{newest}/bin"))
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").unwrap().lines().any(|line| line.starts_with("Uid:\t0\t"))
}

/// Returns the user and the group under which a server may run.
fn user() -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let found = find("postgres").or_else(|| find("nobody"));
    if found.is_none() {
        say("skipped: there is no user for the server");
    }
    found
}

/// Prints a line that the test harness does not capture.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
