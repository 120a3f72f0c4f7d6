//! A memcached server: one fibre for each connection whose client is active.
//!
//! | module | |
//! | --- | --- |
//! | `listen` | accepts clients, and resumes those of the lobby |
//! | `session` | one connection: read, answer, send |
//! | `input` | received bytes, in as little memory as possible |
//! | `text`, `meta`, `binary` | requests and their answers |
//! | `arithmetic` | numbers in values |
//! | `administration` | commands for administrators |
//! | `authentication` | names and passwords of clients |
//! | `store` | the items |
//! | `clock` | seconds, and the times of flushes |
//! | `stats`, `traffic` | statistics |
//! | `watch`, `telling` | events, reported as they happen |
//! | `udp` | requests in datagrams |
//! | `process` | the process that the server runs in |

mod administration;
mod arithmetic;
mod authentication;
mod binary;
mod clock;
mod input;
mod listen;
mod meta;
mod options;
mod process;
mod session;
mod stats;
mod store;
mod stream;
mod telling;
mod text;
mod traffic;
mod udp;
mod watch;

pub use options::Options;

use crate::lobby::Lobby;
use crate::metrics::MetricsOptions;
use crate::serving::{self, Serve};
use crate::{message, runtime};
use authentication::Authentication;
use clock::Clock;
use input::Allowance;
use listen::{AnyClient, Door, SocketFile};
use options::{Extended, Protocol};
use process::PidFile;
use session::Known;
use sinew::Scope;
use sinew::io::Means;
use sinew::shutdown::Shutdown;
use sinew::signal::Signal;
use stats::Prefixes;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use store::{Moment, Plan, Sizing, Store, Sweeper};
use traffic::{Connections, Traffic};
use watch::Watchers;

/// The version of memcached whose protocol is spoken. Clients look at it.
const VERSION: &str = "1.6.18";

/// When the server stops, requests that have begun have this much time.
const GRACE: Duration = Duration::from_secs(2);

/// The state that all sessions share.
pub struct Server {
    options: Options,
    store: Store,
    clock: Clock,
    sweeper: Sweeper,
    connections: Arc<Connections>,
    /// Silent clients.
    lobby: Lobby<AnyClient>,
    traffic: Traffic,
    /// Memory for long requests.
    allowance: Allowance,
    /// The largest item, as memcached counts it.
    largest: usize,
    /// The number of bytes for items.
    limit: AtomicU64,
    /// The settings of `-o`, as clients have changed them. The lock is never held across a wait.
    extended: Mutex<Extended>,
    /// The sizes of items with higher unique numbers are tracked. `u64::MAX` if none are.
    tracked: AtomicU64,
    watchers: Arc<Watchers>,
    prefixes: Prefixes,
    authentication: Authentication,
    /// The descriptor and the address of each door, in memcached's words.
    doors: OnceLock<Vec<(i32, String)>>,
    threads: usize,
    scheduler: &'static str,
    io: Means,
    verbosity: AtomicU32,
    flushes: AtomicU64,
    /// How often a session has yielded to others.
    yields: AtomicU64,
    shutdown: Shutdown,
}

impl Server {
    /// Returns the current moment.
    #[inline]
    fn moment(&self) -> Moment {
        self.moment_at(Instant::now())
    }

    /// Returns the moment of `now`, which the caller has read from the clock.
    #[inline]
    fn moment_at(&self, now: Instant) -> Moment {
        self.clock.moment(now, &self.store.fresh)
    }

    /// Returns the state of a client that has sent nothing.
    fn introduction(&self) -> Known {
        let is_authenticated = !self.authentication.is_needed();
        let is_binary = match self.options.protocol {
            _ if !is_authenticated => Some(false),
            Protocol::Auto => None,
            Protocol::Ascii => Some(false),
            Protocol::Binary => Some(true),
        };
        Known { is_binary, is_authenticated }
    }

    fn extended_mut(&self) -> MutexGuard<'_, Extended> {
        self.extended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn extended(&self) -> Extended {
        *self.extended_mut()
    }

    /// Returns a unique number as clients see it.
    #[inline]
    fn shown(&self, unique: u64) -> u64 {
        if self.options.disable_cas { 0 } else { unique }
    }

    fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes as u64, Relaxed);
        self.store.set_limit(bytes);
    }

    /// Returns the unique number since which sizes are tracked, if they are.
    fn tracked_since(&self) -> Option<u64> {
        Some(self.tracked.load(Relaxed)).filter(|since| *since != u64::MAX)
    }

    fn track_sizes(&self, is_on: bool) {
        let since = match (is_on, self.tracked_since()) {
            (false, _) => u64::MAX,
            (true, Some(since)) => since,
            (true, None) => self.store.fresh.next(),
        };
        self.tracked.store(since, Relaxed);
    }

    /// Flushes if the options allow it. Returns whether they do.
    fn flush(&self, delay: i64, moment: Moment) -> bool {
        let is_allowed = !self.options.disable_flush_all;
        self.flushes.fetch_add(1, Relaxed);
        if is_allowed {
            self.clock.flush(delay, moment.now, &self.store.fresh);
            self.sweeper.call();
        }
        is_allowed
    }

    fn flushes(&self) -> u64 {
        self.flushes.load(Relaxed)
    }

    fn yields(&self) -> u64 {
        self.yields.load(Relaxed)
    }

    fn reset(&self) {
        self.flushes.store(0, Relaxed);
        self.yields.store(0, Relaxed);
    }

    /// Closes connections that are idle for longer than `timeout` seconds, until the fibre is
    /// cancelled.
    fn kick(&self, timeout: u32) {
        while sinew::time::try_sleep(Duration::from_secs(1)).is_ok() {
            self.connections.kick(self.clock.now(), timeout);
        }
    }

    fn verbosity(&self) -> u32 {
        self.verbosity.load(Relaxed)
    }

    fn set_verbosity(&self, level: u32) {
        self.verbosity.store(level.min(2), Relaxed);
    }

    /// Writes a message to standard error, if messages of this level are wanted.
    #[inline]
    fn log(&self, level: u32, text: impl FnOnce() -> String) {
        serving::report(self, level, text);
    }

    /// Returns whether the server has been told to stop.
    #[inline]
    fn is_stopping(&self) -> bool {
        self.shutdown.is_told()
    }

    fn stop_deadline(&self) -> Instant {
        self.shutdown.deadline()
    }
}

impl Serve for Server {
    const NAME: &'static str = "memcached";
    type Door = Door;
    type Client = AnyClient;
    type Marks = (Option<PidFile>, Option<SocketFile>);

    fn lobby(&self) -> &Lobby<AnyClient> {
        &self.lobby
    }

    fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    fn descriptors(&self) -> (u64, &'static str) {
        (self.options.conn_limit.into(), "-c")
    }

    fn open(&self) -> io::Result<Vec<Door>> {
        listen::open(&self.options)
    }

    fn announce(&self, doors: &[Door]) -> io::Result<Self::Marks> {
        let socket_file = self.options.unix_socket.as_deref().map(SocketFile::of);
        let _ = self.doors.set(doors.iter().map(Door::describe).collect());
        listen::write_ports(doors)?;
        let pid_file = PidFile::write(&self.options)?;
        doors.iter().for_each(Door::announce);
        self.log(1, || format!("I/O by {}", self.io));
        Ok((pid_file, socket_file))
    }

    fn attend<'scope>(&'scope self, door: &Door, scope: &'scope Scope<'scope, '_>) {
        door.serve(self, scope);
    }

    fn resume<'scope>(&'scope self, client: AnyClient, scope: &'scope Scope<'scope, '_>) {
        client.serve(self, scope);
    }

    fn assist<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        scope.spawn(|| self.sweeper.run(&self.store, || self.moment()));
        let idle_timeout = self.extended().idle_timeout;
        if idle_timeout > 0 {
            scope.spawn(move || self.kick(idle_timeout));
        }
    }

    fn metrics(&self) -> Option<&MetricsOptions> {
        Some(&self.options.metrics)
    }

    fn figures(&self, out: &mut String) {
        self.write_figures(out);
    }

    /// Ends the server with memcached's words for each signal. SIGHUP does not end it: memcached
    /// loads its passwords again, and this server has none.
    fn obey(&self, signal: Signal) -> ControlFlow<()> {
        match signal {
            Signal::HUP => return ControlFlow::Continue(()),
            Signal::USR1 => message::say(format_args!("Gracefully stopping")),
            _ if self.verbosity() > 0 => message::say(format_args!("Exiting normally")),
            _ => {}
        }
        ControlFlow::Break(())
    }

    fn end(&self) {
        self.sweeper.wake();
        self.watchers.close();
    }

    #[inline]
    fn wants(&self, level: u32) -> bool {
        self.verbosity() >= level
    }
}

/// Serves until a signal ends the server.
///
/// # Errors
/// The server cannot begin.
pub fn run(options: Options) -> io::Result<()> {
    let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
    let mut extended = Extended::parse(&options.extended).map_err(invalid)?;
    extended.slab_chunk_max = extended.slab_chunk_max.min(options.max_item_size);
    let limit = options.memory_limit << 20;
    let (bytes, largest) = (limit as usize, options.max_item_size as usize);
    if largest > bytes / 2 {
        return Err(invalid("the largest item (-I) may take at most half of the memory (-m)".to_owned()));
    }
    if options.auth_file.is_some() && options.udp_port.number().is_some() {
        return Err(invalid("datagrams (-U) cannot be authenticated (-Y)".to_owned()));
    }
    let authentication = Authentication::read(options.auth_file.as_deref())?;
    if !process::prepare(&options)? {
        return Ok(());
    }
    let runtime = runtime::build(&options.runtime, runtime::Style::Fibres)?;
    let watchers = Arc::new(Watchers::new((extended.watcher_logbuf_size as usize) << 10));
    let sizing = Sizing {
        smallest: options.slab_min_size as usize,
        factor: options.slab_growth_factor,
        largest: extended.slab_chunk_max as usize,
        has_unique: !options.disable_cas,
    };
    let plan = Plan { bytes, largest, evicts: !options.disable_evictions, sizing };
    let server = Server {
        store: Store::new(plan, Arc::clone(&watchers)),
        clock: Clock::start(!options.disable_cas),
        sweeper: if extended.lru_maintainer { Sweeper::default() } else { Sweeper::manual() },
        connections: Arc::new(Connections::new(options.conn_limit.into(), Arc::clone(&watchers))),
        lobby: Lobby::new(),
        traffic: Traffic::default(),
        allowance: Allowance::new(),
        largest,
        limit: AtomicU64::new(limit),
        extended: Mutex::new(extended),
        tracked: AtomicU64::new(if extended.track_sizes { 0 } else { u64::MAX }),
        watchers,
        prefixes: Prefixes::new(options.delimiter.unwrap_or(b':'), options.delimiter.is_some()),
        authentication,
        doors: OnceLock::new(),
        threads: runtime.main_cluster().processors(),
        scheduler: runtime.main_cluster().scheduler(),
        io: runtime.main_cluster().io(),
        verbosity: AtomicU32::new(options.verbose.into()),
        flushes: AtomicU64::new(0),
        yields: AtomicU64::new(0),
        shutdown: Shutdown::new(GRACE),
        options,
    };
    if extended.temp_lru {
        server.store.protect(extended.temporary_ttl);
    }
    serving::run(&runtime, &server)
}
