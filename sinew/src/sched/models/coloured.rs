//! `Coloured`: a colour grows while its processor takes it, and is sent to its seat while its processor falls asleep or
//! leaves.

use super::{NOW, attach, numbers, rest, send_while_asleep, send_while_leaving};
use crate::base::models::check;
use crate::sched::{Coloured, Effort, Local, Past, Priority, Ready, Scheduler, Weight};
use crate::strand::SimulatedColour;
use loom::sync::Arc;

/// Makes a colour with this number, which takes this long. It is not freed: where the next one lies must not
/// depend on when this one ends.
fn colour(number: u64, ns: u64) -> (Ready, &'static SimulatedColour) {
    let (ready, handle) = SimulatedColour::new(Priority::Normal, Weight::new(ns, 1));
    ready.stamp(number);
    (ready, Box::leak(Box::new(handle)))
}

#[test]
fn a_colour_that_grows_while_its_processor_takes_it_changes_no_other() {
    check(2, 3, |turn| {
        let scheduler = Arc::new(Coloured::default());
        let (owner, thief) = (attach(&*scheduler, 0), attach(&*scheduler, 1));
        let (ready, handle) = colour(1, 50);
        let _ = owner.push(ready, NOW);
        handle.set_weight(Weight::new(90_000, 100));
        let poster = Arc::clone(&scheduler);
        let grow = move || {
            let _ = poster.grown(&handle.grown(), NOW);
        };
        let own = move || {
            let taken = numbers(owner.next(NOW));
            let _ = owner.push(colour(2, 50).0, NOW);
            let _ = owner.push(colour(3, 50).0, NOW);
            (taken, owner)
        };
        let ((taken, owner), ()) = turn.two(own, grow);
        assert_eq!(taken, [1]);
        assert!(thief.search(NOW, Effort::Polite).is_none(), "a colour that is not worth it can be stolen");
        assert_eq!(rest(&[&*owner]), [2, 3]);
    });
}

#[test]
fn a_colour_that_grows_while_a_thief_takes_it_comes_out_once() {
    check(2, 3, |turn| {
        let scheduler = Arc::new(Coloured::default());
        let (owner, thief) = (attach(&*scheduler, 0), attach(&*scheduler, 1));
        let (ready, handle) = colour(1, 50_000);
        let _ = owner.push(ready, NOW);
        let _ = owner.push(colour(2, 50).0, NOW);
        handle.set_weight(Weight::new(90_000, 100));
        let poster = Arc::clone(&scheduler);
        let grow = move || {
            let _ = poster.grown(&handle.grown(), NOW);
        };
        let steal = move || (numbers(thief.search(NOW, Effort::Polite)), thief);
        let ((mut taken, thief), ()) = turn.two(steal, grow);
        taken.extend(rest(&[&*owner, &*thief]));
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
    });
}

/// Makes two ends, and an idle colour whose seat is the second.
fn away_from_its_seat(scheduler: &Coloured, ns: u64) -> (Box<dyn Local>, Box<dyn Local>, Ready) {
    let (poster, seat) = (attach(scheduler, 0), attach(scheduler, 1));
    let _ = seat.push(colour(1, ns).0, NOW);
    let ready = seat.next(NOW).unwrap();
    ready.simulate_past(Past::Woken);
    (poster, seat, ready)
}

#[test]
fn a_colour_is_found_or_its_processor_is_woken_when_that_falls_asleep() {
    check(2, 3, |turn| send_while_asleep(turn, away_from_its_seat(&Coloured::default(), 90_000)));
}

#[test]
fn a_colour_that_is_sent_to_a_processor_that_leaves_is_found() {
    check(2, 3, |turn| send_while_leaving(turn, away_from_its_seat(&Coloured::default(), 50)));
}
