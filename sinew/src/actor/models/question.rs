//! `Question`: an answer against an asker that gives up.

use super::super::question::{ANSWERED, Question, Settled};
use crate::base::models::{Watched, check};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::*};
use loom::thread;

const MISSING: u32 = ANSWERED + 1;

/// The place that both sides share.
struct Place {
    question: Question,
    /// What is told. An asker that does not wait at first writes it later.
    party: Watched<u32>,
    answer: Watched<Option<u32>>,
    /// What the asker does with the place.
    used: Watched<u32>,
    freed: Watched<u32>,
    /// The number of times that the asker was told.
    told: AtomicU32,
}

impl Place {
    fn new() -> (Arc<Place>, Arc<Place>) {
        Place::with(Question::pending())
    }

    fn with(question: Question) -> (Arc<Place>, Arc<Place>) {
        let place = Arc::new(Place {
            question,
            party: Watched::new(1),
            answer: Watched::new(None),
            used: Watched::new(0),
            freed: Watched::new(0),
            told: AtomicU32::new(0),
        });
        (Arc::clone(&place), place)
    }

    /// Everything that the other side has done must have happened before.
    fn free(&self) {
        self.answer.change(|_| ());
        self.used.change(|_| ());
        self.freed.change(|freed| *freed += 1);
    }

    /// Settles the question, with or without an answer. Returns whether the asker was told.
    fn settle(&self, answer: Option<u32>) -> bool {
        self.answer.set(answer);
        let outcome = if answer.is_some() { ANSWERED } else { MISSING };
        match self.question.settle(outcome, || self.party.get()) {
            Settled::Tell(party) => {
                assert_eq!(party, 1, "the asker is known before it waits");
                self.told.fetch_add(1, Release);
                true
            }
            Settled::Leave => true,
            Settled::Free => {
                assert_eq!(self.answer.change(Option::take), answer, "the answer comes back");
                self.free();
                false
            }
        }
    }

    /// Waits until it is told, and takes the answer.
    fn take(&self) -> Option<u32> {
        while self.told.load(Acquire) == 0 {
            thread::yield_now();
        }
        self.take_settled()
    }

    /// Takes the answer of a question that has been settled.
    fn take_settled(&self) -> Option<u32> {
        let outcome = self.question.outcome();
        let answer = self.answer.change(Option::take);
        assert_eq!(outcome == ANSWERED, answer.is_some());
        self.free();
        answer
    }
}

#[test]
fn an_asker_that_waits_gets_the_answer_and_frees_the_place() {
    for answer in [Some(7), None] {
        check(2, 4, move |turn| {
            let (replier, asker) = Place::new();
            let (told, (taken, place)) = turn.two(move || replier.settle(answer), move || (asker.take(), asker));
            assert!(told);
            assert_eq!((taken, place.freed.get(), place.told.load(Relaxed)), (answer, 1, 1));
        });
    }
}

#[test]
fn an_asker_that_gives_up_or_the_replier_frees_the_place_once() {
    for answer in [Some(7), None] {
        check(2, 4, move |turn| {
            let (replier, asker) = Place::new();
            let give_up = move || {
                asker.used.set(1);
                let gone = asker.question.give_up();
                if !gone {
                    assert_eq!(asker.take(), answer);
                }
                (gone, asker)
            };
            let (told, (gone, place)) = turn.two(move || replier.settle(answer), give_up);
            assert!(told != gone, "told: {told}, gone: {gone}");
            assert_eq!((place.freed.get(), place.told.load(Relaxed)), (1, u32::from(told)));
        });
    }
}

#[test]
fn a_replier_that_sees_that_the_asker_is_gone_frees_the_place() {
    check(2, 4, |turn| {
        let (replier, asker) = Place::new();
        let settle = move || {
            let gone = replier.question.is_given_up();
            let told = replier.settle(Some(7));
            assert!(!(gone && told));
        };
        let give_up = move || {
            if !asker.question.give_up() {
                assert_eq!(asker.take(), Some(7));
            }
        };
        turn.two(settle, give_up);
    });
}

#[test]
fn an_asker_that_waits_later_is_told_or_finds_the_answer() {
    for answer in [Some(7), None] {
        check(2, 4, move |turn| {
            let (replier, asker) = Place::with(Question::prepared());
            asker.party.set(0);
            let wait = move || {
                asker.party.set(1);
                let waits = asker.question.wait();
                let taken = if waits { asker.take() } else { asker.take_settled() };
                (waits, taken, asker)
            };
            let (_, (waits, taken, place)) = turn.two(move || replier.settle(answer), wait);
            assert_eq!((taken, place.freed.get(), place.told.load(Relaxed)), (answer, 1, u32::from(waits)));
        });
    }
}

#[test]
fn an_asker_that_never_waits_or_the_replier_frees_the_place_once() {
    check(2, 4, move |turn| {
        let (replier, asker) = Place::with(Question::prepared());
        let withdraw = move || {
            asker.used.set(1);
            let gone = asker.question.withdraw();
            if !gone {
                assert_eq!(asker.take_settled(), Some(7));
            }
            (gone, asker)
        };
        let (settled, (gone, place)) = turn.two(move || replier.settle(Some(7)), withdraw);
        assert!(settled != gone);
        assert_eq!((place.freed.get(), place.told.load(Relaxed)), (1, 0));
    });
}
