//! `watch`: lines about what happens, for clients that ask for them.
//!
//! A watcher is a session that answers no more requests: its fibre waits for lines and sends them.
//! A line is made only if a watcher wants its topic. Each watcher has a buffer of limited size for
//! its lines. A watcher that does not read misses lines, and a later line tells it how many. No
//! session waits for a watcher.

use std::fmt::{self, Display, Formatter, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The largest number of watchers. memcached's number.
const MOST_WATCHERS: usize = 20;

/// The topics that a watcher can ask for, as bits.
pub type Topics = u32;

/// Items that are looked up.
pub const FETCHERS: Topics = 1;
/// Items that are stored.
pub const MUTATIONS: Topics = 2;
/// Items that are evicted.
pub const EVICTIONS: Topics = 4;
/// Connections that begin and end.
pub const CONNECTIONS: Topics = 8;
/// A topic of memcached for which nothing happens here.
pub const NOTHING: Topics = 0;

/// Returns the topic with this name.
pub fn topic(word: &[u8]) -> Option<Topics> {
    Some(match word {
        b"fetchers" => FETCHERS,
        b"mutations" => MUTATIONS,
        b"evictions" => EVICTIONS,
        b"connevents" => CONNECTIONS,
        b"rawcmds" | b"sysevents" | b"proxyreqs" | b"proxyevents" | b"proxyuser" => NOTHING,
        _ => return None,
    })
}

/// All watchers.
pub struct Watchers {
    /// The topics that at least one watcher wants. Read at each request; written when a watcher
    /// enters or leaves.
    wanted: AtomicU32,
    /// No session waits while it holds this lock.
    list: Mutex<Vec<Arc<Watcher>>>,
    /// The number of bytes that may wait for one watcher.
    buffer: usize,
    lines: AtomicU64,
    sent: AtomicU64,
    skipped: AtomicU64,
}

/// One watcher.
pub struct Watcher {
    topics: Topics,
    fibre: sinew::Fibre,
    lines: Mutex<Lines>,
}

/// The lines that wait for a watcher.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    skipped: u64,
    /// Whether the client has sent something, or has closed the connection.
    is_heard: bool,
    is_over: bool,
}

/// The next step of a watcher.
pub enum Told {
    /// It sends these lines.
    Lines(Vec<u8>),
    /// It reads what the client has sent.
    Heard,
    /// It ends.
    Over,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watchers {
    /// Returns an empty list. At most `buffer` bytes wait for each watcher.
    pub fn new(buffer: usize) -> Watchers {
        Watchers {
            wanted: AtomicU32::new(0),
            list: Mutex::default(),
            buffer,
            lines: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        }
    }

    /// Returns whether a watcher wants this topic.
    #[inline]
    pub fn wants(&self, topic: Topics) -> bool {
        self.wanted.load(Relaxed) & topic != 0
    }

    /// Makes the calling fibre a watcher. Returns `None` if there are too many.
    pub fn enter(&self, topics: Topics) -> Option<Arc<Watcher>> {
        let mut list = lock(&self.list);
        if list.len() >= MOST_WATCHERS {
            return None;
        }
        let lines = Lines { text: b"OK\r\n".to_vec(), ..Lines::default() };
        let watcher = Arc::new(Watcher { topics, fibre: sinew::current(), lines: Mutex::new(lines) });
        list.push(Arc::clone(&watcher));
        self.update(&list);
        Some(watcher)
    }

    /// Removes a watcher.
    pub fn leave(&self, watcher: &Arc<Watcher>) {
        let mut list = lock(&self.list);
        list.retain(|other| !Arc::ptr_eq(other, watcher));
        self.update(&list);
    }

    fn update(&self, list: &[Arc<Watcher>]) {
        self.wanted.store(list.iter().fold(0, |all, watcher| all | watcher.topics), Relaxed);
    }

    /// Ends all watchers.
    pub fn close(&self) {
        for watcher in &*lock(&self.list) {
            lock(&watcher.lines).is_over = true;
            watcher.fibre.unpark();
        }
    }

    /// Returns four numbers: watchers, lines made, lines put into buffers, and lines missed.
    pub fn numbers(&self) -> [u64; 4] {
        let count = lock(&self.list).len() as u64;
        [count, self.lines.load(Relaxed), self.sent.load(Relaxed), self.skipped.load(Relaxed)]
    }

    /// Sets the line counters to zero.
    pub fn reset(&self) {
        [&self.lines, &self.sent, &self.skipped].iter().for_each(|counter| counter.store(0, Relaxed));
    }

    #[cold]
    #[inline(never)]
    fn say(&self, topic: Topics, line: fmt::Arguments<'_>) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = self.lines.fetch_add(1, Relaxed) + 1;
        let text = format!("ts={}.{} gid={number} {line}\n", since.as_secs(), since.subsec_micros());
        for watcher in lock(&self.list).iter().filter(|watcher| watcher.topics & topic != 0) {
            let mut lines = lock(&watcher.lines);
            // Leaves room for the line that says how many were skipped.
            if lines.text.len() + text.len() + 128 > self.buffer {
                lines.skipped += 1;
                self.skipped.fetch_add(1, Relaxed);
                continue;
            }
            let was_empty = lines.text.is_empty();
            match std::mem::take(&mut lines.skipped) {
                0 => {}
                skipped => lines.text.extend_from_slice(format!("skipped={skipped}\n").as_bytes()),
            }
            lines.text.extend_from_slice(text.as_bytes());
            self.sent.fetch_add(1, Relaxed);
            drop(lines);
            if was_empty {
                watcher.fibre.unpark();
            }
        }
    }

    /// Tells that a key was looked up.
    pub fn say_fetched(&self, key: &[u8], status: &str, class: usize, connection: i32, size: u32) {
        let key = Encoded(key);
        self.say(
            FETCHERS,
            format_args!("type=item_get key={key} status={status} clsid={class} cfd={connection} size={size}"),
        );
    }

    /// Tells that an item was to be stored, and with what outcome.
    pub fn say_stored(&self, stored: &Stored<'_>) {
        let Stored { key, status, command, ttl, class, connection, size } = stored;
        let key = Encoded(key);
        self.say(
            MUTATIONS,
            format_args!(
                "type=item_store key={key} status={status} cmd={command} ttl={ttl} clsid={class} cfd={connection} size={size}"
            ),
        );
    }

    /// Tells that an item was evicted.
    pub fn say_evicted(&self, evicted: &Eviction<'_>) {
        let Eviction { key, is_fetched, ttl, idle, class, length } = evicted;
        let (key, fetched) = (Encoded(key), if *is_fetched { "yes" } else { "no" });
        self.say(
            EVICTIONS,
            format_args!("type=eviction key={key} fetch={fetched} ttl={ttl} la={idle} clsid={class} size={length}"),
        );
    }

    /// Tells that a connection has begun, or has ended if there is a reason.
    pub fn say_connection(&self, peer: Option<SocketAddr>, connection: i32, reason: Option<&str>) {
        let (address, port, transport) = match peer {
            Some(peer) => (peer.ip().to_string(), peer.port(), "tcp"),
            None => ("unix".to_owned(), 0, "local"),
        };
        let (event, reason) = match reason {
            None => ("conn_new", String::new()),
            Some(reason) => ("conn_close", format!(" reason={reason}")),
        };
        self.say(
            CONNECTIONS,
            format_args!("type={event} rip={address} rport={port} transport={transport}{reason} cfd={connection}"),
        );
    }
}

impl Watcher {
    /// Waits for something to do. Called by the fibre that entered.
    pub fn wait(&self) -> Told {
        loop {
            let mut lines = lock(&self.lines);
            if lines.is_over {
                return Told::Over;
            }
            if std::mem::take(&mut lines.is_heard) {
                return Told::Heard;
            }
            if !lines.text.is_empty() {
                return Told::Lines(std::mem::take(&mut lines.text));
            }
            drop(lines);
            sinew::park();
        }
    }

    /// Notes that the client has sent something.
    pub fn hear(&self) {
        lock(&self.lines).is_heard = true;
        self.fibre.unpark();
    }
}

/// An item that was to be stored.
pub struct Stored<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// The outcome.
    pub status: &'a str,
    /// The command's verb.
    pub command: &'a str,
    /// The seconds until it expires; 0 is never.
    pub ttl: u32,
    /// Its class of sizes.
    pub class: usize,
    /// The number of the client's connection.
    pub connection: i32,
    /// The length of its value.
    pub size: u32,
}

/// An item that was evicted.
pub struct Eviction<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Whether a client had asked for it.
    pub is_fetched: bool,
    /// The seconds until it would have expired; -1 is never.
    pub ttl: i64,
    /// The seconds since it was last used.
    pub idle: u32,
    /// Its class of sizes.
    pub class: usize,
    /// The length of its value.
    pub length: u32,
}

impl Eviction<'_> {
    /// The topic of evictions.
    pub const TOPIC: Topics = EVICTIONS;
}

/// A key, encoded as in a URI.
pub struct Encoded<'a>(pub &'a [u8]);

impl Display for Encoded<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            match byte {
                b'-' | b'.' | b'_' | b'~' => formatter.write_char((*byte).into())?,
                _ if byte.is_ascii_alphanumeric() => formatter.write_char((*byte).into())?,
                _ => write!(formatter, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_encoded_as_in_a_uri() {
        assert_eq!(Encoded(b"a-b.c_d~9 #\x00\xff").to_string(), "a-b.c_d~9%20%23%00%FF");
    }

    #[test]
    fn a_watcher_that_does_not_read_is_told_how_many_lines_it_missed() {
        sinew::run(|| {
            let watchers = Watchers::new(400);
            assert!(!watchers.wants(FETCHERS));
            let watcher = watchers.enter(FETCHERS).expect("there is room");
            assert!(watchers.wants(FETCHERS) && !watchers.wants(MUTATIONS));
            let Told::Lines(text) = watcher.wait() else { panic!("no lines") };
            assert_eq!(text, b"OK\r\n");
            for number in 0..10 {
                watchers.say_fetched(format!("k{number}").as_bytes(), "found", 1, 5, 7);
            }
            let Told::Lines(text) = watcher.wait() else { panic!("no lines") };
            let first = String::from_utf8(text).expect("text");
            assert!(first.contains("gid=1 type=item_get key=k0 status=found clsid=1 cfd=5 size=7\n"), "{first}");
            let seen = first.lines().count();
            assert!((1..10).contains(&seen));
            watchers.say_fetched(b"last", "not_found", 0, 5, 0);
            let Told::Lines(text) = watcher.wait() else { panic!("no lines") };
            let second = String::from_utf8(text).expect("text");
            assert!(second.starts_with(&format!("skipped={}\nts=", 10 - seen)), "{second}");
            assert_eq!(watchers.numbers(), [1, 11, seen as u64 + 1, 10 - seen as u64]);
            watchers.leave(&watcher);
            assert!(!watchers.wants(FETCHERS));
        });
    }

    #[test]
    fn at_most_twenty_clients_can_watch() {
        sinew::run(|| {
            let watchers = Watchers::new(1000);
            let all: Vec<_> = std::iter::from_fn(|| watchers.enter(EVICTIONS)).collect();
            assert_eq!(all.len(), MOST_WATCHERS);
            watchers.close();
            assert!(all.iter().all(|watcher| matches!(watcher.wait(), Told::Over)));
        });
    }
}
