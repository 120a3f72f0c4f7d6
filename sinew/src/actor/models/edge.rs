//! `Edge`: handlers that wait for each other.

use super::super::edge::{Edge, Node, enter};
use crate::base::models::{Watched, check};

/// Actors, by number. Their memory stays: where the next ones lie must not depend on when these end.
struct Actors([Actor; 3]);

#[derive(Default)]
struct Actor {
    edge: Edge,
    /// The memory of the actor: true when it is freed.
    freed: Watched<bool>,
}

#[derive(Clone)]
struct Name {
    number: usize,
    actors: &'static Actors,
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.number == other.number
    }
}

impl Node for Name {
    fn address(&self) -> usize {
        2 * (self.number + 1)
    }

    fn edge(&self) -> Option<&Edge> {
        Some(&self.actor().edge)
    }

    fn behind(&self, target: usize) -> Option<Name> {
        let behind = Name { number: target / 2 - 1, actors: self.actors };
        assert!(!behind.actor().freed.get(), "used after it was freed");
        Some(behind)
    }
}

impl Name {
    fn actor(&self) -> &Actor {
        &self.actors.0[self.number]
    }

    fn other(&self, number: usize) -> Name {
        Name { number, actors: self.actors }
    }

    /// Waits for another actor. Returns the numbers of the actors of the cycle.
    fn wait_for(&self, number: usize) -> Option<Vec<usize>> {
        let cycle = enter(self, &self.actor().edge, &self.other(number));
        cycle.map(|cycle| cycle.iter().map(|name| name.number).collect())
    }

    fn leave(&self) {
        self.actor().edge.leave();
    }
}

fn actors() -> [Name; 3] {
    let actors = Box::leak(Box::new(Actors(Default::default())));
    let actors: &'static Actors = actors;
    [0, 1, 2].map(|number| Name { number, actors: actors })
}

#[test]
fn of_two_handlers_that_wait_for_each_other_one_finds_the_cycle() {
    check(2, 4, |turn| {
        let [a, b, _] = actors();
        let (a, b) = turn.two(move || a.wait_for(1), move || b.wait_for(0));
        assert!(a.is_some() || b.is_some(), "both wait for ever");
        assert!(a.is_none_or(|cycle| cycle == [0, 1]));
        assert!(b.is_none_or(|cycle| cycle == [1, 0]));
    });
}

#[test]
fn of_three_handlers_that_wait_for_each_other_one_finds_the_cycle() {
    check(3, 2, |turn| {
        let found = turn.all(actors().map(|name| -> Box<dyn FnOnce() -> Option<Vec<usize>>> {
            Box::new(move || name.wait_for((name.number + 1) % 3))
        }));
        assert!(found.iter().any(Option::is_some), "all wait for ever");
        for (number, cycle) in found.into_iter().enumerate() {
            assert!(cycle.is_none_or(|cycle| cycle == [number, (number + 1) % 3, (number + 2) % 3]));
        }
    });
}

#[test]
fn waits_that_never_exist_at_the_same_time_are_no_cycle() {
    check(2, 4, |turn| {
        let [a, b, c] = actors();
        assert_eq!(b.wait_for(2), None);
        let change = move || {
            b.leave();
            assert_eq!(c.wait_for(0), None);
        };
        turn.two(move || assert_eq!(a.wait_for(1), None), change);
    });
}

#[test]
fn waits_that_begin_again_are_no_cycle_if_they_never_exist_at_the_same_time() {
    check(2, 5, |turn| {
        let [a, b, c] = actors();
        assert_eq!(b.wait_for(2), None);
        let change = move || {
            b.leave();
            assert_eq!(c.wait_for(0), None);
            c.leave();
            assert_eq!(b.wait_for(2), None);
            b.leave();
            assert_eq!(c.wait_for(0), None);
        };
        turn.two(move || assert_eq!(a.wait_for(1), None), change);
    });
}

#[test]
fn an_actor_is_not_used_after_the_wait_for_it_is_over() {
    check(2, 4, |turn| {
        let [a, b, c] = actors();
        assert_eq!(b.wait_for(2), None);
        let free = move || {
            b.leave();
            c.actor().freed.set(true);
        };
        turn.two(free, move || assert_eq!(a.wait_for(1), None));
    });
}

#[test]
fn a_cycle_is_found_if_one_of_its_waits_has_begun_again() {
    check(2, 4, |turn| {
        let [a, b, _] = actors();
        let again = move || {
            let first = b.wait_for(0);
            b.leave();
            (first, b.wait_for(0))
        };
        let (a, (_, second)) = turn.two(move || a.wait_for(1), again);
        assert!(a.is_some() || second.is_some(), "both wait for ever");
    });
}

#[test]
fn a_handler_that_waits_for_a_cycle_of_others_is_not_in_it() {
    check(2, 4, |turn| {
        let [a, b, c] = actors();
        assert_eq!((b.wait_for(2), c.wait_for(1)), (None, Some(vec![2, 1])));
        turn.two(move || assert_eq!(a.wait_for(1), None), move || c.leave());
    });
}
