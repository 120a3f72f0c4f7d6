//! Actors by name.

use super::address::{Address, WeakAddress};
use super::traits::Actor;
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{PoisonError, RwLock};

/// Actors that can be found by their type and a name. Mostly a `static`. It does not keep its actors: one that has ended is
/// found no more, and its name is free.
///
/// ```
/// use sinew::actor::{self, Actor, Registry};
///
/// struct Printer;
/// impl Actor for Printer {}
///
/// static ACTORS: Registry = Registry::new();
///
/// sinew::run(|| {
///     let printer = actor::spawn(Printer);
///     ACTORS.register("first floor", &printer).unwrap();
///     assert_eq!(ACTORS.find::<Printer>("first floor"), Some(printer));
/// });
/// ```
pub struct Registry {
    names: RwLock<BTreeMap<(TypeId, Box<str>), Entry>>,
}

/// A `WeakAddress` of an actor of the type that the entry is for.
type Entry = Box<dyn Any + Send + Sync>;

/// A name is taken: by an actor of the same type that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameTaken;

impl fmt::Display for NameTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another actor of this type has the name")
    }
}

impl std::error::Error for NameTaken {}

impl Registry {
    /// Makes an empty registry.
    #[must_use]
    pub const fn new() -> Registry {
        Registry { names: RwLock::new(BTreeMap::new()) }
    }

    /// Gives an actor a name. It may have several.
    ///
    /// # Errors
    /// The name is taken.
    pub fn register<A: Actor>(&self, name: &str, address: &Address<A>) -> Result<(), NameTaken> {
        let key = (TypeId::of::<A>(), name.into());
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        // Kept until the lock is released: it may be the last address of its actor.
        let holder = names.get(&key).and_then(|entry| alive::<A>(&**entry));
        if holder.is_none() {
            names.insert(key, Box::new(address.downgrade()));
        }
        drop(names);
        if holder.is_none() { Ok(()) } else { Err(NameTaken) }
    }

    /// Returns the actor of type `A` that has this name.
    pub fn find<A: Actor>(&self, name: &str) -> Option<Address<A>> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        names.get(&(TypeId::of::<A>(), name.into())).and_then(|entry| alive::<A>(&**entry))
    }

    /// Makes a name free.
    pub fn forget<A: Actor>(&self, name: &str) {
        let key = (TypeId::of::<A>(), name.into());
        let removed = self.names.write().unwrap_or_else(PoisonError::into_inner).remove(&key);
        drop(removed);
    }
}

/// Returns the actor of an entry, unless it has ended.
fn alive<A: Actor>(entry: &(dyn Any + Send + Sync)) -> Option<Address<A>> {
    let address = entry.downcast_ref::<WeakAddress<A>>()?.upgrade()?;
    address.is_alive().then_some(address)
}

impl Default for Registry {
    fn default() -> Registry {
        Registry::new()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Registry").field("names", &names.len()).finish()
    }
}
