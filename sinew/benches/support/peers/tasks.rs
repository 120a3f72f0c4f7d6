//! Tokio's multi-thread runtime.

use tokio::runtime::Builder;

/// Runs `root` as a task on a worker, not inside `block_on`, whose thread is
/// not a worker and has neither a local queue nor a slot for the next task.
pub fn run_task<R: Send + 'static>(processors: usize, root: impl Future<Output = R> + Send + 'static) -> R {
    run_on(Builder::new_multi_thread().worker_threads(processors), root)
}

/// As [`run_task`], with Tokio's timers, which cost its idle workers something.
pub fn run_timed_task<R: Send + 'static>(processors: usize, root: impl Future<Output = R> + Send + 'static) -> R {
    run_on(Builder::new_multi_thread().worker_threads(processors).enable_time(), root)
}

fn run_on<R: Send + 'static>(builder: &mut Builder, root: impl Future<Output = R> + Send + 'static) -> R {
    let runtime = builder.build().expect("a Tokio runtime");
    let root = runtime.spawn(root);
    runtime.block_on(root).expect("a root task that does not panic")
}
