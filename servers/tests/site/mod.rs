//! A directory, and the built binary that serves it.

// Each test binary uses its own part of this.
#![allow(dead_code)]
#![allow(unused_imports)]

#[path = "../process/mod.rs"]
mod process;

pub use process::{PATIENCE, Process};

use process::Random;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The options that choose the style of the server: `web_events.rs` includes the other files, and runs
/// their tests by events.
const STYLE: &[&str] = if is_same(env!("CARGO_CRATE_NAME"), "web_events") { &["--events"] } else { &[] };

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// A temporary directory, which is removed when this value is dropped. The served directory is
/// inside it, so that there are files outside of the served one.
pub struct Site {
    above: PathBuf,
}

impl Site {
    pub fn new() -> Site {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // A test binary may have several copies of this module.
        let copy = module_path!().replace("::", "-");
        let name = format!("sinew-site-{}-{copy}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let above = std::env::temp_dir().join(name);
        fs::create_dir_all(above.join("site")).expect("a directory");
        Site { above }
    }

    /// Returns the directory above the served one.
    pub fn above(&self) -> &Path {
        &self.above
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.above.join("site").join(name)
    }

    /// Writes a file, and makes its directories.
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Site {
        self.put(name, content);
        self
    }

    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a directory above the file")).expect("directories");
        fs::write(path, content).expect("a file");
    }

    /// Returns the command that serves this directory. Its standard output is a pipe.
    pub fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.arg("web").arg(self.path("")).args(["--listen", "127.0.0.1:0"]).args(options);
        command.args(STYLE).stdout(Stdio::piped());
        command
    }

    pub fn serve(self, options: &[&str]) -> Serving {
        Serving::start(self, options)
    }
}

/// Reads the line in which a server announces an address, and returns the address.
pub fn read_address(output: &mut impl BufRead) -> SocketAddr {
    let mut line = String::new();
    output.read_line(&mut line).expect("the first line");
    let address = line.trim().rsplit("//").next().and_then(|address| address.parse().ok());
    address.unwrap_or_else(|| panic!("the server says: {line}"))
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.above);
    }
}

/// A running server. It is killed when this value is dropped.
pub struct Serving {
    pub address: SocketAddr,
    pub site: Site,
    process: Process,
}

impl Serving {
    fn start(site: Site, options: &[&str]) -> Serving {
        let mut process = Process::start(&mut site.command(options)).expect("the binary of this package");
        let mut output = BufReader::new(process.output());
        let address = read_address(&mut output);
        process::discard(output);
        Serving { address, site, process }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn connect(&self) -> Talk {
        Talk::over(TcpStream::connect(self.address).expect("a connection"))
    }

    /// Returns the answer to a GET of this target, on a connection of its own.
    pub fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, "")
    }

    /// Returns the answer to a request, on a connection of its own. Each of `fields` ends with CRLF.
    pub fn ask(&self, method: &str, target: &str, fields: &str) -> Answer {
        let mut talk = self.connect();
        talk.ask(method, target, fields)
    }

    /// Waits for the end of the server, and returns its exit status.
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait_for_end()
    }
}

impl Deref for Serving {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

/// One connection to a server.
pub struct Talk {
    pub stream: TcpStream,
    heard: Vec<u8>,
}

/// An answer of the server.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

impl Talk {
    pub fn over(stream: TcpStream) -> Talk {
        process::prepare(&stream);
        Talk { stream, heard: Vec::new() }
    }

    pub fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("send");
    }

    /// Receives some bytes. Returns `false` if the server has closed the connection.
    pub fn hear_more(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        let count = process::receive(&mut self.stream, &mut buffer, &self.heard);
        self.heard.extend_from_slice(&buffer[..count]);
        count > 0
    }

    /// Receives a head, with the empty line behind it.
    pub fn hear_head(&mut self) -> String {
        loop {
            if let Some(end) = self.heard.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let rest = self.heard.split_off(end + 4);
                return String::from_utf8(std::mem::replace(&mut self.heard, rest)).expect("a head is text");
            }
            assert!(self.hear_more(), "closed after {:?}", String::from_utf8_lossy(&self.heard));
        }
    }

    /// Receives an answer. An answer to HEAD has no body.
    pub fn hear(&mut self, has_body: bool) -> Answer {
        let head = self.hear_head();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let mut answer = Answer { status, head, body: Vec::new() };
        let has_body = has_body && !matches!(status, 100 | 204 | 304);
        if has_body && answer.field("Transfer-Encoding") == Some("chunked") {
            answer.body = self.hear_chunks();
        } else if has_body {
            let length = answer.field("Content-Length").expect("a length").parse().expect("a number");
            while self.heard.len() < length && self.hear_more() {}
            let rest = self.heard.split_off(length.min(self.heard.len()));
            answer.body = std::mem::replace(&mut self.heard, rest);
        }
        answer
    }

    /// Receives a body in chunks.
    pub fn hear_chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(end) = self.heard.windows(2).position(|bytes| bytes == b"\r\n") {
                    break end;
                }
                assert!(self.hear_more(), "closed before a chunk");
            };
            let size = std::str::from_utf8(&self.heard[..end]).expect("digits");
            let size = usize::from_str_radix(size, 16).expect("a size");
            let whole = end + 2 + size + 2;
            while self.heard.len() < whole {
                assert!(self.hear_more(), "closed in a chunk");
            }
            let rest = self.heard.split_off(whole);
            let chunk = std::mem::replace(&mut self.heard, rest);
            assert!(chunk.ends_with(b"\r\n"));
            if size == 0 {
                return body;
            }
            body.extend_from_slice(&chunk[end + 2..whole - 2]);
        }
    }

    pub fn ask(&mut self, method: &str, target: &str, fields: &str) -> Answer {
        self.say(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        self.hear(method != "HEAD")
    }

    /// Receives `count` bytes, or fewer if the server closes the connection.
    pub fn hear_bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.heard);
        let had = bytes.len().min(count);
        self.heard = bytes.split_off(had);
        bytes.resize(count, 0);
        let mut filled = had;
        while filled < count {
            let (before, room) = bytes.split_at_mut(filled);
            match process::receive(&mut self.stream, room, before) {
                0 => break,
                more => filled += more,
            }
        }
        bytes.truncate(filled);
        bytes
    }

    /// Receives everything until the server closes the connection.
    pub fn hear_all(&mut self) -> Vec<u8> {
        while self.hear_more() {}
        std::mem::take(&mut self.heard)
    }

    /// Returns whether the server closes the connection without another byte.
    pub fn is_closed(&mut self) -> bool {
        self.heard.is_empty() && !self.hear_more()
    }
}

/// Waits until a condition holds. The server notices some things only after about a second.
///
/// # Panics
/// Panics if the condition does not hold within [`PATIENCE`].
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns `count` random bytes, the same ones each time.
pub fn noise(count: usize) -> Vec<u8> {
    let mut random = Random::with_seed(0x2545_f491_4f6c_dd1d);
    (0..count).map(|_| random.next() as u8).collect()
}
