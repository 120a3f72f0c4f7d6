#![doc = include_str!("README.md")]

mod answer;
mod clock;
mod desks;
mod events;
mod files;
mod input;
mod listen;
mod listing;
mod log;
mod options;
mod session;
mod sorry;
mod talk;
mod tls;
mod transport;

pub use options::Options;

use crate::doors;
use crate::lobby::Lobby;
use crate::metrics::MetricsOptions;
use crate::room::Room;
use crate::runtime::{self, Style};
use crate::serving::{self, Serve};
use desks::Desks;
use files::Files;
use listen::Guest;
use log::Log;
use sinew::Scope;
use sinew::net::TcpListener;
use sinew::shutdown::Shutdown;
use sinew::signal::Signal;
use sinew_http_protocol::Limits;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// When the server stops, answers that have begun have this much time.
const GRACE: Duration = Duration::from_secs(10);

/// The limits of a head. nginx allows 32 KiB, in pieces of 8.
const LIMITS: Limits = Limits { head: desks::SIZE, target: 8 * 1024 };

/// The state that all sessions share.
struct Server {
    options: Options,
    files: Files,
    desks: Desks,
    room: Room,
    /// Silent clients.
    lobby: Lobby<Guest>,
    log: Option<Log>,
    tls: Option<Arc<rustls::ServerConfig>>,
    shutdown: Shutdown,
}

impl Server {
    /// Returns whether the server has been told to stop.
    #[inline]
    fn is_stopping(&self) -> bool {
        self.shutdown.is_told()
    }

    /// Ends the process if connections are left [`GRACE`] after the server was told to stop.
    fn end_with(&self, have_ended: bool) {
        if !have_ended {
            serving::report(self, 0, || format!("some connections did not end within {} s", GRACE.as_secs()));
            self.log.as_ref().inspect(|log| log.close());
            std::process::exit(0);
        }
    }
}

/// Serves until a signal ends the server.
///
/// # Errors
/// The server cannot begin.
pub fn run(options: Options) -> io::Result<()> {
    if options.events && options.tls.is_some() {
        let text = "--events serves without TLS: leave out --events or --tls";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let style = if options.events { Style::Events { stealing: !options.no_stealing } } else { Style::Fibres };
    let runtime = runtime::build(&options.runtime, style)?;
    let server = Server {
        files: Files::open(&options)?,
        desks: Desks::default(),
        room: Room::new(options.connections, options.listen.len()),
        lobby: Lobby::new(),
        log: options.log.as_deref().map(Log::open).transpose()?,
        tls: options.tls.as_deref().map(tls::config).transpose()?,
        shutdown: Shutdown::new(GRACE),
        options,
    };
    if server.options.events {
        return events::run(&runtime, server);
    }
    let served = serving::run(&runtime, &server);
    server.log.as_ref().inspect(|log| log.close());
    served
}

impl Serve for Server {
    const NAME: &'static str = "web";
    type Door = TcpListener;
    type Client = Guest;
    type Marks = ();

    fn lobby(&self) -> &Lobby<Guest> {
        &self.lobby
    }

    fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// A cached file may need three descriptors: its own, and two for the compressed files beside
    /// it.
    fn descriptors(&self) -> (u64, &'static str) {
        let files = 3 * u64::from(self.options.cached_files);
        (u64::from(self.options.connections) + files, "--connections")
    }

    fn open(&self) -> io::Result<Vec<TcpListener>> {
        doors::open(&self.options.listen)
    }

    fn announce(&self, doors: &[TcpListener]) -> io::Result<()> {
        listen::announce(&self.options, doors)
    }

    fn attend<'scope>(&'scope self, door: &TcpListener, scope: &'scope Scope<'scope, '_>) {
        listen::serve(self, door, scope);
    }

    fn resume<'scope>(&'scope self, guest: Guest, scope: &'scope Scope<'scope, '_>) {
        guest.serve(self, scope);
    }

    fn metrics(&self) -> Option<&MetricsOptions> {
        Some(&self.options.metrics)
    }

    /// SIGHUP opens the log again, as in other servers; so does SIGUSR1, as in nginx.
    fn obey(&self, signal: Signal) -> ControlFlow<()> {
        match signal {
            Signal::HUP | Signal::USR1 => drop(self.log.as_ref().inspect(|log| log.reopen())),
            _ => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    fn end(&self) {
        self.end_with(self.room.empties(GRACE));
    }
}
