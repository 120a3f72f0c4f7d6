//! A directory, and the built binary that serves it.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Nothing here takes longer, unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A directory that is gone with this value. What is served is below it, so that there is
/// something outside.
pub struct Site {
    above: PathBuf,
}

impl Site {
    pub fn new() -> Site {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("sinew-site-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let above = std::env::temp_dir().join(name);
        fs::create_dir_all(above.join("site")).expect("a directory");
        Site { above }
    }

    /// Beside what is served.
    pub fn above(&self) -> &Path {
        &self.above
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.above.join("site").join(name)
    }

    /// Puts a file there, and the directories that it takes.
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Site {
        self.put(name, content);
        self
    }

    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it is below something")).expect("directories");
        fs::write(path, content).expect("a file");
    }

    pub fn serve(self, options: &[&str]) -> Serving {
        Serving::start(self, options)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.above);
    }
}

/// A server that runs, and ends with this value.
pub struct Serving {
    pub address: SocketAddr,
    pub site: Site,
    child: Child,
}

impl Serving {
    fn start(site: Site, options: &[&str]) -> Serving {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.arg("web").arg(site.path("")).args(["--listen", "127.0.0.1:0"]).args(options);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary of this package");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("it was piped"));
        output.read_line(&mut line).expect("its first line");
        // What it says later is not to stop it.
        std::thread::spawn(move || io::copy(&mut output, &mut io::sink()));
        let address = line.trim().rsplit("//").next().and_then(|address| address.parse().ok());
        Serving { address: address.unwrap_or_else(|| panic!("it said: {line}")), site, child }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn connect(&self) -> Talk {
        Talk::over(TcpStream::connect(self.address).expect("a connection"))
    }

    /// The answer to a request for this target, on a connection of its own.
    pub fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, "")
    }

    /// With fields, each of which ends with CRLF.
    pub fn ask(&self, method: &str, target: &str, fields: &str) -> Answer {
        let mut talk = self.connect();
        talk.ask(method, target, fields)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop.
    pub fn terminate(&self) {
        let sent = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status();
        assert!(sent.expect("kill").success());
    }

    /// How it ended.
    pub fn wait(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            std::thread::yield_now();
        }
    }

    /// How many sockets it has.
    pub fn sockets(&self) -> usize {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("its descriptors");
        let links = descriptors.flatten().filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    }

    /// Resident bytes.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One connection to a server.
pub struct Talk {
    pub stream: TcpStream,
    heard: Vec<u8>,
}

/// What a server said.
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
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Talk { stream, heard: Vec::new() }
    }

    pub fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("to send");
    }

    /// Receives something; `false` at the end.
    pub fn hear_more(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(count) => {
                self.heard.extend_from_slice(&buffer[..count]);
                count > 0
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("to receive: {error}, after {} bytes", self.heard.len()),
        }
    }

    /// A head, with the empty line behind it.
    pub fn hear_head(&mut self) -> String {
        loop {
            if let Some(end) = self.heard.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                let rest = self.heard.split_off(end + 4);
                return String::from_utf8(std::mem::replace(&mut self.heard, rest)).expect("a head is text");
            }
            assert!(self.hear_more(), "closed after {:?}", String::from_utf8_lossy(&self.heard));
        }
    }

    /// An answer. One to HEAD has no body.
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

    /// A body in chunks, to its end.
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

    /// So many bytes; fewer if the server closes.
    pub fn hear_bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.heard);
        let had = bytes.len().min(count);
        self.heard = bytes.split_off(had);
        bytes.resize(count, 0);
        let mut filled = had;
        while filled < count {
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) => panic!("to receive: {error}, after {filled} bytes"),
            }
        }
        bytes.truncate(filled);
        bytes
    }

    /// All that is said until the server closes.
    pub fn hear_all(&mut self) -> Vec<u8> {
        while self.hear_more() {}
        std::mem::take(&mut self.heard)
    }

    /// Whether the server closes, and says nothing before.
    pub fn is_closed(&mut self) -> bool {
        self.heard.is_empty() && !self.hear_more()
    }
}

/// Tries again until it holds: for what the server notices within a second or so.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes that are different everywhere.
pub fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..count).map(step).collect()
}
