//! What a processor does when it has run out of strands: it searches, lingers and sleeps.
//!
//! The protocol with those who make strands ready is that of [`idle`](crate::processor::idle).

use super::{Order, Processor};
use crate::base::clock;
use crate::processor::idle::Slept;
use crate::sched::Effort;
use crate::strand::Ready;
use std::time::Duration;

/// How long a processor looks around before it sleeps. Sleeping and being woken
/// costs about as much here: 10 µs on a virtual machine.
pub(super) const LINGER_US: u64 = 20;
/// How many turns of an empty loop lie between two looks.
const LINGER_PAUSE: u32 = 30;

/// How far apart looks at the poller are while a processor lingers: each is a call of
/// the kernel, half a microsecond. Unmeasured.
pub(super) const LOOK_DISTANCE_US: u64 = 5;

/// How long the sentinel sleeps at first, and at most, while others are awake:
/// this bounds how long a single strand can wait behind a busy processor.
const WATCH_FIRST: Duration = Duration::from_micros(50);
const WATCH_LAST: Duration = Duration::from_millis(1);

/// Who has lingered so often in vain after it had run what the kernel told it of does not,
/// until it is woken so soon after it fell asleep that it should have.
pub(super) const LUCK: u32 = 4;

/// The deputy looks this often, and resigns when the sentinel has not left so many times
/// in a row: for a request every 8 ms, waking a processor each time costs as much.
const DEPUTY_LOOKS: Duration = Duration::from_millis(2);
const DEPUTY_RESIGNS: u32 = 4;

impl Processor {
    /// Anything that can be run by this processor.
    fn find(&self, effort: Effort) -> Option<Ready> {
        self.now.set(clock::cycles());
        self.cluster.timers().fire_due();
        let found = self.next().or_else(|| self.look()).or_else(|| match self.detached.get() {
            true => None,
            false => self.local.search(self.now.get(), effort),
        });
        let strand = found.or_else(|| self.take_background(u64::MAX))?;
        self.stop_waiting();
        Some(strand)
    }

    /// Looks for descriptors that have become ready, and gives a strand if that made one
    /// ready here.
    fn look(&self) -> Option<Ready> {
        let now = self.now.get();
        if now < self.next_look.get() || (self.is_slack.get() && self.is_pointless_to_linger()) {
            return None;
        }
        self.next_look.set(now + self.look_distance);
        let found = self.cluster.pollers().look(self.post.id(), now);
        self.is_slack.set(!found);
        if found { self.next() } else { None }
    }

    /// Whether it is better to fall asleep at once: to wake up in time has never failed
    /// lately, or there is nothing else to wait for.
    fn is_pointless_to_linger(&self) -> bool {
        self.luck.get() == 0 || self.is_alone()
    }

    /// Whether there is a poller and no other processor: what comes next is an event of the
    /// kernel's then, which is best waited for in there, at once.
    fn is_alone(&self) -> bool {
        self.cluster.serving() == 1 && self.has_poller()
    }

    /// Whether the processor sleeps in a poller when it is the sentinel.
    fn has_poller(&self) -> bool {
        self.cluster.pollers().to_sleep_in(self.post.id(), true).is_some()
    }

    /// Tells the scheduler, which may have been told otherwise, that the
    /// processor does not wait for it.
    pub(super) fn stop_waiting(&self) {
        if !self.detached.get() {
            let wake = self.local.retract(self.now.get());
            self.cluster.idle().notify(wake);
        }
    }

    /// Finds something to run, or sleeps until there is. `None` when the
    /// processor is to end.
    #[cold]
    pub(super) fn wait_for_work(&self) -> Option<Ready> {
        while !self.is_to_end() {
            let found = if self.detached.get() { self.rest() } else { self.linger() };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Sleeps until a strand that is bound to this processor becomes ready.
    fn rest(&self) -> Option<Ready> {
        let hidden = self.cluster.idle().hide(self.post.id());
        let found = self.find(Effort::Polite);
        if found.is_some() || self.is_to_end() {
            hidden.retract();
            return found;
        }
        let _ = hidden.sleep(None);
        None
    }

    /// Looks around for a while, then sleeps. Returns what it found, or nothing
    /// when it was woken up.
    fn linger(&self) -> Option<Ready> {
        let idle = self.cluster.idle();
        let lingering = idle.linger(self.post.id());
        let end = clock::cycles() + if self.is_pointless_to_linger() { 0 } else { self.linger };
        let mut has_lingered = false;
        loop {
            if let Some(strand) = self.find(Effort::Polite) {
                if has_lingered {
                    self.luck.set(LUCK);
                }
                lingering.found();
                return Some(strand);
            }
            if self.now.get() >= end {
                break;
            }
            has_lingered = true;
            (0..LINGER_PAUSE).for_each(|_| std::hint::spin_loop());
        }
        self.luck.set(if self.has_departed.take() { self.luck.get().saturating_sub(1) } else { LUCK });
        let mut announced = lingering.announce();
        let mut watch = WATCH_FIRST;
        let (mut has_events, mut quiet, mut departures) = (false, 0, idle.departures());
        loop {
            let found = self.find(Effort::Polite).or_else(|| {
                if announced.is_sentinel() {
                    announced.keep_watch(idle.sleeping() < self.cluster.serving());
                }
                // Where nobody will look again soon, nothing may be left.
                if announced.is_watched() { None } else { self.find(Effort::Greedy) }
            });
            if found.is_some() && has_events {
                self.has_departed.set(true);
                announced.depart();
                return found;
            }
            if found.is_some() || self.post.order() != Order::Serve {
                announced.retract();
                return found;
            }
            let is_sentinel = announced.is_sentinel();
            let poller = self.cluster.pollers().to_sleep_in(self.post.id(), is_sentinel);
            let timeout = match is_sentinel {
                false => (quiet < DEPUTY_RESIGNS && self.has_poller() && announced.deputise()).then_some(DEPUTY_LOOKS),
                true => {
                    let watch = announced.is_watched().then_some(watch);
                    self.cluster.timers().until_next().into_iter().chain(watch).min()
                }
            };
            let asleep_since = clock::cycles();
            let mut events = 0;
            self.is_sentinel.set(is_sentinel);
            let slept = match poller {
                Some(poller) => announced.sleep_polling(poller.bell(), |waited| {
                    events = poller.wait(timeout, waited);
                    self.is_slack.set(events < 2);
                }),
                None => announced.sleep(timeout),
            };
            // What is due is the sentinel's own to run, as what an event is for.
            let is_due = is_sentinel && self.cluster.timers().fire_due();
            self.is_sentinel.set(false);
            has_events = is_sentinel && (events > 0 || is_due);
            if clock::cycles() - asleep_since < self.linger {
                self.luck.set(LUCK);
            }
            match slept {
                Slept::Notified => return None,
                Slept::TimedOut(still) => announced = still,
            }
            if !is_sentinel {
                quiet = if departures == idle.departures() { quiet + 1 } else { 0 };
                departures = idle.departures();
                if quiet == DEPUTY_RESIGNS {
                    announced.resign();
                }
                announced.become_sentinel();
            }
            watch = (watch * 2).min(WATCH_LAST);
        }
    }
}
