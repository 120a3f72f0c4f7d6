//! Where sessions wait whose clients say nothing: without a fibre.
//!
//! A fibre that waits costs a page, for its stack, and a server has many connections of which
//! few are at work. So a session whose client has been silent for a while, between requests,
//! ends its fibre. What it takes to go on is a *guest* in the lobby: the connection, and the
//! little that the session has learnt of it. A task waits at the connection, which has no stack
//! and takes 128 bytes. When the client says something, or goes, the task *calls*, and the
//! *doorman*, a fibre of the server, lets the guest in: to a fibre of its own again.
//!
//! ```text
//!   a session's fibre               a task                    the doorman
//!   1  silence: enter the guest,    1  the client is heard    1  wait for a call
//!      spawn its task               2  call by the guest's    2  take the guest out,
//!   2  end                             number, end               spawn its fibre
//! ```
//!
//! **Nobody is missed.** What a client says after the session has given up is noted where the
//! task looks first: at its connection, of which the kernel has reported all along. **Nobody is
//! let in twice.** A guest has one task, which calls once, and its number is another's only when
//! the doorman has answered that call. **Nobody stays behind.** When the doorman is cancelled he
//! closes the lobby: guests and tasks are dropped, and with them their connections; who comes
//! later is turned away.
//!
//! The stacks of fibres that end are kept warm for those to come. When many sessions have gone
//! to the lobby they are not needed soon, so every few hundredth has them given back to the
//! kernel. Nothing of this happens by the clock: a server with nothing to do makes no calls.

use crate::memory;
use sinew::sync::mpmc::{Receiver, Sender, channel};
use sinew::task::{self, AbortHandle};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// When there are so many more guests than at the last time, stacks are given back: a megabyte,
/// mostly. So many may stay warm without need. Unmeasured.
const MANY: usize = 256;

/// Whether a read that had a deadline ended because nothing came. The kernel has an error of
/// the same kind, for a client that is gone.
pub fn is_silence(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none()
}

/// Guests, and the way to call the doorman.
pub struct Lobby<G> {
    /// No suspension happens under the lock.
    guests: Mutex<Guests<G>>,
    calls: Sender<u32>,
    called: Receiver<u32>,
}

struct Guests<G> {
    /// By number.
    places: Vec<Option<Guest<G>>>,
    /// Numbers that nobody has.
    free: Vec<u32>,
    /// The fewest that there were since stacks were given back.
    fewest: usize,
    is_closed: bool,
}

struct Guest<G> {
    itself: G,
    task: AbortHandle,
}

impl<G> Guests<G> {
    fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether there are many more than there were.
    fn have_grown(&mut self) -> bool {
        let count = self.count();
        let grown = count >= self.fewest + MANY;
        if grown {
            self.fewest = count;
        }
        grown
    }

    /// A number that nobody has, and a place for its guest; `None` if there is no memory.
    fn number(&mut self) -> Option<u32> {
        if memory::room_for_connection().is_err() {
            return None;
        }
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        // Every number can be given back without growing anything.
        self.free.try_reserve(self.places.len() + 1).ok()?;
        self.places.try_reserve(1).ok()?;
        self.places.push(None);
        Some(self.places.len() as u32 - 1)
    }

    fn take(&mut self, number: u32) -> Option<Guest<G>> {
        let guest = self.places.get_mut(number as usize)?.take()?;
        self.free.push(number);
        self.fewest = self.fewest.min(self.count());
        Some(guest)
    }
}

impl<G> Lobby<G> {
    /// An empty one.
    pub fn new() -> Lobby<G> {
        let (calls, called) = channel();
        let guests = Guests { places: Vec::new(), free: Vec::new(), fewest: 0, is_closed: false };
        Lobby { guests: Mutex::new(guests), calls, called }
    }

    fn guests(&self) -> MutexGuard<'_, Guests<G>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many wait here.
    pub fn count(&self) -> usize {
        self.guests().count()
    }

    /// Lets a guest wait until `heard` is done. The last that a session's fibre does.
    ///
    /// # Errors
    /// The guest itself, if the lobby is closed or there is no memory for one more.
    pub fn enter(&self, guest: G, heard: impl Future<Output = ()> + Send + 'static) -> Result<(), G> {
        let mut guests = self.guests();
        if guests.is_closed {
            return Err(guest);
        }
        let Some(number) = guests.number() else { return Err(guest) };
        let calls = self.calls.clone();
        // It cannot be answered before the guest is in its place, for that takes the lock.
        let task = task::spawn(async move {
            heard.await;
            // Nobody answers if the server has stopped.
            let _ = calls.send(number);
        });
        guests.places[number as usize] = Some(Guest { itself: guest, task: task.abort_handle() });
        let has_grown = guests.have_grown();
        drop(guests);
        if has_grown {
            sinew::memory::trim();
        }
        Ok(())
    }

    /// The doorman: gives guests to `admit` when they are called, until this fibre is cancelled.
    /// Then the lobby is closed.
    pub fn attend(&self, mut admit: impl FnMut(G)) {
        while let Ok(number) = self.called.recv() {
            let called = self.guests().take(number);
            if let Some(guest) = called {
                admit(guest.itself);
            }
        }
        self.close();
    }

    fn close(&self) {
        let mut guests = self.guests();
        guests.is_closed = true;
        let left = std::mem::take(&mut guests.places);
        guests.free.clear();
        drop(guests);
        left.iter().flatten().for_each(|guest| guest.task.abort());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew::sync::oneshot;
    use std::sync::Arc;

    #[test]
    fn guests_are_let_in_when_they_are_called_each_once() {
        sinew::run(|| {
            let lobby = Lobby::new();
            let (admitted, entries) = channel();
            sinew::scope(|scope| {
                let doorman = scope.spawn(|| lobby.attend(|guest| admitted.send(guest).unwrap()));
                let mut callers: Vec<_> = (0..100)
                    .map(|number| {
                        let (caller, mut called) = oneshot::channel();
                        lobby.enter(number, async move { called.recv_async().await.unwrap() }).unwrap();
                        Some(caller)
                    })
                    .collect();
                assert_eq!(lobby.count(), 100);
                for number in (0..100).rev().step_by(2) {
                    callers[number].take().unwrap().send(()).unwrap();
                    assert_eq!(entries.recv(), Ok(number));
                }
                assert_eq!((lobby.count(), entries.len()), (50, 0));
                // Their numbers are used again.
                lobby.enter(1000, async {}).unwrap();
                assert_eq!(entries.recv(), Ok(1000));
                assert_eq!(lobby.guests().places.len(), 100);
                doorman.fibre().cancel();
            });
        });
    }

    #[test]
    fn a_lobby_that_closes_drops_guests_and_tasks_and_turns_others_away() {
        sinew::run(|| {
            let lobby = Lobby::new();
            let (guest, connection) = (Arc::new(()), Arc::new(()));
            sinew::scope(|scope| {
                for _ in 0..10 {
                    let connection = Arc::clone(&connection);
                    let waits = async move {
                        std::future::pending::<()>().await;
                        drop(connection);
                    };
                    lobby.enter(Arc::clone(&guest), waits).unwrap();
                }
                scope.spawn(|| lobby.attend(|_| panic!("nobody was called"))).fibre().cancel();
            });
            assert_eq!((lobby.count(), Arc::strong_count(&guest)), (0, 1));
            assert!(lobby.enter(guest, async {}).is_err());
            // Aborted tasks drop what they have when their turn comes.
            while Arc::strong_count(&connection) > 1 {
                sinew::yield_now();
            }
        });
    }

    #[test]
    fn stacks_are_given_back_when_guests_are_many_more_than_they_were() {
        let mut guests: Guests<()> = Guests { places: Vec::new(), free: Vec::new(), fewest: 0, is_closed: false };
        let mut count_to = |count: usize| {
            guests.places.resize_with(count, || None);
            guests.fewest = guests.fewest.min(count);
            guests.have_grown()
        };
        assert!(!count_to(MANY - 1) && count_to(MANY) && !count_to(2 * MANY - 1) && count_to(2 * MANY));
        // Those who come and go are not many more.
        assert!(!count_to(2 * MANY - 10) && !count_to(2 * MANY) && !count_to(2 * MANY + 200));
        assert!(!count_to(100) && !count_to(100 + MANY - 1) && count_to(100 + MANY));
    }
}
