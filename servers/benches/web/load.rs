//! Clients: fast ones, slow ones, idle ones.

use crate::server::{LOAD_CPU, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What `wrk` is to ask for: each connection asks again when it has been answered.
#[derive(Clone, Copy)]
pub struct Load {
    pub target: &'static str,
    pub connections: usize,
    pub seconds: usize,
    /// Whether each request has a connection of its own.
    pub close: bool,
}

impl Load {
    /// How many requests were answered.
    pub fn run(&self, server: &Server) -> f64 {
        let mut command = Command::new("taskset");
        command.args(["-c", &LOAD_CPU.to_string(), "wrk", "-t1", "-c", &self.connections.to_string()]);
        command.args(["-d", &format!("{}s", self.seconds)]);
        if self.close {
            command.args(["-H", "Connection: close"]);
        }
        let url = format!("{}://{}{}", server.scheme, server.address, self.target);
        let output = command.arg(url).stdin(Stdio::null()).output().expect("wrk");
        let said = String::from_utf8_lossy(&output.stdout);
        let line = said.lines().find(|line| line.contains("requests in")).unwrap_or_default();
        let requests = line.split_whitespace().next().and_then(|number| number.parse().ok());
        assert!(!said.contains("Non-2xx"), "wrong answers: {said}");
        requests.unwrap_or_else(|| panic!("wrk said: {said}"))
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream
}

/// Clients that take their time.
pub struct Slow {
    over: Arc<AtomicBool>,
    driver: JoinHandle<usize>,
}

impl Slow {
    /// Every second one sends a head, a byte a second; the others read a megabyte, a byte a
    /// second.
    pub fn attach(server: &Server, count: usize) -> Slow {
        let streams: Vec<TcpStream> = (0..count).map(|_| connect(server.address)).collect();
        for stream in streams.iter().skip(1).step_by(2) {
            let mut stream: &TcpStream = stream;
            stream.write_all(b"GET /1m.bin HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("to send");
        }
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let driver = thread::spawn(move || drive(&streams, &is_over));
        Slow { over, driver }
    }

    /// How many of them have not been turned away.
    pub fn detach(self) -> usize {
        self.over.store(true, Relaxed);
        self.driver.join().expect("a driver that does not panic")
    }
}

fn drive(streams: &[TcpStream], is_over: &AtomicBool) -> usize {
    let mut head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ".iter().copied().chain(std::iter::repeat(b'x'));
    let mut served = vec![true; streams.len()];
    while !is_over.load(Relaxed) {
        let byte = head.next().expect("it has no end");
        for (number, mut stream) in streams.iter().enumerate() {
            let done = if number % 2 == 0 { stream.write(&[byte]) } else { stream.read(&mut [0]) };
            served[number] &= done.is_ok_and(|count| count == 1);
        }
        thread::sleep(Duration::from_secs(1));
    }
    served.into_iter().filter(|&served| served).count()
}

/// Connections that have been answered once.
pub fn idle(server: &Server, count: usize) -> Vec<TcpStream> {
    let ask = |_| {
        let mut stream = connect(server.address);
        stream.write_all(b"GET /1k.bin HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("to send");
        let mut answer = [0; 4096];
        let mut filled = 0;
        while !answer[..filled].ends_with(b"xxxx") {
            filled += stream.read(&mut answer[filled..]).expect("an answer");
        }
        stream
    };
    (0..count).map(ask).collect()
}
