//! A connection, and the work on a request of it.

use super::World;
use super::asked::Asked;
use super::handlers::{CLOSE, READ};
use crate::web::answer::Output;
use crate::web::desks::{Borrowed, Desk};
use crate::web::input::Span;
use crate::web::talk::{Client, Talk};
use crate::web::transport::Plain;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use sinew::event::Colour;
use sinew::net::TcpStream;
use sinew_http_protocol::body::Discard;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The deadline of a connection that waits for no client.
pub const NEVER: u64 = u64::MAX;

/// A connection. All its events have its colour, so they run one after the other.
pub struct Connection {
    pub world: &'static World,
    pub stream: TcpStream,
    pub colour: Colour,
    pub client: Client,
    /// Its number in the table, and in the kernel's reports.
    pub number: u32,
    /// The client has to send something before this time, in milliseconds of the world. Written by
    /// the connection's events, read by the `epoll` handler.
    pub deadline_ms: AtomicU64,
    /// Used by the connection's events only. No suspension happens under the lock.
    waiting: Mutex<Waiting>,
}

struct Waiting {
    state: State,
    /// Whether the kernel reports on the socket.
    is_watched: bool,
}

enum State {
    /// Between two requests.
    Idle,
    /// An event with the work is posted, or runs.
    Busy {
        /// Whether the kernel has reported meanwhile.
        again: bool,
    },
    /// The work waits for more bytes.
    Unfinished(Box<Work>),
    Closed,
}

/// A reason to look at a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Bytes have come.
    Bytes,
    /// Bytes may be there, and behind them the end: a short read does not mean that nothing is left.
    More,
    /// The deadline is over.
    Deadline,
}

/// A connection that has to be looked at.
pub struct Heard {
    pub connection: Arc<Connection>,
    pub why: Why,
}

/// The next step of the `read` handler.
pub enum Next {
    /// Receive, and go on with this.
    Receive(Box<Work>),
    /// Refuse this: the client has not sent the rest in time.
    Overdue(Box<Work>),
    Close,
    Nothing,
}

impl Connection {
    pub fn new(world: &'static World, stream: TcpStream, client: Client, number: u32) -> Connection {
        let deadline_ms = AtomicU64::new(NEVER);
        let waiting = Mutex::new(Waiting { state: State::Idle, is_watched: false });
        Connection { world, stream, colour: Colour::new(), client, number, deadline_ms, waiting }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `Idle | Unfinished -> Busy`, or `Busy -> Busy, again`.
    pub fn begin(self: &Arc<Connection>, why: Why) -> Next {
        let mut waiting = self.waiting();
        let next = match std::mem::replace(&mut waiting.state, State::Busy { again: false }) {
            State::Idle if self.is_overdue(why) || self.world.server.is_stopping() => Next::Close,
            State::Idle => Work::new(self).map_or(Next::Close, |work| Next::Receive(Box::new(work))),
            State::Unfinished(work) if !work.is_overdue() => Next::Receive(work),
            State::Unfinished(work) if matches!(work.stage, Stage::Farewell) => Next::Close,
            State::Unfinished(work) => Next::Overdue(work),
            State::Busy { .. } => {
                waiting.state = State::Busy { again: true };
                return Next::Nothing;
            }
            State::Closed => {
                waiting.state = State::Closed;
                return Next::Nothing;
            }
        };
        self.deadline_ms.store(NEVER, Relaxed);
        next
    }

    fn is_overdue(&self, why: Why) -> bool {
        why == Why::Deadline && self.deadline_ms.load(Relaxed) <= self.world.ms(Instant::now())
    }

    /// `Busy -> Idle | Unfinished`. Lets the connection wait for bytes until `deadline`.
    fn wait(self: &Arc<Connection>, deadline: Instant, is_more: bool, state: State) {
        self.deadline_ms.store(self.world.ms(deadline), Relaxed);
        let mut waiting = self.waiting();
        let old = std::mem::replace(&mut waiting.state, state);
        let is_watched = std::mem::replace(&mut waiting.is_watched, true);
        drop(waiting);
        // The kernel reports at once if there are bytes.
        if !is_watched && self.world.watch(self).is_err() {
            return self.close();
        }
        if is_watched && (is_more || matches!(old, State::Busy { again: true })) {
            let _ = READ.post(&self.colour, Heard { connection: Arc::clone(self), why: Why::More });
        }
    }

    /// Posts the `close` event.
    pub fn close(self: &Arc<Connection>) {
        let _ = CLOSE.post(&self.colour, Arc::clone(self));
    }

    /// `-> Closed`. Returns whether it was not closed before.
    pub fn end(&self) -> bool {
        let old = std::mem::replace(&mut self.waiting().state, State::Closed);
        !matches!(old, State::Closed)
    }
}

/// The stage of the work on a request.
pub enum Stage {
    /// The head is received.
    Head,
    /// The body is received and discarded.
    Body(Discard),
    /// The last answer is sent. The client may finish sending.
    Farewell,
}

/// The work on a request. It moves from event to event, so nothing in it needs a lock.
pub struct Work {
    pub connection: Arc<Connection>,
    pub transport: Plain,
    pub desk: Borrowed<'static>,
    pub input: Span,
    pub stage: Stage,
    pub asked: Asked,
    /// A copy of the head, if the request has a body.
    copied: Option<Vec<u8>>,
    /// The time until which the client has to send the rest.
    pub deadline: Option<Instant>,
    /// Whether the kernel may have more bytes without a report.
    is_more: bool,
}

/// The result of receiving.
pub enum Received {
    Bytes,
    Nothing,
    End,
}

impl Work {
    /// Borrows a desk. Returns `None` if there is no memory for one.
    fn new(connection: &Arc<Connection>) -> Option<Work> {
        let server = &connection.world.server;
        let mut desk = server.desks.take();
        if desk.as_mut().is_empty() {
            return None;
        }
        let patience = server.options.send_timeout;
        let limit = desk.calendar.end_of_second() + patience;
        Some(Work {
            transport: Plain::until(connection.stream.clone(), patience, limit),
            connection: Arc::clone(connection),
            desk,
            input: Span::default(),
            stage: Stage::Head,
            asked: Asked::NOTHING,
            copied: None,
            deadline: None,
            is_more: false,
        })
    }

    /// Receives what is there, and does not wait.
    pub fn receive(&mut self, why: Why) -> Received {
        let Ok(room) = self.input.room(self.desk.as_mut()) else { return Received::End };
        let size = room.len();
        let outcome = loop {
            match rustix::net::recv(&self.connection.stream, &mut *room, RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                outcome => break outcome,
            }
        };
        match outcome {
            Ok((1.., count)) => {
                self.input.add(count);
                self.is_more = count == size || why != Why::Bytes;
                Received::Bytes
            }
            Err(Errno::AGAIN) => {
                self.is_more = false;
                Received::Nothing
            }
            _ => Received::End,
        }
    }

    /// Returns the head of the request, and perhaps more.
    pub fn head(&self) -> &[u8] {
        self.copied.as_deref().unwrap_or_else(|| self.input.of(&self.desk.input))
    }

    /// Keeps a copy of the head, so that the body may be received.
    pub fn keep_head(&mut self) {
        self.copied = Some(self.head()[..self.asked.length].to_vec());
        self.input.consume(self.asked.length);
    }

    /// Forgets the head of a request that was answered.
    pub fn forget_head(&mut self) {
        if self.copied.take().is_none() {
            self.input.consume(self.asked.length);
        }
        self.asked = Asked::NOTHING;
    }

    /// Calls `f` with the means to answer, and with the memory for the fields of a head.
    pub fn talk<R>(&mut self, f: impl FnOnce(&mut Talk<'_, Plain>, Parts<'_>) -> R) -> R {
        let Desk { input, output, fields, calendar } = &mut *self.desk;
        let Connection { world, client, .. } = *self.connection;
        let output = Output::new(&mut self.transport, calendar, output);
        let head = self.copied.as_deref().unwrap_or_else(|| self.input.of(input));
        f(&mut Talk { server: &world.server, client, output }, Parts { head, fields })
    }

    /// Waits for the next request.
    pub fn rest(mut self: Box<Work>) {
        let idle = self.connection.world.server.options.idle_timeout;
        // The end of the second is precise enough, and does not cost a look at the clock.
        let deadline = self.desk.calendar.end_of_second() + idle;
        let (connection, is_more) = (Arc::clone(&self.connection), self.is_more);
        drop(self);
        connection.wait(deadline, is_more, State::Idle);
    }

    /// Returns whether the time for the rest is over. The client may be sending all the time, so that nobody
    /// sees the connection wait.
    fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Waits for the rest of a request. All its parts together have the time `patience`.
    pub fn wait(mut self: Box<Work>, patience: Duration) {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + patience);
        let (connection, is_more) = (Arc::clone(&self.connection), self.is_more);
        connection.wait(deadline, is_more, State::Unfinished(self));
    }

    /// Gives the desk back, and posts the `close` event.
    pub fn close(self: Box<Work>) {
        let connection = Arc::clone(&self.connection);
        drop(self);
        connection.close();
    }
}

impl Drop for Work {
    /// A handler that panics must not leave the connection open for ever.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.connection.close();
        }
    }
}

/// The head of a request, and memory for its fields.
pub struct Parts<'a> {
    pub head: &'a [u8],
    pub fields: &'a mut sinew_http_protocol::Fields,
}
