//! The server processes that tests talk to, and the connections to them.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

/// The longest time that a test waits for anything. Only a server that hangs takes that long.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A running server process. It is killed when this value is dropped.
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts a command.
    pub fn start(command: &mut Command) -> io::Result<Process> {
        // A debug build on a busy machine computes for long at times. Tests read what a server says.
        command.env("SINEW_STALLS", "off").spawn().map(|child| Process { child })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Takes standard output, which the command has made a pipe.
    pub fn output(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("stdout is a pipe")
    }

    /// Takes standard error, which the command has made a pipe.
    pub fn errors(&mut self) -> ChildStderr {
        self.child.stderr.take().expect("stderr is a pipe")
    }

    /// Takes standard error back, for [`messages`](Process::messages).
    pub fn return_errors(&mut self, errors: ChildStderr) {
        self.child.stderr = Some(errors);
    }

    /// Reads standard error to its end.
    pub fn messages(&mut self) -> String {
        let mut text = String::new();
        self.errors().read_to_string(&mut text).expect("messages");
        text
    }

    /// Sends a signal, such as `-HUP`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.pid().to_string()]).status();
        assert!(sent.expect("kill").success());
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the state of the process").is_some()
    }

    /// Waits for the end of the process, and returns its exit status.
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the state of the process") {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "the server does not end");
            std::thread::yield_now();
        }
    }

    /// Returns the number of the process's sockets.
    pub fn sockets(&self) -> usize {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("the descriptors");
        let links = descriptors.flatten().filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    }

    /// Returns the resident bytes that belong to no file. Pages of the program come and go with the code that
    /// runs, so a test that counts them measures the size of the program.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the process's status");
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of this name");
            line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
        };
        bytes("RssAnon:") + bytes("RssShmem:")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prepares a connection for a test: no call waits longer than [`PATIENCE`], and bytes are sent at once.
pub fn prepare(stream: &TcpStream) {
    stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a write timeout");
    stream.set_nodelay(true).expect("TCP_NODELAY");
}

/// Receives some bytes, and returns their number. It is 0 if the server has closed or reset the
/// connection.
///
/// # Panics
/// Panics on any other error. The message shows the bytes that came `before`.
pub fn receive(stream: &mut TcpStream, buffer: &mut [u8], before: &[u8]) -> usize {
    match stream.read(buffer) {
        Ok(count) => count,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
        Err(error) => {
            let shown = &before[before.len().saturating_sub(1000)..];
            panic!("receive: {error}, after {} bytes: {:?}", before.len(), String::from_utf8_lossy(shown))
        }
    }
}

/// Discards everything that the server writes from now on, so that a full pipe does not stop it.
pub fn discard(mut output: impl Read + Send + 'static) {
    std::thread::spawn(move || io::copy(&mut output, &mut io::sink()));
}

/// A generator of random numbers.
pub struct Random {
    state: u64,
}

impl Random {
    /// Takes the seed from `SEED` in the environment, or a new one each time. Prints it.
    pub fn new() -> Random {
        use std::hash::{BuildHasher, RandomState};
        let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0));
        eprintln!("SEED={seed}");
        Random::with_seed(seed)
    }

    pub fn with_seed(seed: u64) -> Random {
        Random { state: seed | 1 }
    }

    pub fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn one_of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}
