#![doc = include_str!("README.md")]

#[cfg(all(test, sinew_loom))]
mod models;

use super::driver::Bell;
use crate::base::atomic::{AcqRel, Acquire, AtomicBool, AtomicU32, AtomicU64, Relaxed, Release};
use crate::base::fence;
use crate::sched::{ProcessorId, Wake};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// States of a processor's word, which is also what it sleeps on in the kernel. The essay has the
/// table of transitions.
const AWAKE: u32 = 0;
const SEARCHING: u32 = 1;
const ASLEEP: u32 = 2;
const NOTIFIED: u32 = 3;
/// A flag beside SEARCHING and ASLEEP, for a processor that `Idle::word` does not count.
const HIDDEN: u32 = 4;
/// As ASLEEP, but in a driver's bed.
const IN_BED: u32 = 8;

/// Says whether `Idle::word` counts a processor with this state, if it is announced.
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
    /// The number of announced processors, the number of lingering ones, whether there is a deputy,
    /// and whether the sentinel keeps watch. Written by processors that fall asleep or wake up, and by
    /// each claim; read by each thread that makes a strand ready.
    word: AtomicU32,
    /// The stack of sleepers. The upper half is a counter against ABA, the lower half is the index
    /// of the top sleeper plus one.
    top: AtomicU64,
    /// The index plus one of the sentinel, or 0.
    sentinel: AtomicU32,
    /// The number of times that a sentinel has departed.
    departures: AtomicU32,
    sleepers: Box<[Sleeper]>,
    /// Whether the cluster has had one processor only, up to now. Cleared before a second one begins.
    is_alone: AtomicBool,
    /// Whether the cluster was built with one processor. Then threads that are no processors of the
    /// cluster execute a full fence. Never changes.
    began_alone: bool,
}

struct Sleeper {
    /// AWAKE, SEARCHING, ASLEEP, NOTIFIED or IN_BED, with HIDDEN or without.
    state: AtomicU32,
    /// The index plus one of the sleeper below. Written by its processor before it pushes itself.
    below: AtomicU32,
    /// Whether the stack has an entry of this processor, which may have woken up since.
    stacked: AtomicBool,
    /// The bell of the bed that it sleeps in when its state is IN_BED.
    bell: OnceLock<Arc<dyn Bell>>,
}

/// What an idle processor is to the others. See the essay for the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It retires: only strands that are bound to it, and orders, wake it.
    Hidden,
    /// It sleeps until it is notified.
    Sleeper,
    /// It wakes up at times, to see whether there is a sentinel.
    Deputy,
    /// It minds the drivers for the others.
    Sentinel,
}

impl Idle {
    /// Makes room for `capacity` processors. `alone` says that the cluster begins with one.
    pub(crate) fn new(capacity: usize, alone: bool) -> Self {
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
            is_alone: AtomicBool::new(alone),
            began_alone: alone,
        }
    }

    /// Prepares for a second processor. Before it begins.
    pub(crate) fn expect_company(&self) {
        self.is_alone.store(false, Relaxed);
        // Pairs with the full fence in `fence_asleep`.
        fence::heavy();
    }

    /// Is the fence of a processor that announced itself, before it searches. It is a heavy one, unless
    /// all other threads that make strands ready execute a full one: see `fence_outside`.
    fn fence_asleep(&self) {
        fence::full();
        if !self.is_alone.load(Relaxed) {
            fence::heavy();
        }
    }

    /// Is the fence of a thread that may be no processor of the cluster, after it has published something.
    #[inline]
    fn fence_outside(&self) {
        if self.began_alone {
            fence::full();
        } else {
            fence::light();
        }
    }

    /// Wakes a processor if one is needed, and never waits. Every processor that has put a strand into a
    /// queue of its own cluster calls this after that.
    #[inline]
    pub(crate) fn notify(&self, wake: Wake) {
        if wake == Wake::Nobody {
            return;
        }
        // Publish first, then look for sleepers. Pairs with the fence in `Lingering::announce`.
        fence::light();
        self.notify_sleepers(wake);
    }

    /// As [`notify`](Idle::notify), by any thread.
    pub(crate) fn notify_from_outside(&self, wake: Wake) {
        if wake != Wake::Nobody {
            // As in `notify`.
            self.fence_outside();
            self.notify_sleepers(wake);
        }
    }

    #[inline]
    fn notify_sleepers(&self, wake: Wake) {
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
            // A processor lingers. It searches once more after it has announced itself, or wakes
            // another when it finds work.
            Wake::Lone | Wake::Backlog if word & LINGERERS != 0 => {}
            Wake::Lone if word & WATCHED != 0 => {}
            Wake::Lone | Wake::Backlog => self.wake_one(),
        }
    }

    /// Wakes `id` if it is not awake. Every caller that has put a strand where only `id` looks calls
    /// this after that.
    #[inline]
    pub(crate) fn notify_processor(&self, id: ProcessorId) {
        // Pairs with the fences in `announce` and `hide`, as in `notify`.
        self.fence_outside();
        if self.sleepers[id.index()].state.load(Relaxed) != AWAKE {
            self.claim(id);
        }
    }

    /// Wakes `id`, hidden or not, so that it sees an order or what it has inherited.
    pub(crate) fn wake_processor(&self, id: ProcessorId) {
        fence::heavy();
        self.claim(id);
    }

    /// Wakes the sentinel, so that it looks at its timers again.
    pub(crate) fn wake_sentinel(&self) {
        // Arm the timer first, then look for the sentinel. Pairs with the fences in `announce` and
        // `become_sentinel`.
        self.fence_outside();
        let sentinel = self.sentinel.load(Relaxed);
        if sentinel != 0 {
            self.claim(ProcessorId((sentinel - 1) as u16));
        }
    }

    /// Wakes a sleeper if there is one. A processor that will not search for the others any more
    /// calls this: if it was the only one awake, another one has to become the sentinel.
    pub(crate) fn relieve(&self) {
        // Leave the role of the sentinel first, then look for sleepers. Pairs with the heavy fence in
        // `announce`.
        fence::light();
        if self.sleeping() > 0 {
            self.wake_one();
        }
    }

    /// Says whether the processor sleeps, and nobody has woken it.
    pub(crate) fn is_asleep(&self, id: ProcessorId) -> bool {
        matches!(self.sleepers[id.index()].state.load(Relaxed) & !HIDDEN, ASLEEP | IN_BED)
    }

    /// Returns the number of times that a sentinel has departed.
    pub(crate) fn departures(&self) -> u32 {
        self.departures.load(Relaxed)
    }

    /// Returns the number of announced processors.
    pub(crate) fn sleeping(&self) -> u32 {
        self.word.load(Relaxed) & SLEEPERS
    }

    /// Wakes the sleeper that announced itself last, or the sentinel if there is no other.
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

    /// As [`claim_if`](Idle::claim_if), for a processor that is hidden or not.
    fn claim(&self, id: ProcessorId) -> bool {
        self.claim_if(id, |_| true)
    }

    /// `SEARCHING | ASLEEP | IN_BED -> NOTIFIED`, if `kind` accepts the state: an entry in the stack
    /// may be one that a processor left before it hid. Returns whether this call notified it.
    fn claim_if(&self, id: ProcessorId, kind: impl Fn(u32) -> bool) -> bool {
        let state = &self.sleepers[id.index()].state;
        let mut seen = state.load(Relaxed);
        while matches!(seen & !HIDDEN, SEARCHING | ASLEEP | IN_BED) && kind(seen) {
            // Release: the sleeper sees what the notifier published; pairs with the Acquire in
            // `sleep`, `kernel_wait`, `sleep_in_bed`, `retract` and `depart`. Acquire pairs with the
            // Release in `announce` and `sleep_in_bed`.
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

    /// Puts a sleeper on top of the stack, unless its last entry is still there.
    fn push(&self, id: ProcessorId) {
        let sleeper = &self.sleepers[id.index()];
        // AcqRel pairs with the same exchange in `pop`: either the popper sees the state that was set
        // before, or this processor sees that its entry has been popped. Then the popper has read
        // `below`, which is written anew.
        if sleeper.stacked.swap(true, AcqRel) {
            return;
        }
        let mut top = self.top.load(Relaxed);
        loop {
            sleeper.below.store(top as u32, Relaxed);
            let new = next_stamp(top) | u64::from(id.0 + 1);
            // Release: the popper reads `below`; pairs with the Acquire in `pop`.
            match self.top.compare_exchange_weak(top, new, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Takes the top entry off the stack.
    fn pop(&self) -> Option<ProcessorId> {
        // Acquire pairs with the Release in `push`.
        let mut top = self.top.load(Acquire);
        loop {
            let index = (top as u32).checked_sub(1)?;
            let sleeper = &self.sleepers[index as usize];
            let new = next_stamp(top) | u64::from(sleeper.below.load(Relaxed));
            // Relaxed: `top` has been acquired already. An exchange continues the release sequence of
            // each `push` before it.
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

    /// Counts a processor that has run out of work, and searches before it sleeps.
    pub(crate) fn linger(&self, id: ProcessorId) -> Lingering<'_> {
        self.word.fetch_add(LINGERER, Relaxed);
        Lingering { idle: self, id }
    }

    /// `AWAKE -> SEARCHING + HIDDEN`. As [`Lingering::announce`], for a processor that runs only
    /// strands that are bound to it: no other strand wakes it.
    pub(crate) fn hide(&self, id: ProcessorId) -> Announced<'_> {
        self.sleepers[id.index()].state.store(SEARCHING | HIDDEN, Relaxed);
        // Hide first, then search. Pairs with the light fence in `notify_processor`.
        fence::heavy();
        Announced { idle: self, id, role: Role::Hidden }
    }
}

/// Returns the counter in the upper half of `top` plus one, and an empty lower half.
fn next_stamp(top: u64) -> u64 {
    ((top >> 32) + 1) << 32
}

#[cfg(not(sinew_loom))]
fn kernel_wake(state: &AtomicU32) {
    crate::base::kernel::futex_wake(state);
}

#[cfg(sinew_loom)]
fn kernel_wake(_state: &AtomicU32) {}

/// Sleeps in the kernel while the state is `asleep`. Returns `false` if the time was up first.
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

/// A model has no time: a sleep with a timeout ends at once, any other only when it is woken.
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

/// A processor that is awake and has no work. It either announces itself and searches once more, or
/// wakes another processor when it finds work.
#[must_use]
pub(crate) struct Lingering<'a> {
    idle: &'a Idle,
    id: ProcessorId,
}

impl<'a> Lingering<'a> {
    /// Ends the lingering of a processor that has found work. If it was the last one to linger, wakes
    /// a sleeper: strands became ready meanwhile for which no sleeper was woken.
    pub(crate) fn found(self) {
        // Acquire: a processor that is counted as a sleeper here has pushed itself before it
        // stopped lingering; pairs with the Release in `announce`.
        let before = self.idle.word.fetch_sub(LINGERER, Acquire);
        if before & LINGERERS == LINGERER && before & SLEEPERS != 0 {
            self.idle.wake_one();
        }
    }

    /// `AWAKE -> SEARCHING`. Announces that the processor is about to sleep. The caller has to search
    /// everything before it sleeps.
    pub(crate) fn announce(self) -> Announced<'a> {
        let Lingering { idle, id } = self;
        // The count comes first, because a claim of the state below lowers it. The Release of the
        // state pairs with the Acquire in `claim_if`.
        idle.word.fetch_add(SLEEPER, Relaxed);
        idle.sleepers[id.index()].state.store(SEARCHING, Release);
        let sentinel = idle.sentinel.compare_exchange(0, u32::from(id.0) + 1, Relaxed, Relaxed).is_ok();
        if !sentinel {
            idle.push(id);
        }
        // Release pairs with the Acquire in `found`.
        idle.word.fetch_sub(LINGERER, Release);
        // Announce first, then search. Pairs with the fences in `notify`, `notify_processor` and
        // `wake_sentinel`.
        idle.fence_asleep();
        let mut announced = Announced { idle, id, role: if sentinel { Role::Sentinel } else { Role::Sleeper } };
        // Announce first, then look for the sentinel once more: a sentinel that retires leaves
        // first, and then looks for a sleeper. Pairs with the light fence in `relieve`.
        if idle.sentinel.load(Relaxed) == 0 {
            announced.become_sentinel();
        }
        announced
    }
}

/// A processor that other threads may see as asleep: it is SEARCHING, or has been notified since. It
/// stays announced until it is notified, or until [`retract`](Announced::retract) or
/// [`depart`](Announced::depart).
#[must_use]
pub(crate) struct Announced<'a> {
    idle: &'a Idle,
    id: ProcessorId,
    role: Role,
}

/// How a sleep ended.
#[must_use]
pub(crate) enum Slept<'a> {
    /// A claim has woken the processor, which is AWAKE again.
    Notified,
    /// The time was up, or the bed had events. The processor is still announced.
    TimedOut(Announced<'a>),
}

impl<'a> Announced<'a> {
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Says whether the sentinel keeps watch.
    pub(crate) fn is_watched(&self) -> bool {
        self.idle.word.load(Relaxed) & WATCHED != 0
    }

    /// Begins or stops to keep watch: to look, soon and repeatedly, for lone strands that their
    /// processor does not get to. After it stops, the caller has to search once more. By the
    /// sentinel.
    pub(crate) fn keep_watch(&self, watch: bool) {
        debug_assert_eq!(self.role, Role::Sentinel);
        if watch {
            self.idle.word.fetch_or(WATCHED, Relaxed);
        } else if self.idle.word.fetch_and(!WATCHED, Relaxed) & WATCHED != 0 {
            // Stop first, then search. Pairs with the light fence in `notify`.
            fence::heavy();
        }
    }

    /// `Sleeper -> Deputy`, if there is no other deputy. The deputy has to wake up soon by itself and
    /// look for the sentinel. Returns whether the processor is the deputy.
    pub(crate) fn deputise(&mut self) -> bool {
        debug_assert!(matches!(self.role, Role::Sleeper | Role::Deputy));
        if self.role == Role::Sleeper && self.idle.word.fetch_or(DEPUTISED, Relaxed) & DEPUTISED == 0 {
            self.role = Role::Deputy;
        }
        self.role == Role::Deputy
    }

    /// `Deputy -> Sleeper`. The caller then has to call `become_sentinel`.
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

    /// `SEARCHING -> ASLEEP -> NOTIFIED -> AWAKE`, or `-> SEARCHING` when `timeout` has passed.
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

    /// `SEARCHING -> IN_BED -> NOTIFIED -> AWAKE`, or `-> SEARCHING` when the sleep in the bed is
    /// over. The function `sleep` sleeps in a driver's bed, until the bell rings at the latest. It
    /// calls the function that it gets when it is awake, before it makes any strand ready: the bell
    /// need not ring for these strands.
    pub(crate) fn sleep_in_bed(self, bell: impl FnOnce() -> Arc<dyn Bell>, sleep: impl FnOnce(&dyn Fn())) -> Slept<'a> {
        let sleeper = &self.idle.sleepers[self.id.index()];
        sleeper.bell.get_or_init(bell);
        // Release: a thread that claims a processor in a bed finds its bell; pairs with the Acquire
        // in `claim_if`. Acquire pairs with the Release there.
        let mut notified = sleeper.state.compare_exchange(SEARCHING, IN_BED, Release, Acquire).is_err();
        if !notified {
            let woke = || {
                // If a claim came first, the load below sees it.
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

    /// `SEARCHING | NOTIFIED -> AWAKE`, for a processor that has found work or an order. Notifies in
    /// its place: no sleeper was woken for some strands because this processor lingered, kept watch,
    /// or was the one to be notified.
    pub(crate) fn retract(self) {
        let state = &self.idle.sleepers[self.id.index()].state;
        // Only a claim changes the state meanwhile. Acquire pairs with the Release in `claim_if`: the
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

    /// `SEARCHING | NOTIFIED -> AWAKE`, for a sentinel that has searched before it slept, and now runs
    /// what an event or a timer made ready. It wakes no processor in its place: it comes back, or the
    /// deputy sees that it does not. It does notify if there is no deputy, if it kept watch, or if it
    /// was notified meanwhile.
    pub(crate) fn depart(self) {
        debug_assert_eq!(self.role, Role::Sentinel);
        // Acquire as in `retract`.
        let claimed = self.idle.sleepers[self.id.index()].state.swap(AWAKE, Acquire) == NOTIFIED;
        if !claimed {
            self.idle.word.fetch_sub(SLEEPER, Relaxed);
        }
        self.idle.departures.fetch_add(1, Relaxed);
        let watched = self.leave_role();
        // Leave the role of the sentinel first, then look for the deputy. Pairs with the heavy fence
        // in `resign`.
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

    /// Gives up the processor's role. Returns whether it kept watch.
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
