//! memcached servers that tests talk to: the built binary, and the memcached of the system.

// Each test binary uses its own part of this.
#![allow(dead_code)]
#![allow(unused_imports)]

#[path = "../process/mod.rs"]
mod process;

pub use process::{PATIENCE, Random};

use process::Process;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Deref;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

/// A running server. It is killed when this value is dropped.
pub struct Running {
    pub name: &'static str,
    pub address: SocketAddr,
    process: Process,
}

impl Running {
    /// Starts the server of this package, at a port of its own.
    pub fn sinew(options: &[&str]) -> Running {
        let (running, errors) = Running::start(options);
        process::discard(errors);
        running
    }

    /// Starts the server of this package. Nothing reads its messages until the caller does, or drops
    /// the reader.
    pub fn unread(options: &[&str]) -> (Running, impl Read + use<>) {
        Running::start(options)
    }

    /// Starts the server of this package. Its standard error is a pipe without a reader.
    pub fn unheard(options: &[&str]) -> Running {
        Running::start(options).0
    }

    fn start(options: &[&str]) -> (Running, impl Read + use<>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.args(["memcached", "-p", "0"]).args(options).stderr(Stdio::piped());
        let mut process = Process::start(&mut command).expect("the binary of this package");
        let mut line = String::new();
        let mut errors = BufReader::new(process.errors());
        errors.read_line(&mut line).expect("the first line");
        let address = line.trim().strip_prefix("listening at ").unwrap_or_else(|| panic!("the server says: {line}"));
        let address = address.parse().unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        (Running { name: "sinew", address, process }, errors)
    }

    /// Starts the system's memcached, at a port of its own. Returns `None` if it is not installed.
    pub fn memcached(options: &[&str]) -> Option<Running> {
        for _ in 0..10 {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
            let address = free.expect("a free port");
            let mut command = Command::new("memcached");
            command.args(["-u", "root", "-l", "127.0.0.1", "-p", &address.port().to_string()]).args(options);
            let process = Process::start(command.stderr(Stdio::null()));
            if process.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                eprintln!("memcached is not installed: nothing to compare with");
                return None;
            }
            let mut running = Running { name: "memcached", address, process: process.expect("memcached") };
            let begin = Instant::now();
            while begin.elapsed() < PATIENCE && !running.process.has_ended() {
                if TcpStream::connect(address).is_ok() {
                    return Some(running);
                }
                std::thread::yield_now();
            }
            // Another process has taken the port: try the next one.
        }
        panic!("memcached does not start")
    }

    /// Starts both servers, or only ours if memcached is not installed.
    pub fn both(options: &[&str]) -> Vec<Running> {
        [Some(Running::sinew(options)), Running::memcached(options)].into_iter().flatten().collect()
    }

    pub fn connect(&self) -> Talk {
        Talk::over(TcpStream::connect(self.address).expect("a connection"))
    }

    /// Waits for the end of the server, and returns its exit status.
    pub fn wait(mut self) -> ExitStatus {
        self.process.wait_for_end()
    }
}

impl Deref for Running {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

/// One connection to a server.
pub struct Talk {
    pub stream: TcpStream,
}

impl Talk {
    pub fn over(stream: TcpStream) -> Talk {
        process::prepare(&stream);
        Talk { stream }
    }

    pub fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("send");
    }

    /// Returns the value that `stats`, or our own `stats runtime`, shows under this name.
    pub fn stat(&mut self, name: &str) -> String {
        let stats = String::from_utf8(self.ask(b"stats\r\nstats runtime\r\n")).expect("text");
        let start = format!("STAT {name} ");
        stats.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_else(|| panic!("no {name}")).to_owned()
    }

    /// Receives `count` bytes, or fewer if the server closes the connection.
    pub fn hear(&mut self, count: usize) -> Vec<u8> {
        let mut heard = vec![0; count];
        let mut filled = 0;
        while filled < count {
            let (before, room) = heard.split_at_mut(filled);
            match process::receive(&mut self.stream, room, before) {
                0 => break,
                more => filled += more,
            }
        }
        heard.truncate(filled);
        heard
    }

    /// Receives everything up to and including `end`, or less if the server closes the connection.
    pub fn hear_until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        while !heard.ends_with(end) {
            match process::receive(&mut self.stream, &mut buffer, &heard) {
                0 => break,
                more => heard.extend_from_slice(&buffer[..more]),
            }
        }
        heard
    }

    /// Receives everything up to the end of a line, and no byte more.
    pub fn hear_line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        let mut buffer = [0; 4096];
        while line.last() != Some(&b'\n') {
            // An error shows again when the byte is received.
            let seen = self.stream.peek(&mut buffer).unwrap_or(1);
            let end = buffer[..seen].iter().position(|&byte| byte == b'\n').map_or(seen, |at| at + 1);
            let part = self.hear(end);
            if part.is_empty() {
                break;
            }
            line.extend(part);
        }
        line
    }

    /// Sends a request, then one that marks the end, and returns the answer to the first. Appends
    /// `<closed>` to it if the server closes the connection.
    pub fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.say(request);
        self.say(b"mg \x7f Odone\r\n");
        let done = b"EN Odone\r\n";
        let mut heard = self.hear_until(done);
        if heard.ends_with(done) {
            heard.truncate(heard.len() - done.len());
        } else {
            heard.extend_from_slice(b"<closed>");
        }
        heard
    }
}
