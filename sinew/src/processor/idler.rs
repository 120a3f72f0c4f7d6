//! What a processor does when it has run out of strands: it searches, lingers and sleeps.
//!
//! The protocol with those who make strands ready is that of [`idle`](super::idle), which names
//! the roles. This file decides how long a processor lingers, what it sleeps in, and for how long.

use super::Processor;
use super::idle::{Announced, Role, Slept};
use super::post::Order;
use crate::base::clock::{cycles, cycles_in_us};
use crate::sched::Effort;
use crate::strand::Ready;
use std::cell::Cell;
use std::time::Duration;

/// A processor lingers for this long before it sleeps. To sleep and to be woken costs about half
/// of it: 10 µs on a virtual machine.
const LINGER_US: u64 = 20;
/// The number of turns of an empty loop between two looks.
const LINGER_PAUSE: u32 = 30;

/// The distance between two looks at drivers while a processor lingers: each look is a call of the
/// kernel, half a microsecond. Unmeasured.
const LOOK_DISTANCE_US: u64 = 5;

/// The sentinel's first and longest sleep while other processors are awake. The longest bounds how
/// long a single strand can wait behind a busy processor.
const WATCH_FIRST: Duration = Duration::from_micros(50);
const WATCH_LAST: Duration = Duration::from_millis(1);

/// A processor stops lingering after it lingered in vain this many times in a row, each time after
/// it had run what the kernel told it of. It starts again when it is woken within [`LINGER_US`] of
/// falling asleep: lingering would have caught that.
const LUCK: u32 = 4;

/// The deputy looks this often. It resigns when the sentinel has not left for this many looks in a
/// row: for a request every 8 ms, waking a processor each time costs as much.
const DEPUTY_LOOKS: Duration = Duration::from_millis(2);
const DEPUTY_RESIGNS: u32 = 4;

/// What a processor remembers of its idle times. All times are in cycles.
pub(super) struct Idler {
    /// When to look at drivers again.
    next_look: Cell<u64>,
    /// Whether the last look found nothing, and no two strands have become ready at once since:
    /// the next look would find nothing either.
    is_slack: Cell<bool>,
    /// How often it may still linger in vain.
    luck: Cell<u32>,
    /// Whether it stopped being idle for an event.
    has_departed: Cell<bool>,
    /// Whether it sleeps as the sentinel.
    is_sentinel: Cell<bool>,
    look_distance: u64,
    linger: u64,
}

impl Idler {
    pub(super) fn new() -> Idler {
        Idler {
            next_look: Cell::new(0),
            is_slack: Cell::new(false),
            luck: Cell::new(LUCK),
            has_departed: Cell::new(false),
            is_sentinel: Cell::new(false),
            look_distance: cycles_in_us(LOOK_DISTANCE_US),
            linger: cycles_in_us(LINGER_US),
        }
    }

    pub(super) fn is_sentinel(&self) -> bool {
        self.is_sentinel.get()
    }

    /// Lingering found something.
    fn lingered_well(&self) {
        self.luck.set(LUCK);
    }

    /// Lingering found nothing.
    fn lingered_in_vain(&self) {
        self.luck.set(if self.has_departed.take() { self.luck.get().saturating_sub(1) } else { LUCK });
    }

    /// It slept since `asleep_since`.
    fn slept(&self, asleep_since: u64) {
        if cycles() - asleep_since < self.linger {
            self.luck.set(LUCK);
        }
    }
}

/// One sleep of a processor, which may wake up at times to look.
struct Night {
    /// How long the sentinel sleeps next if it keeps watch.
    watch: Duration,
    /// How many times in a row the deputy has seen that the sentinel did not leave.
    quiet: u32,
    departures: u32,
    /// Whether the last sleep, as the sentinel, ended with an event or a timer.
    has_events: bool,
}

impl Processor {
    /// Finds something to run, or sleeps until there is. `None` when the processor is to end.
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

    /// Searches for a while, then sleeps. Returns what it found, or `None` when it was woken up.
    fn linger(&self) -> Option<Ready> {
        let lingering = self.cluster.idle().linger(self.post.id());
        if let Some(strand) = self.search_for_a_while() {
            lingering.found();
            return Some(strand);
        }
        self.fall_asleep(lingering.announce())
    }

    fn search_for_a_while(&self) -> Option<Ready> {
        let end = cycles() + if self.is_pointless_to_linger() { 0 } else { self.idler.linger };
        let mut has_lingered = false;
        loop {
            if let Some(strand) = self.find(Effort::Polite) {
                if has_lingered {
                    self.idler.lingered_well();
                }
                return Some(strand);
            }
            if self.clock.now() >= end {
                self.idler.lingered_in_vain();
                return None;
            }
            has_lingered = true;
            (0..LINGER_PAUSE).for_each(|_| std::hint::spin_loop());
        }
    }

    /// Searches once more, and sleeps until it finds something or is woken up.
    fn fall_asleep<'a>(&'a self, mut announced: Announced<'a>) -> Option<Ready> {
        let departures = self.cluster.idle().departures();
        let mut night = Night { watch: WATCH_FIRST, quiet: 0, departures, has_events: false };
        loop {
            let found = self.search_before_sleep(&announced);
            if found.is_some() && night.has_events {
                self.idler.has_departed.set(true);
                announced.depart();
                return found;
            }
            if found.is_some() || self.post.order() != Order::Serve {
                announced.retract();
                return found;
            }
            match self.sleep(announced, &mut night) {
                Slept::Notified => return None,
                Slept::TimedOut(still) => announced = still,
            }
            if announced.role() != Role::Sentinel {
                self.look_for_the_sentinel(&mut announced, &mut night);
            }
            night.watch = (night.watch * 2).min(WATCH_LAST);
        }
    }

    fn search_before_sleep(&self, announced: &Announced<'_>) -> Option<Ready> {
        self.find(Effort::Polite).or_else(|| {
            if announced.role() == Role::Sentinel {
                announced.keep_watch(self.cluster.idle().sleeping() < self.cluster.serving());
            }
            // Where nobody will look again soon, nothing may be left.
            if announced.is_watched() { None } else { self.find(Effort::Greedy) }
        })
    }

    /// Sleeps once: in the bed that a driver has for this processor, or on a word of its own.
    fn sleep<'a>(&'a self, mut announced: Announced<'a>, night: &mut Night) -> Slept<'a> {
        let drivers = self.cluster.drivers();
        let is_sentinel = announced.role() == Role::Sentinel;
        let bed = drivers.bed(self.post.id(), is_sentinel);
        let timeout = if is_sentinel {
            let watch = announced.is_watched().then_some(night.watch);
            drivers.until_next().into_iter().chain(watch).min()
        } else {
            let may_deputise = night.quiet < DEPUTY_RESIGNS && self.has_bed();
            (may_deputise && announced.deputise()).then_some(DEPUTY_LOOKS)
        };
        let asleep_since = cycles();
        let mut events = 0;
        self.idler.is_sentinel.set(is_sentinel);
        let slept = match bed {
            Some(bed) => announced.sleep_in_bed(
                || bed.bell(),
                |woke| {
                    events = bed.sleep(timeout, woke);
                    self.idler.is_slack.set(events < 2);
                },
            ),
            None => announced.sleep(timeout),
        };
        // What is due is the sentinel's own to run, as what an event is for.
        let is_due = is_sentinel && drivers.fire_due();
        self.idler.is_sentinel.set(false);
        night.has_events = is_sentinel && (events > 0 || is_due);
        self.idler.slept(asleep_since);
        slept
    }

    /// Becomes the sentinel if there is none. The deputy resigns if the sentinel never leaves.
    fn look_for_the_sentinel(&self, announced: &mut Announced<'_>, night: &mut Night) {
        let departures = self.cluster.idle().departures();
        night.quiet = if night.departures == departures { night.quiet + 1 } else { 0 };
        night.departures = departures;
        if night.quiet == DEPUTY_RESIGNS {
            announced.resign();
        }
        announced.become_sentinel();
    }

    /// Returns anything that this processor can run.
    fn find(&self, effort: Effort) -> Option<Ready> {
        let now = self.clock.read();
        self.cluster.drivers().fire_due();
        let found = self.next().or_else(|| self.look()).or_else(|| match self.detached.get() {
            true => None,
            false => self.local.search(now, effort),
        });
        let strand = found.or_else(|| self.lane.take_background(u64::MAX, |ready_at| self.take_deferred(ready_at)))?;
        self.stop_waiting();
        Some(strand)
    }

    /// Looks at the drivers. Returns a strand if that made one ready here.
    fn look(&self) -> Option<Ready> {
        let now = self.clock.now();
        if now < self.idler.next_look.get() || (self.idler.is_slack.get() && self.is_pointless_to_linger()) {
            return None;
        }
        self.idler.next_look.set(now + self.idler.look_distance);
        let found = self.cluster.drivers().look(self.post.id(), now);
        self.idler.is_slack.set(!found);
        if found { self.next() } else { None }
    }

    /// Says whether it is better to fall asleep at once: lingering has not helped lately, or there
    /// is nothing to linger for.
    fn is_pointless_to_linger(&self) -> bool {
        self.idler.luck.get() == 0 || self.is_alone()
    }

    /// Says whether there is a bed and no other processor: then an event comes next, which is best
    /// waited for in the bed, at once.
    fn is_alone(&self) -> bool {
        self.cluster.serving() == 1 && self.has_bed()
    }

    /// Says whether the processor sleeps in a driver's bed when it is the sentinel.
    fn has_bed(&self) -> bool {
        self.cluster.drivers().bed(self.post.id(), true).is_some()
    }
}
