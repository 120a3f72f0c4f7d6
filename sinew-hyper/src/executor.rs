//! The executor for futures that hyper spawns, such as the streams of HTTP/2.

use hyper::rt::Executor;

/// Runs futures as tasks of the caller's cluster.
///
/// # Panics
/// `execute` panics outside of a runtime.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SinewExecutor;

impl SinewExecutor {
    /// Returns the executor, which has no state.
    #[must_use]
    pub const fn new() -> SinewExecutor {
        SinewExecutor
    }
}

impl<F> Executor<F> for SinewExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    #[inline]
    fn execute(&self, future: F) {
        drop(sinew::task::spawn(future));
    }
}
