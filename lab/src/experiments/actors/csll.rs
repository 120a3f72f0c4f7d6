//! `csll`: actors that share a sorted linked list. As `cdict`, but the time of a request depends on
//! the length of the list: of a hundred requests of each of 20 workers, one counts the nodes, ten
//! insert a number, and the others look for one.

use super::requests::{self, Plan, Structure, WORKERS};
use super::{NINE, Random, one_size, scaled};
use crate::case::{Case, Outcome};
use crate::experiments::Experiment;
use crate::peers::actors::{self, Benchmark, System};

/// Of each worker.
const REQUESTS: u64 = 8_000;

const NUMBERS: u64 = 524_287;

pub static CSLL: Experiment = Experiment {
    name: "csll",
    measures: "20 actors send 8,000 requests each to an actor with a sorted linked list, and wait for each answer: one of a hundred counts the list, ten insert, the others search.",
    good: "Faster than every other actor system. The list is most of the work.",
    variants: |depth, _, _| one_size(depth, WORKERS + 1),
    measure: actors::measure::<Lists>,
    ..NINE
};

struct Lists;

#[derive(Default)]
struct List {
    first: Option<Box<Node>>,
    inserted: u64,
    /// The last size that was asked for was right.
    is_counted: bool,
}

struct Node {
    number: u64,
    next: Option<Box<Node>>,
}

impl List {
    /// Returns the place of the first node whose number is not less.
    fn place(&mut self, number: u64) -> &mut Option<Box<Node>> {
        let mut place = &mut self.first;
        while place.as_ref().is_some_and(|node| node.number < number) {
            place = &mut place.as_mut().expect("a node").next;
        }
        place
    }

    fn contains(&self, number: u64) -> bool {
        let mut next = &self.first;
        while let Some(node) = next {
            if node.number >= number {
                return node.number == number;
            }
            next = &node.next;
        }
        false
    }

    /// Returns whether the number is new.
    fn insert(&mut self, number: u64) -> bool {
        let place = self.place(number);
        if place.as_ref().is_some_and(|node| node.number == number) {
            return false;
        }
        let next = place.take();
        *place = Some(Box::new(Node { number, next }));
        true
    }

    fn size(&self) -> u64 {
        let mut size = 0;
        let mut next = &self.first;
        while let Some(node) = next {
            size += 1;
            next = &node.next;
        }
        size
    }
}

impl Drop for List {
    /// Drops node by node: a recursion would be as deep as the list is long.
    fn drop(&mut self) {
        let mut next = self.first.take();
        while let Some(mut node) = next {
            next = node.next.take();
        }
    }
}

enum Request {
    Size,
    Insert(u64),
    Contains(u64),
}

enum Answer {
    Size(u64),
    IsNew(bool),
    IsThere(bool),
}

impl Structure for List {
    type Request = Request;
    type Answer = Answer;

    fn serve(&mut self, request: Request) -> Answer {
        match request {
            Request::Size => {
                let size = self.size();
                self.is_counted = size == self.inserted;
                Answer::Size(size)
            }
            Request::Insert(number) => {
                let is_new = self.insert(number);
                self.inserted += u64::from(is_new);
                Answer::IsNew(is_new)
            }
            Request::Contains(number) => Answer::IsThere(self.contains(number)),
        }
    }

    /// The nodes, if the last size was the number of inserts until then.
    fn counted(&self) -> u64 {
        if self.is_counted { self.size() } else { u64::MAX }
    }
}

#[derive(Clone)]
struct Mix;

impl Plan<List> for Mix {
    fn request(&self, random: &mut Random) -> Request {
        match random.below(100) {
            0 => Request::Size,
            1..=10 => Request::Insert(random.below(NUMBERS)),
            _ => Request::Contains(random.below(NUMBERS)),
        }
    }

    fn noted(answer: &Answer) -> u64 {
        match answer {
            Answer::IsNew(is_new) => u64::from(*is_new),
            Answer::Size(size) => {
                std::hint::black_box(size);
                0
            }
            Answer::IsThere(is_there) => {
                std::hint::black_box(is_there);
                0
            }
        }
    }
}

impl Benchmark for Lists {
    async fn root<S: System>(case: Case) -> Outcome {
        requests::run::<S, _, _>(List::default(), Mix, scaled(&case, REQUESTS)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_has_each_number_once() {
        let mut list = List::default();
        let inserted = [5, 1, 9, 5, 3, 1].map(|number| list.insert(number));
        assert_eq!(inserted, [true, true, true, false, true, false]);
        assert_eq!(list.size(), 4);
        assert!([1, 3, 5, 9].iter().all(|&number| list.contains(number)));
        assert!([0, 4, 10].iter().all(|&number| !list.contains(number)));
    }
}
