//! The actors: sessions, groups, and the store.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::cipher::{Direction, HEAD, Key};
use super::population::Profile;
use super::{CACHE, GROUP_PERCENT, LONGEST, MOST_BLOCKED, tally};
use crate::experiments::actors::Random;
use crate::peers::actors::{Behaviour, Flow, System};

/// All that the actors share. It does not change, apart from counts.
pub struct World<S: System> {
    pub epoch: Instant,
    /// The lists of all sessions.
    pub numbers: Box<[u32]>,
    pub directory: OnceLock<Directory<S>>,
    /// The bytes that clients send.
    pub pool: [u8; LONGEST],
    pub sessions: usize,
    /// Whether a message that has arrived is the cause of another one.
    pub goes_on: AtomicBool,
    /// Whether the timers of sessions have come to their end.
    pub is_over: &'static AtomicBool,
    /// The messages that have arrived and are not the cause of another one.
    pub retired: AtomicU64,
    pub report: Report,
}

/// The actors by their numbers.
pub struct Directory<S: System> {
    pub sessions: Box<[S::Address<Session<S>>]>,
    pub groups: Box<[S::Address<Group<S>>]>,
    pub store: S::Address<Store<S>>,
}

/// The sums of what actors say when they are asked.
#[derive(Default)]
pub struct Report {
    /// The actors that have answered.
    pub answers: AtomicU64,
    pub sent: AtomicU64,
    pub to_groups: AtomicU64,
    pub delivered: AtomicU64,
    pub blocked: AtomicU64,
    pub logged: AtomicU64,
    /// The messages that groups got.
    pub posted: AtomicU64,
    /// The same, each times the subscribers of its group.
    pub fanned_out: AtomicU64,
}

impl Report {
    pub fn clear(&self) {
        let sums = [&self.sent, &self.to_groups, &self.delivered, &self.blocked, &self.logged, &self.posted];
        sums.into_iter().chain([&self.fanned_out, &self.answers]).for_each(|sum| sum.store(0, Ordering::Relaxed));
    }
}

impl<S: System> World<S> {
    pub fn directory(&self) -> &Directory<S> {
        self.directory.get().expect("filled before the first message")
    }

    pub fn groups_of(&self, profile: &Profile) -> &[u32] {
        let begin = profile.begin as usize + usize::from(profile.friends);
        &self.numbers[begin..begin + usize::from(profile.groups)]
    }

    pub fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Lets a random session send the next message, or retires the token.
    pub fn proceed(&self, token: u64) {
        if !self.goes_on.load(Ordering::Relaxed) {
            self.retired.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.send(token, None);
    }

    /// Lets a random session send a message, which is due now or was due at some time.
    pub fn send(&self, token: u64, due_ns: Option<u64>) {
        let mut random = Random::in_state(token);
        let number = random.below(self.sessions as u64) as usize;
        let due_ns = due_ns.unwrap_or(NOW);
        S::tell(&self.directory().sessions[number], Message::Send { token: random.state(), due_ns });
    }
}

/// The time of a message that is due when its sender gets to it.
const NOW: u64 = u64::MAX;

/// A message as its receivers share it: the number of its sender, when it was due, and its text, in one piece of memory.
#[derive(Clone)]
pub struct Post(Arc<[u8]>);

const POST_HEAD: usize = 12;

impl Post {
    /// The bytes are those of the text, with room before it.
    fn new(sender: u32, due_ns: u64, bytes: &mut [u8]) -> Post {
        let bytes = &mut bytes[HEAD - POST_HEAD..];
        bytes[..4].copy_from_slice(&sender.to_le_bytes());
        bytes[4..POST_HEAD].copy_from_slice(&due_ns.to_le_bytes());
        Post(Arc::from(&*bytes))
    }

    fn sender(&self) -> u32 {
        u32::from_le_bytes(*self.0.first_chunk().expect("a head"))
    }

    fn due_ns(&self) -> u64 {
        u64::from_le_bytes(*self.0[4..].first_chunk().expect("a head"))
    }

    fn text(&self) -> &[u8] {
        &self.0[POST_HEAD..]
    }
}

/// A message to a session. A token is the state of a generator.
pub enum Message {
    /// The client has sent something.
    Send {
        token: u64,
        due_ns: u64,
    },
    /// The session's own timer.
    Tick,
    /// A message of another session.
    Deliver {
        post: Post,
        token: u64,
    },
    /// The same, if another receiver has the token.
    Copy {
        post: Post,
    },
    Report,
}

/// A line of a session's log.
#[derive(Clone, Copy, Default)]
struct Header {
    /// The highest bit says that it is a group.
    receiver: u32,
    time_ms: u32,
    length: u16,
}

const TO_GROUP: u32 = 1 << 31;

/// The fields that a delivery needs come first.
#[repr(C)]
pub struct Session<S: System> {
    world: &'static World<S>,
    key: Key,
    outward: u64,
    blocked: [u32; MOST_BLOCKED],
    delivered: u32,
    refused: u32,
    number: u32,
    /// Of its friends, and then its groups, in the world's numbers.
    begin: u32,
    friends: u8,
    groups: u8,
    /// The oldest line of the cache.
    oldest: u8,
    sent: u32,
    to_groups: u32,
    inward: u64,
    cache: [Header; CACHE],
}

impl<S: System> Session<S> {
    pub fn new(world: &'static World<S>, number: usize, profile: &Profile) -> Session<S> {
        let &Profile { begin, friends, groups, blocked } = profile;
        Session {
            world,
            key: Key::of(number),
            outward: 0,
            blocked,
            delivered: 0,
            refused: 0,
            number: number as u32,
            begin,
            friends,
            groups,
            oldest: 0,
            sent: 0,
            to_groups: 0,
            inward: 0,
            cache: [Header::default(); CACHE],
        }
    }

    /// The client's message has come: decrypts it, finds its receiver, logs it twice, forwards it.
    fn send(&mut self, token: u64, due_ns: u64) {
        let (world, mut random) = (self.world, Random::in_state(token));
        let due_ns = if due_ns == NOW { world.now_ns() } else { due_ns };
        let length = 1 + random.below(LONGEST as u64) as usize;
        let number = self.number;
        let read = |bytes: &mut [u8]| Post::new(number, due_ns, bytes);
        let post = self.key.apply(Direction::Inward, &mut self.inward, &world.pool[..length], read);
        let is_group = random.below(100) < GROUP_PERCENT;
        let (friends, begin) = (usize::from(self.friends), self.begin as usize);
        let (begin, length_of_list) = match is_group {
            true => (begin + friends, usize::from(self.groups)),
            false => (begin, friends),
        };
        let receiver = world.numbers[begin + random.below(length_of_list as u64) as usize];

        let directory = world.directory();
        S::tell(&directory.store, Log::Message { session: number, length: length as u16 });
        let line = Header {
            receiver: receiver | if is_group { TO_GROUP } else { 0 },
            time_ms: (due_ns / 1_000_000) as u32,
            length: length as u16,
        };
        self.cache[usize::from(self.oldest)] = line;
        self.oldest = (self.oldest + 1) % CACHE as u8;
        self.sent += 1;
        self.to_groups += u32::from(is_group);
        tally::note_sent();
        let token = random.state();
        match is_group {
            true => S::tell(&directory.groups[receiver as usize], Posted::Message { post, token }),
            false => S::tell(&directory.sessions[receiver as usize], Message::Deliver { post, token }),
        }
    }

    /// Encrypts a message for the client, unless its sender is blocked.
    fn deliver(&mut self, post: &Post) {
        if self.blocked.contains(&post.sender()) {
            self.refused += 1;
            return;
        }
        self.key.apply(Direction::Outward, &mut self.outward, post.text(), |bytes| {
            black_box(bytes);
        });
        tally::note_delivered(Duration::from_nanos(self.world.now_ns().saturating_sub(post.due_ns())));
        self.delivered += 1;
    }

    /// The generator of a message that the session's timer sends.
    fn own_token(&self) -> u64 {
        Random::of(self.number as usize + (self.sent as usize + 1) * self.world.sessions).state()
    }

    fn report(&self) {
        let report = &self.world.report;
        let add = |sum: &AtomicU64, count: u32| sum.fetch_add(u64::from(count), Ordering::Relaxed);
        add(&report.sent, self.sent);
        add(&report.to_groups, self.to_groups);
        add(&report.delivered, self.delivered);
        add(&report.blocked, self.refused);
        black_box(self.cache.iter().map(|line| (line.receiver, line.time_ms, line.length)).max());
        // The root reads the sums after the last answer.
        report.answers.fetch_add(1, Ordering::Release);
    }
}

impl<S: System> Behaviour<S> for Session<S> {
    type Message = Message;
    #[inline]
    fn receive(&mut self, message: Message) -> Flow {
        match message {
            Message::Copy { post } => self.deliver(&post),
            Message::Deliver { post, token } => {
                self.deliver(&post);
                self.world.proceed(token);
            }
            Message::Send { token, due_ns } => self.send(token, due_ns),
            Message::Tick if self.world.is_over.load(Ordering::Relaxed) => {}
            Message::Tick => self.send(self.own_token(), NOW),
            Message::Report => self.report(),
        }
        Flow::GoOn
    }
}

/// A message to a group.
pub enum Posted {
    Message { post: Post, token: u64 },
    Report,
}

/// A group sends each message to all of its subscribers.
pub struct Group<S: System> {
    pub world: &'static World<S>,
    pub subscribers: Box<[S::Address<Session<S>>]>,
    pub messages: u64,
}

impl<S: System> Behaviour<S> for Group<S> {
    type Message = Posted;
    const IS_HUB: bool = true;
    fn receive(&mut self, message: Posted) -> Flow {
        match message {
            Posted::Message { post, token } => {
                self.messages += 1;
                let Some((last, others)) = self.subscribers.split_last() else {
                    self.world.proceed(token);
                    return Flow::GoOn;
                };
                S::tell_all(others, || Message::Copy { post: post.clone() });
                S::tell(last, Message::Deliver { post, token });
            }
            Posted::Report => {
                let report = &self.world.report;
                report.posted.fetch_add(self.messages, Ordering::Relaxed);
                report.fanned_out.fetch_add(self.messages * self.subscribers.len() as u64, Ordering::Relaxed);
                report.answers.fetch_add(1, Ordering::Release);
            }
        }
        Flow::GoOn
    }
}

/// A message to the store.
pub enum Log {
    Message { session: u32, length: u16 },
    Report,
}

/// The store that all messages are logged in.
pub struct Store<S: System> {
    pub world: &'static World<S>,
    pub messages: u64,
    pub bytes: u64,
    pub newest: u32,
}

impl<S: System> Behaviour<S> for Store<S> {
    type Message = Log;
    const IS_HUB: bool = true;
    fn receive(&mut self, message: Log) -> Flow {
        match message {
            Log::Message { session, length } => {
                self.messages += 1;
                self.bytes += u64::from(length);
                self.newest = session;
            }
            Log::Report => {
                black_box((self.bytes, self.newest));
                self.world.report.logged.fetch_add(self.messages, Ordering::Relaxed);
                self.world.report.answers.fetch_add(1, Ordering::Release);
            }
        }
        Flow::GoOn
    }
}
