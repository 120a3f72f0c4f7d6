//! The bare loops whose calls of a turn io_uring makes as one batch.
//!
//! No call waits in the kernel: all have a result when the batch is submitted. A connection has
//! one call of a batch at most, so its replies keep their order. Several requests that come at once
//! on a connection, and a read that fills the buffer, take the way of the epoll loop.

use std::io;

use super::{Bare, Clients, LISTENER};
use crate::load::epoll::{EVENTS, Events};
use crate::load::http::{ROOM, Stay};
use crate::load::ring::Ring;

/// How a loop receives. It sends by the ring in any case.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Receives {
    InPlace,
    ByRing,
}

pub struct ByRing {
    clients: Clients,
    events: Events,
    receives: Receives,
    ring: Ring,
    buffer: [u8; ROOM],
    /// The connections that the ring is asked to receive from.
    receiving: Vec<usize>,
}

impl ByRing {
    pub fn new(clients: Clients, receives: Receives) -> io::Result<ByRing> {
        let ring = Ring::new(EVENTS)?;
        let (events, receiving) = (Events::default(), Vec::with_capacity(EVENTS));
        Ok(ByRing { clients, events, receives, ring, buffer: [0; ROOM], receiving })
    }

    /// Receives from a connection, in place or as a part of the next batch.
    fn receive(&mut self, number: usize) {
        let (connection, desk) = self.clients.get(number);
        if !connection.unsent.is_empty() {
            let wanted = connection.send_rest(desk);
            return self.clients.settle(number, wanted);
        }
        if self.receives == Receives::ByRing {
            self.ring.receive(&connection.stream, self.receiving.len());
            self.receiving.push(number);
            return;
        }
        match connection.read(&mut self.buffer) {
            Ok(Some(count)) => self.take(number, count),
            Ok(None) => {}
            Err(error) => self.clients.settle(number, Err(error)),
        }
    }

    /// Takes bytes that were received into the buffer. Queues the reply if there is one.
    fn take(&mut self, number: usize, count: usize) {
        let (connection, desk) = self.clients.get(number);
        let wanted = match connection.asked(&self.buffer[..count]) {
            Some(1) if count < ROOM => {
                self.ring.send(&connection.stream, desk.stay.reply(), number);
                return;
            }
            Some(asked) => match connection.answer(asked, desk) {
                Ok(true) if count == ROOM && connection.unsent.is_empty() => connection.attend(&mut self.buffer, desk),
                wanted => wanted,
            },
            None => Ok(false),
        };
        self.clients.settle(number, wanted);
    }

    /// Submits the receives. Takes what they brought.
    fn flush_receives(&mut self) -> io::Result<()> {
        self.ring.submit()?;
        while let Some((place, result)) = self.ring.next_result() {
            let number = self.receiving[place];
            match result {
                Ok(count) => {
                    self.buffer[..count].copy_from_slice(self.ring.received(place, count));
                    self.take(number, count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => self.clients.settle(number, Err(error)),
            }
        }
        self.receiving.clear();
        Ok(())
    }

    /// Submits the sends.
    fn flush_sends(&mut self) -> io::Result<()> {
        self.ring.submit()?;
        while let Some((number, result)) = self.ring.next_result() {
            let (connection, desk) = self.clients.get(number);
            desk.replies += 1;
            let wanted = connection.has_sent(result, desk).map(|()| desk.stay == Stay::Open);
            self.clients.settle(number, wanted);
        }
        Ok(())
    }
}

impl Bare for ByRing {
    fn turn(&mut self) -> io::Result<()> {
        let mut has_newcomers = false;
        let ready = self.clients.wait(&mut self.events)?.count();
        for place in 0..ready {
            match self.events.number(place) {
                LISTENER => has_newcomers = true,
                number => self.receive(number),
            }
        }
        if !self.receiving.is_empty() {
            self.flush_receives()?;
        }
        self.flush_sends()?;
        if has_newcomers { self.clients.accept() } else { Ok(()) }
    }

    fn clients(&mut self) -> &mut Clients {
        &mut self.clients
    }
}
