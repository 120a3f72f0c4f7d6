//! Tokio's multi-thread runtime.

use tokio::runtime::Builder;

/// Runs `root` as a task on a worker, not inside `block_on`, whose thread is
/// not a worker and has neither a local queue nor a slot for the next task.
pub fn run_task<R: Send + 'static>(processors: usize, root: impl Future<Output = R> + Send + 'static) -> R {
    let runtime = Builder::new_multi_thread().worker_threads(processors).build().expect("a Tokio runtime");
    let root = runtime.spawn(root);
    runtime.block_on(root).expect("a root task that does not panic")
}
