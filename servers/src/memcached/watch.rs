//! `watch`: what happens, told to those who want to know, as it happens.
//!
//! A watcher is a session that has no more requests: its fibre waits for lines and sends them. A
//! line is made only if somebody wants its topic. It goes into a buffer of each watcher, of limited
//! size: a watcher that does not read misses lines, and is told how many. Nobody waits for it.

use std::fmt::{self, Display, Formatter, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// As many can watch. memcached's number.
const MOST_WATCHERS: usize = 20;

/// What a watcher can ask for: bits.
pub type Topics = u32;

/// Items that are asked for.
pub const FETCHERS: Topics = 1;
/// Items that are stored.
pub const MUTATIONS: Topics = 2;
/// Items that are evicted.
pub const EVICTIONS: Topics = 4;
/// Connections that begin and end.
pub const CONNECTIONS: Topics = 8;
/// What memcached tells about, and does not happen here.
pub const NOTHING: Topics = 0;

/// Finds a topic by the word for it.
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

/// All who watch.
pub struct Watchers {
    /// What at least one of them wants. Read at each request; written when one comes or goes.
    wanted: AtomicU32,
    /// Never locked while something waits.
    list: Mutex<Vec<Arc<Watcher>>>,
    /// Bytes that may wait for a watcher.
    buffer: usize,
    lines: AtomicU64,
    sent: AtomicU64,
    skipped: AtomicU64,
}

/// One who watches.
pub struct Watcher {
    topics: Topics,
    fibre: sinew::Fibre,
    lines: Mutex<Lines>,
}

/// What waits for a watcher.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    skipped: u64,
    /// Whether there is something to read, or the connection is at its end.
    is_heard: bool,
    is_over: bool,
}

/// What a watcher has to do next.
pub enum Told {
    /// Send this.
    Lines(Vec<u8>),
    /// See what the client says.
    Heard,
    /// End.
    Over,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watchers {
    /// Nobody yet. Each may have so many bytes waiting.
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

    /// Whether anybody wants to know.
    #[inline]
    pub fn wants(&self, topic: Topics) -> bool {
        self.wanted.load(Relaxed) & topic != 0
    }

    /// Adds the calling fibre. Returns `None` if there are too many.
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

    /// Takes one out.
    pub fn leave(&self, watcher: &Arc<Watcher>) {
        let mut list = lock(&self.list);
        list.retain(|other| !Arc::ptr_eq(other, watcher));
        self.update(&list);
    }

    fn update(&self, list: &[Arc<Watcher>]) {
        self.wanted.store(list.iter().fold(0, |all, watcher| all | watcher.topics), Relaxed);
    }

    /// Sends all away.
    pub fn close(&self) {
        for watcher in &*lock(&self.list) {
            lock(&watcher.lines).is_over = true;
            watcher.fibre.unpark();
        }
    }

    /// The number of watchers, of lines made, of lines for watchers, and of lines they missed.
    pub fn numbers(&self) -> [u64; 4] {
        let count = lock(&self.list).len() as u64;
        [count, self.lines.load(Relaxed), self.sent.load(Relaxed), self.skipped.load(Relaxed)]
    }

    /// Counts lines from zero again.
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
            // Room for the line that says how many were skipped.
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

    /// An item was asked for.
    pub fn say_fetched(&self, key: &[u8], status: &str, class: usize, connection: i32, size: u32) {
        let key = Encoded(key);
        self.say(
            FETCHERS,
            format_args!("type=item_get key={key} status={status} clsid={class} cfd={connection} size={size}"),
        );
    }

    /// An item was to be stored.
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

    /// An item was evicted.
    pub fn say_evicted(&self, evicted: &Eviction<'_>) {
        let Eviction { key, is_fetched, ttl, idle, class, length } = evicted;
        let (key, fetched) = (Encoded(key), if *is_fetched { "yes" } else { "no" });
        self.say(
            EVICTIONS,
            format_args!("type=eviction key={key} fetch={fetched} ttl={ttl} la={idle} clsid={class} size={length}"),
        );
    }

    /// A connection has begun, or has ended, if there is a reason for it.
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
    /// Waits for something to do. By the fibre that entered.
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

    /// Says that there is something to read.
    pub fn hear(&self) {
        lock(&self.lines).is_heard = true;
        self.fibre.unpark();
    }
}

/// An item that was to be stored.
pub struct Stored<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// What came of it.
    pub status: &'a str,
    /// The verb.
    pub command: &'a str,
    /// Seconds until it expires; 0 is never.
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
    /// Whether anybody had asked for it.
    pub is_fetched: bool,
    /// Seconds until it would have expired; -1 is never.
    pub ttl: i64,
    /// For how many seconds nobody had asked for it.
    pub idle: u32,
    /// Its class of sizes.
    pub class: usize,
    /// The length of its value.
    pub length: u32,
}

impl Eviction<'_> {
    /// What this is about.
    pub const TOPIC: Topics = EVICTIONS;
}

/// A key as it stands in a URI.
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
    fn who_does_not_read_misses_lines_and_is_told_how_many() {
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
    fn no_more_than_twenty_can_watch() {
        sinew::run(|| {
            let watchers = Watchers::new(1000);
            let all: Vec<_> = std::iter::from_fn(|| watchers.enter(EVICTIONS)).collect();
            assert_eq!(all.len(), MOST_WATCHERS);
            watchers.close();
            assert!(all.iter().all(|watcher| matches!(watcher.wait(), Told::Over)));
        });
    }
}
