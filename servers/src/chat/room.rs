//! The actor of a room: its members, and its last messages.

use super::directory::{Directory, Empty};
use super::protocol::{Refusal, Reply, now};
use super::session::{Deliver, Outlet, Sent};
use super::store::{Note, Store};
use sinew::actor::{Actor, Address, Context, Handle, Timer};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tungstenite::Utf8Bytes;

/// In a room with more members, nobody is told of each who comes or goes, but of their number. Otherwise n people who
/// come would cause n² messages. It is also the largest number of members that are listed.
const LARGE: usize = 200;

/// The time between two messages about the number of members.
const RECOUNT: Duration = Duration::from_secs(1);

/// What all rooms have in common.
#[derive(Clone, Copy)]
pub struct Manner {
    /// The number of messages that a room remembers.
    pub history: usize,
    /// The time for which it remembers them without members.
    pub keep: Duration,
    /// Whether the store wants the messages.
    pub is_logged: bool,
}

/// Somebody comes.
pub struct Join {
    pub name: Arc<str>,
    pub outlet: Outlet,
}

/// A session leaves, or has ended.
pub struct Leave(pub u64);

/// A session has something to say.
pub struct Say {
    pub number: u64,
    pub text: String,
}

/// Nothing more is accepted. The reply means that everything before is on its way.
pub struct Close;

/// The room has had no members for a while.
struct Expire;

/// Time to say how many members there are.
struct Recount;

struct Member {
    name: Arc<str>,
    outlet: Outlet,
}

pub struct Room {
    name: Arc<str>,
    manner: Manner,
    directory: Address<Directory>,
    store: Address<Store>,
    /// When the room was made. Together with the number of a message it tells messages apart.
    since: u64,
    members: Vec<Member>,
    /// The place of each member, by the number of its session.
    places: HashMap<u64, usize>,
    joins: u64,
    history: VecDeque<Utf8Bytes>,
    /// The number of the last message.
    last: u64,
    expiry: Option<Timer>,
    is_recounting: bool,
    is_closed: bool,
}

impl Room {
    pub fn new(name: Arc<str>, manner: Manner, directory: Address<Directory>, store: Address<Store>) -> Room {
        Room {
            name,
            manner,
            directory,
            store,
            since: now(),
            members: Vec::new(),
            places: HashMap::new(),
            joins: 0,
            history: VecDeque::new(),
            last: 0,
            expiry: None,
            is_recounting: false,
            is_closed: false,
        }
    }

    /// Sends a message to all members. Members that read too slowly, or have ended, leave. Returns the number of those
    /// who were told.
    fn publish(&mut self, text: Utf8Bytes, cx: &mut Context<'_, Self>) -> usize {
        let (mut pending, mut told) = (VecDeque::from([text]), None);
        while let Some(text) = pending.pop_front() {
            let is_lost = |member: &&Member| member.outlet.send(Deliver::One(text.clone())) != Sent::Queued;
            let lost: Vec<u64> = self.members.iter().filter(is_lost).map(|member| member.outlet.number).collect();
            told.get_or_insert(self.members.len() - lost.len());
            // The others are told of them, and may turn out to be lost as well.
            pending.extend(lost.into_iter().filter_map(|number| self.remove(number, cx)));
        }
        told.unwrap_or_default()
    }

    /// Takes a member out. Returns what the others have to be told.
    fn remove(&mut self, number: u64, cx: &mut Context<'_, Self>) -> Option<Utf8Bytes> {
        let place = self.places.remove(&number)?;
        let gone = self.members.swap_remove(place);
        if let Some(moved) = self.members.get(place) {
            self.places.insert(moved.outlet.number, place);
        }
        if self.is_closed {
            return None;
        }
        if self.members.is_empty() {
            self.expire_later(cx);
        }
        self.may_notice(cx)
            .then(|| Reply::Left { room: &self.name, name: &gone.name, count: self.members.len() }.text())
    }

    /// Returns whether the members are told of each who comes or goes. If not, they are told of the number later.
    fn may_notice(&mut self, cx: &mut Context<'_, Self>) -> bool {
        let is_large = self.members.len() > LARGE;
        if is_large && !self.is_recounting {
            self.is_recounting = true;
            cx.after(RECOUNT, Recount);
        }
        !is_large
    }

    /// Lets the room end, after a while if it has something to remember.
    fn expire_later(&mut self, cx: &mut Context<'_, Self>) {
        if self.history.is_empty() {
            return self.report_empty();
        }
        self.expiry = Some(cx.after(self.manner.keep, Expire));
    }

    fn report_empty(&self) {
        // Without a directory the server ends.
        drop(self.directory.tell(Empty { room: Arc::clone(&self.name), joins: self.joins }));
    }
}

impl Actor for Room {}

impl Handle<Join> for Room {
    type Reply = ();

    fn handle(&mut self, Join { name, outlet }: Join, cx: &mut Context<'_, Self>) {
        self.joins += 1;
        if let Some(expiry) = self.expiry.take() {
            expiry.cancel();
        }
        let count = self.members.len() + 1;
        if self.may_notice(cx) {
            let joined = Reply::Joined { room: &self.name, name: &name, count }.text();
            self.publish(joined, cx);
        }
        let count = self.members.len() + 1;
        self.places.insert(outlet.number, self.members.len());
        self.members.push(Member { name, outlet: outlet.clone() });
        // The new member is listed, even if the room is large.
        let members = self.members.iter().rev().take(LARGE).map(|member| &*member.name).collect();
        let history = self.history.len();
        let entered = Reply::Entered { room: &self.name, since: self.since, count, members, history };
        let messages = std::iter::once(entered.text()).chain(self.history.iter().cloned()).collect();
        // Its session tells the directory of its end, and that tells this room.
        let _ = outlet.send(Deliver::Many(messages));
    }
}

impl Handle<Leave> for Room {
    type Reply = ();

    fn handle(&mut self, Leave(number): Leave, cx: &mut Context<'_, Self>) {
        if let Some(left) = self.remove(number, cx) {
            self.publish(left, cx);
        }
        // A member that was removed because it was slow may have been the last one, and is gone only now.
        if self.members.is_empty() && self.history.is_empty() {
            self.report_empty();
        }
    }
}

impl Handle<Say> for Room {
    type Reply = Result<(), Refusal>;

    fn handle(&mut self, Say { number, text }: Say, cx: &mut Context<'_, Self>) -> Self::Reply {
        if self.is_closed {
            return Err(Refusal::CLOSING);
        }
        let place = *self.places.get(&number).ok_or(Refusal::NOT_THERE)?;
        self.last += 1;
        let from = &self.members[place].name;
        let said = Reply::Said { room: &self.name, number: self.last, from, text: &text, at: now() }.text();
        if self.manner.history > 0 {
            if self.history.len() == self.manner.history {
                self.history.pop_front();
            }
            self.history.push_back(said.clone());
        }
        let told = self.publish(said.clone(), cx);
        // The store loses notes rather than hold up a room.
        drop(self.store.try_tell(Note::Said { told, text: self.manner.is_logged.then_some(said) }));
        Ok(())
    }
}

impl Handle<Expire> for Room {
    type Reply = ();

    fn handle(&mut self, _: Expire, _: &mut Context<'_, Self>) {
        if self.members.is_empty() && self.expiry.take().is_some() {
            self.history = VecDeque::new();
            self.report_empty();
        }
    }
}

impl Handle<Recount> for Room {
    type Reply = ();

    fn handle(&mut self, _: Recount, cx: &mut Context<'_, Self>) {
        self.is_recounting = false;
        let count = Reply::Count { room: &self.name, count: self.members.len() }.text();
        self.publish(count, cx);
    }
}

impl Handle<Close> for Room {
    type Reply = ();

    fn handle(&mut self, _: Close, _: &mut Context<'_, Self>) {
        self.is_closed = true;
    }
}

/// Holds a room up until the channel is closed, so that messages wait for it.
#[cfg(test)]
pub struct Gate(pub sinew::sync::mpmc::Receiver<()>);

#[cfg(test)]
impl Handle<Gate> for Room {
    type Reply = ();

    fn handle(&mut self, Gate(gate): Gate, _: &mut Context<'_, Self>) {
        while gate.recv().is_ok() {}
    }
}
