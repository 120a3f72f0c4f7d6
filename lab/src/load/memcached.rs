//! The traffic of memcached servers. All values have the same length, and all keys, so that the
//! length of every reply is known.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use super::{Traffic, server};
use crate::case::Case;
use crate::peers::BY_EPOLL;

/// The number of values: more than the cache of a CPU holds.
pub const KEYS: usize = 100_000;
const VALUE_BYTES: usize = 100;

/// The length of the reply to a get.
pub const HIT: usize = "VALUE key_00000000 0 100\r\n".len() + VALUE_BYTES + "\r\nEND\r\n".len();
const STORED: usize = "STORED\r\n".len();

/// Bytes of requests that are sent at once.
const AT_ONCE: usize = 64 * 1024;

fn write_set(bytes: &mut Vec<u8>, key: usize, noreply: &str) {
    write!(bytes, "set key_{key:08} 0 0 {VALUE_BYTES}{noreply}\r\n").expect("memory");
    bytes.resize(bytes.len() + VALUE_BYTES, b'v');
    bytes.extend_from_slice(b"\r\n");
}

/// Returns traffic for random keys. This percentage of the requests are sets.
pub fn traffic(sets: usize) -> Traffic {
    Box::new(move |random, bytes| {
        let key = random.below(KEYS);
        if random.below(100) < sets {
            write_set(bytes, key, "");
            STORED
        } else {
            write!(bytes, "get key_{key:08}\r\n").expect("memory");
            HIT
        }
    })
}

/// Stores values under the first `count` keys.
pub fn fill(address: SocketAddr, count: usize) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let mut requests = Vec::new();
    for key in 0..count {
        write_set(&mut requests, key, " noreply");
        if requests.len() > AT_ONCE || key + 1 == count {
            stream.write_all(&requests)?;
            requests.clear();
        }
    }
    greet(&mut stream)
}

/// Waits until the server has answered all requests of this connection.
pub fn greet(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"mn\r\n")?;
    stream.read_exact(&mut [0; "MN\r\n".len()])
}

/// In the server's process: becomes `sinew memcached` under a scheduler, or memcached, with
/// one thread for each processor of the case.
pub fn serve(case: &Case) -> io::Result<()> {
    let port = server::free_port()?;
    let mut command: Command = match case.peer.strip_prefix("sinew/") {
        Some(scheduler) => {
            let mut command = server::sinew_command_for(&case.peer, "memcached")?;
            match scheduler.strip_suffix(BY_EPOLL).unwrap_or(scheduler) {
                "default" => command.arg("--no-migration"),
                scheduler => command.args(["--scheduler", scheduler]),
            };
            command
        }
        None => {
            let mut command = server::installed("memcached")?;
            command.args(["-u", "root"]);
            command
        }
    };
    let connections = case.threads + server::FURTHER_CONNECTIONS;
    command.args(["-l", "127.0.0.1", "-m", "1024"]).arg("-p").arg(port.to_string());
    command.arg("-t").arg(case.processors.to_string()).arg("-c").arg(connections.to_string());
    Err(server::become_program(command, port))
}
