//! A colour for each key.

use super::colour::Colour;
use super::errors::{NoTurn, Rejected};
use super::turn;
use crate::mailbox::{self, Content, Mailbox};
use crate::processor::cluster::Cluster;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of parts that the keys are spread over, so that processors rarely want the same lock.
/// Unmeasured.
const PARTS: usize = 64;

/// One colour for each key: events with equal keys run one after the other. A colour is made for the first
/// event, and freed when none is left. So a million keys cost nothing while they are idle.
///
/// ```
/// use sinew::event::Colours;
/// use std::sync::{Arc, Mutex};
///
/// sinew::run(|| {
///     let accounts = Colours::new();
///     let log = Arc::new(Mutex::new(Vec::new()));
///     for number in 0..3 {
///         let log = Arc::clone(&log);
///         accounts.post("alice", move || log.lock().unwrap().push(number)).unwrap();
///     }
///     accounts.run("alice", || assert_eq!(*log.lock().unwrap(), [0, 1, 2])).unwrap();
/// });
/// ```
pub struct Colours<K> {
    map: Arc<Map<K>>,
    cluster: Option<Cluster>,
}

struct Map<K> {
    parts: [Mutex<HashMap<K, Colour>>; PARTS],
    hasher: RandomState,
}

impl<K> Map<K> {
    fn part(&self, key: &K) -> MutexGuard<'_, HashMap<K, Colour>>
    where
        K: Hash,
    {
        let number = self.hasher.hash_one(key) as usize % PARTS;
        // No code of the program runs under the lock but `Hash`, `Eq` and `Clone` of the key.
        self.parts[number].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A closure, and what is dropped after it.
struct Followed<F, D> {
    first: F,
    then: D,
}

impl<F: FnOnce(), D> Content for Followed<F, D> {
    fn run(self, _: &Mailbox) {
        let _then = self.then;
        (self.first)();
    }
}

/// Takes the colour of a key out of the map when its last event has run.
struct Leave<K: Hash + Eq> {
    map: Arc<Map<K>>,
    key: K,
}

impl<K: Hash + Eq> Drop for Leave<K> {
    fn drop(&mut self) {
        let mut part = self.map.part(&self.key);
        // An event that was rejected is dropped elsewhere.
        let is_last =
            part.get(&self.key).is_some_and(|colour| colour.is_current() && colour.mailbox().has_no_more_letters());
        let colour = if is_last { part.remove(&self.key) } else { None };
        drop(part);
        drop(colour);
    }
}

impl<K: Hash + Eq + Clone + Send + 'static> Colours<K> {
    /// Makes an empty set of colours. They belong to the cluster of the caller that posts their first event.
    pub fn new() -> Colours<K> {
        let parts = std::array::from_fn(|_| Mutex::default());
        Colours { map: Arc::new(Map { parts, hasher: RandomState::new() }), cluster: None }
    }

    /// Makes an empty set of colours that belong to `cluster`.
    pub fn on(cluster: &Cluster) -> Colours<K> {
        Colours { cluster: Some(cluster.clone()), ..Colours::new() }
    }

    /// Posts a closure: it runs after all events with an equal key that have been posted before, and never
    /// at the same time as one of them.
    ///
    /// # Errors
    /// The runtime has ended.
    ///
    /// # Panics
    /// If the set belongs to no cluster, and the caller is neither a fibre nor a task nor an event.
    pub fn post<F: FnOnce() + Send + 'static>(&self, key: K, f: F) -> Result<(), Rejected<F>> {
        let mut part = self.map.part(&key);
        let colour = part.entry(key.clone()).or_insert_with(|| self.make());
        let leave = Leave { map: Arc::clone(&self.map), key };
        let event = Followed { first: f, then: leave };
        let posted = colour.post_content(colour.mailbox().meter(), 1, event);
        // Its parts are dropped without the lock.
        drop(part);
        mailbox::spend();
        posted.map_err(|rejected| rejected.map(|event| event.first))
    }

    /// Runs a closure in its turn, as [`Colour::run`] does.
    ///
    /// # Errors
    /// As `Colour::run`.
    ///
    /// # Panics
    /// As `Colour::run` and [`post`](Colours::post).
    pub fn run<R: Send>(&self, key: K, f: impl FnOnce() -> R + Send) -> Result<R, NoTurn> {
        let mut part = self.map.part(&key);
        let colour = part.entry(key.clone()).or_insert_with(|| self.make()).clone();
        if colour.is_current() {
            return Err(NoTurn::Within);
        }
        let leave = Leave { map: Arc::clone(&self.map), key };
        let event = move || {
            let _leave = leave;
            f()
        };
        // Posted under the lock: otherwise the colour might have left the map, and another one taken its place.
        turn::run(colour.mailbox(), event, || drop(part))
    }

    /// Returns the number of keys that have events.
    pub fn len(&self) -> usize {
        let len = |part: &Mutex<HashMap<K, Colour>>| part.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.map.parts.iter().map(len).sum()
    }

    /// Returns whether no key has events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[track_caller]
    fn make(&self) -> Colour {
        match &self.cluster {
            Some(cluster) => Colour::builder().cluster(cluster).build(),
            None => Colour::new(),
        }
    }
}

impl<K: Hash + Eq + Clone + Send + 'static> Default for Colours<K> {
    fn default() -> Self {
        Colours::new()
    }
}

impl<K> Clone for Colours<K> {
    fn clone(&self) -> Self {
        Colours { map: Arc::clone(&self.map), cluster: self.cluster.clone() }
    }
}

impl<K> fmt::Debug for Colours<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Colours").finish_non_exhaustive()
    }
}
