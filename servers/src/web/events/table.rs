//! All connections, by their numbers.

use super::connection::Connection;
use std::sync::Arc;

/// The connections. The numbers of those that have ended are used again.
#[derive(Default)]
pub struct Table {
    places: Vec<Option<Arc<Connection>>>,
    free: Vec<u32>,
}

impl Table {
    /// Adds a connection, which `make` makes from its number.
    pub fn add(&mut self, make: impl FnOnce(u32) -> Connection) -> Arc<Connection> {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        let connection = Arc::new(make(number));
        self.places[number as usize] = Some(Arc::clone(&connection));
        connection
    }

    /// Returns the connection with this number. A report may be about an older one that had the
    /// number: the newer one then finds nothing to receive.
    pub fn get(&self, number: u32) -> Option<&Arc<Connection>> {
        self.places.get(number as usize)?.as_ref()
    }

    /// Removes a connection. Returns whether it was the last one.
    pub fn remove(&mut self, number: u32) -> bool {
        self.places[number as usize] = None;
        self.free.push(number);
        self.is_empty()
    }

    /// Returns all connections.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Connection>> {
        self.places.iter().flatten()
    }

    /// Returns whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.places.len() == self.free.len()
    }
}
