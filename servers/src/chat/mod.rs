#![doc = include_str!("README.md")]

mod directory;
mod line;
mod listen;
mod options;
mod page;
mod protocol;
mod rate;
mod reader;
mod room;
mod session;
mod store;

pub use options::Options;

use crate::lobby::Lobby;
use crate::metrics::{self, MetricsOptions};
use crate::room::Room as Places;
use crate::runtime::{self, Style};
use crate::serving::{self, Serve};
use crate::{doors, message};
use directory::{CloseAll, Directory};
use reader::Reader;
use room::Manner;
use sinew::Scope;
use sinew::actor::Address;
use sinew::net::TcpListener;
use sinew::shutdown::Shutdown;
use sinew::signal::Signal;
use std::io;
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use store::{Reopen, Report, Store};

/// When the server stops, sessions have this much time to say goodbye.
const GRACE: Duration = Duration::from_secs(10);

/// Metrics do without the counts of a store that is busier than this.
const LONGEST_COUNT: Duration = Duration::from_secs(1);

/// The bytes that the kernel keeps for a client that does not read, about twice as many in all. More would only make
/// the messages older that such a client gets at last.
const KERNEL: usize = 128 * 1024;

/// The state that all sessions share.
struct Server {
    options: Options,
    places: Places,
    /// The readers of silent clients.
    lobby: Lobby<Reader>,
    shutdown: Shutdown,
    /// The number of the next session.
    numbers: AtomicU64,
    /// Set in the first fibre that needs it.
    house: OnceLock<House>,
}

/// The actors that live as long as the server.
struct House {
    directory: Address<Directory>,
    store: Address<Store>,
}

/// Serves until a signal ends the server.
///
/// # Errors
/// The server cannot begin.
pub fn run(options: Options) -> io::Result<()> {
    let runtime = runtime::build(&options.runtime, Style::Fibres)?;
    let server = Server {
        places: Places::new(options.connections, options.listen.len()),
        lobby: Lobby::new(),
        shutdown: Shutdown::new(GRACE),
        numbers: AtomicU64::new(1),
        house: OnceLock::new(),
        options,
    };
    serving::run(&runtime, &server)
}

impl Server {
    /// Returns the actors of the server. Call it in a fibre.
    fn house(&self) -> &House {
        self.house.get_or_init(|| {
            let Options { history, keep, rooms, log, .. } = &self.options;
            let store = store::spawn(log.clone());
            let manner = Manner { history: *history as usize, keep: *keep, is_logged: log.is_some() };
            let directory = sinew::actor::spawn(Directory::new(store.clone(), manner, *rooms as usize));
            House { directory, store }
        })
    }

    /// Says goodbye to all, after everything that was accepted before.
    fn say_goodbye(&self) {
        match self.house().directory.ask_timeout(GRACE, CloseAll) {
            Ok(sessions) => sessions.iter().for_each(|outlet| outlet.say_goodbye()),
            Err(error) => serving::report(self, 0, || format!("no goodbye: {error}")),
        }
    }
}

impl Serve for Server {
    const NAME: &'static str = "chat";
    type Door = TcpListener;
    type Client = Reader;
    type Marks = ();

    fn lobby(&self) -> &Lobby<Reader> {
        &self.lobby
    }

    fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    fn descriptors(&self) -> (u64, &'static str) {
        (u64::from(self.options.connections), "--connections")
    }

    fn open(&self) -> io::Result<Vec<TcpListener>> {
        if let Some(path) = &self.options.log {
            store::open(path)?;
        }
        let doors = doors::open(&self.options.listen)?;
        for door in &doors {
            // Connections inherit it.
            rustix::net::sockopt::set_socket_send_buffer_size(door, KERNEL)?;
        }
        Ok(doors)
    }

    fn announce(&self, doors: &[TcpListener]) -> io::Result<()> {
        let mut text = String::new();
        for door in doors {
            text += &format!("chat at http://{}\n", door.local_addr()?);
        }
        message::print(text.as_bytes())
    }

    fn attend<'scope>(&'scope self, door: &TcpListener, scope: &'scope Scope<'scope, '_>) {
        let admit = |permit, stream| listen::admit(self, scope, permit, stream);
        serving::accept(self, door.incoming(), || self.places.take(), admit);
    }

    fn resume<'scope>(&'scope self, reader: Reader, scope: &'scope Scope<'scope, '_>) {
        reader.serve(self, scope);
    }

    fn metrics(&self) -> Option<&MetricsOptions> {
        Some(&self.options.metrics)
    }

    fn figures(&self, out: &mut String) {
        let Ok(counts) = self.house().store.ask_timeout(LONGEST_COUNT, Report) else { return };
        let mut counter = |name, help, value| metrics::counter(out, &format!("sinew_chat_{name}"), help, value);
        counter("sessions_begun", "Sessions that have begun.", counts.all_sessions);
        counter("messages", "Messages to rooms.", counts.said);
        counter("deliveries", "Deliveries of messages to the members of rooms.", counts.told);
        counter("direct_messages", "Messages from one client to another.", counts.direct);
        counter("refused_requests", "Requests that were refused.", counts.refused);
        counter("slow_sessions", "Sessions that were dropped because their clients read too slowly.", counts.slow);
        metrics::gauge(out, "sinew_chat_sessions", "Sessions.", counts.sessions);
        metrics::gauge(out, "sinew_chat_rooms", "Rooms.", counts.rooms);
        metrics::gauge(out, "sinew_chat_silent_clients", "Clients without a fibre.", self.lobby.count());
    }

    /// SIGHUP opens the log again; SIGUSR1 says what has happened so far.
    fn obey(&self, signal: Signal) -> ControlFlow<()> {
        match signal {
            Signal::HUP => drop(self.house().store.ask(Reopen)),
            Signal::USR1 => match self.house().store.ask(Report) {
                Ok(counts) => serving::report(self, 0, || format!("{counts}, {} clients silent", self.lobby.count())),
                Err(error) => serving::report(self, 0, || format!("no counts: {error}")),
            },
            _ => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    /// Says goodbye, and waits until all connections have ended. Ends the process if that takes longer than [`GRACE`].
    fn end(&self) {
        self.say_goodbye();
        let have_ended = self.places.empties(GRACE);
        // So the log is complete.
        drop(self.house().store.ask_timeout(GRACE, Report));
        if !have_ended {
            serving::report(self, 0, || format!("some connections did not end within {} s", GRACE.as_secs()));
            std::process::exit(0);
        }
    }
}
