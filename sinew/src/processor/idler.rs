//! What a processor does when it has run out of strands: it searches, lingers and sleeps.
//!
//! [`idle`](super::idle) has the protocol with threads that make strands ready, and names the roles.
//! This file decides how long a processor lingers, what it sleeps in, and for how long.

use super::idle::{Announced, Role, Slept};
use super::post::Order;
use super::{Event, Processor};
use crate::base::clock::{cycles, cycles_in_us};
use crate::base::probe;
use crate::sched::Effort;
use crate::strand::Ready;
use std::cell::Cell;
use std::time::Duration;

/// A processor lingers for this long before it sleeps. To sleep and to be woken costs half of that,
/// about 10 µs on a virtual machine.
const LINGER_US: u64 = 20;
/// The number of turns of an empty loop between two searches.
const LINGER_PAUSE: u32 = 30;

/// The distance between two looks at drivers while a processor lingers: each look is a call of the
/// kernel, half a microsecond. Unmeasured.
const LOOK_DISTANCE_US: u64 = 5;

/// The sentinel's first and longest sleep while other processors are awake. The longest bounds how
/// long a single strand can wait behind a busy processor.
const WATCH_FIRST: Duration = Duration::from_micros(50);
const WATCH_LAST: Duration = Duration::from_millis(1);

/// A processor stops lingering after it lingered in vain this many times in a row, each time after
/// it had departed for an event or a timer. It starts again when it is woken within [`LINGER_US`] of
/// falling asleep, because lingering would have caught that. It also starts again when it runs out
/// of work that it had not departed for.
const LUCK: u32 = 4;

/// The deputy looks at this distance. It resigns when the sentinel has not departed for this number
/// of looks in a row: with a request every 8 ms, waking a processor each time costs as much.
const DEPUTY_LOOKS: Duration = Duration::from_millis(2);
const DEPUTY_RESIGNS: u32 = 4;

/// What a processor remembers of its idle times. All times are in cycles. Owner: the processor.
pub(super) struct Idler {
    /// When to look at drivers again.
    next_look: Cell<u64>,
    /// Whether the last look found nothing, or the last sleep in a bed ended with fewer than two
    /// events: the next look would probably find nothing.
    is_slack: Cell<bool>,
    /// The number of times that it may still linger in vain; see [`LUCK`].
    luck: Cell<u32>,
    /// Whether it departed, as the sentinel, since it last lingered in vain.
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

    /// Notes that lingering found a strand.
    fn lingered_well(&self) {
        self.luck.set(LUCK);
    }

    /// Notes that lingering found nothing.
    fn lingered_in_vain(&self) {
        self.luck.set(if self.has_departed.take() { self.luck.get().saturating_sub(1) } else { LUCK });
    }

    /// Notes that the processor has slept since `asleep_since`.
    fn slept(&self, asleep_since: u64) {
        if cycles() - asleep_since < self.linger {
            self.luck.set(LUCK);
        }
    }
}

/// One sleep of a processor, which may wake up at times to look.
struct Night {
    /// The next timeout of the sentinel if it keeps watch.
    watch: Duration,
    /// The number of sleeps in a row during which no sentinel departed.
    quiet: u32,
    /// The number of departures at the last look.
    departures: u32,
    /// Whether the last sleep, as the sentinel, ended with an event or a timer.
    has_events: bool,
}

impl Processor {
    /// Searches and sleeps until there is a strand to run. Returns `None` when the processor is to end.
    #[cold]
    pub(super) fn wait_for_work(&self) -> Option<Ready> {
        if self.empty_outbox()
            && let Some(strand) = self.next()
        {
            self.stop_waiting();
            return Some(strand);
        }
        let since = self.begin_idling();
        let found = self.search_and_sleep();
        self.settling.was_idle(self.end_idling(since, &found));
        found
    }

    fn search_and_sleep(&self) -> Option<Ready> {
        while !self.is_to_end() {
            let found = if self.detached.get() { self.rest() } else { self.linger() };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Sleeps until a strand that is bound to this processor becomes ready. Returns a strand if it
    /// found one before it slept.
    fn rest(&self) -> Option<Ready> {
        let hidden = self.cluster.idle().hide(self.post.id());
        let found = self.find(Effort::Polite);
        if found.is_some() || self.is_to_end() {
            hidden.retract();
            return found;
        }
        self.count_sleep();
        self.note(Event::Slept, 0, 0);
        let _ = hidden.sleep(None);
        self.woke_up();
        None
    }

    /// Searches for a while, then sleeps. Returns a strand, or `None` when the processor was woken up.
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
            self.post.meters().spins.add(1);
            (0..LINGER_PAUSE).for_each(|_| std::hint::spin_loop());
        }
    }

    /// Searches once more and sleeps, until it finds a strand or is woken up.
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

    /// A processor that is not the sentinel leaves timers to it: nobody could tell that a processor which counts as asleep
    /// has some in its hands.
    fn search_before_sleep(&self, announced: &Announced<'_>) -> Option<Ready> {
        if announced.role() == Role::Sentinel {
            self.cluster.drivers().fire_due();
        }
        self.find_ready(Effort::Polite).or_else(|| {
            if announced.role() == Role::Sentinel {
                announced.keep_watch(self.cluster.idle().sleeping() < self.cluster.serving());
            }
            // If no sentinel will look again soon, no strand may be left.
            if announced.is_watched() { None } else { self.find_ready(Effort::Greedy) }
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
        self.post.set_load(0);
        self.count_sleep();
        self.note(Event::Slept, 0, 0);
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
        // The sentinel runs what a timer made ready, as it runs what an event made ready.
        let is_due = is_sentinel && drivers.fire_due();
        self.idler.is_sentinel.set(false);
        night.has_events = is_sentinel && (events > 0 || is_due);
        self.idler.slept(asleep_since);
        self.woke_up();
        slept
    }

    /// Notes that the processor has woken up.
    fn woke_up(&self) {
        self.post.beat_pulse(self.clock.read());
        self.cluster.runtime().warden().attend();
    }

    /// Becomes the sentinel if there is none. A deputy resigns after [`DEPUTY_RESIGNS`] looks without a
    /// departure.
    fn look_for_the_sentinel(&self, announced: &mut Announced<'_>, night: &mut Night) {
        let departures = self.cluster.idle().departures();
        night.quiet = if night.departures == departures { night.quiet + 1 } else { 0 };
        night.departures = departures;
        if night.quiet == DEPUTY_RESIGNS {
            announced.resign();
        }
        announced.become_sentinel();
    }

    /// Returns any strand that this processor can run, also one for which a timer is due.
    fn find(&self, effort: Effort) -> Option<Ready> {
        self.cluster.drivers().fire_due();
        self.find_ready(effort)
    }

    /// Returns any strand that this processor can run.
    fn find_ready(&self, effort: Effort) -> Option<Ready> {
        let now = self.clock.read();
        self.post.beat_pulse(now);
        self.see_arrivals();
        self.help(now);
        let found = self.next().or_else(|| self.look()).or_else(|| match self.detached.get() {
            true => None,
            false => self.search_others(now, effort),
        });
        let strand = found.or_else(|| self.lane.take_background(u64::MAX, |ready_at| self.take_deferred(ready_at)))?;
        self.stop_waiting();
        Some(strand)
    }

    fn search_others(&self, now: u64, effort: Effort) -> Option<Ready> {
        let stolen = self.local.search(now, effort)?;
        probe::steal(std::ptr::from_ref(stolen.strand()).cast());
        self.note_strand(Event::Stole, stolen.strand(), 0, 0);
        Some(stolen)
    }

    /// Looks at the drivers, unless it did so a moment ago. Returns a strand if that made one ready
    /// for this processor.
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

    /// Says whether it is better to fall asleep at once: lingering has not helped lately, or the
    /// processor [is alone](Processor::is_alone).
    fn is_pointless_to_linger(&self) -> bool {
        self.idler.luck.get() == 0 || self.is_alone()
    }

    /// Says whether this is the only processor and it has a bed. Then an event comes next, and the
    /// processor waits for it in the bed at once.
    fn is_alone(&self) -> bool {
        self.cluster.serving() == 1 && self.has_bed()
    }

    /// Says whether the processor sleeps in a driver's bed when it is the sentinel.
    fn has_bed(&self) -> bool {
        self.cluster.drivers().bed(self.post.id(), true).is_some()
    }
}
