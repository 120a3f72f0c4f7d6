//! The wrapper that enters a Tokio runtime around each poll.

use crate::helper::{self, enter_on};
use pin_project_lite::pin_project;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;

pin_project! {
    /// A future that is polled, and dropped, in the context of a Tokio runtime. It runs wherever it
    /// is awaited: in a task, in [`sinew::block_on`], in any executor.
    ///
    /// ```
    /// use sinew_tokio::Compat;
    /// use std::time::Duration;
    /// sinew::run(|| {
    ///     let slept = Compat::new(async { tokio::time::sleep(Duration::from_millis(1)).await });
    ///     sinew::task::spawn(slept).join().unwrap();
    /// });
    /// ```
    #[must_use = "futures do nothing unless polled"]
    pub struct Compat<F> {
        // `None` only while the wrapper is dropped.
        #[pin]
        future: Option<F>,
        // `None` is the helper.
        handle: Option<Handle>,
    }

    impl<F> PinnedDrop for Compat<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_some() {
                enter_on(or_helper(this.handle), || this.future.set(None));
            }
        }
    }
}

impl<F> Compat<F> {
    /// Wraps a future for the helper runtime, which starts at the first poll.
    pub const fn new(future: F) -> Compat<F> {
        Compat { future: Some(future), handle: None }
    }

    /// Wraps a future for a runtime of your own. That runtime has to be driven: a current-thread
    /// runtime needs a thread in its `block_on`.
    ///
    /// ```
    /// use sinew_tokio::Compat;
    /// let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    /// sinew::run(|| {
    ///     let id = Compat::on(runtime.handle(), async { tokio::runtime::Handle::current().id() });
    ///     assert_eq!(sinew::block_on(id), runtime.handle().id());
    /// });
    /// ```
    pub fn on(handle: &Handle, future: F) -> Compat<F> {
        Compat { future: Some(future), handle: Some(handle.clone()) }
    }
}

impl<F: Future> Future for Compat<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let future = this.future.as_pin_mut().expect("only a drop takes the future away");
        enter_on(or_helper(this.handle), || future.poll(context))
    }
}

impl<F> fmt::Debug for Compat<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compat").finish_non_exhaustive()
    }
}

fn or_helper(handle: &Option<Handle>) -> &Handle {
    handle.as_ref().unwrap_or_else(|| helper::handle())
}

/// Adds [`with_tokio`](WithTokio::with_tokio) to every future.
pub trait WithTokio: Future + Sized {
    /// Wraps the future so that it may use Tokio's sockets, timers and tasks.
    ///
    /// ```
    /// use sinew_tokio::WithTokio;
    /// sinew::run(|| {
    ///     let answer = async { tokio::task::spawn_blocking(|| 42).await.unwrap() };
    ///     assert_eq!(sinew::task::spawn(answer.with_tokio()).join().unwrap(), 42);
    /// });
    /// ```
    fn with_tokio(self) -> Compat<Self> {
        Compat::new(self)
    }
}

impl<F: Future> WithTokio for F {}

/// Runs a future that needs Tokio to its end, and returns its output. The calling fibre waits, and
/// its processor runs others meanwhile. A kernel thread that runs no fibre blocks.
///
/// ```
/// use std::time::Duration;
/// sinew::run(|| {
///     let late = sinew_tokio::block_on(async {
///         tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await
///     });
///     assert!(late.is_err());
/// });
/// ```
///
/// The caller polls the future, so the future need not be `Send`, and may borrow. The call does not
/// notice [cancellation](sinew::cancel).
///
/// # Panics
/// If the future does. In a task, because it would hold up its processor.
pub fn block_on<F: Future>(future: F) -> F::Output {
    sinew::block_on(Compat::new(future))
}
