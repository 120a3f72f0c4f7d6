//! What hyper spawns, such as the streams of HTTP/2.

use hyper::rt::Executor;

/// Runs futures as tasks of the caller's cluster.
///
/// # Panics
/// Outside of a runtime, where there is nobody to run them.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SinewExecutor;

impl SinewExecutor {
    /// It has no state.
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
