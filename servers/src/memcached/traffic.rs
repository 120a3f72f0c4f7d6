//! Connections and bytes, counted.

use super::stream::AnyStream;
use super::watch::{CONNECTIONS, Watchers};
use crossbeam_utils::CachePadded;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time after which a full server checks again whether it has room. memcached's number.
const LOOK: Duration = Duration::from_millis(10);

/// The connections that there are, and how many there were.
pub struct Connections {
    total: AtomicU64,
    rejected: AtomicU64,
    kicked: AtomicU64,
    most: u64,
    /// Entries by their numbers. No session waits while it holds this lock.
    list: Mutex<HashMap<i32, Arc<Entry>>>,
    is_full: AtomicBool,
    times_full: AtomicU64,
    micros_full: AtomicU64,
    watchers: Arc<Watchers>,
}

/// The facts that the server keeps about a connection.
pub struct Entry {
    /// The connection's number.
    pub number: i32,
    /// The client. `None` for datagrams.
    stream: Option<AnyStream>,
    state: AtomicU8,
    /// The second of the last request.
    used_at: AtomicU32,
    reason: AtomicU8,
}

/// The present work of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// It has received nothing yet.
    New,
    /// It waits for a request.
    Reads,
    /// It answers requests.
    Answers,
    /// It waits for the data of a request.
    Receives,
    /// It skips data.
    Skips,
    /// It is a watcher.
    Watches,
}

const STATES: [(State, &str); 6] = [
    (State::New, "conn_new_cmd"),
    (State::Reads, "conn_read"),
    (State::Answers, "conn_parse_cmd"),
    (State::Receives, "conn_nread"),
    (State::Skips, "conn_swallow"),
    (State::Watches, "conn_watch"),
];

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// The client closed it.
    Normal,
    /// An error.
    Error,
    /// The client was silent for too long.
    Idle,
    /// The server was told to stop.
    Shutdown,
}

const REASONS: [(Reason, &str); 4] = [
    (Reason::Normal, "normal"),
    (Reason::Error, "error"),
    (Reason::Idle, "idle_timeout"),
    (Reason::Shutdown, "shutdown"),
];

impl Entry {
    fn new(number: i32, stream: Option<AnyStream>, now: u32) -> Entry {
        Entry {
            number,
            stream,
            state: AtomicU8::new(State::New as u8),
            used_at: AtomicU32::new(now),
            reason: AtomicU8::new(Reason::Normal as u8),
        }
    }

    /// Returns the entry for datagrams that arrive at the socket with this number.
    pub fn unlisted(number: i32, now: u32) -> Entry {
        Entry::new(number, None, now)
    }

    fn peer(&self) -> Option<std::net::SocketAddr> {
        self.stream.as_ref().and_then(AnyStream::peer)
    }

    /// Notes what the session is doing.
    #[inline]
    pub fn set_state(&self, state: State) {
        self.state.store(state as u8, Relaxed);
    }

    /// Notes that a request has arrived in this second.
    #[inline]
    pub fn note_request(&self, now: u32) {
        self.used_at.store(now, Relaxed);
    }

    /// Notes why the connection ends. The first reason counts.
    #[cold]
    pub fn set_reason(&self, reason: Reason) {
        let _ = self.reason.compare_exchange(Reason::Normal as u8, reason as u8, Relaxed, Relaxed);
    }

    /// Returns the client's address, the address that it connected to, the state of its session,
    /// and the seconds since its last request, as memcached writes them.
    pub fn describe(&self, now: u32) -> (String, String, &'static str, u32) {
        let peer = self.peer().map(|peer| super::stream::tcp_text("tcp", peer));
        let state = STATES[usize::from(self.state.load(Relaxed))].1;
        let idle = now.saturating_sub(self.used_at.load(Relaxed));
        let door = self.stream.as_ref().map_or(String::new(), AnyStream::door);
        (peer.unwrap_or_else(|| "?:<AF 0>".to_owned()), door, state, idle)
    }
}

/// The right to be served. Dropping it makes room for another connection.
pub struct Admitted {
    connections: Arc<Connections>,
    entry: Arc<Entry>,
}

impl Admitted {
    /// Returns what is known about the connection.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }
}

impl Connections {
    /// Returns an empty set of connections with this limit.
    pub fn new(most: u64, watchers: Arc<Watchers>) -> Connections {
        Connections {
            total: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            kicked: AtomicU64::new(0),
            most,
            list: Mutex::default(),
            is_full: AtomicBool::new(false),
            times_full: AtomicU64::new(0),
            micros_full: AtomicU64::new(0),
            watchers,
        }
    }

    fn list(&self) -> MutexGuard<'_, HashMap<i32, Arc<Entry>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. Returns `None` if there are too many.
    pub fn admit(self: &Arc<Self>, stream: AnyStream, now: u32) -> Option<Admitted> {
        let mut list = self.list();
        if list.len() as u64 >= self.most {
            self.rejected.fetch_add(1, Relaxed);
            return None;
        }
        let entry = Arc::new(Entry::new(stream.number(), Some(stream), now));
        list.insert(entry.number, Arc::clone(&entry));
        drop(list);
        self.total.fetch_add(1, Relaxed);
        if self.watchers.wants(CONNECTIONS) {
            self.watchers.say_connection(entry.peer(), entry.number, None);
        }
        Some(Admitted { connections: Arc::clone(self), entry })
    }

    /// Waits until there is room for one more connection, or the calling fibre is cancelled.
    pub fn wait_for_room(&self) {
        if self.current() < self.most {
            return;
        }
        let begin = Instant::now();
        self.times_full.fetch_add(1, Relaxed);
        self.is_full.store(true, Relaxed);
        while self.current() >= self.most && sinew::time::try_sleep(LOOK).is_ok() {}
        self.is_full.store(false, Relaxed);
        self.micros_full.fetch_add(begin.elapsed().as_micros() as u64, Relaxed);
    }

    /// Returns the number of connections.
    pub fn current(&self) -> u64 {
        self.list().len() as u64
    }

    /// Returns the number of connections that have been accepted.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Returns the number of connections that were rejected because there were too many.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Relaxed)
    }

    /// Returns the number of connections that were closed because the client was silent.
    pub fn kicked(&self) -> u64 {
        self.kicked.load(Relaxed)
    }

    /// Returns the largest number of connections at a time.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Returns whether connections wait to be accepted, how often they did, and for how many
    /// microseconds.
    pub fn fullness(&self) -> (bool, u64, u64) {
        (self.is_full.load(Relaxed), self.times_full.load(Relaxed), self.micros_full.load(Relaxed))
    }

    /// Returns all entries, sorted by number.
    pub fn all(&self) -> Vec<Arc<Entry>> {
        let mut all: Vec<Arc<Entry>> = self.list().values().cloned().collect();
        all.sort_by_key(|entry| entry.number);
        all
    }

    /// Closes connections whose clients have been silent for this number of seconds, except for
    /// watchers.
    pub fn kick(&self, now: u32, timeout: u32) {
        for entry in self.all() {
            let is_idle = now.saturating_sub(entry.used_at.load(Relaxed)) > timeout;
            if is_idle && entry.state.load(Relaxed) != State::Watches as u8 {
                entry.set_reason(Reason::Idle);
                self.kicked.fetch_add(1, Relaxed);
                entry.stream.iter().for_each(AnyStream::shut_down);
            }
        }
    }

    /// Sets the counters to zero.
    pub fn reset(&self) {
        let counters = [&self.total, &self.rejected, &self.kicked, &self.times_full, &self.micros_full];
        counters.iter().for_each(|counter| counter.store(0, Relaxed));
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let connections = &self.connections;
        connections.list().remove(&self.entry.number);
        if connections.watchers.wants(CONNECTIONS) {
            let reason = REASONS[usize::from(self.entry.reason.load(Relaxed))].1;
            connections.watchers.say_connection(self.entry.peer(), self.entry.number, Some(reason));
        }
    }
}

/// The number of bytes received and sent.
#[derive(Default)]
pub struct Traffic {
    received: CachePadded<AtomicU64>,
    sent: CachePadded<AtomicU64>,
}

impl Traffic {
    #[inline]
    pub fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }

    #[inline]
    pub fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
    }

    pub fn received_total(&self) -> u64 {
        self.received.load(Relaxed)
    }

    pub fn sent_total(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub fn reset(&self) {
        self.received.store(0, Relaxed);
        self.sent.store(0, Relaxed);
    }
}
