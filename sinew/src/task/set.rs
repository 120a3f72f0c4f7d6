//! Several tasks, joined as they end.

use super::block_on::block_on;
use super::handle::{AbortHandle, JoinError, JoinHandle};
use super::spawn::{spawn, spawn_local};
use crate::base::Deadline;
use crate::sync::mpsc::{Receiver, Sender, channel};
use crate::time::{Elapsed, deadline_async, timeout_async, until_async};
use crate::wait::carried;
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A set of tasks, which are joined in the order in which they end. When the set is dropped,
/// it aborts the tasks that are left.
///
/// ```
/// use sinew::task::JoinSet;
/// sinew::run(|| {
///     let mut set = JoinSet::new();
///     (1..=10).for_each(|n| drop(set.spawn(async move { n * n })));
///     let mut total = 0;
///     // In a task: `set.join_next_async().await`.
///     while let Some(square) = set.join_next() {
///         total += square.unwrap();
///     }
///     assert_eq!(total, 385);
/// });
/// ```
///
/// A task inherits the time limit of its spawner: of a fibre in [`timeout`](crate::time::timeout), and
/// of a task in [`timeout_async`] or of a set. At the end of that time the task's future is dropped. Then
/// [`JoinError::is_overdue`] returns `true`. The task itself carries the limit: `cancel::check` notices
/// it, and the tasks that it spawns in a set inherit it.
///
/// ```
/// use sinew::{task::JoinSet, time};
/// use std::{future::pending, time::Duration};
/// sinew::run(|| {
///     let mut set = JoinSet::<()>::new();
///     time::timeout(Duration::from_millis(2), || set.spawn(pending()));
///     assert!(set.join_next().unwrap().unwrap_err().is_overdue());
/// });
/// ```
pub struct JoinSet<T> {
    /// The tasks that have not been joined, by number.
    handles: HashMap<u64, JoinHandle<Result<T, Elapsed>>>,
    /// The number of the task that was spawned last.
    last: u64,
    /// The numbers of the tasks that have ended, or are about to.
    ended: Receiver<u64>,
    notices: Sender<u64>,
}

/// Part of a task's future. Its drop reports that the task has ended: by a result, a panic or
/// an abort.
struct Notice {
    number: u64,
    notices: Sender<u64>,
}

impl Drop for Notice {
    fn drop(&mut self) {
        // An error means that the set is gone.
        let _ = self.notices.send(self.number);
    }
}

impl<T: 'static> JoinSet<T> {
    /// Returns an empty set.
    #[must_use]
    pub fn new() -> Self {
        let (notices, ended) = channel();
        JoinSet { handles: HashMap::new(), last: 0, ended, notices }
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
        let deadline = carried().deadline;
        self.enter(match deadline.is_never() {
            true => spawn(noticed(notice, future)),
            false => spawn(noticed_until(deadline, notice, future)),
        })
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
        let deadline = carried().deadline;
        self.enter(match deadline.is_never() {
            true => spawn_local(noticed(notice, future)),
            false => spawn_local(noticed_until(deadline, notice, future)),
        })
    }

    fn notice(&mut self) -> Notice {
        self.last += 1;
        Notice { number: self.last, notices: self.notices.clone() }
    }

    fn enter(&mut self, handle: JoinHandle<Result<T, Elapsed>>) -> AbortHandle {
        let abort = handle.abort_handle();
        self.handles.insert(self.last, handle);
        abort
    }
}

impl<T> JoinSet<T> {
    /// Returns the number of tasks that have not been joined.
    #[must_use]
    pub fn len(&self) -> usize {
        self.handles.len()
    }

    /// Returns whether all tasks have been joined.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// Aborts all tasks. They stay in the set until they are joined.
    pub fn abort_all(&mut self) {
        self.handles.values().for_each(JoinHandle::abort);
    }

    /// Removes all tasks from the set and lets them run on.
    pub fn detach_all(&mut self) {
        self.handles.clear();
    }

    /// Waits for the next task that ends and returns its result. Returns `None` if the set is
    /// empty. Blocks the calling fibre, or the kernel thread that runs none.
    ///
    /// # Panics
    /// In a task, if it would have to wait.
    pub fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        match self.try_join_next() {
            None if !self.is_empty() => block_on(self.join_next_async()),
            joined => joined,
        }
    }

    /// Waits as [`join_next`](JoinSet::join_next) does, but no longer than `timeout`.
    ///
    /// # Errors
    /// [`Elapsed`] if no task ended in time.
    ///
    /// # Panics
    /// In a task.
    pub fn join_next_timeout(&mut self, timeout: Duration) -> Result<Option<Result<T, JoinError>>, Elapsed> {
        block_on(timeout_async(timeout, self.join_next_async()))
    }

    /// Waits as [`join_next`](JoinSet::join_next) does, but not beyond `deadline`.
    ///
    /// # Errors
    /// [`Elapsed`] if no task ended in time.
    ///
    /// # Panics
    /// In a task.
    pub fn join_next_deadline(&mut self, deadline: Instant) -> Result<Option<Result<T, JoinError>>, Elapsed> {
        block_on(deadline_async(deadline, self.join_next_async()))
    }

    /// The form of [`join_next`](JoinSet::join_next) for tasks. If the future is dropped before
    /// it is ready, no task has been joined.
    pub async fn join_next_async(&mut self) -> Option<Result<T, JoinError>> {
        while !self.handles.is_empty() {
            let number = match self.ended.try_recv() {
                Ok(number) => number,
                Err(_) => self.ended.recv_async().await.ok()?,
            };
            let Some(handle) = self.handles.get_mut(&number) else {
                // The task was detached.
                continue;
            };
            let joining = Joining { notices: &self.notices, number: Some(number), handle };
            let result = joining.await;
            self.handles.remove(&number);
            return Some(result.and_then(|ended| ended.map_err(|Elapsed| JoinError::overdue())));
        }
        None
    }

    /// Returns the result of a task that has ended, if there is one. Does not wait.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(self.join_next_async()).poll(&mut context) {
            Poll::Ready(result) => result,
            Poll::Pending => None,
        }
    }
}

/// Joins a task whose notice has been received. If this is dropped before the task has ended,
/// it sends the notice again.
struct Joining<'a, T> {
    notices: &'a Sender<u64>,
    /// The task's number, until the task is joined.
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
            let _ = self.notices.send(number);
        }
    }
}

async fn noticed<F: Future>(notice: Notice, future: F) -> Result<F::Output, Elapsed> {
    let _notice = notice;
    Ok(future.await)
}

/// As [`noticed`], for a task that inherits a deadline.
async fn noticed_until<F: Future>(deadline: Deadline, notice: Notice, future: F) -> Result<F::Output, Elapsed> {
    let _notice = notice;
    until_async(deadline, future).await
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
        let finished = self.handles.values().filter(|handle| handle.is_finished()).count();
        f.debug_struct("JoinSet").field("len", &self.len()).field("finished", &finished).finish()
    }
}
