//! Reads of files: in place as far as the bytes are in memory.
//!
//! ```text
//!   1  ask for bytes that are in memory, a piece at a time
//!      all that was asked for, or the end of the file      done
//!      there are bytes, but not in memory                  go to 2
//!      the kernel does not tell                            go to 3
//!   2  read a piece by the ring of the cluster; go to 1. Without a ring: go to 3
//!   3  read the rest in the pool
//! ```
//!
//! So a read returns less than it was asked for only at the end of the file, as the kernel's does.
//!
//! Calls that use the file's position take *the turn* first. The kernel has a lock for each position,
//! and a thread that reads cold pages holds it. Without the turn, a processor that reads in place would
//! wait for that lock.

use super::cold;
use super::facts::{Cached, Facts};
use super::file::{File, MOST_COPIED};
use super::spare;
use crate::io::{OtherScope, blocking, blocking_async};
use crate::stack::current_stack;
use crate::sync::{MutexGuard, OwnedMutexGuard};
use crate::wait::budget;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::io::{self, IoSliceMut, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, PoisonError};

/// The largest number of bytes that one call copies in place. It takes about 10 µs, within what a fibre
/// may spend before it gives way. A megabyte in one call was not measured to be faster: 37 µs, and
/// 33 µs in eight pieces.
pub(super) const PIECE: usize = 128 * 1024;

/// The number of bytes that are copied for a unit of a fibre's budget, which is about 20 ns.
const BYTES_PER_UNIT: usize = 256;

/// The number of bytes that are copied for an operation of a task's budget: about 1 µs.
const BYTES_PER_OPERATION: usize = 16 * 1024;

/// Returns whether the caller is a fibre. Kernel threads call std directly; tasks use other forms.
pub(super) fn is_fibre() -> bool {
    current_stack().is_some()
}

/// Spends what a call costs that copied `count` bytes.
pub(super) fn spend(count: usize) {
    let units = u32::try_from(count / BYTES_PER_UNIT).unwrap_or(u32::MAX / 2);
    budget::spend(budget::KERNEL_CALL + units);
}

/// Why a read in place ended.
pub(super) enum Stop {
    /// The buffer is full.
    Full,
    /// The file has no more bytes.
    End,
    /// The next bytes are not in memory.
    Cold,
    /// The kernel does not tell what is in memory, or there is an error.
    Refused,
}

/// Returns the offset that is `count` bytes further. `None` stands for the file's position, which moves
/// by itself.
pub(super) fn further(offset: Option<u64>, count: usize) -> Option<u64> {
    offset.map(|offset| offset + count as u64)
}

/// Reads as std does.
fn read_directly(mut file: &std::fs::File, buffer: &mut [u8], offset: Option<u64>) -> io::Result<usize> {
    match offset {
        Some(offset) => file.read_at(buffer, offset),
        None => file.read(buffer),
    }
}

/// Returns what a call returns that failed after it had read `count` bytes.
pub(super) fn after(count: usize, result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Ok(more) => Ok(count + more),
        Err(_) if count > 0 => Ok(count),
        Err(error) => Err(error),
    }
}

impl File {
    /// Returns what is known of the file. Asks the kernel the first time.
    #[inline]
    pub(super) fn facts(&self) -> Result<Facts, OtherScope> {
        self.known().get().map_or_else(|| self.ask(), Ok)
    }

    #[cold]
    fn ask(&self) -> Result<Facts, OtherScope> {
        let file = self.shared().get()?;
        let facts = Facts::ask(file.as_fd()).or_else(|status| {
            blocking(|| status.learn(file));
            Facts::ask(file.as_fd())
        });
        Ok(self.keep(facts.unwrap_or(Facts::NONE)))
    }

    pub(super) async fn facts_async(&self) -> Result<Facts, OtherScope> {
        if let Some(facts) = self.known().get() {
            return Ok(facts);
        }
        let asked = Facts::ask(self.shared().get()?.as_fd());
        let facts = match asked {
            Ok(facts) => facts,
            Err(status) => {
                let file = Arc::clone(self.shared());
                blocking_async(move || file.get().map(|file| status.learn(file))).await?;
                Facts::ask(self.shared().get()?.as_fd()).unwrap_or(Facts::NONE)
            }
        };
        Ok(self.keep(facts))
    }

    fn keep(&self, facts: Facts) -> Facts {
        self.known().set(facts);
        facts
    }

    /// Waits for the turn to use the file's position. Only regular files have one.
    pub(super) fn turn(&self) -> Result<Option<MutexGuard<'_, ()>>, OtherScope> {
        let is_regular = is_fibre() && self.facts()?.is_regular();
        Ok(is_regular.then(|| self.position().lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// As [`turn`](File::turn). The guard goes with a call that may outlive the caller.
    pub(super) async fn turn_async(&self) -> Result<Option<OwnedMutexGuard<()>>, OtherScope> {
        if !self.facts_async().await?.is_regular() {
            return Ok(None);
        }
        let turn = Arc::clone(self.position()).lock_owned_async().await;
        Ok(Some(turn.unwrap_or_else(PoisonError::into_inner)))
    }

    /// Reads bytes that are in memory, and does not wait. Returns their number. A fibre gives way
    /// between two pieces if its budget is spent.
    fn read_in_place(&self, file: &std::fs::File, buffer: &mut [u8], offset: Option<u64>) -> (usize, Stop) {
        let mut count = 0;
        loop {
            let end = buffer.len().min(count + PIECE);
            match self.read_piece(file, &mut buffer[count..end], further(offset, count)) {
                Ok(0) => return (count, Stop::End),
                Ok(read) => {
                    count += read;
                    spend(read);
                }
                Err(stop) => return (count, stop),
            }
            if count == buffer.len() {
                return (count, Stop::Full);
            }
        }
    }

    fn read_piece(&self, file: &std::fs::File, piece: &mut [u8], offset: Option<u64>) -> Result<usize, Stop> {
        match self.cached() {
            Cached::Nowait => {}
            Cached::All => return read_directly(file, piece, offset).map_err(|_| Stop::Refused),
            Cached::Never => return Err(Stop::Refused),
        }
        // To the kernel `u64::MAX` is the file's position. Its offsets have a sign: std tells the caller.
        if offset.is_some_and(|offset| i64::try_from(offset).is_err()) {
            return Err(Stop::Refused);
        }
        let read = preadv2(file, &mut [IoSliceMut::new(piece)], offset.unwrap_or(u64::MAX), ReadWriteFlags::NOWAIT);
        read.map_err(|error| self.stop(error))
    }

    /// As [`read_piece`](File::read_piece) from the file's position. Appends to `buffer`, which has room.
    pub(super) fn append_piece(&self, file: &std::fs::File, buffer: &mut Vec<u8>) -> Result<usize, Stop> {
        let flags = match self.cached() {
            Cached::Nowait => ReadWriteFlags::NOWAIT,
            Cached::All => ReadWriteFlags::empty(),
            Cached::Never => return Err(Stop::Refused),
        };
        spare::read(file.as_fd(), buffer, PIECE, flags).map_err(|error| self.stop(error))
    }

    pub(super) fn cached(&self) -> Cached {
        self.known().get().unwrap_or(Facts::NONE).cached()
    }

    /// Says why a read in place failed, and takes note of it. Errors of the file are left to std, which
    /// gets them again: some sandboxes refuse a call that they do not know with any error.
    #[cold]
    fn stop(&self, error: Errno) -> Stop {
        if error == Errno::AGAIN {
            return Stop::Cold;
        }
        if matches!(error, Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) {
            self.known().refuse_nowait();
        }
        Stop::Refused
    }

    /// Reads as `pread` does, or from the file's position.
    pub(super) fn read_from(&self, buffer: &mut [u8], offset: Option<u64>) -> io::Result<usize> {
        if !is_fibre() {
            return blocking(|| read_directly(self.shared().get()?, buffer, offset));
        }
        let _turn = match offset {
            None => self.turn()?,
            Some(_) => self.facts().map(|_| None)?,
        };
        self.read_in_turn(buffer, offset)
    }

    /// As [`read_from`](File::read_from), for a fibre that has the turn if it needs it.
    pub(super) fn read_in_turn(&self, buffer: &mut [u8], offset: Option<u64>) -> io::Result<usize> {
        let file = self.shared().get()?;
        let mut count = 0;
        loop {
            let (read, stop) = self.read_in_place(file, &mut buffer[count..], further(offset, count));
            count += read;
            let (rest, offset) = (&mut buffer[count..], further(offset, count));
            let by_ring = match stop {
                Stop::Full | Stop::End => return Ok(count),
                Stop::Cold => cold::read(file.as_fd(), first_piece(rest), offset),
                Stop::Refused => None,
            };
            match by_ring {
                Some(Ok(0)) => return Ok(count),
                Some(Ok(read)) => count += read,
                Some(Err(error)) => return after(count, Err(error)),
                None => return after(count, blocking(|| read_directly(file, rest, offset))),
            }
            if count == buffer.len() {
                return Ok(count);
            }
        }
    }

    /// As [`read_from`](File::read_from), for tasks. Reads at most `MOST_COPIED` bytes.
    pub(super) async fn read_from_async(&self, buffer: &mut [u8], offset: Option<u64>) -> io::Result<usize> {
        let most = buffer.len().min(MOST_COPIED);
        let buffer = &mut buffer[..most];
        // Before the read: bytes that were read are not to be lost if the future is dropped here.
        for _ in 0..=most / BYTES_PER_OPERATION {
            budget::spend_async().await;
        }
        let turn = match offset {
            None => self.turn_async().await?,
            Some(_) => self.facts_async().await.map(|_| None)?,
        };
        let mut count = 0;
        loop {
            let (read, stop) = self.read_in_place(self.shared().get()?, &mut buffer[count..], further(offset, count));
            count += read;
            let (rest, offset) = (&mut buffer[count..], further(offset, count));
            let by_ring = match stop {
                Stop::Full | Stop::End => return Ok(count),
                Stop::Cold => cold::read_async(self.shared(), rest.len().min(PIECE), offset).await,
                Stop::Refused => None,
            };
            match by_ring {
                Some(Ok(bytes)) if bytes.is_empty() => return Ok(count),
                Some(Ok(bytes)) => {
                    rest[..bytes.len()].copy_from_slice(&bytes);
                    count += bytes.len();
                }
                Some(Err(error)) => return after(count, Err(error)),
                None => {
                    let mut bytes = vec![0; rest.len()];
                    let read = self.call(move |file| {
                        let _turn = turn;
                        read_directly(file, &mut bytes, offset).map(|read| (bytes, read))
                    });
                    let copied = read.await.map(|(bytes, read)| {
                        rest[..read].copy_from_slice(&bytes[..read]);
                        read
                    });
                    return after(count, copied);
                }
            }
            if count == buffer.len() {
                return Ok(count);
            }
        }
    }
}

fn first_piece(buffer: &mut [u8]) -> &mut [u8] {
    let length = buffer.len().min(PIECE);
    &mut buffer[..length]
}
