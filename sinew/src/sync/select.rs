//! `Select`: the first of several operations.

use super::arms::{Arm, RecvArm, Reports, SendArm, wait_for_any};
use super::channel::{Buffer, Core};
use super::polled::{CancelledArm, FutureArm, Polling, TimerArm};
use super::selectable::{SelectJoin, SelectReader, SelectWriter};
use super::{mpmc, mpsc, oneshot};
use crate::base::Deadline;
use crate::base::clock;
use crate::cancel::Cancelled;
use crate::wait::budget;
use crate::wait::{Limit, Outcome, carried};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::mpsc::{RecvError, SendError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

/// Waits until one of several operations can be done, and does that one.
///
/// Each operation is an *arm*, with a closure. The select does one arm and calls its closure
/// with the result. All closures of a select return the same type, which is what `run`
/// returns.
///
/// | arm | what is done |
/// | --- | --- |
/// | [`recv`](Select::recv), [`send`](Select::send) | a message is received, or sent |
/// | [`readable`](Select::readable), [`writable`](Select::writable) | nothing: the caller reads, accepts or writes afterwards |
/// | [`finished`](Select::finished) | nothing: the caller joins the fibre or task afterwards |
/// | [`after`](Select::after), [`at`](Select::at) | nothing: the time has come |
/// | [`future`](Select::future) | what the future does: every `_async` form of this crate |
/// | [`cancelled`](Select::cancelled) | nothing: the caller was cancelled |
///
/// ```
/// use sinew::sync::{Select, mpsc};
///
/// sinew::run(|| {
///     let (numbers, some_numbers) = mpsc::channel();
///     let (_words, some_words) = mpsc::channel::<&str>();
///     sinew::spawn(move || numbers.send(7));
///     let first = Select::new()
///         .recv(&some_numbers, |number| format!("the number {}", number.unwrap()))
///         .recv(&some_words, |word| format!("the word {}", word.unwrap()))
///         .run();
///     assert_eq!(first, "the number 7");
/// });
/// ```
///
/// If several arms can be done, one of them is chosen at random, so that a busy
/// channel does not starve the others. An arm whose channel is closed can be done:
/// its result is the error.
///
/// A select that has to wait stands in the queues of all its channels, behind earlier
/// waiters. The first operation on a channel that fits one of its arms ends the wait.
/// Messages that the other arms were to send are dropped.
///
/// A select may receive from the same channel that it sends to. It never hands its own
/// message to itself. Where the capacity is 0, both arms wait for another sender or
/// receiver. Where there is room, the message goes into the buffer, and the next select
/// finds it there.
///
/// # Cancellation
///
/// If the calling fibre would have to wait and is [cancelled](crate::cancel), or a deadline that
/// it carries has passed, the arm that can say so is done. This is the arm that
/// [`cancelled`](Select::cancelled) adds. If there is none, it is the first arm of a channel or of
/// a socket: it is done as if the channel were closed, or with the error that a call on the socket
/// would return. If there is none of these, [`run`](Select::run) waits on, and the forms with a
/// limit return `None`.
///
/// # A server's session
///
/// ```
/// use sinew::net::{TcpListener, TcpStream};
/// use sinew::sync::{Select, mpsc};
/// use std::io::{Read, Write};
/// use std::time::Duration;
///
/// enum Next {
///     Send(String),
///     Read,
///     Idle,
/// }
///
/// fn session(mut stream: TcpStream, to_send: mpsc::Receiver<String>) -> std::io::Result<String> {
///     let mut received = String::new();
///     loop {
///         let next = Select::new()
///             .recv(&to_send, |line| line.map_or(Next::Idle, Next::Send))
///             .readable(&stream, |_| Next::Read)
///             .after(Duration::from_secs(30), || Next::Idle)
///             .run();
///         match next {
///             Next::Send(line) => stream.write_all(line.as_bytes())?,
///             Next::Read => {
///                 let mut buffer = [0; 100];
///                 match stream.read(&mut buffer)? {
///                     0 => return Ok(received),
///                     count => received += &String::from_utf8_lossy(&buffer[..count]),
///                 }
///             }
///             Next::Idle => return Ok(received),
///         }
///     }
/// }
///
/// sinew::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0").unwrap();
///     let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
///     let (stream, _) = listener.accept().unwrap();
///     let (outbox, to_send) = mpsc::channel();
///     let session = sinew::spawn(move || session(stream, to_send));
///     outbox.send("welcome".to_owned()).unwrap();
///     let mut welcome = [0; 7];
///     client.read_exact(&mut welcome).unwrap();
///     client.write_all(b"hello").unwrap();
///     drop(client);
///     assert_eq!(session.join().unwrap().unwrap(), "hello");
/// });
/// ```
#[must_use = "nothing is done before it is run"]
pub struct Select<'a, R> {
    arms: Vec<Box<dyn Arm<R> + 'a>>,
    /// Whether an arm is a future.
    has_futures: bool,
}

impl<'a, R> Select<'a, R> {
    /// Makes a select without arms.
    pub fn new() -> Self {
        Select { arms: Vec::new(), has_futures: false }
    }

    /// Adds an arm: receive a message.
    pub fn recv<C, F>(mut self, receiver: &'a C, then: F) -> Self
    where
        C: SelectReceiver,
        F: FnOnce(Result<C::Message, RecvError>) -> R + 'a,
    {
        self.arms.push(Box::new(RecvArm::new(receiver.core(), then)));
        self
    }

    /// Adds an arm: send `message`. The message is dropped if another arm is done, or none.
    pub fn send<C, F>(mut self, sender: &'a C, message: C::Message, then: F) -> Self
    where
        C: SelectSender,
        F: FnOnce(Result<(), SendError<C::Message>>) -> R + 'a,
    {
        self.arms.push(Box::new(SendArm::new(sender.core(), message, then)));
        self
    }

    /// Adds an arm: `socket` can be read from, or a connection can be accepted. Nothing is read:
    /// the caller does so afterwards. That does not wait, unless another reader is faster. The
    /// closure gets an error if the kernel cannot report on the socket.
    ///
    /// Needs a runtime: a kernel thread that runs no fibre gets an error if it would have to wait.
    pub fn readable<S, F>(self, socket: &'a S, then: F) -> Self
    where
        S: SelectReader + ?Sized,
        F: FnOnce(io::Result<()>) -> R + 'a,
    {
        self.polled(socket.ready_to_read_async(), Some(io_error), then)
    }

    /// Adds an arm: `socket` has room to be written to. Nothing is written; else as
    /// [`readable`](Select::readable). A write that is larger than the room waits.
    pub fn writable<S, F>(self, socket: &'a S, then: F) -> Self
    where
        S: SelectWriter + ?Sized,
        F: FnOnce(io::Result<()>) -> R + 'a,
    {
        self.polled(socket.ready_to_write_async(), Some(io_error), then)
    }

    /// Adds an arm: a fibre or task has finished, so that its `join` does not wait.
    ///
    /// ```
    /// use sinew::sync::{Select, mpsc};
    /// sinew::run(|| {
    ///     let (_news, nothing) = mpsc::channel::<u32>();
    ///     let mut worker = sinew::spawn(|| 6 * 7);
    ///     let has_finished = Select::new().recv(&nothing, |_| false).finished(&mut worker, || true).run();
    ///     assert!(has_finished);
    ///     assert_eq!(worker.join().unwrap(), 42);
    /// });
    /// ```
    pub fn finished<H, F>(self, handle: &'a mut H, then: F) -> Self
    where
        H: SelectJoin + ?Sized,
        F: FnOnce() -> R + 'a,
    {
        self.polled(handle.finished_async(), None, |()| then())
    }

    /// Adds an arm: `duration` has passed, from now on. It is an arm as any other. If another arm
    /// can be done as well, either of them is chosen.
    pub fn after<F>(self, duration: Duration, then: F) -> Self
    where
        F: FnOnce() -> R + 'a,
    {
        self.timer(Deadline::after(duration), then)
    }

    /// Adds an arm: the time is `deadline`; else as [`after`](Select::after).
    pub fn at<F>(self, deadline: Instant, then: F) -> Self
    where
        F: FnOnce() -> R + 'a,
    {
        self.timer(Deadline::at(deadline), then)
    }

    /// Adds an arm: a future is ready. If another arm is done, or none, the future is dropped. So
    /// it should lose nothing then. The `_async` forms of this crate lose nothing, unless they say
    /// otherwise: a signal, a broadcast, a child process can all be waited for in this way.
    ///
    /// ```
    /// use sinew::sync::{Select, mpsc, watch};
    /// sinew::run(|| {
    ///     let (settings, mut seen) = watch::channel("slow");
    ///     let (_requests, some_requests) = mpsc::channel::<u32>();
    ///     sinew::spawn(move || settings.send("fast"));
    ///     let has_changed = Select::new()
    ///         .recv(&some_requests, |_| false)
    ///         .future(seen.changed_async(), |changed| changed.is_ok())
    ///         .run();
    ///     assert!(has_changed);
    ///     assert_eq!(*seen.borrow(), "fast");
    /// });
    /// ```
    pub fn future<T, F>(self, future: T, then: F) -> Self
    where
        T: IntoFuture,
        T::IntoFuture: 'a,
        F: FnOnce(T::Output) -> R + 'a,
    {
        self.polled(future.into_future(), None, then)
    }

    /// Adds an arm: the calling fibre would have to wait and is cancelled, or a deadline that it
    /// carries has passed. See *Cancellation* above.
    ///
    /// ```
    /// use sinew::{cancel::Cancelled, sync::Select};
    /// use std::time::Duration;
    /// sinew::run(|| {
    ///     let fibre = sinew::spawn(|| {
    ///         Select::new().after(Duration::MAX, || None).cancelled(Some).run()
    ///     });
    ///     fibre.fibre().cancel();
    ///     assert_eq!(fibre.join().unwrap(), Some(Cancelled::Requested));
    /// });
    /// ```
    pub fn cancelled<F>(mut self, then: F) -> Self
    where
        F: FnOnce(Cancelled) -> R + 'a,
    {
        self.arms.push(Box::new(CancelledArm::new(then)));
        self
    }

    fn polled<T, F>(mut self, future: T, cancelled: Option<fn(Cancelled) -> T::Output>, then: F) -> Self
    where
        T: Future + 'a,
        F: FnOnce(T::Output) -> R + 'a,
    {
        self.arms.push(Box::new(FutureArm::new(future, cancelled, then)));
        self.has_futures = true;
        self
    }

    fn timer<F>(mut self, deadline: Deadline, then: F) -> Self
    where
        F: FnOnce() -> R + 'a,
    {
        self.arms.push(Box::new(TimerArm::new(deadline, then)));
        self
    }

    /// Waits for the first arm that can be done, and does it. There is no form for tasks: they
    /// await the `_async` forms of several operations at once.
    ///
    /// # Panics
    /// If there are no arms: it would wait for ever. In a task, if it would have to wait.
    pub fn run(self) -> R {
        assert!(!self.arms.is_empty(), "a select without arms and without a deadline would wait for ever");
        self.run_within(None).expect("it has arms and no deadline of its own")
    }

    /// As [`run`](Select::run), but waits no longer than `timeout`. Returns `None` if the time
    /// was up first.
    pub fn run_timeout(self, timeout: Duration) -> Option<R> {
        self.run_within(Some(Deadline::after(timeout)))
    }

    /// As [`run`](Select::run), but waits no longer than until `deadline`. Returns `None` if
    /// the time was up first.
    pub fn run_deadline(self, deadline: Instant) -> Option<R> {
        self.run_within(Some(Deadline::at(deadline)))
    }

    /// Does an arm that needs no waiting. Returns `None` if there is none. Futures are polled
    /// once.
    pub fn try_run(mut self) -> Option<R> {
        let polling = self.has_futures.then(Polling::begin);
        self.attempt(polling.as_ref()).map(|arm| self.complete(arm))
    }

    /// Without a limit, an arm is done in every case.
    fn run_within(mut self, limit: Option<Deadline>) -> Option<R> {
        let polling = self.has_futures.then(Polling::begin);
        let (has_limit, own) = (limit.is_some(), limit.unwrap_or(Deadline::NEVER));
        let may_be_cancelled = has_limit || self.arms.iter().any(|arm| arm.reports() != Reports::Nothing);
        let timers = self.arms.iter().fold(own, |first, arm| first.min(arm.deadline()));
        loop {
            if let Some(arm) = self.attempt(polling.as_ref()) {
                budget::spend(budget::MESSAGE);
                return Some(self.complete(arm));
            }
            let minded = polling.as_ref().map_or(Deadline::NEVER, Polling::next_timer);
            let until = timers.min(minded);
            let limit = if may_be_cancelled { Limit::carried_until(until) } else { Limit::until(until) };
            let outcome = wait_for_any(&self.arms, polling.as_ref().map(Polling::woken), limit);
            if let Some(polling) = &polling {
                polling.fire_due();
            }
            if let Some(arm) = self.arms.iter_mut().position(|arm| arm.is_done()) {
                return Some(self.complete(arm));
            }
            let why = match outcome {
                Outcome::Told => {
                    // A future that wakes itself has not let the fibre wait.
                    budget::spend(budget::MESSAGE);
                    continue;
                }
                Outcome::Cancelled => Cancelled::Requested,
                Outcome::TimedOut if self.arms.iter().any(|arm| arm.deadline().is_past()) => continue,
                Outcome::TimedOut if own.is_past() => return None,
                Outcome::TimedOut if may_be_cancelled && carried().deadline.is_past() => Cancelled::Overdue,
                // A timer of a future.
                Outcome::TimedOut => continue,
            };
            let (arm, reports) = self.reporting()?;
            // `None` says that the time was up. Only an arm that is there for it says more.
            if has_limit && why == Cancelled::Overdue && reports != Reports::Cancellation {
                return None;
            }
            self.arms[arm].give_up(why);
            return Some(self.complete(arm));
        }
    }

    /// Returns the arm that says that the caller was cancelled, if one can.
    fn reporting(&self) -> Option<(usize, Reports)> {
        let first = |reports| self.arms.iter().position(|arm| arm.reports() == reports).map(|arm| (arm, reports));
        first(Reports::Cancellation).or_else(|| first(Reports::Error))
    }

    /// Attempts the arms one after the other, from a random one on in a random direction.
    /// Returns the arm that is done, if any.
    fn attempt(&mut self, polling: Option<&Polling>) -> Option<usize> {
        let waker = polling.map_or_else(|| Waker::noop().clone(), Polling::waker);
        let mut context = Context::from_waker(&waker);
        if let Some(polling) = polling {
            polling.begin_poll();
        }
        let count = self.arms.len();
        let random = random();
        let first = (random >> 1) as usize % count.max(1);
        let nth = |n: usize| if random & 1 == 0 { (first + n) % count } else { (first + count - n) % count };
        (0..count).map(nth).find(|&arm| self.arms[arm].attempt(&mut context))
    }

    fn complete(mut self, arm: usize) -> R {
        let arm = self.arms.swap_remove(arm);
        drop(self);
        arm.complete()
    }
}

/// Returns the result of a call on a socket whose caller was cancelled.
fn io_error(why: Cancelled) -> io::Result<()> {
    Err(why.into())
}

/// Returns 32 bits that depend on nothing a user does.
fn random() -> u32 {
    // 2^64 divided by the golden ratio. Two rounds: after one alone, selects at even
    // intervals would get numbers at even intervals.
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    let bits = clock::cycles().wrapping_mul(MULTIPLIER);
    ((bits ^ (bits >> 32)).wrapping_mul(MULTIPLIER) >> 32) as u32
}

impl<R> Default for Select<'_, R> {
    fn default() -> Self {
        Select::new()
    }
}

impl<R> fmt::Debug for Select<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").field("arms", &self.arms.len()).finish_non_exhaustive()
    }
}

/// What a [`Select`] can receive from: the receivers of [`mpsc`], [`mpmc`] and
/// [`oneshot`] channels.
pub trait SelectReceiver: sealed::Receive<<Self as SelectReceiver>::Message> {
    /// What is received.
    type Message;
}

/// What a [`Select`] can send to: the senders of [`mpsc`] and [`mpmc`] channels.
pub trait SelectSender: sealed::Send<<Self as SelectSender>::Message> {
    /// What is sent.
    type Message;
}

mod sealed {
    use super::{Buffer, Core};

    pub trait Receive<T> {
        type Buffer: Buffer<T>;
        fn core(&self) -> &Core<T, Self::Buffer>;
    }

    pub trait Send<T> {
        fn core(&self) -> &Core<T>;
    }
}

impl<T> SelectReceiver for mpmc::Receiver<T> {
    type Message = T;
}

impl<T> sealed::Receive<T> for mpmc::Receiver<T> {
    type Buffer = VecDeque<T>;
    fn core(&self) -> &Core<T> {
        self.core()
    }
}

impl<T> SelectReceiver for mpsc::Receiver<T> {
    type Message = T;
}

impl<T> sealed::Receive<T> for mpsc::Receiver<T> {
    type Buffer = VecDeque<T>;
    fn core(&self) -> &Core<T> {
        self.core()
    }
}

impl<T> SelectReceiver for oneshot::Receiver<T> {
    type Message = T;
}

impl<T> sealed::Receive<T> for oneshot::Receiver<T> {
    type Buffer = Option<T>;
    fn core(&self) -> &Core<T, Option<T>> {
        self.core()
    }
}

impl<T> SelectSender for mpmc::Sender<T> {
    type Message = T;
}

impl<T> sealed::Send<T> for mpmc::Sender<T> {
    fn core(&self) -> &Core<T> {
        self.core()
    }
}

impl<T> SelectSender for mpsc::Sender<T> {
    type Message = T;
}

impl<T> sealed::Send<T> for mpsc::Sender<T> {
    fn core(&self) -> &Core<T> {
        self.core()
    }
}
