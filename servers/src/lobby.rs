//! A place without fibres for sessions whose clients are silent.
//!
//! A fibre that waits costs a page for its stack. A server has many connections, and few of them
//! are active. So a session ends its fibre when its client has been silent for a while between
//! requests. What the session needs to go on becomes a *guest* in the lobby: the connection, and
//! the little that is known of the client. A task waits at the connection. It has no stack and
//! takes 128 bytes. When the client sends something or closes the connection, the task *calls*. The
//! *doorman*, a fibre of the server, then gives the guest a fibre again.
//!
//! ```text
//!   a session's fibre               a task                    the doorman
//!   1  silence: enter the guest,    1  the client is heard    1  wait for a call
//!      spawn its task               2  call by the guest's    2  take the guest out,
//!   2  end                             number, end               spawn its fibre
//! ```
//!
//! **No client is missed.** Bytes that arrive after the session has ended are noted at the
//! connection: the kernel reports on it all the time, and the task looks there first. **No guest is
//! resumed twice.** A guest has one task, and the task calls once. The guest's number is free for
//! another guest only when the doorman has answered the call. **No guest stays behind.** When the
//! doorman is cancelled, it closes the lobby. That drops guests and tasks, and with them the
//! connections. A guest that comes later is refused.
//!
//! The stacks of ended fibres are kept warm for new fibres. When many sessions have moved to the
//! lobby, these stacks are not needed soon: after every 256 guests more, they are given back to the
//! kernel. Nothing here happens by the clock, so an idle server makes no system calls.

use crate::memory;
use sinew::sync::mpmc::{Receiver, Sender, channel};
use sinew::task::{self, AbortHandle};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Stacks are given back when there are this many more guests than at the last time. 256 stacks
/// hold about a megabyte, which may stay warm without need. Unmeasured.
const MANY: usize = 256;

/// Returns whether a read with a deadline ended because no bytes came. The kernel has an error of
/// the same kind, for a client that is gone.
pub fn is_silence(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none()
}

/// The guests, and the channel on which their tasks call the doorman.
pub struct Lobby<G> {
    /// No suspension happens under the lock.
    guests: Mutex<Guests<G>>,
    calls: Sender<u32>,
    called: Receiver<u32>,
}

struct Guests<G> {
    /// Indexed by the guests' numbers.
    places: Vec<Option<Guest<G>>>,
    /// Numbers without a guest.
    free: Vec<u32>,
    /// The smallest number of guests since stacks were given back.
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

    /// Returns whether there are [`MANY`] more guests than there were.
    fn have_grown(&mut self) -> bool {
        let count = self.count();
        let grown = count >= self.fewest + MANY;
        if grown {
            self.fewest = count;
        }
        grown
    }

    /// Returns a free number, with a place for its guest, or `None` if there is no memory.
    fn number(&mut self) -> Option<u32> {
        if memory::room_for_connection().is_err() {
            return None;
        }
        if let Some(number) = self.free.pop() {
            return Some(number);
        }
        // So a number can be freed without an allocation.
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
    /// Returns an empty lobby.
    pub fn new() -> Lobby<G> {
        let (calls, called) = channel();
        let guests = Guests { places: Vec::new(), free: Vec::new(), fewest: 0, is_closed: false };
        Lobby { guests: Mutex::new(guests), calls, called }
    }

    fn guests(&self) -> MutexGuard<'_, Guests<G>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of guests.
    pub fn count(&self) -> usize {
        self.guests().count()
    }

    /// Lets a guest wait until `heard` completes. A session's fibre ends after this call.
    ///
    /// # Errors
    /// Returns the guest if the lobby is closed, or if there is no memory for another guest.
    pub fn enter(&self, guest: G, heard: impl Future<Output = ()> + Send + 'static) -> Result<(), G> {
        let mut guests = self.guests();
        if guests.is_closed {
            return Err(guest);
        }
        let Some(number) = guests.number() else { return Err(guest) };
        let calls = self.calls.clone();
        // The doorman cannot answer before the guest is in its place: it needs the lock for that.
        let task = task::spawn(async move {
            heard.await;
            // This fails if the server has stopped.
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

    /// Runs the doorman: passes each guest to `admit` when its task calls, until this fibre is
    /// cancelled. Then closes the lobby.
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
    fn each_guest_is_resumed_once_when_its_task_calls() {
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
                // Numbers are used again.
                lobby.enter(1000, async {}).unwrap();
                assert_eq!(entries.recv(), Ok(1000));
                assert_eq!(lobby.guests().places.len(), 100);
                doorman.fibre().cancel();
            });
        });
    }

    #[test]
    fn a_closed_lobby_drops_guests_and_tasks_and_refuses_new_guests() {
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
                scope.spawn(|| lobby.attend(|_| panic!("no task has called"))).fibre().cancel();
            });
            assert_eq!((lobby.count(), Arc::strong_count(&guest)), (0, 1));
            assert!(lobby.enter(guest, async {}).is_err());
            // An aborted task drops its state when it runs for the last time.
            while Arc::strong_count(&connection) > 1 {
                sinew::yield_now();
            }
        });
    }

    #[test]
    fn stacks_are_given_back_when_the_number_of_guests_has_grown() {
        let mut guests: Guests<()> = Guests { places: Vec::new(), free: Vec::new(), fewest: 0, is_closed: false };
        let mut count_to = |count: usize| {
            guests.places.resize_with(count, || None);
            guests.fewest = guests.fewest.min(count);
            guests.have_grown()
        };
        assert!(!count_to(MANY - 1) && count_to(MANY) && !count_to(2 * MANY - 1) && count_to(2 * MANY));
        // Guests that come and go do not count.
        assert!(!count_to(2 * MANY - 10) && !count_to(2 * MANY) && !count_to(2 * MANY + 200));
        assert!(!count_to(100) && !count_to(100 + MANY - 1) && count_to(100 + MANY));
    }
}
