#![doc = include_str!("README.md")]

mod client;
mod keys;
mod listen;
mod noise;
mod options;
mod output;
mod record;
mod seal;
mod session;
mod words;

pub use options::Options;

use crate::lobby::Lobby;
use crate::room::Room;
use crate::runtime::{self, Style};
use crate::serving::{self, Serve};
use crate::tree::{Listings, Top};
use crate::{doors, message};
use keys::{Clients, Secret};
use listen::Guest;
use options::{Command, ServeOptions};
use sinew::Scope;
use sinew::net::TcpListener;
use sinew::shutdown::Shutdown;
use sinew::signal::Signal;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// When the server stops, answers that have begun have this much time.
const GRACE: Duration = Duration::from_secs(10);

/// The state that all sessions share.
struct Server {
    options: ServeOptions,
    top: Top,
    listings: Listings,
    secret: Arc<Secret>,
    /// Written when SIGHUP comes. No suspension happens under the lock.
    clients: RwLock<Clients>,
    room: Room,
    /// Silent clients.
    lobby: Lobby<Guest>,
    shutdown: Shutdown,
}

/// Serves, or does what a client asks for.
///
/// # Errors
/// The server cannot begin, or the client does not succeed.
pub fn run(options: Options) -> io::Result<()> {
    match options.command {
        Command::Serve(options) => serve(options),
        Command::Keys(options) => {
            let (public, key) = keys::make(&options.file)?;
            let text = format!("secret key: {}\npublic key: {}\n{key}\n", options.file.display(), public.display());
            message::print(text.as_bytes())
        }
        Command::Get(options) => client::get(&options),
        Command::Ls(options) => client::list(&options),
        Command::Read(options) => client::read(&options),
    }
}

fn serve(options: ServeOptions) -> io::Result<()> {
    let runtime = runtime::build(&options.runtime, Style::Fibres)?;
    let secret = Arc::new(Secret::read(&options.key)?);
    keep_out(&options.directory, &options.key)?;
    let top = Top::open(&options.directory, options.follow_links)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", options.directory.display())))?;
    let clients = Clients::read(&options.clients)?;
    if clients.count() == 0 {
        message::say(format_args!("sinew: files: {} has no key, so no client may come", options.clients.display()));
    }
    let server = Server {
        top,
        listings: Listings::new(),
        secret,
        clients: RwLock::new(clients),
        room: Room::new(options.connections, options.listen.len()),
        lobby: Lobby::new(),
        shutdown: Shutdown::new(GRACE),
        options,
    };
    serving::run(&runtime, &server)
}

/// Refuses a secret key inside of the served directory, where clients could read it.
fn keep_out(directory: &Path, key: &Path) -> io::Result<()> {
    let (directory, inside) = (directory.canonicalize(), key.canonicalize());
    let is_inside = directory.is_ok_and(|directory| inside.is_ok_and(|key| key.starts_with(directory)));
    match is_inside {
        true => {
            let text = format!("{}: clients could read this secret key; move it out of DIR", key.display());
            Err(io::Error::new(ErrorKind::InvalidInput, text))
        }
        false => Ok(()),
    }
}

impl Server {
    /// Returns the time that a connection may be idle.
    fn patience(&self) -> Duration {
        self.options.idle_timeout.unwrap_or(runtime::LONGEST)
    }

    /// Returns the name of the client with this key, if it may use the server.
    fn find_client(&self, key: &keys::Public) -> Option<Arc<str>> {
        self.clients.read().unwrap_or_else(PoisonError::into_inner).find(key)
    }

    /// Reads the file of clients again. If that fails, the clients stay as they were.
    fn read_clients(&self) {
        match Clients::read(&self.options.clients) {
            Ok(clients) => *self.clients.write().unwrap_or_else(PoisonError::into_inner) = clients,
            Err(error) => serving::report(self, 0, || format!("the clients stay as they were: {error}")),
        }
    }
}

impl Serve for Server {
    const NAME: &'static str = "files";
    type Door = TcpListener;
    type Client = Guest;
    type Marks = ();

    fn lobby(&self) -> &Lobby<Guest> {
        &self.lobby
    }

    fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Each connection may have one file open.
    fn descriptors(&self) -> (u64, &'static str) {
        (2 * u64::from(self.options.connections), "--connections")
    }

    fn open(&self) -> io::Result<Vec<TcpListener>> {
        let doors = doors::open(&self.options.listen)?;
        for door in &doors {
            // A client that vanishes is noticed, though it may be idle for ever. Connections inherit it.
            rustix::net::sockopt::set_socket_keepalive(door, true)?;
        }
        Ok(doors)
    }

    fn announce(&self, doors: &[TcpListener]) -> io::Result<()> {
        let mut text = String::new();
        for door in doors {
            text += &format!("serving {} at {}\n", self.options.directory.display(), door.local_addr()?);
        }
        message::print(text.as_bytes())
    }

    fn attend<'scope>(&'scope self, door: &TcpListener, scope: &'scope Scope<'scope, '_>) {
        let admit = |permit, stream| listen::admit(self, scope, permit, stream);
        serving::accept(self, door.incoming(), || self.room.take(), admit);
    }

    fn resume<'scope>(&'scope self, guest: Guest, scope: &'scope Scope<'scope, '_>) {
        guest.serve(self, scope);
    }

    fn obey(&self, signal: Signal) -> ControlFlow<()> {
        match signal {
            Signal::HUP => sinew::blocking(|| self.read_clients()),
            Signal::USR1 => {}
            _ => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    /// Waits until all connections have ended. Ends the process if that takes longer than
    /// [`GRACE`].
    fn end(&self) {
        if !self.room.empties(GRACE) {
            serving::report(self, 0, || format!("some connections did not end within {} s", GRACE.as_secs()));
            std::process::exit(0);
        }
    }

    fn wants(&self, level: u32) -> bool {
        level <= 1 || self.options.verbose
    }
}
