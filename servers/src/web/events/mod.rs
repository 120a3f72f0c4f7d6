#![doc = include_str!("README.md")]

mod asked;
mod connection;
mod door;
mod handlers;
mod table;
mod watch;

use super::listen;
use super::session::FAREWELL;
use super::{GRACE, Server};
use crate::doors;
use crate::lobby::Lobby;
use crate::metrics::MetricsOptions;
use crate::serving::{self, Serve};
use connection::{Connection, NEVER};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use sinew::event::Colour;
use sinew::io::Pollable;
use sinew::net::TcpListener;
use sinew::shutdown::Shutdown;
use sinew::signal::Signal;
use sinew::sync::Semaphore;
use sinew::{Runtime, Scope};
use std::convert::Infallible;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use table::Table;
use watch::{BELL, DOORS, Round};

/// The state that all events share. It lives as long as the process, because events cannot borrow.
struct World {
    server: Server,
    /// One permit for each connection that may begin.
    room: Semaphore,
    /// The colour of the handlers that count clients.
    counting: Colour,
    /// Whether clients wait for `room`. Used by events of the colour `counting`.
    are_waiting: AtomicBool,
    /// No suspension happens under the locks.
    table: Mutex<Table>,
    doors: Mutex<Vec<TcpListener>>,
    poller: Pollable<OwnedFd>,
    bell: OwnedFd,
    /// Nobody is there: idle connections have no fibres anyway.
    lobby: Lobby<Infallible>,
    began: Instant,
    /// The shortest time that a client may have for anything.
    shortest: Duration,
}

/// Serves until a signal ends the server. TLS is not served.
///
/// # Errors
/// The server cannot begin.
pub fn run(runtime: &Runtime, server: Server) -> io::Result<()> {
    let options = &server.options;
    let shortest = options.header_timeout.min(options.idle_timeout).min(options.send_timeout).min(FAREWELL);
    let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    let poller = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&poller, &bell, EventData::new_u64(BELL), EventFlags::IN | EventFlags::ET)?;
    let world = World {
        room: Semaphore::new(options.connections as usize),
        counting: Colour::builder().cluster(runtime.main_cluster()).build(),
        are_waiting: AtomicBool::new(false),
        table: Mutex::default(),
        doors: Mutex::default(),
        poller: Pollable::new(poller)?,
        bell,
        lobby: Lobby::new(),
        began: Instant::now(),
        shortest,
        server,
    };
    let world: &'static World = Box::leak(Box::new(world));
    let served = serving::run(runtime, &world);
    world.server.log.as_ref().inspect(|log| log.close());
    served
}

impl World {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn doors(&self) -> MutexGuard<'_, Vec<TcpListener>> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a time in milliseconds of the world.
    fn ms(&self, time: Instant) -> u64 {
        u64::try_from(time.duration_since(self.began).as_millis()).unwrap_or(NEVER - 1)
    }

    /// Lets the kernel report on a connection: now if there is something to receive, and whenever more
    /// comes.
    fn watch(&self, connection: &Connection) -> io::Result<()> {
        let data = EventData::new_u64(connection.number.into());
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(self.poller.get_ref(), &connection.stream, data, flags)?)
    }

    /// Wakes the `epoll` handler.
    fn ring(&self) {
        // This fails only if the bell has been rung very often.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Makes the bell ready to be rung again.
    fn hush(&self) {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }
}

impl Serve for &'static World {
    const NAME: &'static str = "web";
    type Door = TcpListener;
    type Client = Infallible;
    type Marks = ();

    fn lobby(&self) -> &Lobby<Infallible> {
        &self.lobby
    }

    fn shutdown(&self) -> &Shutdown {
        &self.server.shutdown
    }

    fn descriptors(&self) -> (u64, &'static str) {
        self.server.descriptors()
    }

    fn open(&self) -> io::Result<Vec<TcpListener>> {
        doors::open(&self.server.options.listen)
    }

    fn announce(&self, doors: &[TcpListener]) -> io::Result<()> {
        listen::announce(&self.server.options, doors)
    }

    /// Lets the kernel report on the door. The fibre ends.
    fn attend<'scope>(&'scope self, door: &TcpListener, _: &'scope Scope<'scope, '_>) {
        let mut doors = self.doors();
        let data = EventData::new_u64(DOORS + doors.len() as u64);
        doors.push(door.clone());
        drop(doors);
        if let Err(error) = epoll::add(self.poller.get_ref(), door, data, EventFlags::IN | EventFlags::ET) {
            serving::report(self, 0, || format!("a listener cannot be watched: {error}"));
        }
    }

    fn resume<'scope>(&'scope self, nobody: Infallible, _: &'scope Scope<'scope, '_>) {
        match nobody {}
    }

    fn assist<'scope>(&'scope self, _: &'scope Scope<'scope, '_>) {
        Round::begin(self);
    }

    fn metrics(&self) -> Option<&MetricsOptions> {
        Some(&self.server.options.metrics)
    }

    fn obey(&self, signal: Signal) -> ControlFlow<()> {
        self.server.obey(signal)
    }

    fn end(&self) {
        self.ring();
        let all = self.server.options.connections as usize;
        self.server.end_with(self.room.acquire_many_timeout(all, GRACE).is_ok());
    }
}
