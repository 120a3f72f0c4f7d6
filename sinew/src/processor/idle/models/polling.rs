//! A processor that sleeps in a bed. Its bell wakes it. An event that the bed reports needs
//! no bell.

use super::cluster::Cluster;
use crate::base::models::{Watched, check};
use crate::processor::idle::{Announced, Bell, Slept};
use crate::sched::{ProcessorId, Wake};
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

/// What the kernel would tell a bed: the bell has rung.
struct Notification {
    rings: AtomicBool,
    /// Whether the sleeper has hung up its bell.
    hung: Watched<bool>,
}

impl Notification {
    fn new() -> Arc<Notification> {
        Arc::new(Notification { rings: AtomicBool::new(false), hung: Watched::new(false) })
    }

    /// Hangs up the bell. By the processor that goes to bed.
    fn hang(self: &Arc<Self>) -> Arc<dyn Bell> {
        self.hung.set(true);
        Arc::<Notification>::clone(self)
    }

    /// Stops the bell. Returns whether it has rung. By the processor that waits in the bed.
    fn take(&self) -> bool {
        let rings = self.rings.load(Relaxed);
        if rings {
            self.rings.store(false, Relaxed);
        }
        rings
    }
}

impl Bell for Notification {
    fn ring(self: Arc<Self>) {
        assert!(self.hung.get());
        self.rings.store(true, Relaxed);
    }
}

/// Sleeps in the bed until the bell has rung or `has_event`. A model has no time: a sleep
/// in which neither has happened ends as if its time were up.
fn poll(announced: Announced<'static>, bell: &Arc<Notification>, has_event: impl FnOnce() -> bool) -> Slept<'static> {
    announced.sleep_in_bed(
        || bell.hang(),
        |woke| {
            if bell.take() || has_event() {
                woke();
            }
        },
    )
}

/// The only processor of the cluster falls asleep in the bed. If it is asleep at the end
/// although there is work, its bell has rung.
#[test]
fn a_processor_in_the_bed_sees_the_work_or_hears_its_bell() {
    for wake in [Wake::Backlog, Wake::Lone, Wake::Processor(ProcessorId(0))] {
        check(2, 4, move |turn| {
            let cluster = Cluster::new(1, 1);
            let bell = Notification::new();
            let heard = Arc::clone(&bell);
            let sleeper = move || {
                let announced = cluster.idle.linger(ProcessorId(0)).announce();
                if cluster.take(0..1) {
                    announced.retract();
                    return None;
                }
                match poll(announced, &heard, || false) {
                    Slept::Notified => None,
                    Slept::TimedOut(still) => Some(still),
                }
            };
            let (still, ()) = turn.two(sleeper, move || cluster.publish(0, wake));
            if let Some(still) = still {
                assert!(
                    matches!(poll(still, &bell, || false), Slept::Notified),
                    "the processor sleeps beside work, and its bell has not rung"
                );
            }
            assert_eq!(cluster.idle.sleeping(), 0);
        });
    }
}

#[test]
fn a_processor_that_is_notified_in_the_bed_sees_what_it_is_notified_of() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(1, 1);
        let bell = Notification::new();
        let announced = cluster.idle.linger(ProcessorId(0)).announce();
        let sleeper = move || {
            if let Slept::Notified = poll(announced, &bell, || false) {
                assert!(cluster.take(0..1), "notified of work that it does not see");
            }
        };
        turn.two(sleeper, move || cluster.publish(0, Wake::Backlog));
    });
}

/// A processor that is in the bed when it is claimed cannot leave before its bell rings.
#[test]
fn a_claim_of_a_processor_that_waits_in_the_bed_rings_its_bell() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(1, 1);
        let bell = Notification::new();
        let announced = cluster.idle.linger(ProcessorId(0)).announce();
        let sleeper = move || {
            let slept = announced.sleep_in_bed(
                || bell.hang(),
                |woke| {
                    while !bell.take() {
                        loom::thread::yield_now();
                    }
                    woke();
                },
            );
            assert!(matches!(slept, Slept::Notified), "the bell rang, and the processor was not notified");
        };
        turn.two(sleeper, move || cluster.publish(0, Wake::Backlog));
        assert_eq!(cluster.idle.sleeping(), 0);
    });
}

/// The bed reports an event while a notifier publishes work. The processor stays awake for the
/// event, whether it was claimed for the work or not.
#[test]
fn a_sleeper_with_an_event_and_a_claim_is_uncounted_once() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(1, 1);
        let bell = Notification::new();
        let announced = cluster.idle.linger(ProcessorId(0)).announce();
        let sleeper = move || {
            if let Slept::TimedOut(still) = poll(announced, &bell, || true) {
                still.retract();
            }
        };
        turn.two(sleeper, move || cluster.publish(0, Wake::Backlog));
        assert_eq!(cluster.idle.sleeping(), 0);
    });
}
