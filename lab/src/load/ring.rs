//! The parts of io_uring that the bare loops use: batches of calls that do not wait.
#![allow(unsafe_code)]

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};

use super::http::ROOM;

/// No call waits for a socket: its result is there when the batch has been submitted.
const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

pub struct Ring {
    ring: IoUring,
    /// Room for what is received, by place.
    rooms: Box<[[u8; ROOM]]>,
}

/// Returns whether the kernel lets this process have a ring.
pub fn is_permitted() -> bool {
    static IS_PERMITTED: OnceLock<bool> = OnceLock::new();
    *IS_PERMITTED.get_or_init(|| IoUring::new(1).is_ok())
}

impl Ring {
    /// Returns a ring for batches of this number of calls.
    pub fn new(calls: usize) -> io::Result<Ring> {
        let ring = IoUring::new(calls as u32)?;
        Ok(Ring { ring, rooms: vec![[0; ROOM]; calls].into_boxed_slice() })
    }

    /// Queues a send. The result has the number.
    pub fn send(&mut self, stream: &TcpStream, bytes: &'static [u8], number: usize) {
        let send = opcode::Send::new(Fd(stream.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32);
        // SAFETY: the bytes are never freed.
        unsafe { self.push(&send.flags(FLAGS).build().user_data(number as u64)) };
    }

    /// Queues a receive into the room at a place, which is unused in this batch. The result has
    /// the place.
    pub fn receive(&mut self, stream: &TcpStream, place: usize) {
        let room = &mut self.rooms[place];
        let receive = opcode::Recv::new(Fd(stream.as_raw_fd()), room.as_mut_ptr(), ROOM as u32);
        // SAFETY: the room does not move, and lives as long as the ring. The kernel writes to it
        // within `submit` only, which has the ring for itself.
        unsafe { self.push(&receive.flags(FLAGS).build().user_data(place as u64)) };
    }

    /// # Safety
    /// The memory that the entry names is valid until `submit` has returned.
    unsafe fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the caller promises what the kernel needs.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("no more calls than the ring has room for");
    }

    /// Submits all calls that are queued, and waits until each has a result.
    ///
    /// All results of the batch before have been taken.
    pub fn submit(&mut self) -> io::Result<()> {
        let calls = self.ring.submission().len();
        while self.ring.completion().len() < calls {
            match self.ring.submit_and_wait(calls) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the number or the place of a call, and its result.
    pub fn next_result(&mut self) -> Option<(usize, io::Result<usize>)> {
        let entry = self.ring.completion().next()?;
        let result = usize::try_from(entry.result()).map_err(|_| io::Error::from_raw_os_error(-entry.result()));
        Some((entry.user_data() as usize, result))
    }

    /// Returns the first bytes in the room at a place.
    pub fn received(&self, place: usize, count: usize) -> &[u8] {
        &self.rooms[place][..count]
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let one = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        (one, listener.accept().expect("a connection").0)
    }

    #[test]
    fn every_call_of_a_batch_has_its_own_result() {
        if !is_permitted() {
            return eprintln!("skipped: the kernel does not permit io_uring");
        }
        let mut ring = Ring::new(4).expect("a ring");
        let (mut client, asked) = pair();
        let (_silent, unasked) = pair();
        client.write_all(b"question").expect("to send");
        ring.receive(&asked, 0);
        ring.receive(&unasked, 1);
        ring.send(&asked, b"answer", 7);
        ring.submit().expect("a batch");
        let mut results: Vec<_> = std::iter::from_fn(|| ring.next_result()).collect();
        results.sort_by_key(|(number, _)| *number);
        let [(0, Ok(8)), (1, Err(nothing)), (7, Ok(6))] = &results[..] else { panic!("{results:?}") };
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(ring.received(0, 8), b"question");
        let mut answer = [0; 6];
        client.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"answer");
    }
}
