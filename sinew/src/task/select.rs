//! Waiting in a [`Select`](crate::sync::Select) until a task has ended.

use super::handle::JoinHandle;
use crate::sync::SelectJoin;
use crate::wait::Finishing;

impl<T> SelectJoin for JoinHandle<T> {
    async fn finished_async(&mut self) {
        Finishing::new(self.free_word()).await;
    }
}
