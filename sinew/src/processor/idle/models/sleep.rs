//! Processors that fall asleep, hide and are woken.

use super::cluster::{Cluster, Processor, Server, asleep};
use crate::base::models::check;
use crate::processor::idle::Role;
use crate::sched::{ProcessorId, Wake};

#[test]
fn work_is_seen_by_the_search_or_its_notifier_sees_the_sleeper() {
    for wake in [Wake::Backlog, Wake::Lone, Wake::Processor(ProcessorId(0))] {
        check(2, 4, move |turn| {
            let cluster = Cluster::new(1, 1);
            let notifier = cluster.notifying(move || cluster.publish(0, wake));
            cluster.settle(turn.all([notifier, cluster.serving(Server::new(0, 0..1))]));
        });
    }
}

#[test]
fn a_processor_that_is_alone_sees_what_a_thread_outside_publishes() {
    check(2, 4, |turn| {
        let cluster = Cluster::alone(1);
        let notifier = cluster.notifying(move || {
            cluster.put(0);
            cluster.idle.notify_from_outside(Wake::Backlog);
        });
        cluster.settle(turn.all([notifier, cluster.serving(Server::new(0, 0..1))]));
    });
}

#[test]
fn a_processor_that_was_alone_sees_what_a_second_one_publishes() {
    check(2, 4, |turn| {
        let cluster = Cluster::alone(1);
        let second = cluster.notifying(move || {
            cluster.idle.expect_company();
            cluster.publish(0, Wake::Backlog);
        });
        cluster.settle(turn.all([second, cluster.serving(Server::new(0, 0..1))]));
    });
}

/// A processor that is asleep, as a thread of a model. If it is woken, it finds work 0 at its
/// first look.
fn finding(cluster: &'static Cluster) -> Box<dyn FnOnce() -> Processor> {
    let announced = cluster.idle.linger(ProcessorId(0)).announce();
    Box::new(move || match asleep(announced) {
        None => {
            assert!(cluster.take(0..1), "woken for work that it does not see");
            Processor::Busy
        }
        Some(still) => Processor::Asleep(Server::new(0, 0..1), still),
    })
}

#[test]
fn a_processor_that_is_woken_sees_what_it_is_woken_for() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(1, 1);
        let notifier = cluster.notifying(move || cluster.publish(0, Wake::Backlog));
        cluster.settle(turn.all([notifier, finding(cluster)]));
    });
}

/// Processor 1 has found several strands, and puts those that it does not run into its queue.
#[test]
fn a_processor_that_is_woken_by_one_that_found_work_sees_what_that_one_left() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(2, 1);
        let finding = finding(cluster);
        let lingering = cluster.idle.linger(ProcessorId(1));
        let finder = cluster.notifying(move || {
            cluster.put(0);
            lingering.found();
        });
        cluster.settle(turn.all([finder, finding]));
    });
}

#[test]
fn two_pieces_of_work_wake_two_sleepers() {
    check(3, 2, |turn| {
        let cluster = Cluster::new(2, 2);
        let notifier = cluster.notifying(move || {
            cluster.publish(0, Wake::Backlog);
            cluster.publish(1, Wake::Backlog);
        });
        let [one, two] = [0, 1].map(|index| cluster.serving(Server::new(index, 0..2)));
        cluster.settle(turn.all([notifier, one, two]));
    });
}

#[test]
fn two_notifiers_wake_two_sleepers() {
    check(4, 1, |turn| {
        let cluster = Cluster::new(2, 2);
        let [a, b] = [0, 1].map(|which| cluster.notifying(move || cluster.publish(which, Wake::Backlog)));
        let [one, two] = [0, 1].map(|index| cluster.serving(Server::new(index, 0..2)));
        cluster.settle(turn.all([a, one, b, two]));
    });
}

/// Only processor 0 looks for work 0; both look for work 1.
#[test]
fn a_sleeper_that_is_woken_for_its_own_work_wakes_another_for_work_of_any_processor() {
    check(3, 2, |turn| {
        let cluster = Cluster::new(2, 2);
        let notifier = cluster.notifying(move || {
            cluster.put(0);
            cluster.idle.notify_processor(ProcessorId(0));
            cluster.publish(1, Wake::Backlog);
        });
        let [one, two] = [Server::new(0, 0..2), Server::new(1, 1..2)].map(|server| cluster.serving(server));
        cluster.settle(turn.all([notifier, one, two]));
    });
}

#[test]
fn work_that_one_processor_may_take_wakes_that_processor() {
    check(3, 2, |turn| {
        let cluster = Cluster::new(2, 2);
        let notifier = cluster.notifying(move || {
            for index in [0, 1] {
                cluster.put(index.into());
                cluster.idle.notify_processor(ProcessorId(index));
            }
        });
        let [one, two] = [Server::new(0, 0..1), Server::new(1, 1..2)].map(|server| cluster.serving(server));
        cluster.settle(turn.all([notifier, one, two]));
    });
}

#[test]
fn a_processor_that_hides_is_woken_for_work_that_is_bound_to_it() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(1, 1);
        let notifier = cluster.notifying(move || {
            cluster.put(0);
            cluster.idle.notify_processor(ProcessorId(0));
        });
        cluster.settle(turn.all([notifier, cluster.serving(Server::retiring(0, 0..1))]));
    });
}

/// Processor 1 has announced itself, and retires when it is woken.
fn retiring(cluster: &'static Cluster) -> Box<dyn FnOnce() -> Processor> {
    let announced = cluster.idle.linger(ProcessorId(1)).announce();
    Box::new(move || match asleep(announced) {
        None => cluster.serve(Server::retiring(1, 0..0)),
        Some(still) => Processor::Asleep(Server::retiring(1, 0..0), still),
    })
}

#[test]
fn a_processor_that_hides_is_not_woken_instead_of_one_that_serves() {
    check(2, 2, |turn| {
        let cluster = Cluster::new(2, 1);
        let sentinel = cluster.serve(Server::new(0, 0..1));
        let notifier = cluster.notifying(move || {
            cluster.idle.wake_processor(ProcessorId(1));
            cluster.publish(0, Wake::Backlog);
        });
        let [one, two] = turn.all([notifier, retiring(cluster)]);
        cluster.settle([sentinel, one, two]);
    });
}

#[test]
fn a_sleeper_that_is_told_to_retire_is_uncounted_once() {
    check(2, 3, |turn| {
        let cluster = Cluster::new(2, 0);
        let notifier = cluster.notifying(move || cluster.idle.wake_processor(ProcessorId(1)));
        cluster.settle(turn.all([notifier, retiring(cluster)]));
    });
}

/// Work 0 stands for an order.
#[test]
fn an_order_is_seen_before_the_sleep_or_ends_it() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(1, 1);
        let orders = cluster.notifying(move || {
            cluster.put(0);
            cluster.idle.wake_processor(ProcessorId(0));
        });
        cluster.settle(turn.all([orders, cluster.serving(Server::retiring(0, 0..1))]));
    });
}

/// Processor 1 is the sentinel and does not look. Processor 0 takes two pieces of work, one after
/// the other. When it comes back, the stack of sleepers may still have its entry from before.
#[test]
fn a_sleeper_whose_old_entry_is_still_in_the_stack_can_be_woken() {
    check(2, 3, |turn| {
        let cluster = Cluster::new(2, 2);
        let sentinel = cluster.idle.linger(ProcessorId(1)).announce();
        assert_eq!(sentinel.role(), Role::Sentinel);
        let notifier = cluster.notifying(move || {
            cluster.put(0);
            cluster.idle.notify_processor(ProcessorId(0));
            cluster.publish(1, Wake::Backlog);
        });
        let server = Box::new(move || match cluster.serve(Server::new(0, 0..2)) {
            Processor::Busy => cluster.serve(Server::new(0, 0..2)),
            asleep => asleep,
        });
        let processors = turn.all([notifier, server]);
        sentinel.retract();
        cluster.settle(processors);
    });
}

/// Processor 2 is the sentinel, processor 0 lies on the stack, and processor 1 is about to lie
/// on top of it. A notifier that pops processor 1 has to see the one below.
#[test]
fn a_sleeper_below_the_one_that_is_just_pushed_is_not_lost() {
    check(2, 4, |turn| {
        let cluster = Cluster::new(3, 3);
        let sentinel = cluster.serve(Server::new(2, 0..3));
        let below = cluster.serve(Server::new(0, 0..3));
        let notifier = cluster.notifying(move || (0..3).for_each(|which| cluster.publish(which, Wake::Backlog)));
        let [notifier, above] = turn.all([notifier, cluster.serving(Server::new(1, 0..3))]);
        cluster.settle([sentinel, below, notifier, above]);
    });
}
