//! The handlers that count clients: they accept connections, and note their ends. Both have the same
//! colour, so they need no lock.

use super::World;
use super::connection::{Connection, Heard, Why};
use super::handlers::{ACCEPT, READ};
use crate::web::talk::Client;
use crate::{memory, serving};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use sinew::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The largest number of connections that one event accepts, so that ends are counted in between.
/// Unmeasured.
const BATCH: u32 = 32;

/// The time until the next attempt when no descriptor or no memory is left. The connection stays in
/// the backlog.
const REST: Duration = Duration::from_millis(50);

/// A listener.
#[derive(Clone, Copy)]
pub struct Door {
    pub world: &'static World,
    /// Its index in [`World::doors`].
    pub number: usize,
}

impl Door {
    /// Posts an `accept` event.
    pub fn open(self) {
        let _ = ACCEPT.post(&self.world.counting, self);
    }
}

/// Accepts until nobody waits, or until there are as many clients as there may be.
pub fn accept(door: Door) {
    let world = door.world;
    let doors = world.doors();
    let Some(listener) = doors.get(door.number).cloned() else { return };
    drop(doors);
    for _ in 0..BATCH {
        if world.server.is_stopping() {
            return;
        }
        if !world.room.try_wait() {
            // `decrement` goes on.
            world.are_waiting.store(true, Relaxed);
            return;
        }
        match accept_with(&listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(descriptor) => admit(world, descriptor),
            Err(error) => {
                world.room.post(1);
                match error {
                    Errno::AGAIN => return,
                    Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => return rest(door),
                    // The client is gone already.
                    Errno::INTR | Errno::CONNABORTED => {}
                    error => serving::report(&world, 1, || format!("accept: {error}")),
                }
            }
        }
    }
    door.open();
}

#[cold]
fn rest(door: Door) {
    // This fails if the runtime ends.
    let _ = door.world.counting.post_after(REST, move || door.open());
}

fn admit(world: &'static World, descriptor: OwnedFd) {
    if memory::room_for_connection().is_err() {
        world.room.post(1);
        return serving::report(&world, 1, || "no memory for a connection".to_owned());
    }
    let stream = TcpStream::from(descriptor);
    // A client that has gone already has no address. Its line in the log does not matter.
    let address = world.server.log.as_ref().and_then(|_| stream.peer_addr().ok());
    let connection = world.table().add(|number| Connection::new(world, stream, Client { address }, number));
    // Most clients have sent their request before they are accepted.
    let _ = READ.post(&Arc::clone(&connection).colour, Heard { connection, why: Why::Bytes });
}

/// Notes the end of a connection. Its socket is closed when no event has it any more.
pub fn decrement(connection: Arc<Connection>) {
    let world = connection.world;
    let is_last = world.table().remove(connection.number);
    drop(connection);
    world.room.post(1);
    if world.are_waiting.swap(false, Relaxed) {
        (0..world.doors().len()).for_each(|number| Door { world, number }.open());
    }
    if is_last && world.server.is_stopping() {
        world.ring();
    }
}
