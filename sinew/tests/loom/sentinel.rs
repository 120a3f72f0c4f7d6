//! `idle::Idle`: the sentinel, which minds the clock and keeps watch.

use crate::check;
use crate::cluster::{Cluster, Processor, Server, asleep};
use loom::thread;
use sinew::protocols::processor;
use sinew::sched::Wake;

/// Work 0 stands for a timer that is due before all others.
#[test]
fn a_timer_is_seen_by_the_sentinel_or_rouses_it() {
    check(4, || {
        let cluster = Cluster::new(1, 1);
        let sentinel = cluster.serving(Server::new(0, 0..1));
        cluster.put(0);
        cluster.idle.rouse_sentinel();
        cluster.settle([sentinel]);
    });
}

#[test]
fn a_timer_is_minded_by_one_of_two_that_fall_asleep() {
    check(2, || {
        let cluster = Cluster::new(2, 1);
        let sleepers = [0, 1].map(|index| cluster.serving(Server::new(index, 0..1)));
        cluster.put(0);
        cluster.idle.rouse_sentinel();
        let sleepers = sleepers.map(|sleeper| sleeper.join().unwrap());
        // One of them has found it; or it is the sentinel's, which is roused.
        let busy = sleepers.iter().any(|sleeper| matches!(sleeper, Processor::Busy));
        if !busy {
            cluster.settle_all(sleepers.into());
        }
    });
}

#[test]
fn a_lone_strand_is_seen_when_the_watch_ends_or_wakes_the_sentinel() {
    check(4, || {
        let cluster = Cluster::new(1, 1);
        let sentinel = thread::spawn(move || {
            let announced = cluster.idle.linger(processor(0)).announce();
            announced.keep_watch(true);
            announced.keep_watch(false);
            if cluster.take(0..1) {
                announced.retract();
                return Processor::Busy;
            }
            match asleep(announced) {
                None => cluster.serve(Server::new(0, 0..1)),
                Some(still) => Processor::Asleep(Server::new(0, 0..1), still),
            }
        });
        cluster.publish(0, Wake::Lone);
        cluster.settle([sentinel]);
    });
}

/// Two processors that are not modelled each have a single strand behind what
/// they run, and told nobody, for there was a watch. The sentinel takes one.
#[test]
fn a_sentinel_that_leaves_its_watch_for_work_wakes_another_sleeper() {
    check(3, || {
        let cluster = Cluster::new(2, 2);
        let watch = cluster.idle.linger(processor(0)).announce();
        watch.keep_watch(true);
        let sleeper = Processor::Asleep(Server::new(1, 0..2), cluster.idle.linger(processor(1)).announce());
        let pushers = [0, 1].map(|which| thread::spawn(move || cluster.publish(which, Wake::Lone)));
        let left = cluster.take(0..2);
        if left {
            watch.retract();
        }
        for pusher in pushers {
            pusher.join().unwrap();
        }
        if left {
            cluster.settle_all(vec![sleeper]);
        }
    });
}
