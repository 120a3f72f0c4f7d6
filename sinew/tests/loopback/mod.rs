//! Connections within the machine, and what is sent over them.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use sinew::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// Around the sizes of pages, of TLS records and of WebSocket frames' lengths.
pub const SIZES: [usize; 12] = [1, 2, 125, 126, 4095, 4096, 16_383, 16_384, 16_385, 65_535, 65_536, 100_000];

pub fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The two ends of a connection.
pub fn pair() -> (TcpStream, TcpStream) {
    let (listener, address) = listener();
    let here = TcpStream::connect(address).unwrap();
    (here, listener.accept().unwrap().0)
}

/// The two ends of a connection that holds less than half a mebibyte each way.
pub fn narrow_pair() -> (TcpStream, TcpStream) {
    let (here, there) = pair();
    make_narrow(&here);
    make_narrow(&there);
    (here, there)
}

/// Bytes that depend on the seed, so that those of another connection show.
pub fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}

/// Gives the socket buffers of 256 KiB, which do not grow. Where they hold no more than a
/// packet or two, which are 64 KiB long here, it is the kernel's timers that are tested.
#[allow(unsafe_code)]
fn make_narrow(stream: &TcpStream) {
    for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
        let (bytes, length) = (128 * 1024 as libc::c_int, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: the value is an integer of that length.
        let set = unsafe {
            libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const bytes).cast(), length)
        };
        assert_eq!(set, 0);
    }
}
