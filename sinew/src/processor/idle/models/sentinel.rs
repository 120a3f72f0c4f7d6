//! The sentinel, which minds the clock and keeps watch, and its deputy.

use super::cluster::{Cluster, Processor, Server, asleep};
use crate::base::models::check;
use crate::processor::idle::Role;
use crate::sched::{ProcessorId, Wake};

/// Work 0 stands for a timer that is due before all others.
#[test]
fn a_timer_is_seen_by_the_sentinel_or_wakes_it() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(1, 1);
        let armer = cluster.notifying(move || {
            cluster.put(0);
            cluster.idle.wake_sentinel();
        });
        cluster.settle(turn.all([armer, cluster.serving(Server::new(0, 0..1))]));
    });
}

#[test]
fn a_timer_is_minded_by_one_of_two_processors_that_fall_asleep() {
    check(3, 2, |turn| {
        let cluster = Cluster::new(2, 1);
        let armer = cluster.notifying(move || {
            cluster.put(0);
            cluster.idle.wake_sentinel();
        });
        let [one, two] = [0, 1].map(|index| cluster.serving(Server::new(index, 0..1)));
        cluster.settle(turn.all([armer, one, two]));
    });
}

#[test]
fn a_lone_strand_is_seen_when_the_watch_ends_or_wakes_the_sentinel() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(1, 1);
        let pusher = cluster.notifying(move || cluster.publish(0, Wake::Lone));
        let sentinel = Box::new(move || {
            let announced = cluster.idle.linger(ProcessorId(0)).announce();
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
        cluster.settle(turn.all([pusher, sentinel]));
    });
}

/// Two processors that are not modelled each have a single strand behind the one that they run.
/// They woke no other processor, because the sentinel keeps watch. The sentinel takes one strand.
#[test]
fn a_sentinel_that_leaves_its_watch_for_work_wakes_another_sleeper() {
    check(3, 2, |turn| {
        let cluster = Cluster::new(2, 2);
        let watch = cluster.idle.linger(ProcessorId(0)).announce();
        watch.keep_watch(true);
        let sleeper = Processor::Asleep(Server::new(1, 0..2), cluster.idle.linger(ProcessorId(1)).announce());
        let [a, b] = [0, 1].map(|which| cluster.notifying(move || cluster.publish(which, Wake::Lone)));
        let sentinel = Box::new(move || {
            if cluster.take(0..2) {
                watch.retract();
                return Processor::Busy;
            }
            Processor::Asleep(Server::new(0, 0..2), watch)
        });
        let [_, _, sentinel] = turn.all([a, b, sentinel]);
        // A sentinel that has found nothing yet keeps its watch and looks again.
        if let Processor::Busy = sentinel {
            cluster.settle([sentinel, sleeper]);
        }
    });
}

/// The deputy resigns, and the sentinel departs because there is a deputy.
#[test]
fn when_a_sentinel_departs_another_becomes_it_or_a_sleeper_is_woken() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(2, 1);
        let sentinel = cluster.idle.linger(ProcessorId(0)).announce();
        let mut deputy = cluster.idle.linger(ProcessorId(1)).announce();
        assert!(sentinel.role() == Role::Sentinel && deputy.deputise());
        let departing = Box::new(move || {
            sentinel.depart();
            Processor::Busy
        });
        let resigning = Box::new(move || {
            deputy.resign();
            deputy.become_sentinel();
            match asleep(deputy) {
                None => Processor::Busy,
                Some(still) => Processor::Asleep(Server::new(1, 0..1), still),
            }
        });
        if let [_, Processor::Asleep(_, still)] = turn.all([departing, resigning])
            && let Some(still) = asleep(still)
        {
            assert_eq!(still.role(), Role::Sentinel, "no processor minds the clock, and none is woken to do it");
        }
    });
}

/// There is no sentinel when the deputy resigns. Work 0 stands for a timer that is due before
/// all others, armed at that moment.
#[test]
fn a_timer_is_seen_by_the_deputy_that_becomes_the_sentinel_or_wakes_it() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(2, 1);
        let sentinel = cluster.idle.linger(ProcessorId(0)).announce();
        let mut deputy = cluster.idle.linger(ProcessorId(1)).announce();
        assert!(sentinel.role() == Role::Sentinel && deputy.deputise());
        sentinel.depart();
        let armer = cluster.notifying(move || {
            cluster.put(0);
            cluster.idle.wake_sentinel();
        });
        let resigning = Box::new(move || {
            deputy.resign();
            deputy.become_sentinel();
            assert_eq!(deputy.role(), Role::Sentinel);
            if cluster.take(0..1) {
                deputy.retract();
                return Processor::Busy;
            }
            match asleep(deputy) {
                None => cluster.serve(Server::new(1, 0..1)),
                Some(still) => Processor::Asleep(Server::new(1, 0..1), still),
            }
        });
        cluster.settle(turn.all([armer, resigning]));
    });
}

/// The sentinel has been woken to retire while another processor falls asleep.
#[test]
fn when_a_sentinel_retires_another_becomes_it_or_a_sleeper_is_woken() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(2, 1);
        let sentinel = cluster.idle.linger(ProcessorId(0)).announce();
        assert_eq!(sentinel.role(), Role::Sentinel);
        cluster.idle.wake_processor(ProcessorId(0));
        let retiring = Box::new(move || {
            assert!(asleep(sentinel).is_none());
            cluster.idle.relieve();
            Processor::Busy
        });
        let falling_asleep = Box::new(move || match asleep(cluster.idle.linger(ProcessorId(1)).announce()) {
            None => Processor::Busy,
            Some(still) => Processor::Asleep(Server::new(1, 0..1), still),
        });
        if let [_, Processor::Asleep(_, still)] = turn.all([retiring, falling_asleep])
            && let Some(still) = asleep(still)
        {
            assert_eq!(still.role(), Role::Sentinel, "no processor minds the clock, and none is woken to do it");
        }
    });
}
