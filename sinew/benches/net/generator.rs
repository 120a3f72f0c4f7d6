//! Load from another CPU, in a closed loop: each connection asks again when it has been
//! answered. By `wrk` where that is installed, else by a loop of our own.
#![allow(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::bare::{EVENTS, Epoll};
use crate::protocol::{REQUEST, Stay};
use crate::support::child;

/// What a server has done.
pub struct Load {
    pub requests: f64,
    pub seconds: f64,
}

/// The CPU that the server does not have, if there is one.
const CPU: usize = 1;

pub fn name() -> &'static str {
    if has_wrk() { "wrk" } else { "a loop of our own; `wrk` is not installed" }
}

fn has_wrk() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    // It prints its version, and fails.
    *HAS.get_or_init(|| Command::new("wrk").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok())
}

pub fn run(address: SocketAddr, connections: usize, stay: Stay, length: Duration) -> io::Result<Load> {
    if has_wrk() { run_wrk(address, connections, stay, length) } else { run_loop(address, connections, stay, length) }
}

fn run_wrk(address: SocketAddr, connections: usize, stay: Stay, length: Duration) -> io::Result<Load> {
    let has_cpu = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > CPU);
    let mut command = if has_cpu && child::taskset_exists() {
        let mut command = Command::new("taskset");
        command.args(["-c", &CPU.to_string(), "wrk"]);
        command
    } else {
        Command::new("wrk")
    };
    command.args(["-t1", "-c", &connections.to_string(), "-d", &format!("{}s", length.as_secs().max(1))]);
    if stay == Stay::Close {
        command.args(["-H", "Connection: close"]);
    }
    let output = command.arg(format!("http://{address}/")).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    // "  125719 requests in 3.06s, 9.35MB read", and the rate beside it.
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let number = |word: Option<&String>| word.and_then(|word| word.parse::<f64>().ok());
    let requests = said.lines().find(|line| line.contains("requests in")).and_then(|line| number(words(line).first()));
    let rate = said.lines().find(|line| line.contains("Requests/sec")).and_then(|line| number(words(line).get(1)));
    match (requests, rate) {
        (Some(requests), Some(rate)) if requests > 0.0 && !said.contains("Non-2xx") => {
            Ok(Load { requests, seconds: requests / rate })
        }
        _ => Err(io::Error::other("wrk got no answers, or wrong ones")),
    }
}

/// In a thread of its own, on the other CPU.
fn run_loop(address: SocketAddr, connections: usize, stay: Stay, length: Duration) -> io::Result<Load> {
    std::thread::spawn(move || {
        pin();
        close_the_loop(address, connections, stay, length)
    })
    .join()
    .expect("a generator that does not panic")
}

/// Where there is no such CPU, the thread runs where it likes.
fn pin() {
    // SAFETY: an empty set is all zero; the set is valid for the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(CPU, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Connects and asks. The connection is non-blocking afterwards.
fn ask_anew(address: SocketAddr, epoll: &Epoll) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.write_all(REQUEST)?;
    stream.set_nonblocking(true)?;
    epoll.control(libc::EPOLL_CTL_ADD, stream.as_raw_fd(), libc::EPOLLIN)?;
    Ok(stream)
}

fn close_the_loop(address: SocketAddr, connections: usize, stay: Stay, length: Duration) -> io::Result<Load> {
    let epoll = Epoll::new()?;
    let mut streams: Vec<Option<TcpStream>> = Vec::new();
    let keep = |streams: &mut Vec<Option<TcpStream>>, stream: TcpStream| {
        let slot = stream.as_raw_fd() as usize;
        if streams.len() <= slot {
            streams.resize_with(slot + 1, || None);
        }
        streams[slot] = Some(stream);
    };
    for _ in 0..connections {
        keep(&mut streams, ask_anew(address, &epoll)?);
    }
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
    let mut buffer = [0; 1024];
    let (began, mut requests) = (Instant::now(), 0u64);
    while began.elapsed() < length {
        for event in epoll.wait(&mut events) {
            let slot = &mut streams[event.u64 as usize];
            let stream = slot.as_mut().expect("what is closed is not reported");
            // An answer is small enough to come whole.
            if stream.read(&mut buffer)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            requests += 1;
            if stay == Stay::Open {
                stream.write_all(REQUEST)?;
            } else {
                *slot = None;
                keep(&mut streams, ask_anew(address, &epoll)?);
            }
        }
    }
    Ok(Load { requests: requests as f64, seconds: began.elapsed().as_secs_f64() })
}
