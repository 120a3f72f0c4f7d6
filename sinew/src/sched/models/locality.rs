//! `Locality`: an actor is sent to where it ran while its processor falls asleep, leaves, or is robbed.

use super::{NOW, attach, numbers, rest, send_while_asleep, send_while_leaving};
use crate::base::models::check;
use crate::sched::{Effort, Local, Locality, Past, Ready, Scheduler, Wake, Woken};
use crate::strand::models::ready_strand;
use loom::sync::Arc;

/// Makes two ends, and an actor that waits and ran on the second.
fn away_from_home(scheduler: &Locality) -> (Box<dyn Local>, Box<dyn Local>, Ready) {
    let (sender, home) = (attach(scheduler, 0), attach(scheduler, 1));
    let _ = home.push(ready_strand(1), NOW);
    let ready = home.next(NOW).unwrap();
    ready.simulate_past(Past::Woken);
    (sender, home, ready)
}

#[test]
fn an_actor_is_found_or_its_processor_is_woken_when_that_falls_asleep() {
    check(2, 3, |turn| send_while_asleep(turn, away_from_home(&Locality::new(Woken::WhereItRan))));
}

#[test]
fn an_actor_that_is_sent_to_a_processor_that_leaves_is_found() {
    check(2, 3, |turn| send_while_leaving(turn, away_from_home(&Locality::new(Woken::WhereItRan))));
}

#[test]
fn an_actor_that_comes_from_outside_is_found_or_its_processor_is_woken_when_that_falls_asleep() {
    check(2, 3, |turn| {
        let scheduler = Arc::new(Locality::new(Woken::WhereItRan));
        let (_other, home, ready) = away_from_home(&scheduler);
        let injector = Arc::clone(&scheduler);
        let inject = move || injector.inject(ready, NOW);
        let sleep = move || {
            let mut found = numbers(home.next(NOW));
            if found.is_empty() {
                crate::base::fence::heavy();
                found = numbers(home.search(NOW, Effort::Greedy));
            }
            (found, home)
        };
        let (wake, (found, home)) = turn.two(inject, sleep);
        assert!(matches!(wake, Wake::Processor(id) if id.index() == 1) || found == [1], "{wake:?} is told");
        assert_eq!([found, rest(&[&*home])].concat(), [1]);
    });
}

#[test]
fn an_actor_that_is_sent_home_while_a_thief_robs_that_comes_out_once() {
    check(2, 3, |turn| {
        let scheduler = Locality::new(Woken::WhereItRan);
        let (sender, home, ready) = away_from_home(&scheduler);
        let thief = attach(&scheduler, 2);
        for number in [2, 3] {
            let _ = home.push(ready_strand(number), number);
        }
        let send = move || (sender.push(ready, NOW), sender);
        let steal = move || (numbers(thief.search(NOW, Effort::Polite)), thief);
        let ((_, sender), (mut taken, thief)) = turn.two(send, steal);
        assert!(!taken.is_empty(), "the deque had strands, and nobody held its lock");
        taken.extend(rest(&[&*home, &*sender, &*thief]));
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3]);
    });
}

#[test]
fn a_rescue_at_a_beat_loses_no_strand() {
    check(2, 3, |turn| {
        let scheduler = Locality::default();
        let (owner, helper) = (attach(&scheduler, 0), attach(&scheduler, 1));
        for number in [1, 2] {
            let _ = owner.push(ready_strand(number), number);
        }
        // The owner has never been seen.
        let own = move || (numbers(owner.exchange(ready_strand(3), 0)), owner);
        let help = move || {
            helper.beat(NOW);
            helper.beat(NOW);
            (numbers(helper.next(NOW)), helper)
        };
        let ((owned, owner), (helped, helper)) = turn.two(own, help);
        let mut taken = [owned, helped, rest(&[&*owner, &*helper])].concat();
        taken.sort_unstable();
        assert_eq!(taken, [1, 2, 3]);
    });
}
