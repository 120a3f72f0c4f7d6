//! Several tasks, joined as they end.

use super::handle::{AbortHandle, JoinError, JoinHandle};
use super::spawn::{spawn, spawn_local};
use crate::sync::mpsc::{Receiver, Sender, channel};
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A set of tasks, which are joined in the order in which they end. Dropped, it aborts
/// those that are left.
///
/// ```
/// use sinew::task::JoinSet;
/// sinew::run(|| {
///     let mut set = JoinSet::new();
///     (1..=10).for_each(|n| drop(set.spawn(async move { n * n })));
///     let total: u32 = sinew::block_on(async {
///         let mut total = 0;
///         while let Some(square) = set.join_next().await {
///             total += square.unwrap();
///         }
///         total
///     });
///     assert_eq!(total, 385);
/// });
/// ```
pub struct JoinSet<T> {
    handles: HashMap<u64, JoinHandle<T>>,
    next: u64,
    /// The numbers of those that have ended, or are just about to.
    ended: Receiver<u64>,
    notices: Sender<u64>,
}

/// Says that a task has ended, however it did, when it is dropped with its future.
struct Notice {
    number: u64,
    notices: Sender<u64>,
}

impl Drop for Notice {
    fn drop(&mut self) {
        // If the set is gone nobody wants to know.
        let _ = self.notices.send(self.number);
    }
}

impl<T: 'static> JoinSet<T> {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        let (notices, ended) = channel();
        JoinSet { handles: HashMap::new(), next: 0, ended, notices }
    }

    /// Starts a task as [`spawn`](super::spawn()) does.
    ///
    /// # Panics
    /// As `spawn`.
    #[track_caller]
    pub fn spawn<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        let notice = self.notice();
        self.enter(spawn(noticed(notice, future)))
    }

    /// Starts a task as [`spawn_local`](super::spawn_local()) does.
    ///
    /// # Panics
    /// As `spawn_local`.
    #[track_caller]
    pub fn spawn_local<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        let notice = self.notice();
        self.enter(spawn_local(noticed(notice, future)))
    }

    fn notice(&mut self) -> Notice {
        self.next += 1;
        Notice { number: self.next, notices: self.notices.clone() }
    }

    fn enter(&mut self, handle: JoinHandle<T>) -> AbortHandle {
        let abort = handle.abort_handle();
        self.handles.insert(self.next, handle);
        abort
    }
}

impl<T> JoinSet<T> {
    /// How many tasks have not been joined.
    #[must_use]
    pub fn len(&self) -> usize {
        self.handles.len()
    }

    /// Whether all have been joined.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// Aborts all tasks. They are joined as others are.
    pub fn abort_all(&mut self) {
        self.handles.values().for_each(JoinHandle::abort);
    }

    /// Lets all tasks go on by themselves.
    pub fn detach_all(&mut self) {
        self.handles.clear();
    }

    /// Waits for the next task that ends; `None` when the set is empty. A fibre calls this
    /// by [`block_on`](super::block_on()). A future of this that is dropped has joined
    /// nothing.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        while !self.handles.is_empty() {
            let number = match self.ended.try_recv() {
                Ok(number) => number,
                Err(_) => self.ended.recv_async().await.ok()?,
            };
            let Some(handle) = self.handles.get_mut(&number) else {
                // It was detached.
                continue;
            };
            let joining = Joining { set_ended: &self.notices, number: Some(number), handle };
            let result = joining.await;
            self.handles.remove(&number);
            return Some(result);
        }
        None
    }

    /// As [`join_next`](JoinSet::join_next), if one has ended.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(self.join_next()).poll(&mut context) {
            Poll::Ready(result) => result,
            Poll::Pending => None,
        }
    }
}

/// Joins a task whose notice has been taken. If this is dropped, the notice is given again.
struct Joining<'a, T> {
    set_ended: &'a Sender<u64>,
    number: Option<u64>,
    handle: &'a mut JoinHandle<T>,
}

impl<T> Future for Joining<'_, T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut *self.handle).poll(context);
        if polled.is_ready() {
            self.number = None;
        }
        polled
    }
}

impl<T> Drop for Joining<'_, T> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let _ = self.set_ended.send(number);
        }
    }
}

async fn noticed<F: Future>(notice: Notice, future: F) -> F::Output {
    let _notice = notice;
    future.await
}

impl<T: 'static> Default for JoinSet<T> {
    fn default() -> Self {
        JoinSet::new()
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.abort_all();
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish_non_exhaustive()
    }
}
