#![doc = include_str!("README.md")]

#[cfg(all(test, sinew_loom))]
mod models;

use super::driver::Bell;
use crate::base::atomic::{AcqRel, Acquire, AtomicBool, AtomicU32, AtomicU64, Relaxed, Release};
use crate::base::fence;
use crate::sched::{ProcessorId, Wake};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// States of a sleeper's word, which is also what it sleeps on in the kernel.
const AWAKE: u32 = 0;
const SEARCHING: u32 = 1;
const ASLEEP: u32 = 2;
const NOTIFIED: u32 = 3;
/// Added to the second and third for a sleeper that `Idle::word` does not count.
const HIDDEN: u32 = 4;
/// As ASLEEP, but in the bed of a driver.
const IN_BED: u32 = 8;

/// Whether the state says that the sleeper is counted, and may be woken.
fn is_counted(state: u32) -> bool {
    state & HIDDEN == 0
}

/// Fields of [`Idle::word`].
const SLEEPER: u32 = 1;
const SLEEPERS: u32 = 0xfff;
const LINGERER: u32 = 1 << 12;
const LINGERERS: u32 = 0xfff << 12;
const DEPUTISED: u32 = 1 << 30;
const WATCHED: u32 = 1 << 31;

/// The processors of a cluster that have nothing to do.
pub(crate) struct Idle {
    /// How many have announced that they sleep, how many linger, whether there is
    /// a deputy, and whether the sentinel keeps watch. Written only by processors
    /// that fall asleep or are woken; read by everyone who makes a strand ready.
    word: AtomicU32,
    /// The stack of sleepers: a counter against ABA above the index plus one
    /// of the top one.
    top: AtomicU64,
    /// The index plus one of the sentinel, or 0.
    sentinel: AtomicU32,
    /// How often a sentinel has left for what it found itself.
    departures: AtomicU32,
    sleepers: Box<[Sleeper]>,
}

struct Sleeper {
    state: AtomicU32,
    /// The index plus one of the sleeper below. Written before it is pushed.
    below: AtomicU32,
    /// Whether it is in the stack, be it asleep or a leftover from before.
    stacked: AtomicBool,
    /// Rings where it sleeps when its state is IN_BED.
    bell: OnceLock<Arc<dyn Bell>>,
}

/// What an idle processor is to the others. See the essay for the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It runs only strands that are bound to it, and is woken for nothing else.
    Hidden,
    /// It sleeps until it is notified.
    Sleeper,
    /// A sleeper that wakes up at times, to see whether there is a sentinel.
    Deputy,
    /// The one sleeper that minds the drivers for the others.
    Sentinel,
}

impl Idle {
    pub(crate) fn new(capacity: usize) -> Self {
        let sleeper = || Sleeper {
            state: AtomicU32::new(AWAKE),
            below: AtomicU32::new(0),
            stacked: AtomicBool::new(false),
            bell: OnceLock::new(),
        };
        Idle {
            word: AtomicU32::new(0),
            top: AtomicU64::new(0),
            sentinel: AtomicU32::new(0),
            departures: AtomicU32::new(0),
            sleepers: std::iter::repeat_with(sleeper).take(capacity).collect(),
        }
    }

    /// To be called after a strand has been made ready: wakes a processor if
    /// one is needed. Never waits.
    #[inline]
    pub(crate) fn notify(&self, wake: Wake) {
        if wake == Wake::Nobody {
            return;
        }
        // Publish first, then look for sleepers. Pairs with the heavy fence in
        // `Lingering::announce`.
        fence::light();
        let word = self.word.load(Relaxed);
        if word & SLEEPERS != 0 {
            self.notify_slow(wake, word);
        }
    }

    #[cold]
    fn notify_slow(&self, wake: Wake, word: u32) {
        match wake {
            Wake::Nobody => {}
            Wake::Processor(id) => {
                self.claim(id);
            }
            // Somebody lingers: it is awake, and it searches once more after it
            // has announced itself, or hands the duty on when it finds work.
            Wake::Lone | Wake::Backlog if word & LINGERERS != 0 => {}
            Wake::Lone if word & WATCHED != 0 => {}
            Wake::Lone | Wake::Backlog => self.wake_one(),
        }
    }

    /// To be called after something was put where only `id` looks.
    #[inline]
    pub(crate) fn notify_processor(&self, id: ProcessorId) {
        // As in `notify`.
        fence::light();
        if self.sleepers[id.index()].state.load(Relaxed) != AWAKE {
            self.claim(id);
        }
    }

    /// Wakes `id` whatever it sleeps for.
    pub(crate) fn wake_processor(&self, id: ProcessorId) {
        fence::heavy();
        self.claim(id);
    }

    /// Wakes the sentinel, so that it looks at its timers again.
    pub(crate) fn wake_sentinel(&self) {
        // As in `notify`: the timer is armed before the sentinel is looked for.
        fence::light();
        let sentinel = self.sentinel.load(Relaxed);
        if sentinel != 0 {
            self.claim(ProcessorId((sentinel - 1) as u16));
        }
    }

    /// To be called by a processor that will not search for the others any more.
    /// If it was the only one awake, somebody else has to become the sentinel.
    pub(crate) fn relieve(&self) {
        // The sentinel leaves first, then a sleeper looked for. Pairs with the heavy fence in
        // `announce`.
        fence::light();
        if self.sleeping() > 0 {
            self.wake_one();
        }
    }

    /// How often a sentinel has left for what it found itself.
    pub(crate) fn departures(&self) -> u32 {
        self.departures.load(Relaxed)
    }

    /// How many have announced that they sleep.
    pub(crate) fn sleeping(&self) -> u32 {
        self.word.load(Relaxed) & SLEEPERS
    }

    /// The processor that fell asleep last; the sentinel when there is no other.
    #[cold]
    fn wake_one(&self) {
        while let Some(id) = self.pop() {
            if self.claim_if(id, is_counted) {
                return;
            }
        }
        let sentinel = self.sentinel.load(Relaxed);
        if sentinel != 0 {
            self.claim_if(ProcessorId((sentinel - 1) as u16), is_counted);
        }
    }

    /// Wakes this processor, hidden or not. Whether this call did it.
    fn claim(&self, id: ProcessorId) -> bool {
        self.claim_if(id, |_| true)
    }

    /// `SEARCHING | ASLEEP | IN_BED -> NOTIFIED`, if the state is of the kind asked for: an
    /// entry in the stack may be one that a processor left before it hid.
    fn claim_if(&self, id: ProcessorId, kind: impl Fn(u32) -> bool) -> bool {
        let state = &self.sleepers[id.index()].state;
        let mut seen = state.load(Relaxed);
        while matches!(seen & !HIDDEN, SEARCHING | ASLEEP | IN_BED) && kind(seen) {
            // Release: the sleeper sees what the notifier published; pairs with
            // the Acquire in `Announced::sleep`, `sleep_in_bed` and `retract`.
            // Acquire pairs with the Release in `announce` and `sleep_in_bed`.
            match state.compare_exchange_weak(seen, NOTIFIED, AcqRel, Relaxed) {
                Ok(_) => {
                    if is_counted(seen) {
                        self.word.fetch_sub(SLEEPER, Relaxed);
                    }
                    if seen & !HIDDEN == ASLEEP {
                        kernel_wake(state);
                    } else if seen == IN_BED
                        && let Some(bell) = self.sleepers[id.index()].bell.get()
                    {
                        Arc::clone(bell).ring();
                    }
                    return true;
                }
                Err(now) => seen = now,
            }
        }
        false
    }

    fn push(&self, id: ProcessorId) {
        let sleeper = &self.sleepers[id.index()];
        // AcqRel pairs with the same exchange in `pop`: either the popper sees
        // the state that was set before, or we see that it has popped us. Then it
        // has read our `below`, which is written anew.
        if sleeper.stacked.swap(true, AcqRel) {
            return;
        }
        let mut top = self.top.load(Relaxed);
        loop {
            sleeper.below.store(top as u32, Relaxed);
            let new = next_stamp(top) | u64::from(id.0 + 1);
            // Release: the one that pops us reads our `below`.
            match self.top.compare_exchange_weak(top, new, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    fn pop(&self) -> Option<ProcessorId> {
        // Acquire pairs with the Release in `push`.
        let mut top = self.top.load(Acquire);
        loop {
            let index = (top as u32).checked_sub(1)?;
            let sleeper = &self.sleepers[index as usize];
            let new = next_stamp(top) | u64::from(sleeper.below.load(Relaxed));
            // Relaxed: `top` has been acquired already, and an exchange leaves the release of each
            // `push` before it in force.
            match self.top.compare_exchange_weak(top, new, Relaxed, Acquire) {
                Ok(_) => {
                    // AcqRel: see `push`.
                    sleeper.stacked.swap(false, AcqRel);
                    return Some(ProcessorId(index as u16));
                }
                Err(now) => top = now,
            }
        }
    }

    /// The processor has run out of work and looks around before it sleeps.
    pub(crate) fn linger(&self, id: ProcessorId) -> Lingering<'_> {
        self.word.fetch_add(LINGERER, Relaxed);
        Lingering { idle: self, id }
    }

    /// As [`Lingering::announce`], for a processor that runs only what is bound
    /// to it: nobody will wake it for anything else.
    pub(crate) fn hide(&self, id: ProcessorId) -> Announced<'_> {
        self.sleepers[id.index()].state.store(SEARCHING | HIDDEN, Relaxed);
        // As in `announce`.
        fence::heavy();
        Announced { idle: self, id, role: Role::Hidden }
    }
}

/// The upper half of `top` counted on, the lower half empty.
fn next_stamp(top: u64) -> u64 {
    ((top >> 32) + 1) << 32
}

#[cfg(not(sinew_loom))]
fn kernel_wake(state: &AtomicU32) {
    crate::base::kernel::futex_wake(state);
}

#[cfg(sinew_loom)]
fn kernel_wake(_state: &AtomicU32) {}

#[cfg(not(sinew_loom))]
fn kernel_wait(state: &AtomicU32, asleep: u32, timeout: Option<Duration>) -> bool {
    let deadline = timeout.map(|timeout| std::time::Instant::now() + timeout);
    // Acquire pairs with the Release in `claim_if`.
    while state.load(Acquire) == asleep {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(std::time::Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return false;
        }
        crate::base::kernel::futex_wait(state, asleep, left);
    }
    true
}

/// A model has no time: a timed sleep ends at once, any other only when woken.
#[cfg(sinew_loom)]
fn kernel_wait(state: &AtomicU32, asleep: u32, timeout: Option<Duration>) -> bool {
    while state.load(Acquire) == asleep {
        if timeout.is_some() {
            return false;
        }
        loom::thread::yield_now();
    }
    true
}

/// A processor that is awake, has no work, and has promised either to search
/// once more after it announces itself or to hand the duty on.
#[must_use]
pub(crate) struct Lingering<'a> {
    idle: &'a Idle,
    id: ProcessorId,
}

impl<'a> Lingering<'a> {
    /// It found work. If it was the last to linger, strands for which nobody
    /// was woken because of it become another sleeper's matter.
    pub(crate) fn found(self) {
        // Acquire: a processor that is counted as a sleeper here has pushed itself before it
        // ceased to linger; pairs with the Release in `announce`.
        let before = self.idle.word.fetch_sub(LINGERER, Acquire);
        if before & LINGERERS == LINGERER && before & SLEEPERS != 0 {
            self.idle.wake_one();
        }
    }

    /// Announces that the processor is about to sleep. The caller has to search
    /// exhaustively before it does.
    pub(crate) fn announce(self) -> Announced<'a> {
        let Lingering { idle, id } = self;
        // The count first: a notifier that claims the state below takes from it. Release, of the
        // state, pairs with the Acquire in `claim_if`.
        idle.word.fetch_add(SLEEPER, Relaxed);
        idle.sleepers[id.index()].state.store(SEARCHING, Release);
        let sentinel = idle.sentinel.compare_exchange(0, u32::from(id.0) + 1, Relaxed, Relaxed).is_ok();
        if !sentinel {
            idle.push(id);
        }
        // Release pairs with the Acquire in `found`.
        idle.word.fetch_sub(LINGERER, Release);
        // Announce first, then search. Pairs with the light fences in `notify`,
        // `notify_processor` and `wake_sentinel`.
        fence::heavy();
        let mut announced = Announced { idle, id, role: if sentinel { Role::Sentinel } else { Role::Sleeper } };
        // Announce first, then look for the sentinel once more: a sentinel that retires leaves
        // first, and then looks for a sleeper. Pairs with the light fence in `relieve`.
        if idle.sentinel.load(Relaxed) == 0 {
            announced.become_sentinel();
        }
        announced
    }
}

/// A processor that others may see as asleep. It has been entered in the list
/// of sleepers and does not leave it without [`retract`](Announced::retract)
/// or a notification.
#[must_use]
pub(crate) struct Announced<'a> {
    idle: &'a Idle,
    id: ProcessorId,
    role: Role,
}

/// How a sleep ended.
#[must_use]
pub(crate) enum Slept<'a> {
    /// Somebody woke the processor, which is awake again.
    Notified,
    /// The time was up; the processor is still announced.
    TimedOut(Announced<'a>),
}

impl<'a> Announced<'a> {
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Whether the sentinel keeps watch over single strands.
    pub(crate) fn is_watched(&self) -> bool {
        self.idle.word.load(Relaxed) & WATCHED != 0
    }

    /// The sentinel begins or ceases to keep watch: to look, soon and again, for
    /// single strands whose processor does not get to them. Having ceased, the
    /// caller has to search once more.
    pub(crate) fn keep_watch(&self, watch: bool) {
        debug_assert_eq!(self.role, Role::Sentinel);
        if watch {
            self.idle.word.fetch_or(WATCHED, Relaxed);
        } else if self.idle.word.fetch_and(!WATCHED, Relaxed) & WATCHED != 0 {
            // As in `announce`.
            fence::heavy();
        }
    }

    /// `Sleeper -> Deputy`, if there is no other deputy: it wakes up soon by itself, and looks
    /// whether there is a sentinel. Returns whether it is the deputy.
    pub(crate) fn deputise(&mut self) -> bool {
        debug_assert!(matches!(self.role, Role::Sleeper | Role::Deputy));
        if self.role == Role::Sleeper && self.idle.word.fetch_or(DEPUTISED, Relaxed) & DEPUTISED == 0 {
            self.role = Role::Deputy;
        }
        self.role == Role::Deputy
    }

    /// `Deputy -> Sleeper`. The caller has to try to become the sentinel.
    pub(crate) fn resign(&mut self) {
        if self.role == Role::Deputy {
            self.role = Role::Sleeper;
            self.idle.word.fetch_and(!DEPUTISED, Relaxed);
            // Resign first, then look for the sentinel. Pairs with the light fence in `depart`.
            fence::heavy();
        }
    }

    /// `Sleeper | Deputy -> Sentinel`, if there is no sentinel.
    pub(crate) fn become_sentinel(&mut self) {
        let sentinel = &self.idle.sentinel;
        if self.role != Role::Sentinel
            && sentinel.compare_exchange(0, u32::from(self.id.0) + 1, Relaxed, Relaxed).is_ok()
        {
            self.resign();
            self.role = Role::Sentinel;
            // Become the sentinel first, then look at the drivers. Pairs with the light fence in
            // `wake_sentinel`.
            fence::heavy();
        }
    }

    /// Sleeps until notified or until `timeout` has passed.
    pub(crate) fn sleep(self, timeout: Option<Duration>) -> Slept<'a> {
        let state = &self.idle.sleepers[self.id.index()].state;
        let hidden = if self.role == Role::Hidden { HIDDEN } else { 0 };
        let (searching, asleep) = (SEARCHING | hidden, ASLEEP | hidden);
        // Acquire pairs with the Release in `claim_if`. Relaxed: an exchange leaves the release
        // of `announce` in force.
        let notified = state.compare_exchange(searching, asleep, Relaxed, Acquire).is_err()
            || kernel_wait(state, asleep, timeout)
            || state.compare_exchange(asleep, searching, Relaxed, Acquire).is_err();
        if !notified {
            return Slept::TimedOut(self);
        }
        self.wake_up();
        Slept::Notified
    }

    /// As [`sleep`](Announced::sleep), but `sleep` does it, in a driver's bed. It ends when the
    /// bell rings, at the latest. It calls the function that it is given when it is awake, before
    /// it makes any strand ready: the bell need not ring for these strands.
    pub(crate) fn sleep_in_bed(self, bell: impl FnOnce() -> Arc<dyn Bell>, sleep: impl FnOnce(&dyn Fn())) -> Slept<'a> {
        let sleeper = &self.idle.sleepers[self.id.index()];
        sleeper.bell.get_or_init(bell);
        // Release: a thread that claims a sleeper in its bed finds its bell; pairs with the
        // Acquire in `claim_if`. Acquire pairs with the Release there.
        let mut notified = sleeper.state.compare_exchange(SEARCHING, IN_BED, Release, Acquire).is_err();
        if !notified {
            let woke = || {
                // If it has been claimed already, that is seen below.
                let _ = sleeper.state.compare_exchange(IN_BED, SEARCHING, Relaxed, Relaxed);
            };
            sleep(&woke);
            woke();
            // Acquire pairs with the Release in `claim_if`.
            notified = sleeper.state.load(Acquire) == NOTIFIED;
        }
        if !notified {
            return Slept::TimedOut(self);
        }
        self.wake_up();
        Slept::Notified
    }

    /// The search was not in vain: the processor stays awake. What nobody was
    /// woken for on its account becomes another sleeper's matter: because it
    /// lingered, because it kept watch, or because it was the one to be notified.
    pub(crate) fn retract(self) {
        let state = &self.idle.sleepers[self.id.index()].state;
        // Only a claim changes it meanwhile. Acquire pairs with the Release in `claim_if`: the
        // sleeper that is woken instead sees what the claim was for.
        let claimed = state.swap(AWAKE, Acquire) == NOTIFIED;
        if self.role == Role::Hidden {
            return;
        }
        if !claimed {
            self.idle.word.fetch_sub(SLEEPER, Relaxed);
        }
        self.leave_role();
        self.idle.notify(Wake::Backlog);
    }

    /// The sentinel, which had searched before it slept, found something when it woke up,
    /// and will run it. If that is all there is, nobody is woken in its place: it comes
    /// back, or the deputy sees that it does not. Unless there is no deputy, or it owed
    /// something: its watch, or an answer to who notified it.
    pub(crate) fn depart(self) {
        debug_assert_eq!(self.role, Role::Sentinel);
        // As in `retract`.
        let claimed = self.idle.sleepers[self.id.index()].state.swap(AWAKE, Acquire) == NOTIFIED;
        if !claimed {
            self.idle.word.fetch_sub(SLEEPER, Relaxed);
        }
        self.idle.departures.fetch_add(1, Relaxed);
        let watched = self.leave_role();
        // The sentinel leaves first, then the deputy looked for. Pairs with the heavy fence in
        // `resign`.
        fence::light();
        if claimed || watched || self.idle.word.load(Relaxed) & DEPUTISED == 0 {
            self.idle.notify(Wake::Backlog);
        }
    }

    /// `NOTIFIED -> AWAKE`.
    fn wake_up(self) {
        self.idle.sleepers[self.id.index()].state.store(AWAKE, Relaxed);
        self.leave_role();
    }

    /// Gives up its role. Returns whether it kept watch.
    fn leave_role(&self) -> bool {
        match self.role {
            Role::Hidden | Role::Sleeper => false,
            Role::Deputy => {
                self.idle.word.fetch_and(!DEPUTISED, Relaxed);
                false
            }
            Role::Sentinel => {
                let before = self.idle.word.fetch_and(!WATCHED, Relaxed);
                // Release: the next sentinel begins its watch after this one has ended; pairs with
                // the heavy fences in `announce` and `become_sentinel`.
                self.idle.sentinel.store(0, Release);
                before & WATCHED != 0
            }
        }
    }
}
