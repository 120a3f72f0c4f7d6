//! The listeners for signals, and the thread that tells them.
//!
//! The *dispatcher* is a kernel thread. It is started for the first listener, and sleeps until the
//! handler wakes it. It sends each caught signal to the channels of its listeners, as any thread
//! sends a message: so fibres, tasks and kernel threads of every runtime are told alike.
//!
//! A channel holds each signal once at most. The dispatcher is the only sender and numbers its
//! messages. A channel is first in, first out. So its length says which number was received last,
//! and whether the last message about a signal still waits.

use super::handler::{self, Before};
use super::number::{Set, Signal};
use crate::base::fork;
use crate::io::Home;
use crate::sync::mpmc;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { listeners: BTreeMap::new(), caught: BTreeMap::new(), last_key: 0, has_dispatcher: false });

struct Registry {
    listeners: BTreeMap<u64, Listener>,
    /// The signals for which our handler is installed, and the actions before it. A signal without
    /// listeners stays here while a later handler may call ours.
    caught: BTreeMap<Signal, Before>,
    last_key: u64,
    has_dispatcher: bool,
}

struct Listener {
    signals: Set,
    channel: mpmc::Sender<Signal>,
    /// The number of messages that were sent.
    sent: u64,
    /// The number of the last message about each signal.
    last: BTreeMap<Signal, u64>,
}

/// The place of a listener. Dropping it ends the listening.
#[derive(Debug)]
pub(super) struct Place(u64);

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets a channel receive these signals.
///
/// # Errors
/// The kernel's.
pub(super) fn listen(signals: Set, channel: mpmc::Sender<Signal>) -> io::Result<Place> {
    fork::check();
    let mut registry = registry();
    registry.start_dispatcher()?;
    registry.last_key += 1;
    let key = registry.last_key;
    registry.listeners.insert(key, Listener { signals, channel, sent: 0, last: BTreeMap::new() });
    let installed = signals.iter().try_for_each(|signal| registry.catch(signal));
    drop(registry);
    // If a signal could not be caught, the drop gives the others back.
    let place = Place(key);
    installed.map(|()| place)
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut registry = registry();
        let listener = registry.listeners.remove(&self.0);
        if let Some(listener) = &listener {
            listener.signals.iter().for_each(|signal| registry.release(signal));
        }
        drop(registry);
    }
}

impl Registry {
    fn start_dispatcher(&mut self) -> io::Result<()> {
        if !self.has_dispatcher {
            // In the main event scope: the thread outlives all others.
            Home::main().spawn("sinew-signals".to_owned(), dispatch)?;
            self.has_dispatcher = true;
        }
        Ok(())
    }

    fn catch(&mut self, signal: Signal) -> io::Result<()> {
        if let Entry::Vacant(place) = self.caught.entry(signal) {
            place.insert(handler::install(signal)?);
        }
        Ok(())
    }

    /// Stops catching a signal that has no listener.
    fn release(&mut self, signal: Signal) {
        let is_wanted = self.listeners.values().any(|listener| listener.signals.contains(signal));
        if !is_wanted && self.caught.get(&signal).is_some_and(|before| handler::restore(signal, before)) {
            self.caught.remove(&signal);
        }
    }
}

impl Listener {
    /// Notes the signals that are to be sent: all but those whose last message still waits.
    fn note(&mut self, caught: Set) -> Vec<Signal> {
        let received = self.sent - self.channel.len() as u64;
        let waits = |signal: &Signal| self.last.get(signal).is_some_and(|last| *last > received);
        let wanted = caught.iter().filter(|signal| self.signals.contains(*signal));
        let to_send: Vec<_> = wanted.filter(|signal| !waits(signal)).collect();
        for signal in &to_send {
            self.sent += 1;
            self.last.insert(*signal, self.sent);
        }
        to_send
    }
}

/// The life of the dispatcher.
fn dispatch() {
    loop {
        let caught = handler::take_caught();
        let mut registry = registry();
        let noted = registry.listeners.values_mut().map(|listener| (listener.channel.clone(), listener.note(caught)));
        let noted: Vec<_> = noted.collect();
        drop(registry);
        // A send may call the waker of a future, which is the code of others: not under the lock.
        for (channel, signals) in noted {
            for signal in signals {
                // A listener that is gone needs no signal.
                let _ = channel.send(signal);
            }
        }
    }
}
