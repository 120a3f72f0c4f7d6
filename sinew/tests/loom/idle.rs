//! `idle::Idle`: whoever makes work ready, a processor that could do it does
//! not go on sleeping.

use crate::check;
use crate::cluster::{Cluster, Server, asleep};
use loom::thread;
use sinew::protocols::processor;
use sinew::sched::Wake;

#[test]
fn work_is_seen_by_the_search_or_its_notifier_sees_the_sleeper() {
    for wake in [Wake::Backlog, Wake::Lone, Wake::Processor(processor(0))] {
        check(4, move || {
            let cluster = Cluster::new(1, 1);
            let server = cluster.serving(Server::new(0, 0..1));
            cluster.publish(0, wake);
            cluster.settle([server]);
        });
    }
}

#[test]
fn two_pieces_of_work_wake_two_sleepers() {
    check(2, || {
        let cluster = Cluster::new(2, 2);
        let servers = [0, 1].map(|index| cluster.serving(Server::new(index, 0..2)));
        cluster.publish(0, Wake::Backlog);
        cluster.publish(1, Wake::Backlog);
        cluster.settle(servers);
    });
}

#[test]
fn two_notifiers_wake_two_sleepers() {
    check(1, || {
        let cluster = Cluster::new(2, 2);
        let servers = [0, 1].map(|index| cluster.serving(Server::new(index, 0..2)));
        let notifier = thread::spawn(move || cluster.publish(1, Wake::Backlog));
        cluster.publish(0, Wake::Backlog);
        notifier.join().unwrap();
        cluster.settle(servers);
    });
}

/// Work 0 is where only processor 0 looks, work 1 is anybody's.
#[test]
fn a_sleeper_that_is_woken_for_itself_passes_on_what_was_meant_for_anybody() {
    check(2, || {
        let cluster = Cluster::new(2, 2);
        let servers = [Server::new(0, 0..2), Server::new(1, 1..2)].map(|server| cluster.serving(server));
        cluster.put(0);
        cluster.idle.notify_processor(processor(0));
        cluster.publish(1, Wake::Backlog);
        cluster.settle(servers);
    });
}

#[test]
fn what_only_one_processor_may_take_wakes_that_one() {
    check(2, || {
        let cluster = Cluster::new(2, 2);
        let servers = [0, 1].map(|index| cluster.serving(Server::new(index, index.into()..usize::from(index) + 1)));
        for index in [0, 1] {
            cluster.put(index);
            cluster.idle.notify_processor(processor(index as u16));
        }
        cluster.settle(servers);
    });
}

#[test]
fn a_processor_that_hides_is_woken_for_what_is_bound_to_it() {
    check(4, || {
        let cluster = Cluster::new(1, 1);
        let server = cluster.serving(Server::retiring(0, 0..1));
        cluster.put(0);
        cluster.idle.notify_processor(processor(0));
        cluster.settle([server]);
    });
}

/// Processor 1 is told to retire while it sleeps, and hides.
fn retiring(cluster: &'static Cluster) -> thread::JoinHandle<crate::cluster::Processor> {
    let announced = cluster.idle.linger(processor(1)).announce();
    thread::spawn(move || match asleep(announced) {
        None => cluster.serve(Server::retiring(1, 0..0)),
        Some(still) => crate::cluster::Processor::Asleep(Server::retiring(1, 0..0), still),
    })
}

#[test]
fn a_processor_that_hides_is_not_woken_in_the_place_of_one_that_serves() {
    check(2, || {
        let cluster = Cluster::new(2, 1);
        let sentinel = cluster.serve(Server::new(0, 0..1));
        let retiring = retiring(cluster);
        cluster.idle.rouse(processor(1));
        cluster.publish(0, Wake::Backlog);
        cluster.settle_all(vec![sentinel, retiring.join().unwrap()]);
    });
}

#[test]
fn a_sleeper_that_is_told_to_retire_is_uncounted_once() {
    check(3, || {
        let cluster = Cluster::new(2, 0);
        let retiring = retiring(cluster);
        cluster.idle.rouse(processor(1));
        cluster.settle([retiring]);
    });
}

/// Processor 1 sits in the sentinel's place and does not look. Processor 0 wants
/// two pieces of work, one after the other; when it comes back, the stack of
/// sleepers may still have its entry from before.
#[test]
fn a_sleeper_whose_old_entry_is_still_in_the_stack_can_be_woken() {
    check(3, || {
        let cluster = Cluster::new(2, 2);
        let sentinel = cluster.idle.linger(processor(1)).announce();
        assert!(sentinel.is_sentinel());
        let server = thread::spawn(move || match cluster.serve(Server::new(0, 0..2)) {
            crate::cluster::Processor::Busy => cluster.serve(Server::new(0, 0..2)),
            asleep => asleep,
        });
        cluster.put(0);
        cluster.idle.notify_processor(processor(0));
        cluster.publish(1, Wake::Backlog);
        let server = server.join().unwrap();
        sentinel.retract();
        cluster.settle_all(vec![server]);
    });
}
