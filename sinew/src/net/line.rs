//! A socket under a session object that several strands share: see [`Duplex`](super::Duplex).
//!
//! A socket on its line never waits. The line notes what each call of the session object has shown,
//! so that the strand whose call it was knows what to wait for.
//!
//! Session objects do not all cope with a socket that takes a part of what they send. rustls sends
//! what it has encrypted before it takes new bytes from the socket. If both ends did that while both
//! directions are full, nobody would read. After a part was sent it may take no byte of a write, and
//! tungstenite takes that for the end of the connection. So the line takes all or nothing:
//!
//! - An operation that writes has to wait before its first byte, or all that it sends is taken. The
//!   line *holds back* what the socket has no room for. The operation ends when that has been sent.
//! - All that an operation sends which reads is taken, unless much is held back already.

use super::socket::Socket;
use super::transfer::send;
use crate::io::Side;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// If more bytes are held back, an operation that reads may have to wait for room. Else a peer could
/// fill the memory, by making a session answer without ever reading. Unmeasured.
const MUCH: usize = 256 * 1024;

#[derive(Default)]
pub(super) struct Line(Mutex<State>);

/// Written by the strand that holds the lock of the session.
#[derive(Default)]
struct State {
    notes: Notes,
    taking: Taking,
    /// What is held back. It is sent before anything else.
    held: Vec<u8>,
    /// The number of bytes of `held` that have been sent.
    sent: usize,
}

/// What the calls on a socket have shown since [`Line::begin`].
#[derive(Clone, Copy, Default)]
pub(super) struct Notes {
    /// By [`Side`]: whether a call would have had to wait.
    pub(super) blocked: [bool; 2],
    /// Whether a call did something, or failed.
    pub(super) moved: bool,
}

/// Whether the line takes what the present operation sends.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Taking {
    /// If the socket takes the first byte.
    #[default]
    IfThereIsRoom,
    All,
    Nothing,
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to take notes of an operation on this side, and sends what is held back.
    pub(super) fn begin(&self, socket: &Socket, side: Side) {
        let mut state = self.state();
        state.notes = Notes::default();
        // An error is found again by the call that writes or reads next.
        let _ = state.send_held(socket);
        state.taking = match side {
            Side::Write => Taking::IfThereIsRoom,
            Side::Read if state.held.len() < MUCH => Taking::All,
            Side::Read => Taking::Nothing,
        };
    }

    /// Returns the notes. Bytes that are still held back count as a write that has to wait.
    pub(super) fn end(&self) -> Notes {
        let mut state = self.state();
        state.notes.blocked[Side::Write as usize] |= !state.held.is_empty();
        state.notes
    }

    /// Returns whether a call would have had to wait since `begin`.
    pub(super) fn has_blocked(&self) -> bool {
        self.state().notes.blocked != [false, false]
    }

    pub(super) fn holds_bytes(&self) -> bool {
        !self.state().held.is_empty()
    }

    /// Notes the outcome of a call.
    pub(super) fn note<T>(&self, side: Side, outcome: io::Result<T>) -> io::Result<T> {
        self.state().note(side, outcome)
    }

    pub(super) fn write(&self, socket: &Socket, buffer: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        let mut sent = 0;
        if state.taking != Taking::Nothing && state.send_held(socket)? {
            match state.send(socket, buffer) {
                Ok(count) => {
                    state.taking = Taking::All;
                    sent = count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if state.taking != Taking::All {
            state.taking = Taking::Nothing;
            return state.note(Side::Write, Err(io::ErrorKind::WouldBlock.into()));
        }
        state.held.extend_from_slice(&buffer[sent..]);
        Ok(buffer.len())
    }

    /// Sends what is held back. While all is taken, that need not succeed.
    pub(super) fn flush(&self, socket: &Socket) -> io::Result<()> {
        let mut state = self.state();
        if state.send_held(socket)? || state.taking == Taking::All {
            return Ok(());
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl State {
    fn note<T>(&mut self, side: Side, outcome: io::Result<T>) -> io::Result<T> {
        match &outcome {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.notes.blocked[side as usize] = true,
            _ => self.notes.moved = true,
        }
        outcome
    }

    fn send(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        let outcome = socket.source().operate_at_once(Side::Write, |fd| send(fd, bytes));
        self.note(Side::Write, outcome)
    }

    /// Sends what is held back, as far as there is room. Returns whether nothing is left. After an
    /// error nothing is left either: the connection is gone.
    fn send_held(&mut self, socket: &Socket) -> io::Result<bool> {
        let held = std::mem::take(&mut self.held);
        while self.sent < held.len() {
            match self.send(socket, &held[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.held = held;
                    return Ok(false);
                }
                Err(error) => {
                    self.sent = 0;
                    return Err(error);
                }
            }
        }
        self.sent = 0;
        Ok(true)
    }
}
