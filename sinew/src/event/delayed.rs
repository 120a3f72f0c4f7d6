//! Events that are posted later.

use super::colour::Colour;
use crate::processor::cluster::Cluster;
use crate::processor::spawn::SpawnError;
use crate::task::{AbortHandle, TaskBuilder};
use crate::time::sleep_async;
use std::time::Duration;

/// An event that will be posted: see [`Colour::post_after`]. Dropping this does not cancel it.
#[derive(Debug)]
pub struct Delayed {
    task: AbortHandle,
}

impl Delayed {
    pub(super) fn new<F>(colour: Colour, delay: Duration, f: F) -> Result<Delayed, SpawnError>
    where
        F: FnOnce() + Send + 'static,
    {
        let sleep = sleep_async(delay);
        let builder = TaskBuilder::new().cluster(&Cluster::of(colour.mailbox().cluster()));
        let task = builder.spawn(async move {
            sleep.await;
            drop(colour.post(f));
        })?;
        Ok(Delayed { task: task.abort_handle() })
    }

    /// Drops the event, unless it has been posted.
    pub fn cancel(self) {
        self.task.abort();
    }

    /// Returns whether the event has been posted or dropped.
    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }
}
