//! Clients of the memcached server that send requests and do not read the answers.

mod limits;
mod running;

use running::{PATIENCE, Running, Talk};
use rustix::process::Resource;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Connects a client that sends a request and does not read. The kernel buffers little for it.
fn deaf(server: &Running, request: &[u8]) -> Option<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    sockopt::set_socket_recv_buffer_size(&socket, 4096).expect("a small window");
    connect(&socket, &server.address).ok()?;
    let mut stream = TcpStream::from(socket);
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    // The server may close the connection at once because it has no memory.
    stream.write_all(request).ok()?;
    Some(stream)
}

#[test]
fn thousands_of_clients_that_do_not_read_do_not_end_the_server() {
    limits::allow_descriptors();
    let short = b"get short short short short\r\n".repeat(300);
    // One thread: the allocator sets 64 MB aside for each thread while there is memory.
    survives_clients_that_do_not_read("1", 18 << 20, &[&short]);
    let half = [&b"set half 0 0 8000\r\n"[..], &[b'x'; 4000]].concat();
    let (large, stats) = (b"get large\r\n".repeat(10), b"stats\r\n".repeat(600));
    survives_clients_that_do_not_read("2", 40 << 20, &[&short, &large, &stats, &half, b"mn\r\n"]);
}

/// Lets thousands of clients send these requests and not read. The server may take `bytes` bytes
/// more than at the beginning.
fn survives_clients_that_do_not_read(threads: &str, bytes: u64, requests: &[&[u8]]) {
    const CLIENTS: usize = 3_000;
    let server = Running::sinew(&["-m", "64", "-t", threads, "-c", "4000", "--linger", "0.2"]);
    let mut talk = server.connect();
    let value = vec![b'x'; 900_000];
    assert_eq!(talk.ask(&[b"set large 0 0 900000\r\n", &value[..], b"\r\n"].concat()), b"STORED\r\n");
    assert_eq!(talk.ask(&[b"set short 0 0 8000\r\n", &value[..8000], b"\r\n"].concat()), b"STORED\r\n");
    let size = limits::memory(server.pid(), "VmSize");
    limits::starve(server.pid(), Resource::As, size + bytes);
    let clients: Vec<_> = (0..CLIENTS).filter_map(|number| deaf(&server, requests[number % requests.len()])).collect();
    // The server answers these clients as far as the kernel buffers answers.
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).expect("its state");
        stat.rsplit(") ").next().expect("fields").split(' ').skip(11).take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    let (begin, mut before) = (Instant::now(), Vec::new());
    while begin.elapsed() < Duration::from_secs(5) && before != used() {
        before = used();
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(clients);
    // Items are still there, and new clients are served again.
    let begin = Instant::now();
    loop {
        let heard = deaf(&server, b"get short\r\n").map(|stream| Talk::over(stream).hear_until(b"END\r\n"));
        if heard.is_some_and(|heard| heard.starts_with(b"VALUE short 0 8000\r\n")) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "the server does not recover");
    }
}

#[test]
fn a_client_that_does_not_read_a_large_value_keeps_no_large_buffer() {
    const CLIENTS: u64 = 100;
    let server = Running::sinew(&["-m", "64", "-t", "1"]);
    let mut talk = server.connect();
    let value = vec![b'x'; 1_000_000];
    assert_eq!(talk.ask(&[b"set large 0 0 1000000\r\n", &value[..], b"\r\n"].concat()), b"STORED\r\n");
    let before = server.resident();
    let mut clients: Vec<_> = (0..CLIENTS).filter_map(|_| deaf(&server, &b"get large\r\n".repeat(10))).collect();
    for client in &mut clients {
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        client.read_exact(&mut [0; 8]).expect("the beginning of an answer");
    }
    let begin = Instant::now();
    let mut written = 0;
    loop {
        let now = talk.stat("bytes_written").parse::<u64>().expect("a number");
        let each = server.resident().saturating_sub(before) / CLIENTS;
        // The server writes only these statistics meanwhile. Most of the rest are stacks of a debug
        // build: a session that waits for a request has 14 KB.
        if now < written + 1_000_000 && each < 40 * 1024 {
            return;
        }
        written = now;
        assert!(begin.elapsed() < PATIENCE, "{each} bytes for each client");
        std::thread::sleep(Duration::from_millis(20));
    }
}
