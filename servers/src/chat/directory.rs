//! The actor that knows all names and all rooms.

use super::protocol::{Listed, Refusal, Reply, key, now};
use super::room::{Close, Join, Leave, Manner, Room};
use super::session::{Deliver, Outlet, Sent};
use super::store::{Note, Store};
use sinew::actor::{Actor, Address, Context, Down, Handle};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// The rooms that one person may be in.
const MOST_ROOMS: usize = 16;

/// The rooms that are listed.
const LISTED: usize = 200;

/// A session begins. The reply says whether it may: not if the server ends.
pub struct Arrive(pub Outlet);

/// A session wants a name. The reply is the name.
pub struct Take {
    pub number: u64,
    pub name: String,
}

/// A session wants to be in a room. The reply is the room.
pub struct Enter {
    pub number: u64,
    pub room: String,
}

/// A session wants to leave a room.
pub struct Part {
    pub number: u64,
    pub room: Arc<str>,
}

/// A session has something to tell to one person.
pub struct Direct {
    pub number: u64,
    pub to: String,
    pub text: String,
}

/// A session wants to know the rooms.
pub struct List(pub u64);

/// A session has ended.
pub struct Gone(pub u64);

/// A room has no members, and nothing to remember. It has seen this number of joins.
pub struct Empty {
    pub room: Arc<str>,
    pub joins: u64,
}

/// The server ends. The reply is all sessions, when all messages that were accepted are on their way to them.
pub struct CloseAll;

/// The directory.
pub struct Directory {
    store: Address<Store>,
    manner: Manner,
    most_rooms: usize,
    sessions: HashMap<u64, Present>,
    /// The holders of names, by the [`key`] of each name.
    names: HashMap<String, u64>,
    /// By the [`key`] of the name.
    rooms: HashMap<String, Place>,
    is_closed: bool,
}

/// A session.
struct Present {
    outlet: Outlet,
    name: Option<Arc<str>>,
    /// The keys of its rooms.
    rooms: Vec<String>,
}

/// A room.
struct Place {
    name: Arc<str>,
    room: Address<Room>,
    /// The number of joins that the room has been told of, or will be.
    joins: u64,
    members: usize,
}

impl Directory {
    pub fn new(store: Address<Store>, manner: Manner, most_rooms: usize) -> Directory {
        let (sessions, names, rooms) = Default::default();
        Directory { store, manner, most_rooms, sessions, names, rooms, is_closed: false }
    }

    /// Returns the place of a room, which is made if there is none.
    fn place(&mut self, name: &str, cx: &mut Context<'_, Self>) -> Result<&mut Place, Refusal> {
        let key = key(name);
        if !self.rooms.contains_key(&key) {
            if self.rooms.len() >= self.most_rooms {
                return Err(Refusal::NO_ROOM);
            }
            let name: Arc<str> = name.into();
            let room = Room::new(Arc::clone(&name), self.manner, cx.address(), self.store.clone());
            let room = sinew::actor::Builder::new().name(key.as_str()).spawn(room);
            cx.monitor(&room);
            drop(self.store.try_tell(Note::RoomMade));
            self.rooms.insert(key.clone(), Place { name, room, joins: 0, members: 0 });
        }
        self.rooms.get_mut(&key).ok_or(Refusal::NO_ROOM)
    }

    /// Takes a session out of a room that it is in.
    fn leave(&mut self, number: u64, key: &str) {
        if let Some(place) = self.rooms.get_mut(key) {
            place.members = place.members.saturating_sub(1);
            drop(place.room.tell(Leave(number)));
        }
    }
}

impl Actor for Directory {
    /// A room that has failed is forgotten. Whoever joins it next gets a new one.
    fn down(&mut self, who: Down, _: &mut Context<'_, Self>) {
        if !who.end.is_failure() {
            return;
        }
        let Some(key) = who.actor.name() else { return };
        if self.rooms.get(key).is_some_and(|place| !place.room.is_alive()) {
            self.rooms.remove(key);
            self.sessions.values_mut().for_each(|present| present.rooms.retain(|room| room != key));
        }
    }
}

impl Handle<Arrive> for Directory {
    type Reply = bool;

    fn handle(&mut self, Arrive(outlet): Arrive, _: &mut Context<'_, Self>) -> bool {
        if !self.is_closed {
            drop(self.store.try_tell(Note::Arrived));
            self.sessions.insert(outlet.number, Present { outlet, name: None, rooms: Vec::new() });
        }
        !self.is_closed
    }
}

impl Handle<Take> for Directory {
    type Reply = Result<Arc<str>, Refusal>;

    fn handle(&mut self, take: Take, _: &mut Context<'_, Self>) -> Self::Reply {
        let present = self.sessions.get_mut(&take.number).ok_or(Refusal::CLOSING)?;
        let key = key(&take.name);
        if present.name.is_some() {
            return Err(Refusal::NAMED);
        }
        if self.names.contains_key(&key) {
            return Err(Refusal::NAME_TAKEN);
        }
        self.names.insert(key, take.number);
        let name: Arc<str> = take.name.into();
        present.name = Some(Arc::clone(&name));
        Ok(name)
    }
}

impl Handle<Enter> for Directory {
    type Reply = Result<Address<Room>, Refusal>;

    fn handle(&mut self, enter: Enter, cx: &mut Context<'_, Self>) -> Self::Reply {
        if self.is_closed {
            return Err(Refusal::CLOSING);
        }
        let key = key(&enter.room);
        let present = self.sessions.get(&enter.number).ok_or(Refusal::CLOSING)?;
        let name = present.name.clone().ok_or(Refusal::NAMELESS)?;
        if present.rooms.contains(&key) {
            return Err(Refusal::THERE_ALREADY);
        }
        if present.rooms.len() >= MOST_ROOMS {
            return Err(Refusal::MANY_ROOMS);
        }
        let outlet = present.outlet.clone();
        let place = self.place(&enter.room, cx)?;
        place.joins += 1;
        place.members += 1;
        let room = place.room.clone();
        drop(room.tell(Join { name, outlet }));
        if let Some(present) = self.sessions.get_mut(&enter.number) {
            present.rooms.push(key);
        }
        Ok(room)
    }
}

impl Handle<Part> for Directory {
    type Reply = ();

    fn handle(&mut self, part: Part, _: &mut Context<'_, Self>) {
        let key = key(&part.room);
        let Some(present) = self.sessions.get_mut(&part.number) else { return };
        if let Some(found) = present.rooms.iter().position(|room| *room == key) {
            present.rooms.swap_remove(found);
            present.outlet.reply(Reply::Parted { room: &part.room }.text());
            self.leave(part.number, &key);
        }
    }
}

impl Handle<Direct> for Directory {
    type Reply = ();

    fn handle(&mut self, Direct { number, to, text }: Direct, _: &mut Context<'_, Self>) {
        let Some(Present { outlet: sender, name: Some(from), .. }) = self.sessions.get(&number) else { return };
        let found = self.names.get(&key(&to)).and_then(|number| self.sessions.get(number));
        let Some(Present { outlet: receiver, name: Some(name), .. }) = found else {
            return sender.reply(Reply::refusal(Refusal::NOBODY, Some(&to)));
        };
        if self.is_closed {
            return sender.reply(Reply::refusal(Refusal::CLOSING, Some(&to)));
        }
        let message = Reply::Direct { from, to: name, text: &text, at: now() }.text();
        match receiver.send(Deliver::One(message.clone())) {
            Sent::Queued => drop(self.store.try_tell(Note::Direct)),
            // It leaves at this moment.
            Sent::Slow | Sent::Gone => return sender.reply(Reply::refusal(Refusal::NOBODY, Some(&to))),
        }
        if receiver.number != number {
            sender.reply(message);
        }
    }
}

impl Handle<List> for Directory {
    type Reply = ();

    fn handle(&mut self, List(number): List, _: &mut Context<'_, Self>) {
        let Some(present) = self.sessions.get(&number) else { return };
        let mut rooms: Vec<&Place> = self.rooms.values().collect();
        rooms.sort_by_key(|place| (Reverse(place.members), Arc::clone(&place.name)));
        let listed = rooms.iter().take(LISTED).map(|place| Listed { room: &place.name, count: place.members });
        present.outlet.reply(Reply::Rooms { rooms: listed.collect() }.text());
    }
}

impl Handle<Gone> for Directory {
    type Reply = ();

    fn handle(&mut self, Gone(number): Gone, _: &mut Context<'_, Self>) {
        let Some(present) = self.sessions.remove(&number) else { return };
        drop(self.store.try_tell(Note::Gone));
        if let Some(name) = present.name {
            self.names.remove(&key(&name));
        }
        present.rooms.iter().for_each(|key| self.leave(number, key));
    }
}

impl Handle<Empty> for Directory {
    type Reply = ();

    /// Frees the room, unless somebody is on the way to it.
    fn handle(&mut self, empty: Empty, _: &mut Context<'_, Self>) {
        let key = key(&empty.room);
        if self.rooms.get(&key).is_some_and(|place| place.joins == empty.joins && place.members == 0)
            && let Some(place) = self.rooms.remove(&key)
        {
            place.room.stop();
            drop(self.store.try_tell(Note::RoomFreed));
        }
    }
}

impl Handle<CloseAll> for Directory {
    type Reply = Vec<Outlet>;

    fn handle(&mut self, _: CloseAll, _: &mut Context<'_, Self>) -> Vec<Outlet> {
        self.is_closed = true;
        for place in self.rooms.values() {
            // A room that has failed accepts nothing either.
            drop(place.room.ask(Close));
        }
        self.sessions.values().map(|present| present.outlet.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::line::{Line, Verdict};
    use crate::chat::room::{Gate, Say};
    use crate::chat::session::Session;
    use crate::chat::store;
    use crate::room::Room as Places;
    use sinew::net::{TcpListener, TcpStream};
    use sinew::sync::mpmc;
    use std::time::Duration;
    use tungstenite::protocol::Role;
    use tungstenite::{Message, WebSocket};

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A directory, and a session of it whose client is a socket of this test.
    struct Scene {
        directory: Address<Directory>,
        outlet: Outlet,
        client: WebSocket<TcpStream>,
    }

    fn scene() -> Scene {
        let store = store::spawn(None);
        let manner = Manner { history: 5, keep: PATIENCE, is_logged: false };
        let directory = sinew::actor::spawn(Directory::new(store.clone(), manner, 10));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let line = Arc::new(Line::new(listener.accept().unwrap().0, Vec::new()));
        let session = sinew::actor::spawn(Session {
            number: 1,
            line: Arc::clone(&line),
            directory: directory.clone(),
            store,
            ping: PATIENCE,
            patience: PATIENCE,
            _permit: Places::new(1, 1).take(),
            is_flushing: false,
            unanswered: 0,
            is_over: false,
        });
        let outlet = Outlet { number: 1, line, session };
        assert_eq!(directory.ask(Arrive(outlet.clone())), Ok(true));
        assert!(directory.ask(Take { number: 1, name: "ada".into() }).unwrap().is_ok());
        Scene { directory, outlet, client: WebSocket::from_raw_socket(client, Role::Client, None) }
    }

    impl Scene {
        fn enter(&mut self) -> Address<Room> {
            let room = self.directory.ask(Enter { number: 1, room: "tea".into() }).unwrap().unwrap();
            assert!(self.hear().contains("entered"));
            room
        }

        fn hear(&mut self) -> String {
            match self.client.read().unwrap() {
                Message::Text(text) => text.to_string(),
                other => format!("{other:?}"),
            }
        }
    }

    /// A room has accepted nothing yet of what waits for it when the server is told to end. All of that comes before
    /// the goodbye.
    #[test]
    fn the_goodbye_comes_after_what_waits_for_a_room() {
        sinew::run(|| {
            let mut scene = scene();
            let room = scene.enter();
            let (gate, opens) = mpmc::channel();
            room.tell(Gate(opens)).unwrap();
            for number in 0..100 {
                room.tell(Say { number: 1, text: number.to_string() }).unwrap();
            }
            let directory = scene.directory.clone();
            let ends = sinew::spawn(move || {
                directory.ask(CloseAll).unwrap().iter().for_each(Outlet::say_goodbye);
            });
            // Time enough for a goodbye that does not wait.
            sinew::sleep(Duration::from_millis(50));
            drop(gate);
            for number in 0..100 {
                let heard = scene.hear();
                assert!(heard.contains(&format!("\"text\":\"{number}\"")), "{heard} instead of {number}");
            }
            assert!(scene.hear().contains("goodbye"));
            ends.join().unwrap();
            // Nothing is accepted behind it.
            assert_eq!(room.ask(Say { number: 1, text: "late".into() }), Ok(Err(Refusal::CLOSING)));
            assert_eq!(
                scene.directory.ask(Enter { number: 1, room: "new".into() }).unwrap().err(),
                Some(Refusal::CLOSING)
            );
            let close = scene.hear();
            assert!(close.contains(Verdict::GOODBYE.reason), "{close}");
            drop(scene.client);
            assert!(scene.outlet.session.join_timeout(PATIENCE).is_some());
        });
    }

    /// The room has reported that it is empty, and somebody is on the way to it.
    #[test]
    fn a_room_is_not_freed_under_one_who_joins() {
        sinew::run(|| {
            let mut scene = scene();
            let room = scene.enter();
            scene.directory.ask(Part { number: 1, room: "tea".into() }).unwrap();
            assert!(scene.hear().contains("parted"));
            // The room tells the directory that it is empty, and is freed.
            while room.is_alive() {
                sinew::yield_now();
            }
            let room = scene.enter();
            // This report is older than the last join.
            scene.directory.tell(Empty { room: "tea".into(), joins: 0 }).unwrap();
            room.ask(Say { number: 1, text: "here".into() }).unwrap().unwrap();
            assert!(scene.hear().contains("here"));
            assert!(room.is_alive());
            scene.outlet.end();
        });
    }

    #[test]
    fn a_room_that_fails_is_made_anew() {
        sinew::run(|| {
            let mut scene = scene();
            let room = scene.enter();
            room.kill();
            while room.is_alive() {
                sinew::yield_now();
            }
            // The directory is told of it by and by.
            let again = loop {
                match scene.directory.ask(Enter { number: 1, room: "tea".into() }).unwrap() {
                    Ok(room) => break room,
                    Err(refusal) => assert_eq!(refusal, Refusal::THERE_ALREADY),
                }
            };
            assert!(again != room && again.is_alive());
            scene.outlet.end();
        });
    }
}
