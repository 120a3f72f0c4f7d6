//! The reader of a connection: a fibre that reads what a client asks for, and passes it on.

use super::Server;
use super::directory::{Arrive, Direct, Enter, List, Part, Take};
use super::line::Verdict;
use super::protocol::{self, Refusal, Reply, Request};
use super::rate::{Pace, Rate};
use super::room::{Room, Say};
use super::session::Outlet;
use super::store::Note;
use crate::lobby::is_silence;
use crate::serving::spawn;
use sinew::actor::Address;
use sinew::{FibreBuilder, Scope};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tungstenite::{Error, Message, WebSocket};

/// A message, or the end of a connection.
type Heard = Result<Message, Error>;

/// The reader's side of a session. It may end its fibre and go on in another one.
pub struct Reader {
    outlet: Outlet,
    name: Option<Arc<str>>,
    rooms: Vec<(Arc<str>, Address<Room>)>,
    rate: Rate,
    /// The client has to have a name by this time.
    deadline: Instant,
    /// Filled while the reader has no fibre.
    first: Arc<Mutex<Option<Heard>>>,
}

/// What becomes of a reader.
enum Next {
    /// It reads on.
    Read,
    /// It gives up its fibre until the client says something.
    Rest,
    /// It has ended, and the session ends by itself.
    End,
}

impl Reader {
    /// Announces a new session. Returns `None` if the server ends.
    pub fn begin(server: &Server, outlet: Outlet) -> Option<Reader> {
        let is_welcome = sinew::cancel::shield(|| server.house().directory.ask(Arrive(outlet.clone())));
        if is_welcome != Ok(true) {
            outlet.say_goodbye();
            return None;
        }
        let now = Instant::now();
        let rate = Rate::new(server.options.rate, now);
        let deadline = now + server.options.header_timeout;
        Some(Reader { outlet, name: None, rooms: Vec::new(), rate, deadline, first: Arc::default() })
    }

    /// Reads in a fibre of its own.
    pub fn serve<'scope>(self, server: &'scope Server, scope: &'scope Scope<'scope, '_>) {
        spawn(server, scope, FibreBuilder::new(), move || self.go_on(server));
    }

    /// Reads until the client leaves or becomes silent.
    pub fn go_on(mut self, server: &Server) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        loop {
            let heard = first.take().unwrap_or_else(|| self.read(server));
            if server.shutdown.is_told() {
                // What is read from now on is not accepted. The session says goodbye.
                return;
            }
            match sinew::cancel::shield(|| self.obey(server, heard)) {
                Next::Read => {}
                Next::Rest => return self.rest(server),
                Next::End => return,
            }
        }
    }

    fn read(&self, server: &Server) -> Heard {
        let silence = Instant::now() + server.options.runtime.linger;
        let limit = if self.name.is_some() { silence } else { silence.min(self.deadline) };
        self.outlet.line.socket.read_with_deadline(limit, WebSocket::read)
    }

    /// Moves the reader to the lobby, until the next message.
    #[cold]
    #[inline(never)]
    fn rest(self, server: &Server) {
        let (line, first) = (Arc::clone(&self.outlet.line), Arc::clone(&self.first));
        let is_named = self.name.is_some();
        let deadline = self.deadline;
        let heard = async move {
            let reads = line.socket.read_with_async(WebSocket::read);
            let heard = match is_named {
                true => Some(reads.await),
                false => sinew::time::deadline_async(deadline, reads).await.ok(),
            };
            *first.lock().unwrap_or_else(PoisonError::into_inner) = heard;
        };
        if let Err(reader) = server.lobby.enter(self, heard)
            && !server.shutdown.is_told()
        {
            reader.outlet.condemn(Verdict::NO_MEMORY);
        }
    }

    fn obey(&mut self, server: &Server, heard: Heard) -> Next {
        let message = match heard {
            Ok(message) => message,
            Err(Error::Io(error)) if is_silence(&error) => {
                let is_late = self.name.is_none() && Instant::now() >= self.deadline;
                return if is_late { self.condemn(Verdict::NAMELESS) } else { Next::Rest };
            }
            Err(Error::Capacity(_)) => return self.condemn(Verdict::TOO_LARGE),
            Err(Error::Utf8(_)) => return self.condemn(Verdict::NOT_TEXT),
            Err(Error::Protocol(error)) if is_fault(&error) => return self.condemn(Verdict::BROKEN),
            Err(_) => {
                self.outlet.end();
                return Next::End;
            }
        };
        self.outlet.line.hear();
        let pace = self.rate.count(Instant::now());
        match message {
            // A pong is an answer to a ping of ours, so it counts, but is not too fast.
            _ if pace == Pace::Flood => self.condemn(Verdict::FLOOD),
            Message::Text(text) => {
                let refused = match pace {
                    Pace::Allowed => self.request(server, &text),
                    _ => Err((Refusal::TOO_FAST, None)),
                };
                if let Err((refusal, about)) = refused {
                    drop(server.house().store.try_tell(Note::Refused));
                    self.outlet.reply(Reply::refusal(refusal, about.as_deref()));
                }
                Next::Read
            }
            Message::Binary(_) => self.condemn(Verdict::BINARY),
            // The next read ends the connection.
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => Next::Read,
        }
    }

    fn condemn(&self, verdict: Verdict) -> Next {
        self.outlet.condemn(verdict);
        Next::End
    }

    /// Does what the client asks for.
    fn request(&mut self, server: &Server, text: &str) -> Result<(), (Refusal, Option<String>)> {
        let (number, house) = (self.outlet.number, server.house());
        let request = protocol::read(text).map_err(|refusal| (refusal, None))?;
        // The directory answers always, unless the server ends.
        let ending = |_| Refusal::CLOSING;
        if let Request::Name(name) = request {
            let taken = house.directory.ask(Take { number, name: name.clone() }).map_err(ending).flatten();
            let name = taken.map_err(|refusal| (refusal, Some(name)))?;
            self.outlet.reply(Reply::Welcome { name: &name }.text());
            self.name = Some(name);
            return Ok(());
        }
        if self.name.is_none() {
            return Err((Refusal::NAMELESS, None));
        }
        match request {
            Request::Name(_) => {}
            Request::Join(room) => {
                let entered = house.directory.ask(Enter { number, room: room.clone() }).map_err(ending).flatten();
                let address = entered.map_err(|refusal| (refusal, Some(room.clone())))?;
                self.rooms.push((protocol::key(&room).into(), address));
            }
            Request::Leave(room) => {
                let (key, _) = self.rooms.swap_remove(self.find(&room)?);
                drop(house.directory.ask(Part { number, room: key }));
            }
            Request::Say { room, text } => {
                // To wait for the room keeps a crowd from filling its mailbox.
                let said = self.rooms[self.find(&room)?].1.ask(Say { number, text });
                said.map_err(|_| Refusal::NOT_THERE).flatten().map_err(|refusal| (refusal, Some(room)))?;
            }
            Request::Direct { to, text } => drop(house.directory.ask(Direct { number, to, text })),
            Request::Rooms => drop(house.directory.ask(List(number))),
        }
        Ok(())
    }

    fn find(&self, room: &str) -> Result<usize, (Refusal, Option<String>)> {
        let key = protocol::key(room);
        let found = self.rooms.iter().position(|(name, _)| **name == *key);
        found.ok_or_else(|| (Refusal::NOT_THERE, Some(room.to_owned())))
    }
}

/// Returns whether the client has broken the protocol. Otherwise it has left without a word.
fn is_fault(error: &tungstenite::error::ProtocolError) -> bool {
    use tungstenite::error::ProtocolError::{ReceivedAfterClosing, ResetWithoutClosingHandshake, SendAfterClosing};
    !matches!(error, ReceivedAfterClosing | ResetWithoutClosingHandshake | SendAfterClosing)
}
