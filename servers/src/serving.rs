//! The skeleton that all servers share: bind, accept, serve, stop.
//!
//! ```text
//!   1  allow the descriptors, catch the signals, bind the doors, announce them
//!   2  in one scope of fibres: an acceptor for each door and for metrics, the doorman of the lobby,
//!      and what the server adds of its own
//!   3  an acceptor spawns a fibre for each connection; a session whose client is silent moves
//!      from its fibre to the lobby
//!   4  wait for a signal that ends the server
//!   5  tell the server to stop, cancel the scope, wait for the sessions
//! ```
//!
//! Each server supplies what differs, by the trait [`Serve`]. Cancellation ends every wait of the
//! scope with an error. So a fibre that gets an error asks [`Shutdown::is_told`] before it reports
//! it. A session that answers a request shields itself, until [`Shutdown::deadline`] at most. So no
//! session counts itself in and out, which a server with many short sessions would notice.
//! A listener that is short of descriptors or memory rests before it accepts again: `incoming` of
//! `sinew::net` does that.

use crate::lobby::Lobby;
use crate::metrics::{MetricsOptions, Window};
use crate::{descriptors, message};
use sinew::shutdown::Shutdown;
use sinew::signal::{Signal, Signals};
use sinew::{FibreBuilder, Runtime, Scope};
use std::fmt::Display;
use std::io;
use std::ops::ControlFlow;

/// The part of a server that the skeleton does not know.
pub trait Serve: Sync {
    /// The server's name in messages.
    const NAME: &'static str;
    /// A listener of any kind.
    type Door: Send + Sync;
    /// A client that waits in the lobby.
    type Client: Send;
    /// Files that exist while the server runs. Dropping the value removes them.
    type Marks;

    /// Returns the lobby for silent clients.
    fn lobby(&self) -> &Lobby<Self::Client>;

    /// Returns the state that says whether the server stops.
    fn shutdown(&self) -> &Shutdown;

    /// Returns the number of descriptors for connections and files, and the option that lowers it.
    fn descriptors(&self) -> (u64, &'static str);

    /// Binds all doors. Runs in a fibre.
    ///
    /// # Errors
    /// The error of the kernel, with the address ([`listen_error`]).
    fn open(&self) -> io::Result<Vec<Self::Door>>;

    /// Tells the user where the server listens.
    ///
    /// # Errors
    /// The addresses cannot be written.
    fn announce(&self, doors: &[Self::Door]) -> io::Result<Self::Marks>;

    /// Accepts clients at a door until the server stops; see [`accept`].
    fn attend<'scope>(&'scope self, door: &Self::Door, scope: &'scope Scope<'scope, '_>);

    /// Gives a client of the lobby a fibre again.
    fn resume<'scope>(&'scope self, client: Self::Client, scope: &'scope Scope<'scope, '_>);

    /// Spawns the server's other fibres. By default there are none.
    fn assist<'scope>(&'scope self, _: &'scope Scope<'scope, '_>) {}

    /// Returns the option for metrics. By default there is none.
    fn metrics(&self) -> Option<&MetricsOptions> {
        None
    }

    /// Adds what the server itself counts to the metrics. By default that is nothing.
    fn figures(&self, _: &mut String) {}

    /// Obeys a signal, and decides whether it ends the server.
    fn obey(&self, signal: Signal) -> ControlFlow<()>;

    /// Ends what the cancelled scope does not end by itself.
    fn end(&self);

    /// Returns whether messages of this level are wanted: level 0 always is, level 1 is about one
    /// client's trouble. By default both are.
    fn wants(&self, _level: u32) -> bool {
        true
    }
}

/// The signals that servers obey.
const OBEYED: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::USR1, Signal::TERM];

/// Serves until a signal ends the server and all sessions have ended.
///
/// # Errors
/// The server cannot begin, or cannot wait for signals.
pub fn run<S: Serve>(runtime: &Runtime, server: &S) -> io::Result<()> {
    let (count, option) = server.descriptors();
    descriptors::allow(count, option)?;
    let signals = Signals::new(OBEYED)?;
    let doors = runtime.run(|| server.open())?;
    let metrics = server.metrics().and_then(|options| options.metrics.as_deref());
    let window = runtime.run(|| metrics.map(Window::open).transpose())?;
    let _marks = server.announce(&doors)?;
    window.as_ref().inspect(|window| window.announce());
    runtime.run(|| {
        sinew::scope(|scope| {
            for door in &doors {
                scope.spawn(move || server.attend(door, scope));
            }
            if let Some(window) = &window {
                scope.spawn(move || window.attend(server, scope));
            }
            scope.spawn(move || server.lobby().attend(|client| server.resume(client, scope)));
            server.assist(scope);
            let told = until_told(server, &signals);
            server.shutdown().tell();
            scope.cancel();
            server.end();
            told
        })
    })
}

fn until_told<S: Serve>(server: &S, signals: &Signals) -> io::Result<()> {
    while server.obey(signals.recv()?).is_continue() {}
    Ok(())
}

/// Accepts connections until the server stops. Before each one, `take_permit` waits until the server
/// may have another connection; `admit` gets the permit and the connection.
pub fn accept<S: Serve, P, C>(
    server: &S,
    mut incoming: impl Iterator<Item = io::Result<C>>,
    take_permit: impl Fn() -> P,
    admit: impl Fn(P, C),
) {
    loop {
        let permit = take_permit();
        let connection = incoming.next().expect("incoming never ends");
        if server.shutdown().is_told() {
            return;
        }
        match connection {
            Ok(connection) => admit(permit, connection),
            Err(error) => report(server, 1, || format!("accept: {error}")),
        }
    }
}

/// Spawns the fibre of a session. If there is none, drops `session` and with it the connection.
pub fn spawn<'scope, S: Serve>(
    server: &S,
    scope: &'scope Scope<'scope, '_>,
    fibre: FibreBuilder,
    session: impl FnOnce() + Send + 'scope,
) {
    if let Err(error) = fibre.spawn_scoped(scope, session) {
        report(server, 0, || format!("no fibre for a connection: {error}"));
    }
}

/// Writes a message to standard error, if the server wants messages of this level.
#[inline]
pub fn report<S: Serve>(server: &S, level: u32, text: impl FnOnce() -> String) {
    if server.wants(level) {
        say(S::NAME, &text());
    }
}

#[cold]
#[inline(never)]
fn say(name: &str, text: &str) {
    message::say(format_args!("sinew: {name}: {text}"));
}

/// Returns the error of a bind, with its address.
pub fn listen_error(address: &dyn Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen at {address}: {error}"))
}
