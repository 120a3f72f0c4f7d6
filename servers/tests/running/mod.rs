//! Servers that tests talk to: the built binary, and the memcached of the system.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Nothing here takes longer, unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A server that runs, and ends with this value.
pub struct Running {
    pub name: &'static str,
    pub address: SocketAddr,
    child: Child,
}

impl Running {
    /// The server of this package, at a port of its own.
    pub fn sinew(options: &[&str]) -> Running {
        let (running, mut errors) = Running::start(options);
        // What it says later is not to stop it.
        std::thread::spawn(move || io::copy(&mut errors, &mut io::sink()));
        running
    }

    /// The same; nobody reads what it says when it has begun, until the reader is dropped.
    pub fn unread(options: &[&str]) -> (Running, impl Read + use<>) {
        Running::start(options)
    }

    /// The same; nobody hears what it says when it has begun.
    pub fn unheard(options: &[&str]) -> Running {
        Running::start(options).0
    }

    fn start(options: &[&str]) -> (Running, impl Read + use<>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.args(["memcached", "-p", "0"]).args(options).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary of this package");
        let mut line = String::new();
        let mut errors = BufReader::new(child.stderr.take().expect("it was piped"));
        errors.read_line(&mut line).expect("its first line");
        let address = line.trim().strip_prefix("listening at ").unwrap_or_else(|| panic!("it said: {line}"));
        let address = address.parse().unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        (Running { name: "sinew", address, child }, errors)
    }

    /// The system's memcached, at a port of its own; `None` if it is not installed.
    pub fn memcached(options: &[&str]) -> Option<Running> {
        for _ in 0..10 {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
            let address = free.expect("a free port");
            let mut command = Command::new("memcached");
            command.args(["-u", "root", "-l", "127.0.0.1", "-p", &address.port().to_string()]).args(options);
            let child = command.stderr(Stdio::null()).spawn();
            if child.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                eprintln!("memcached is not installed: nothing to compare with");
                return None;
            }
            let mut running = Running { name: "memcached", address, child: child.expect("memcached") };
            let begin = Instant::now();
            while begin.elapsed() < PATIENCE && running.child.try_wait().expect("its state").is_none() {
                if TcpStream::connect(address).is_ok() {
                    return Some(running);
                }
                std::thread::yield_now();
            }
            // Somebody else took the port: try another.
        }
        panic!("memcached does not start")
    }

    /// Both, or what there is.
    pub fn both(options: &[&str]) -> Vec<Running> {
        [Some(Running::sinew(options)), Running::memcached(options)].into_iter().flatten().collect()
    }

    pub fn connect(&self) -> Talk {
        Talk::over(TcpStream::connect(self.address).expect("a connection"))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop.
    pub fn terminate(&self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.expect("kill").success());
    }

    /// How it ended.
    pub fn wait(mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("its state") {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            std::thread::yield_now();
        }
    }

    /// Resident bytes.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One connection to a server.
pub struct Talk {
    pub stream: TcpStream,
}

impl Talk {
    pub fn over(stream: TcpStream) -> Talk {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Talk { stream }
    }

    pub fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("to send");
    }

    /// What `stats` says under this name, or `stats runtime`, which is ours.
    pub fn stat(&mut self, name: &str) -> String {
        let stats = String::from_utf8(self.ask(b"stats\r\nstats runtime\r\n")).expect("text");
        let start = format!("STAT {name} ");
        stats.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_else(|| panic!("no {name}")).to_owned()
    }

    /// As many bytes as that; fewer if the server closes.
    pub fn hear(&mut self, count: usize) -> Vec<u8> {
        let mut heard = vec![0; count];
        let mut filled = 0;
        while filled < count {
            match self.stream.read(&mut heard[filled..]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("to receive: {error}, after {:?}", String::from_utf8_lossy(&heard[..filled])),
            }
        }
        heard.truncate(filled);
        heard
    }

    /// Everything up to `end`, which is included; what came if the server closes.
    pub fn hear_until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        while !heard.ends_with(end) {
            match self.stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(more) => heard.extend_from_slice(&buffer[..more]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("to receive: {error}, after {:?}", String::from_utf8_lossy(&heard)),
            }
        }
        heard
    }

    /// Everything up to the end of a line, and no byte more.
    pub fn hear_line(&mut self) -> Vec<u8> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            match self.hear(1).as_slice() {
                [byte] => line.push(*byte),
                _ => break,
            }
        }
        line
    }

    /// What the server says to this, and then to a request that shows that it has done.
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

/// A generator of random numbers whose seed is printed.
pub struct Random {
    state: u64,
}

impl Random {
    /// From `SEED` in the environment, or another one each time.
    pub fn new() -> Random {
        use std::hash::{BuildHasher, RandomState};
        let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0));
        eprintln!("SEED={seed}");
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
