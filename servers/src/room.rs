//! The number of connections that a server may have.

use sinew::sync::Semaphore;
use std::sync::Arc;
use std::time::Duration;

/// Room for a number of connections.
pub struct Room {
    /// One permit for each connection, and one for each listener but the first: a listener takes a
    /// permit before it waits for a client.
    permits: Arc<Semaphore>,
    count: usize,
}

impl Room {
    /// Returns room for `connections` that come to this number of listeners.
    pub fn new(connections: u32, listeners: usize) -> Room {
        let count = connections as usize + listeners - 1;
        Room { permits: Arc::new(Semaphore::new(count)), count }
    }

    /// Waits for room for another connection.
    pub fn take(&self) -> Permit {
        self.permits.wait();
        Permit(Arc::clone(&self.permits))
    }

    /// Waits until all connections have ended. Returns whether they did within `patience`.
    pub fn empties(&self, patience: Duration) -> bool {
        self.permits.acquire_many_timeout(self.count, patience).is_ok()
    }
}

/// Room for one connection, which holds it.
pub struct Permit(Arc<Semaphore>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.post(1);
    }
}
