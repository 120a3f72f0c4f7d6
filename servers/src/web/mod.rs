#![doc = include_str!("README.md")]

mod answer;
mod clock;
mod desks;
mod files;
mod input;
mod listen;
mod listing;
mod log;
mod options;
mod session;
mod tls;
mod transport;

pub use options::Options;

use crate::lobby::Lobby;
use crate::signals::{Signal, Signals};
use crate::{descriptors, message, runtime};
use desks::Desks;
use files::Files;
use listen::Guest;
use log::Log;
use sinew::sync::Semaphore;
use sinew_http_protocol::Limits;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// For so long answers that have begun may take to be completed, when the server stops.
const GRACE: Duration = Duration::from_secs(10);

/// What a client may say in a head. nginx allows for 32 KiB, in pieces of 8.
const LIMITS: Limits = Limits { head: desks::SIZE, target: 8 * 1024 };

/// What all sessions share.
struct Server {
    options: Options,
    files: Files,
    desks: Desks,
    /// A permit for each connection, and one for each listener but the first: each takes one
    /// before it waits for a client.
    room: Arc<Semaphore>,
    /// Clients who say nothing.
    lobby: Lobby<Guest>,
    log: Option<Log>,
    tls: Option<Arc<rustls::ServerConfig>>,
    /// Set once, before idle sessions are cancelled.
    stopping: AtomicBool,
}

impl Server {
    /// Whether it has been told to stop. Who misses it is cancelled a moment later, or sees
    /// it after the next answer.
    #[inline]
    fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }
}

/// See [`Server::room`].
fn permits(options: &Options) -> usize {
    options.connections as usize + options.listen.len() - 1
}

/// For connections and files. A file may need three while it is kept: its own, and two for what
/// lies compressed beside it.
fn descriptors_for(options: &Options) -> u64 {
    u64::from(options.connections) + 3 * u64::from(options.cached_files)
}

/// Serves until it is told to stop.
///
/// # Errors
/// If it cannot begin to.
pub fn run(options: Options) -> io::Result<()> {
    descriptors::allow(descriptors_for(&options), "--connections")?;
    let runtime = runtime::build(&options.runtime)?;
    let server = Server {
        files: Files::open(&options)?,
        desks: Desks::default(),
        room: Arc::new(Semaphore::new(permits(&options))),
        lobby: Lobby::new(),
        log: options.log.as_deref().map(Log::open).transpose()?,
        tls: options.tls.as_deref().map(tls::config).transpose()?,
        stopping: AtomicBool::new(false),
        options,
    };
    let mut signals = Signals::catch()?;
    let served = runtime.run(|| {
        let doors = listen::open(&server.options)?;
        listen::announce(&server.options, &doors)?;
        sinew::scope(|scope| {
            for door in &doors {
                let server = &server;
                scope.spawn(move || listen::serve(server, door, scope));
            }
            let server = &server;
            scope.spawn(move || server.lobby.attend(|guest| guest.serve(server, scope)));
            let told = until_told(server, &mut signals);
            server.stopping.store(true, Relaxed);
            scope.cancel();
            if server.room.acquire_many_timeout(permits(&server.options), GRACE).is_err() {
                message::say(format_args!("sinew: web: some connections did not end within {} s", GRACE.as_secs()));
                server.log.as_ref().inspect(|log| log.close());
                std::process::exit(0);
            }
            told
        })
    });
    server.log.as_ref().inspect(|log| log.close());
    served
}

/// Waits for a signal that ends the server. The others have the log opened again: SIGHUP as
/// everywhere, SIGUSR1 as in nginx.
fn until_told(server: &Server, signals: &mut Signals) -> io::Result<()> {
    loop {
        match signals.next()? {
            Signal::Stop => return Ok(()),
            Signal::HangUp | Signal::User => drop(server.log.as_ref().inspect(|log| log.reopen())),
        }
    }
}
