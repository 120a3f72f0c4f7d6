//! `Select`: the first of several channel operations.

use super::arms::{Arm, RecvArm, SendArm, wait_for_any};
use super::channel::{Buffer, Core};
use super::{mpmc, mpsc, oneshot};
use crate::base::Deadline;
use crate::base::clock;
use crate::wait::budget;
use crate::wait::{Limit, Outcome};
use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{RecvError, SendError};
use std::time::{Duration, Instant};

/// Waits until one of several channel operations can be done, and does that one.
///
/// Each operation is an *arm*, with a closure. The select does one arm and calls its closure
/// with the result. All closures of a select return the same type, which is what `run`
/// returns.
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
/// If the calling fibre would have to wait and is cancelled, or a deadline that it
/// carries has passed, the first arm is done as if its channel were closed.
#[must_use = "nothing is done before it is run"]
pub struct Select<'a, R> {
    arms: Vec<Box<dyn Arm<R> + 'a>>,
}

impl<'a, R> Select<'a, R> {
    /// Makes a select without arms.
    pub fn new() -> Self {
        Select { arms: Vec::new() }
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

    /// Waits for the first arm that can be done, and does it. There is no form for tasks: they
    /// await the `_async` forms of several channels at once.
    ///
    /// # Panics
    /// If there are no arms: it would wait for ever.
    pub fn run(self) -> R {
        assert!(!self.arms.is_empty(), "a select without arms and without a deadline would wait for ever");
        self.run_within(Limit::CARRIED, true).expect("it has arms and no deadline of its own")
    }

    /// As [`run`](Select::run), but waits no longer than `timeout`. Returns `None` if the time
    /// was up first.
    pub fn run_timeout(self, timeout: Duration) -> Option<R> {
        self.run_within(Limit::carried_until(Deadline::after(timeout)), false)
    }

    /// As [`run`](Select::run), but waits no longer than until `deadline`. Returns `None` if
    /// the time was up first.
    pub fn run_deadline(self, deadline: Instant) -> Option<R> {
        self.run_within(Limit::carried_until(Deadline::at(deadline)), false)
    }

    /// Does an arm that needs no waiting. Returns `None` if there is none.
    pub fn try_run(mut self) -> Option<R> {
        self.attempt().map(|arm| self.complete(arm))
    }

    /// If `must_choose`, the end of the time completes the first arm as if its channel were
    /// closed.
    fn run_within(mut self, limit: Limit, must_choose: bool) -> Option<R> {
        loop {
            if let Some(arm) = self.attempt() {
                budget::spend(budget::MESSAGE);
                return Some(self.complete(arm));
            }
            let outcome = wait_for_any(&self.arms, limit);
            if let Some(arm) = self.arms.iter_mut().position(|arm| arm.is_done()) {
                return Some(self.complete(arm));
            }
            match outcome {
                Outcome::Told => {}
                Outcome::TimedOut if !must_choose => return None,
                Outcome::TimedOut | Outcome::Cancelled if self.arms.is_empty() => return None,
                Outcome::TimedOut | Outcome::Cancelled => return Some(self.complete(0)),
            }
        }
    }

    /// Attempts the arms one after the other, from a random one on in a random direction.
    /// Returns the arm that is done, if any.
    fn attempt(&mut self) -> Option<usize> {
        let count = self.arms.len();
        let random = random();
        let first = (random >> 1) as usize % count.max(1);
        let nth = |n: usize| if random & 1 == 0 { (first + n) % count } else { (first + count - n) % count };
        (0..count).map(nth).find(|&arm| self.arms[arm].attempt())
    }

    fn complete(mut self, arm: usize) -> R {
        let arm = self.arms.swap_remove(arm);
        drop(self);
        arm.complete()
    }
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
