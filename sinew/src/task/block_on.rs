//! Running a future in a fibre, or on a kernel thread.
//!
//! ```text
//!   the caller                              a waker
//!   1  poll                                 1  word = WOKEN
//!   2  party = the caller; IDLE -> WAITING; 2  it was WAITING: signal the party
//!      WOKEN already? go to 4
//!   3  wait for the signal
//!   4  word = IDLE, go to 1
//! ```
//!
//! A waker may be called on any thread at any time, even after the end of the call. So it does not
//! touch the fibre itself: it uses up no token of the user's, and gives no signal that nobody waits
//! for. A caller that waits is signalled once, by the waker that found WAITING.

use crate::base::atomic::{AcqRel, Acquire, AtomicU32, AtomicU64, Relaxed, Release};
use crate::processor::runs_a_task;
use crate::strand::Owed;
use crate::wait::{self, Limit, Minder, Party};
use crate::wait::{Reason, Why};
use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

const IDLE: u32 = 0;
const WAITING: u32 = 1;
const WOKEN: u32 = 2;

pub(crate) struct Blocked {
    word: AtomicU32,
    /// The party that waits. Written before WAITING, read by the waker that finds WAITING.
    party: AtomicU64,
}

impl Blocked {
    pub(crate) fn new() -> Self {
        Blocked { word: AtomicU32::new(IDLE), party: AtomicU64::new(0) }
    }

    /// `IDLE -> WAITING`. Returns whether the party will be signalled.
    pub(crate) fn enter(&self, party: Party) -> bool {
        self.party.store(party.number().get(), Relaxed);
        // Release: the party, for `wake`. Relaxed on failure: `begin_poll` acquires.
        self.word.compare_exchange(IDLE, WAITING, Release, Relaxed).is_ok()
    }

    /// `WAITING -> IDLE`. Returns `false` if the signal is on its way.
    pub(crate) fn withdraw(&self) -> bool {
        // Relaxed on failure as in `enter`.
        self.word.compare_exchange(WAITING, IDLE, Relaxed, Relaxed).is_ok()
    }

    /// `WOKEN | IDLE -> IDLE`. By the caller of `block_on`, when it is not waiting.
    pub(crate) fn begin_poll(&self) {
        // Acquire pairs with the Release in `wake`: the next poll sees what came before.
        self.word.swap(IDLE, Acquire);
    }
}

impl Wake for Blocked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: the poll sees what the waker did. Acquire: the party.
        if self.word.swap(WOKEN, AcqRel) == WAITING {
            let party = NonZeroU64::new(self.party.load(Relaxed)).expect("the party is written before WAITING");
            // The party was entered, and this call alone found WAITING.
            Party::signal_owed(Owed::taken(party));
        }
    }
}

/// Runs a future to its end and returns its output. While the future waits, the calling fibre is
/// parked; a kernel thread that runs no fibre blocks.
///
/// ```
/// use sinew::sync::mpsc;
/// sinew::run(|| {
///     let (sender, mut receiver) = mpsc::channel();
///     sinew::task::spawn(async move { sender.send(7) });
///     assert_eq!(sinew::block_on(async { receiver.recv_async().await }), Ok(7));
/// });
/// ```
///
/// The caller polls the future, so the future need not be `Send`, and may borrow. The call does not
/// notice [cancellation](crate::cancel).
///
/// # Panics
/// If the future does. In a task, because it would hold up its processor.
pub fn block_on<F: Future>(future: F) -> F::Output {
    assert!(!runs_a_task(), "a task may not block its processor: await the future");
    let blocked = Arc::new(Blocked::new());
    let waker = Waker::from(Arc::clone(&blocked));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    let minder = Minder::begin();
    let why = Why::at(Reason::BlockOn, &*blocked);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        let deadline = minder.next();
        if deadline.is_never() {
            wait::block(why, |party| blocked.enter(party));
        } else {
            let enter = |wait: &wait::Wait| blocked.enter(Party::timed(wait));
            let _ = wait::block_within(Limit::until(deadline), why, enter, |_| blocked.withdraw());
            minder.fire_due();
        }
        blocked.begin_poll();
    }
}
