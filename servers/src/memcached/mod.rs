//! A memcached server: one fibre for each connection whose client has something to say.
//!
//! | module | |
//! | --- | --- |
//! | `listen` | where clients come in, and come back in from the lobby |
//! | `session` | one connection: read, answer, send |
//! | `input` | what has been received, in as little memory as possible |
//! | `text`, `meta`, `binary` | requests and their answers |
//! | `arithmetic` | numbers in values |
//! | `store` | where items are kept |
//! | `clock` | seconds, and what was flushed when |
//! | `stats`, `traffic` | what is told about it |

mod arithmetic;
mod binary;
mod clock;
mod input;
mod listen;
mod meta;
mod options;
mod session;
mod stats;
mod store;
mod stream;
mod text;
mod traffic;

pub use options::Options;

use crate::lobby::Lobby;
use crate::signals::{Signal, Signals};
use crate::{descriptors, message, runtime};
use clock::Clock;
use input::Allowance;
use listen::AnyClient;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use store::{Moment, Store, Sweeper};
use traffic::{Connections, Traffic};

/// The version of memcached whose protocol is spoken: clients look at it.
const VERSION: &str = "1.6.18";

/// For so long requests that have begun may take to be completed, when the server stops.
const GRACE: Duration = Duration::from_secs(2);

/// What all sessions share.
pub struct Server {
    options: Options,
    store: Store,
    clock: Clock,
    sweeper: Sweeper,
    connections: Arc<Connections>,
    /// Clients who say nothing.
    lobby: Lobby<AnyClient>,
    traffic: Traffic,
    /// For long requests.
    allowance: Allowance,
    /// The largest item, as memcached counts it.
    largest: usize,
    /// Bytes for items.
    limit: u64,
    threads: usize,
    scheduler: &'static str,
    verbosity: AtomicU32,
    flushes: AtomicU64,
    /// When the last session has to have ended. Set when the server is told to stop.
    stop: OnceLock<Instant>,
}

impl Server {
    /// Now.
    #[inline]
    fn moment(&self) -> Moment {
        self.moment_at(Instant::now())
    }

    /// As [`moment`](Server::moment), for one who knows the time.
    #[inline]
    fn moment_at(&self, now: Instant) -> Moment {
        self.clock.moment(now, &self.store.fresh)
    }

    /// Flushes, if that is allowed.
    fn flush(&self, delay: i64, moment: Moment) -> bool {
        let is_allowed = !self.options.disable_flush_all;
        if is_allowed {
            self.flushes.fetch_add(1, Relaxed);
            self.clock.flush(delay, moment.now, &self.store.fresh);
            self.sweeper.call();
        }
        is_allowed
    }

    fn flushes(&self) -> u64 {
        self.flushes.load(Relaxed)
    }

    fn verbosity(&self) -> u32 {
        self.verbosity.load(Relaxed)
    }

    fn set_verbosity(&self, level: u32) {
        self.verbosity.store(level.min(2), Relaxed);
    }

    /// Says something on standard error, if so much is wanted.
    #[inline]
    fn log(&self, level: u32, text: impl FnOnce() -> String) {
        if self.verbosity() >= level {
            say(&text());
        }
    }

    /// Whether it has been told to stop.
    #[inline]
    fn is_stopping(&self) -> bool {
        self.stop.get().is_some()
    }

    fn stop_deadline(&self) -> Instant {
        self.stop.get().copied().unwrap_or_else(|| Instant::now() + GRACE)
    }
}

#[cold]
#[inline(never)]
fn say(text: &str) {
    message::say(format_args!("sinew: memcached: {text}"));
}

/// Waits for a signal that ends the server, with memcached's words for each. SIGHUP does not end
/// it: memcached loads its passwords again, and here are none.
fn until_told(server: &Server, signals: &mut Signals) -> io::Result<()> {
    loop {
        match signals.next()? {
            Signal::HangUp => continue,
            Signal::User => message::say(format_args!("Gracefully stopping")),
            Signal::Stop if server.verbosity() > 0 => message::say(format_args!("Exiting normally")),
            Signal::Stop => {}
        }
        return Ok(());
    }
}

/// Serves until it is told to stop.
///
/// # Errors
/// If it cannot begin to.
pub fn run(options: Options) -> io::Result<()> {
    let runtime = runtime::build(&options.runtime)?;
    let limit = options.memory_limit << 20;
    let largest = options.max_item_size as usize;
    let bytes = usize::try_from(limit).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "too much memory"))?;
    if largest > bytes / 2 {
        let text = "the largest item (-I) may take at most half of the memory (-m)";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let server = Server {
        store: Store::new(bytes, largest, !options.disable_evictions),
        clock: Clock::start(),
        sweeper: Sweeper::default(),
        connections: Arc::new(Connections::new(options.conn_limit.into())),
        lobby: Lobby::new(),
        traffic: Traffic::default(),
        allowance: Allowance::new(),
        largest,
        limit,
        threads: runtime.main_cluster().processors(),
        scheduler: runtime.main_cluster().scheduler(),
        verbosity: AtomicU32::new(options.verbose.into()),
        flushes: AtomicU64::new(0),
        stop: OnceLock::new(),
        options,
    };
    descriptors::allow(server.options.conn_limit.into(), "-c")?;
    let mut signals = Signals::catch()?;
    let doors = runtime.run(|| listen::open(&server.options))?;
    let socket = server.options.unix_socket.as_deref().map(|path| (path, listen::identity(path)));
    doors.iter().for_each(listen::Door::announce);
    runtime.run(|| {
        sinew::scope(|scope| {
            for door in &doors {
                let server = &server;
                scope.spawn(move || door.serve(server, scope));
            }
            let server = &server;
            scope.spawn(move || server.lobby.attend(|client| client.serve(server, scope)));
            scope.spawn(|| server.sweeper.run(&server.store, || server.moment()));
            let told = until_told(server, &mut signals);
            let _ = server.stop.set(Instant::now() + GRACE);
            scope.cancel();
            server.sweeper.wake();
            told
        })
    })?;
    if let Some((path, ours)) = socket
        && listen::identity(path) == ours
    {
        // It may have been taken away.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}
