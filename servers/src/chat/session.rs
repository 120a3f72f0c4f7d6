//! The actor of a session: it writes to one client.

use super::directory::{Directory, Gone};
use super::line::{Line, Verdict};
use super::protocol::Reply;
use super::store::{Note, Store};
use crate::room::Permit;
use sinew::actor::{Actor, Address, Context, End, Failure, Full, Handle, Mailbox, Reason};
use std::sync::Arc;
use std::time::Duration;
use tungstenite::{Message, Utf8Bytes};

/// The messages that may wait for a client. A client for which one more comes reads too slowly. In a room of 1,000
/// people who all write at the same moment, a client that reads has fewer waiting. Unmeasured beyond that.
const QUEUE: usize = 1024;

/// The pings that a client may leave unanswered.
const UNANSWERED: u32 = 2;

/// Messages for a client.
#[derive(Clone)]
pub enum Deliver {
    One(Utf8Bytes),
    /// A list counts as one message, however long it is.
    Many(Arc<[Utf8Bytes]>),
}

/// The server ends: nothing comes after this.
pub struct Goodbye;

/// Something has happened to the line: look at it.
struct Look;

/// Sends what was kept. It comes after all messages that wait, so these go out in few pieces.
struct Flush;

/// Time for a ping, maybe.
#[derive(Clone)]
struct Beat;

/// The way to a client, for everybody who has something to tell it.
#[derive(Clone)]
pub struct Outlet {
    /// The session's number, which no other session ever has.
    pub number: u64,
    pub line: Arc<Line>,
    pub session: Address<Session>,
}

/// The result of sending something to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Sent {
    Queued,
    /// The client reads too slowly: its session ends.
    Slow,
    /// The session has ended.
    Gone,
}

impl Outlet {
    /// Sends messages to the client. Never waits: a session without room is condemned.
    pub fn send(&self, messages: Deliver) -> Sent {
        self.tell(messages)
    }

    /// Sends an answer to what the client has asked for.
    pub fn reply(&self, text: Utf8Bytes) {
        // A session that is condemned ends by itself.
        let _ = self.send(Deliver::One(text));
    }

    /// Says goodbye, after the messages that wait.
    pub fn say_goodbye(&self) {
        let _ = self.tell(Goodbye);
    }

    /// Ends the session, with a word to the client, before the messages that wait.
    pub fn condemn(&self, verdict: Verdict) {
        self.line.condemn(verdict);
        let _ = self.tell(Look);
    }

    /// Ends the session: the client has left.
    pub fn end(&self) {
        self.line.shut();
        self.session.stop();
    }

    fn tell<M: Send + 'static>(&self, message: M) -> Sent
    where
        Session: Handle<M>,
    {
        match self.session.try_tell(message) {
            Ok(()) => Sent::Queued,
            Err(error) if *error.reason() == Reason::Full => {
                // Some message waits, and the session looks at the verdict before it handles that.
                self.line.condemn(Verdict::SLOW);
                Sent::Slow
            }
            Err(_) => Sent::Gone,
        }
    }
}

/// What a session needs of the server.
pub struct Session {
    pub number: u64,
    pub line: Arc<Line>,
    pub directory: Address<Directory>,
    pub store: Address<Store>,
    /// The time after which a silent client is pinged.
    pub ping: Duration,
    /// The time that the client has to take what is sent.
    pub patience: Duration,
    /// The room that the connection takes in the server.
    pub _permit: Permit,
    /// Whether a `Flush` is on its way.
    pub is_flushing: bool,
    /// The pings that the client has not answered.
    pub unanswered: u32,
    /// Whether nothing is written any more.
    pub is_over: bool,
}

impl Session {
    /// Returns whether the client may get something. If there is a verdict, carries it out.
    fn may_write(&mut self, cx: &mut Context<'_, Self>) -> bool {
        if let (false, Some(verdict)) = (self.is_over, self.line.verdict()) {
            self.hang_up(verdict, cx);
        }
        !self.is_over
    }

    fn hang_up(&mut self, verdict: Verdict, cx: &mut Context<'_, Self>) {
        if verdict == Verdict::SLOW {
            drop(self.store.try_tell(Note::Slow));
        }
        self.line.hang_up(verdict, self.patience);
        self.give_up(cx);
    }

    fn give_up(&mut self, cx: &mut Context<'_, Self>) {
        self.is_over = true;
        self.line.shut();
        cx.stop();
    }

    fn write(&mut self, text: Utf8Bytes, cx: &mut Context<'_, Self>) {
        if self.may_write(cx) && self.line.write(Message::Text(text), self.patience).is_err() {
            self.give_up(cx);
        }
    }
}

impl Actor for Session {
    const MAILBOX: Mailbox = Mailbox::bounded(QUEUE, Full::Refuse);

    fn started(&mut self, cx: &mut Context<'_, Self>) -> Result<(), Failure> {
        cx.every(self.ping, Beat);
        Ok(())
    }

    fn stopped(&mut self, _: &End) {
        self.line.shut();
        drop(self.directory.tell(Gone(self.number)));
    }
}

impl Handle<Deliver> for Session {
    type Reply = ();

    fn handle(&mut self, messages: Deliver, cx: &mut Context<'_, Self>) {
        match messages {
            Deliver::One(text) => self.write(text, cx),
            Deliver::Many(texts) => texts.iter().for_each(|text| self.write(text.clone(), cx)),
        }
        if !self.is_over && !self.is_flushing {
            self.is_flushing = true;
            cx.tell_self(Flush);
        }
    }
}

impl Handle<Flush> for Session {
    type Reply = ();

    fn handle(&mut self, _: Flush, cx: &mut Context<'_, Self>) {
        self.is_flushing = false;
        if self.may_write(cx) && self.line.flush(self.patience).is_err() {
            self.give_up(cx);
        }
    }
}

impl Handle<Look> for Session {
    type Reply = ();

    fn handle(&mut self, _: Look, cx: &mut Context<'_, Self>) {
        self.may_write(cx);
    }
}

impl Handle<Beat> for Session {
    type Reply = ();

    fn handle(&mut self, _: Beat, cx: &mut Context<'_, Self>) {
        if !self.may_write(cx) {
            return;
        }
        if self.line.was_heard() {
            self.unanswered = 0;
            return;
        }
        if self.unanswered == UNANSWERED {
            return self.hang_up(Verdict::SILENT, cx);
        }
        self.unanswered += 1;
        let ping = self.line.write(Message::Ping(Default::default()), self.patience);
        if ping.and_then(|()| self.line.flush(self.patience)).is_err() {
            self.give_up(cx);
        }
    }
}

impl Handle<Goodbye> for Session {
    type Reply = ();

    fn handle(&mut self, _: Goodbye, cx: &mut Context<'_, Self>) {
        self.write(Reply::Goodbye { text: Verdict::GOODBYE.reason }.text(), cx);
        if !self.is_over {
            self.hang_up(Verdict::GOODBYE, cx);
        }
    }
}
