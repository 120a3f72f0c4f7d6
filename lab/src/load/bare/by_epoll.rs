//! The bare epoll loop: an event is one call to read and one to write.

use std::io;

use super::{Bare, Clients, LISTENER};
use crate::load::epoll::Events;
use crate::load::http::ROOM;

pub struct ByEpoll {
    clients: Clients,
    events: Events,
    buffer: [u8; ROOM],
}

impl ByEpoll {
    pub fn new(clients: Clients) -> ByEpoll {
        ByEpoll { clients, events: Events::default(), buffer: [0; ROOM] }
    }
}

impl Bare for ByEpoll {
    fn turn(&mut self) -> io::Result<()> {
        for number in self.clients.wait(&mut self.events)? {
            if number == LISTENER {
                self.clients.accept()?;
                continue;
            }
            let (connection, desk) = self.clients.get(number);
            let wanted = connection.attend(&mut self.buffer, desk);
            self.clients.settle(number, wanted);
        }
        Ok(())
    }

    fn clients(&mut self) -> &mut Clients {
        &mut self.clients
    }
}
