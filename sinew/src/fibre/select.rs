//! Waiting in a [`Select`](crate::sync::Select) until a fibre has finished.

use super::handle::JoinHandle;
use super::scope::ScopedJoinHandle;
use crate::sync::SelectJoin;
use crate::wait::Finishing;

impl<T> SelectJoin for JoinHandle<T> {
    /// A fibre that waits for itself does not wait: its join returns an error.
    async fn finished_async(&mut self) {
        if !self.is_caller() {
            Finishing::new(self.record().join()).await;
        }
    }
}

impl<T> SelectJoin for ScopedJoinHandle<'_, T> {
    async fn finished_async(&mut self) {
        self.handle_mut().finished_async().await;
    }
}
