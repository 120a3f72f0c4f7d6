//! `idle::Idle`: a processor that sleeps in a poller. It is woken by its bell, and an event
//! that the poller reports needs no bell.

use crate::check;
use crate::cluster::Cluster;
use sinew::protocols::{Announced, Bell, Slept, processor};
use sinew::sched::Wake;
use std::sync::Arc;

/// Sleeps in the poller until the bell has rung or `has_event`. A model has no time: a sleep
/// in which neither has happened ends as if its time were up.
fn poll(announced: Announced<'static>, bell: &Arc<Bell>, has_event: impl FnOnce() -> bool) -> Slept<'static> {
    announced.sleep_polling(bell, |waited| {
        if bell.take() || has_event() {
            waited();
        }
    })
}

/// The only processor of the cluster falls asleep in the poller. If it is not awake at the
/// end although there is work, its bell has rung.
#[test]
fn a_processor_in_the_poller_sees_the_work_or_hears_its_bell() {
    for wake in [Wake::Backlog, Wake::Lone, Wake::Processor(processor(0))] {
        check(2, 4, move |turn| {
            let cluster = Cluster::new(1, 1);
            let bell = Arc::new(Bell::default());
            let heard = Arc::clone(&bell);
            let sleeper = move || {
                let announced = cluster.idle.linger(processor(0)).announce();
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
                    "the processor sleeps beside work, and nobody woke it"
                );
            }
            assert_eq!(cluster.idle.sleeping(), 0);
        });
    }
}

/// A processor that is in the poller when it is claimed cannot leave before its bell rings.
#[test]
fn a_claim_of_a_processor_that_waits_in_the_poller_rings_its_bell() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(1, 1);
        let bell = Arc::new(Bell::default());
        let announced = cluster.idle.linger(processor(0)).announce();
        let sleeper = move || {
            let slept = announced.sleep_polling(&bell, |waited| {
                while !bell.take() {
                    loom::thread::yield_now();
                }
                waited();
            });
            assert!(matches!(slept, Slept::Notified), "the bell rang for nobody");
        };
        turn.two(sleeper, move || cluster.publish(0, Wake::Backlog));
        assert_eq!(cluster.idle.sleeping(), 0);
    });
}

/// The poller reports an event while somebody publishes work. The processor goes on for the
/// event; if it was claimed for the work too, it knows.
#[test]
fn an_event_and_a_claim_are_both_seen() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(1, 1);
        let bell = Arc::new(Bell::default());
        let announced = cluster.idle.linger(processor(0)).announce();
        let sleeper = move || match poll(announced, &bell, || true) {
            Slept::Notified => true,
            Slept::TimedOut(still) => {
                // As for an event: it looks for work besides, and stays awake.
                let found = cluster.take(0..1);
                still.retract();
                found
            }
        };
        let (knows, ()) = turn.two(sleeper, move || cluster.publish(0, Wake::Backlog));
        assert_eq!(cluster.idle.sleeping(), 0);
        // A processor that is awake and did not see the work finds it when it searches next.
        assert!(knows || cluster.take(0..1));
    });
}
