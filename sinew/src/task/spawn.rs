//! Spawning.

use super::handle::{JoinHandle, abort};
use super::memory::{create, create_bound, join_of};
use crate::processor::cluster::Cluster;
use crate::processor::roll::{Ending, Roll};
use crate::processor::spawn::{Origin, SpawnError};
use crate::processor::with_current;
use crate::strand::{Priority, Strand};
use std::panic::Location;

/// Starts a task on the cluster of the caller, which is a fibre or another task.
///
/// ```
/// sinew::run(|| {
///     let task = sinew::task::spawn(async { 6 * 7 });
///     // A fibre joins it; a task would await it.
///     assert_eq!(task.join().unwrap(), 42);
/// });
/// ```
///
/// # Panics
/// If the caller is neither a fibre nor a task: then there is no runtime. If the caller is a waker that
/// a processor calls, and the runtime has ended.
#[track_caller]
#[inline]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match TaskBuilder::new().spawn(future) {
        Ok(handle) => handle,
        Err(error) => error.panic("spawn a task"),
    }
}

/// Starts a task whose future need not be `Send`. The task stays on the caller's processor, and so on
/// its kernel thread: it is polled and dropped there.
///
/// ```
/// use std::rc::Rc;
/// sinew::run(|| {
///     let shared = Rc::new(7);
///     let task = sinew::task::spawn_local(async move {
///         sinew::task::yield_now_async().await;
///         *shared
///     });
///     assert_eq!(task.join().unwrap(), 7);
/// });
/// ```
///
/// Where fibres [migrate](crate::Builder::migrating), what a fibre shares with such a task is bound to a
/// kernel thread. The contract of migration says what that means.
///
/// # Panics
/// If the caller is neither a fibre nor a task. If the caller is a waker that a processor
/// calls, and the runtime has ended.
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let site = Location::caller();
    let spawned = with_current(|processor| {
        let Some(processor) = processor else { return Err((SpawnError::NoRuntime, future)) };
        let origin = match Origin::admit(None, Some(processor)) {
            Ok(origin) => origin,
            Err(error) => return Err((error, future)),
        };
        let (ready, taker) = create_bound(&origin, processor, site, future);
        if let Some(roll) = origin.cluster().runtime().roll() {
            enter_roll(roll, ready.strand());
        }
        origin.start(ready);
        Ok(JoinHandle::new(taker))
    });
    match spawned {
        Ok(handle) => handle,
        Err((error, _future)) => error.panic("spawn a task"),
    }
}

/// Enters a new task into the roll of its runtime. Few runtimes keep one.
#[cold]
#[inline(never)]
fn enter_roll(roll: &Roll, task: &Strand) {
    static ENDING: Ending =
        Ending { is_finished: |task| join_of(task.strand()).is_done(), ask: |tasks| tasks.iter().for_each(abort) };
    roll.enter(task, &ENDING);
}

/// Starts tasks with other properties than those of [`spawn`].
///
/// ```
/// use sinew::{Priority, Runtime, task::TaskBuilder};
/// let runtime = Runtime::builder().processors(1).build().unwrap();
/// // From any kernel thread.
/// let builder = TaskBuilder::new().priority(Priority::High).cluster(runtime.main_cluster());
/// assert_eq!(builder.spawn(async { 1 + 1 }).unwrap().join().unwrap(), 2);
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct TaskBuilder {
    priority: Priority,
    cluster: Option<Cluster>,
}

impl TaskBuilder {
    /// Returns a builder for a task as [`spawn`] starts it.
    #[inline]
    pub fn new() -> Self {
        TaskBuilder::default()
    }

    /// Makes the task more or less urgent than others.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Runs the task on `cluster` instead of the caller's.
    pub fn cluster(mut self, cluster: &Cluster) -> Self {
        self.cluster = Some(cluster.clone());
        self
    }

    /// Starts the task.
    ///
    /// # Errors
    /// [`SpawnError`] says what is wrong. Then `future` has been dropped.
    #[track_caller]
    #[inline]
    pub fn spawn<F>(self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let site = Location::caller();
        let spawned = with_current(|processor| {
            let origin = match Origin::admit(self.cluster.as_ref(), processor) {
                Ok(origin) => origin,
                Err(error) => return Err((error, future)),
            };
            let (ready, taker) = create(&origin, self.priority, site, future);
            if let Some(roll) = origin.cluster().runtime().roll() {
                enter_roll(roll, ready.strand());
            }
            origin.start(ready);
            Ok(JoinHandle::new(taker))
        });
        // A future that was refused is dropped here, where its drop may block or panic.
        spawned.map_err(|(error, _future)| error)
    }
}

impl Cluster {
    /// Starts a task on this cluster. The caller may be any thread, fibre or task.
    ///
    /// # Panics
    /// If the runtime has ended.
    #[track_caller]
    pub fn spawn_task<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match TaskBuilder::new().cluster(self).spawn(future) {
            Ok(handle) => handle,
            Err(error) => error.panic("spawn a task"),
        }
    }
}
