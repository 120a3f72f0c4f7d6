//! One connection, from its first byte to its last: plain code that blocks.
//!
//! | module | |
//! | --- | --- |
//! | here | the loop of a session: waits for requests, answers them, takes turns with other sessions |
//! | `items` | what requests do to items, counted and told to watchers, the same in all protocols |
//! | `sending` | answers on their way to the client |
//! | `upload` | large values on their way from the client |

mod items;
mod sending;
mod upload;

pub use items::{Dialect, Fetch, Kept, Lookup};
pub use upload::Upload;

use super::Server;
use super::input::Input;
use super::store::Moment;
use super::stream::Stream;
use super::traffic::{Entry, State};
use super::watch::Topics;
use crate::lobby::is_silence;
use crate::memory;
use sinew_memcached_protocol::binary;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// The length of the longest value that is copied at once, and that is received whole.
pub const SHORT_VALUE: u32 = 8 * 1024;

/// The length of the longest answer, without its value. A session that answers has at least
/// this much room.
const HEAD: usize = memory::SMALL;

/// The number of requests that a piece of a long value counts for in a session's turn. This
/// holds for pieces that are sent and for pieces that are received.
pub(super) const PIECE_COUNTS: u32 = 4;

/// The state of one connection.
pub struct Session<'a, S> {
    pub(super) server: &'a Server,
    pub(super) stream: &'a S,
    /// What `stats conns` and the watchers are told about this connection.
    pub(super) entry: &'a Entry,
    /// Whether the client has authenticated itself. True if it does not have to.
    pub(super) is_authenticated: bool,
    /// The unique numbers of items that unsent answers are about: see `arithmetic`.
    pub(super) held: Vec<u64>,
    /// The rest of this session's turn: the number of requests for a key that it may still
    /// answer before other sessions run.
    turn: u32,
    /// The number of bytes of the answers that memcached would have sent already.
    pub(super) settled: usize,
    /// Answers that have not been sent.
    pub(super) out: Vec<u8>,
    pub(super) moment: Moment,
    /// The session waits for the next request until then. After that it gives up its fibre.
    lingers: Instant,
    /// Whether the client speaks the binary protocol, and not text.
    is_binary: bool,
    /// The number of bytes received that are the beginning of an unfinished line. A long line is
    /// not searched again for each byte that arrives.
    pub(super) unfinished: usize,
}

/// The facts that a session knows about its client.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Whether the client speaks the binary protocol; `None` before its first byte.
    pub is_binary: Option<bool>,
    /// Whether the client has authenticated itself. True if it does not have to.
    pub is_authenticated: bool,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The connection is to be closed.
    Over,
    /// The client has been silent since its last request was answered. The connection stays open.
    Silent,
}

/// The next step of a session that has answered everything it received.
pub enum Next {
    /// Wait for more.
    More,
    /// Take a large value piece by piece.
    Receive(Upload),
    /// Skip this number of bytes, then send this answer.
    Swallow(u64, Vec<u8>),
    /// Make the client a watcher: it gets lines, and no more requests are answered.
    Watch(Topics),
    /// End.
    Close,
}

/// How far a session has got with what it had received.
pub struct Step {
    /// The number of bytes that have been dealt with.
    pub taken: usize,
    /// The next step.
    pub next: Next,
}

impl<'a, S: Stream> Session<'a, S> {
    /// Serves until the client leaves, is silent for a while, or the server stops. The client's
    /// first byte shows which protocol it speaks.
    ///
    /// # Errors
    /// Errors of the connection.
    pub fn serve(server: &'a Server, stream: &'a S, entry: &'a Entry, known: &mut Known) -> io::Result<End> {
        let now = Instant::now();
        let (moment, lingers) = (server.moment_at(now), now + server.options.runtime.linger);
        let out = Vec::new();
        let (is_binary, is_authenticated) = (known.is_binary.unwrap_or(false), known.is_authenticated);
        let held = Vec::new();
        let mut session = Session {
            server,
            stream,
            entry,
            is_authenticated,
            held,
            turn: server.options.max_reqs_per_event,
            settled: 0,
            out,
            moment,
            lingers,
            is_binary,
            unfinished: 0,
        };
        let mut input = Input::new(&server.allowance);
        loop {
            if let Some(end) = session.hear(&mut input)? {
                return session.send().map(|()| end);
            }
            let now = Instant::now();
            session.moment = server.moment_at(now);
            session.lingers = now + server.options.runtime.linger;
            if !input.is_busy() {
                // The session has waited, or is about to wait: its turn begins again.
                session.turn = server.options.max_reqs_per_event;
            }
            if known.is_binary.is_none() {
                session.is_binary = input.bytes()[0] == binary::REQUEST;
                known.is_binary = Some(session.is_binary);
            }
            entry.set_state(State::Answers);
            entry.note_request(session.moment.now);
            if !session.answer(&mut input)? {
                return session.send().map(|()| End::Over);
            }
            known.is_authenticated = session.is_authenticated;
            session.send()?;
            entry.set_state(if input.bytes().is_empty() { State::Reads } else { State::Receives });
            if !input.is_busy() {
                session.out = Vec::new();
            }
        }
    }

    /// Answers all requests that have arrived. Returns `false` if the session ends.
    #[inline]
    fn answer(&mut self, input: &mut Input<'_>) -> io::Result<bool> {
        self.out.try_reserve(HEAD)?;
        loop {
            let step = if self.is_binary { self.binary(input.bytes())? } else { self.text(input.bytes())? };
            input.consume(step.taken);
            match step.next {
                Next::More => return Ok(true),
                Next::Close => return Ok(false),
                Next::Receive(upload) => {
                    if !self.receive(upload, input)? {
                        return Ok(false);
                    }
                }
                Next::Swallow(count, answer) => {
                    if !self.swallow(count, input)? {
                        return Ok(false);
                    }
                    self.send_some()?;
                    self.out.extend_from_slice(&answer);
                }
                Next::Watch(topics) => {
                    if !self.watch(topics)? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Waits for a request, or for the rest of one. Returns how the session ends if nothing
    /// arrives. A silent client or a server that stops ends a session between requests only.
    #[inline]
    fn hear(&mut self, input: &mut Input<'_>) -> io::Result<Option<End>> {
        let count = if !input.bytes().is_empty() {
            self.fill(input)?
        } else if self.server.is_stopping() {
            0
        } else {
            let count = match input.fill(self.stream, Some(self.lingers)) {
                Err(_) if self.server.is_stopping() => 0,
                Err(error) if is_silence(&error) => return Ok(Some(End::Silent)),
                count => count?,
            };
            self.server.traffic.received(count);
            count
        };
        Ok(if count > 0 { None } else { Some(End::Over) })
    }

    /// Waits for the rest of a request. A session without memory for it says so and ends.
    #[inline]
    fn fill(&mut self, input: &mut Input<'_>) -> io::Result<usize> {
        let count = match input.fill(self.stream, None) {
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                self.send_some()?;
                self.say("SERVER_ERROR out of memory reading request", self.is_binary);
                return Ok(0);
            }
            Err(_) if self.server.is_stopping() => self.fill_late(input),
            count => count,
        }?;
        self.server.traffic.received(count);
        self.count_work(PIECE_COUNTS);
        if self.turn == 0 {
            self.give_way();
        }
        Ok(count)
    }

    /// Waits for the rest of a request while the server stops: only until its deadline.
    #[cold]
    fn fill_late(&mut self, input: &mut Input<'_>) -> io::Result<usize> {
        let deadline = self.server.stop_deadline();
        sinew::cancel::shield(|| input.fill(self.stream, Some(deadline)))
    }

    /// Begins a request, or another key of one. Other sessions run first if this session's turn is
    /// over. Makes room, as [`send_some`](Self::send_some) does.
    #[inline]
    pub(super) fn begin_request(&mut self) -> io::Result<()> {
        self.send_some()?;
        self.count_work(1);
        Ok(())
    }

    /// Counts work that takes as long as this number of requests for a key.
    #[inline]
    pub(super) fn count_work(&mut self, requests: u32) {
        self.turn = self.turn.saturating_sub(requests);
    }

    /// Ends this session's turn: other sessions run before its next request.
    pub(super) fn end_turn(&mut self) {
        self.turn = 0;
    }

    /// Lets other sessions run, because this session's turn is over.
    #[cold]
    #[inline(never)]
    fn give_way(&mut self) {
        self.settle();
        self.server.yields.fetch_add(1, Relaxed);
        if self.out.len() <= HEAD && self.out.capacity() > HEAD {
            // A thousand sessions may wait for their turns. None of them keeps a large buffer for
            // a short answer.
            self.keep(0..self.out.len());
        }
        sinew::yield_now();
        self.renew();
    }

    /// Begins a turn. Items may have expired or been flushed while other sessions ran.
    fn renew(&mut self) {
        self.turn = self.server.options.max_reqs_per_event;
        self.moment = self.server.moment();
    }
}
