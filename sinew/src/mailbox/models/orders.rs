//! `Word` of a mailbox that ends: orders against letters, an owner that rests, visits, and handles that go.
#![allow(unsafe_code)]

use crate::base::atomic::spin_loop;
use crate::base::models::{Watched, check};
use crate::mailbox::word::{Address, Order, Ordered, Posted, Rested, Word};
use crate::strand::{Kind, Ready, Strand, StrandArc, container};
use std::ptr::NonNull;

const LETTERS: usize = 2;

/// A mailbox that ends, and the letters that may be posted to it, by number. It is never freed: where the next one
/// lies must not depend on when this one ends.
#[repr(C)]
struct Mailbox {
    strand: Strand,
    letters: [Letter; LETTERS],
    /// What happened to letters. Only the owner uses it.
    fates: Watched<Vec<(usize, Fate)>>,
    /// The number of times that an order was carried out. Written by the owner before the end, read after it.
    ends: Watched<u32>,
    /// Why it ends. Written by a handle before it gives an order, or goes.
    reason: Watched<u32>,
    freed: Watched<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Run,
    Discarded,
    /// It was run by a visitor.
    Visited,
}

struct Letter {
    link: Watched<Option<Address>>,
    content: Watched<u32>,
}

static KIND: Kind = Kind::for_model(free);

/// # Safety
/// The strand is that of a mailbox that was made below, and no handle is left.
unsafe fn free(strand: NonNull<Strand>) {
    // SAFETY: by the contract; the memory stays.
    unsafe { container::<Mailbox>(strand).as_ref() }.abandon();
}

fn address(number: usize) -> Address {
    Address::new(64 * (number as u64 + 1)).unwrap()
}

fn number(address: Address) -> usize {
    (address.get() / 64) as usize - 1
}

impl Mailbox {
    /// Makes an idle mailbox with one handle.
    fn new() -> (&'static Mailbox, StrandArc) {
        let letter = || Letter { link: Watched::new(None), content: Watched::new(0) };
        let mailbox: &'static mut Mailbox = Box::leak(Box::new(Mailbox {
            strand: Strand::for_model(&KIND).without_life(),
            letters: std::array::from_fn(|_| letter()),
            fates: Watched::new(Vec::new()),
            ends: Watched::new(0),
            reason: Watched::new(0),
            freed: Watched::new(0),
        }));
        let memory = NonNull::from(mailbox);
        // SAFETY: the strand is new, and is the head of the mailbox.
        let (ready, handle) = unsafe { Ready::of_new(memory.cast()) };
        ready.let_go();
        // SAFETY: the memory stays for ever.
        (unsafe { container::<Mailbox>(memory.cast()).as_ref() }, handle)
    }

    fn word(&self) -> Word<'_> {
        Word::of(self.strand.own())
    }

    /// Posts a letter. Returns whether it was posted.
    fn post(&self, letter: usize) -> bool {
        self.letters[letter].content.set(7);
        match self.word().post(address(letter), true, |older| self.letters[letter].link.set(older)) {
            Ok(Posted::Activated) => self.run(),
            Ok(Posted::Added) => {}
            Err(_) => return false,
        }
        true
    }

    fn order(&self, order: Order) {
        match self.word().order(order, true) {
            Ordered::Activated => self.run(),
            Ordered::Noted => {}
            Ordered::Idle => unreachable!("the order may activate"),
        }
    }

    fn take(&self, fate: Fate) {
        let (mut pile, mut next) = (Vec::new(), self.word().take());
        while let Some(letter) = next.map(number) {
            assert_eq!(self.letters[letter].content.get(), 7);
            next = self.letters[letter].link.get();
            pile.push((letter, fate));
        }
        self.fates.change(|fates| fates.extend(pile.into_iter().rev()));
    }

    /// Runs letters and carries orders out, as the owner does.
    fn run(&self) {
        loop {
            if self.word().is_killed() {
                self.end();
            }
            self.take(Fate::Run);
            match self.word().rest(true) {
                Rested::Idle => return,
                Rested::Forsaken => return self.abandon(),
                Rested::Letters => {}
                Rested::Ordered => {
                    let word = self.word();
                    // A letter may have made a handle anew.
                    if word.is_killed() || word.is_stopped() || word.is_abandoned() {
                        self.end();
                    }
                }
            }
        }
    }

    /// Carries an order out, once.
    fn end(&self) {
        if self.word().has_ended() {
            return;
        }
        self.word().close();
        self.take(Fate::Discarded);
        self.ends.change(|ends| *ends += 1);
        self.word().end();
    }

    /// Does what the last handle does, and an owner that finds that it was the last.
    fn abandon(&self) {
        if !self.word().abandon() {
            return;
        }
        if self.word().has_ended() {
            // Everything that anybody has done to the mailbox must have happened before.
            self.fates.change(|_| ());
            self.ends.change(|_| ());
            self.reason.change(|_| ());
            self.freed.change(|freed| *freed += 1);
        } else {
            self.word().claim();
            self.run();
        }
    }

    /// Makes a handle, as the owner does.
    fn new_handle(&self) -> StrandArc {
        if let Some(handle) = StrandArc::another(&self.strand) {
            return handle;
        }
        while !self.word().revive() {
            spin_loop();
        }
        StrandArc::first(&self.strand)
    }

    /// Runs letter 0 in place, if the mailbox is idle. Returns whether it was.
    fn visit(&self) -> bool {
        if !self.word().visit() {
            return false;
        }
        self.fates.change(|fates| fates.push((0, Fate::Visited)));
        match self.word().rest(true) {
            Rested::Idle => {}
            Rested::Forsaken => unreachable!("the visitor has a handle"),
            Rested::Letters | Rested::Ordered => self.run(),
        }
        true
    }

    fn fates(&self) -> Vec<(usize, Fate)> {
        self.fates.change(|fates| fates.clone())
    }
}

#[test]
fn two_orders_are_carried_out_once() {
    for orders in [[Order::Stop, Order::Kill], [Order::Kill, Order::Kill], [Order::Stop, Order::Stop]] {
        check(2, 4, move |turn| {
            let (mailbox, handle) = Mailbox::new();
            turn.two(move || mailbox.order(orders[0]), move || mailbox.order(orders[1]));
            assert_eq!(mailbox.ends.get(), 1);
            assert!(!mailbox.word().is_active());
            std::mem::forget(handle);
        });
    }
}

#[test]
fn a_letter_that_is_posted_runs_before_a_stop_and_none_is_posted_after_the_end() {
    check(2, 4, |turn| {
        let (mailbox, handle) = Mailbox::new();
        let stop = move || {
            mailbox.order(Order::Stop);
            assert!(!mailbox.post(1), "posted after the order");
        };
        let (posted, ()) = turn.two(move || mailbox.post(0), stop);
        assert_eq!(mailbox.ends.get(), 1);
        assert_eq!(mailbox.fates(), if posted { vec![(0, Fate::Run)] } else { Vec::new() });
        std::mem::forget(handle);
    });
}

#[test]
fn a_letter_that_is_posted_is_run_or_discarded_by_a_kill() {
    check(2, 4, |turn| {
        let (mailbox, handle) = Mailbox::new();
        let post = move || [mailbox.post(0), mailbox.post(1)];
        let (posted, ()) = turn.two(post, move || mailbox.order(Order::Kill));
        let numbers: Vec<_> = mailbox.fates().into_iter().map(|(number, _)| number).collect();
        let expected: Vec<_> = (0..LETTERS).filter(|number| posted[*number]).collect();
        assert_eq!((mailbox.ends.get(), numbers), (1, expected));
        assert!(!mailbox.word().has_letters());
        std::mem::forget(handle);
    });
}

#[test]
fn an_owner_that_rests_carries_an_order_out_or_leaves_it_to_its_giver() {
    for order in [Order::Stop, Order::Kill] {
        check(2, 4, move |turn| {
            let (mailbox, handle) = Mailbox::new();
            mailbox.word().claim();
            turn.two(move || mailbox.run(), move || mailbox.order(order));
            assert_eq!(mailbox.ends.get(), 1);
            std::mem::forget(handle);
        });
    }
}

#[test]
fn an_owner_that_stops_sees_why() {
    check(2, 4, |turn| {
        let (mailbox, handle) = Mailbox::new();
        mailbox.word().claim();
        let own = move || {
            if mailbox.word().rest(true) == Rested::Ordered {
                assert!(mailbox.word().is_stopped());
                assert_eq!(mailbox.reason.get(), 7);
            }
        };
        let stop = move || {
            mailbox.reason.set(7);
            // The owner is gone if this activates the mailbox.
            let _ = mailbox.word().order(Order::Stop, true);
        };
        turn.two(own, stop);
        std::mem::forget(handle);
    });
}

#[test]
fn a_thread_that_sees_the_end_sees_what_the_owner_did() {
    check(2, 4, |turn| {
        let (mailbox, handle) = Mailbox::new();
        let look = move || {
            if mailbox.word().has_ended() {
                assert_eq!(mailbox.ends.get(), 1);
            }
        };
        turn.two(move || mailbox.order(Order::Stop), look);
        std::mem::forget(handle);
    });
}

#[test]
fn a_mailbox_ends_once_and_is_freed_once_after_an_order_and_the_last_handle() {
    for order in [Order::Stop, Order::Kill] {
        check(2, 4, move |turn| {
            let (mailbox, one) = Mailbox::new();
            let two = one.clone();
            let give = move || {
                mailbox.order(order);
                drop(one);
            };
            turn.two(give, move || drop(two));
            assert_eq!((mailbox.ends.get(), mailbox.freed.get()), (1, 1));
        });
    }
}

#[test]
fn what_a_handle_did_happens_before_the_owner_frees_the_mailbox() {
    check(2, 4, |turn| {
        let (mailbox, handle) = Mailbox::new();
        mailbox.word().claim();
        let go = move || {
            mailbox.reason.set(7);
            drop(handle);
        };
        turn.two(move || mailbox.run(), go);
        assert_eq!((mailbox.ends.get(), mailbox.freed.get()), (1, 1));
    });
}

#[test]
fn a_mailbox_without_handles_runs_its_letters_ends_and_is_freed() {
    check(2, 4, |turn| {
        let (mailbox, one) = Mailbox::new();
        let two = one.clone();
        let post = move || {
            assert!(mailbox.post(0));
            drop(one);
        };
        turn.two(post, move || drop(two));
        assert_eq!((mailbox.ends.get(), mailbox.freed.get()), (1, 1));
        assert_eq!(mailbox.fates(), [(0, Fate::Run)]);
    });
}

#[test]
fn an_owner_makes_a_handle_while_the_last_one_is_dropped() {
    check(2, 4, |turn| {
        let (mailbox, last) = Mailbox::new();
        mailbox.word().claim();
        let own = move || {
            let new = mailbox.new_handle();
            mailbox.run();
            assert_eq!(mailbox.freed.get(), 0, "freed although there is a handle");
            drop(new);
        };
        turn.two(own, move || drop(last));
        assert_eq!((mailbox.ends.get(), mailbox.freed.get()), (1, 1));
    });
}

#[test]
fn a_handle_that_is_made_anew_comes_after_what_the_last_one_did() {
    check(2, 4, |turn| {
        let (mailbox, last) = Mailbox::new();
        mailbox.word().claim();
        let go = move || {
            mailbox.reason.set(7);
            drop(last);
        };
        let own = move || {
            let revived = StrandArc::another(&mailbox.strand).is_none() && {
                while !mailbox.word().revive() {
                    spin_loop();
                }
                true
            };
            if revived {
                assert_eq!(mailbox.reason.get(), 7);
                let new = StrandArc::first(&mailbox.strand);
                mailbox.run();
                drop(new);
            } else {
                mailbox.run();
            }
        };
        turn.two(own, go);
        assert_eq!((mailbox.ends.get(), mailbox.freed.get()), (1, 1));
    });
}

#[test]
fn a_handle_that_was_made_anew_is_dropped_by_another_thread() {
    check(2, 3, |turn| {
        let (mailbox, last) = Mailbox::new();
        mailbox.word().claim();
        let own = move || {
            let new = mailbox.new_handle();
            let other = loom::thread::spawn(move || drop(new));
            mailbox.run();
            other.join().unwrap();
        };
        turn.two(own, move || drop(last));
        assert_eq!((mailbox.ends.get(), mailbox.freed.get()), (1, 1));
    });
}

#[test]
fn a_visitor_and_a_poster_exclude_each_other_and_no_letter_is_lost() {
    check(2, 4, |turn| {
        let (mailbox, handle) = Mailbox::new();
        let (visited, posted) = turn.two(move || mailbox.visit(), move || mailbox.post(1));
        let fates = mailbox.fates();
        assert!(posted && fates.contains(&(1, Fate::Run)));
        assert_eq!(fates.len(), 1 + usize::from(visited), "{fates:?}");
        assert!(!mailbox.word().is_active());
        std::mem::forget(handle);
    });
}

#[test]
fn an_order_that_comes_during_a_visit_is_carried_out_once() {
    for order in [Order::Stop, Order::Kill] {
        check(2, 4, move |turn| {
            let (mailbox, handle) = Mailbox::new();
            let (visited, ()) = turn.two(move || mailbox.visit(), move || mailbox.order(order));
            assert_eq!((mailbox.ends.get(), mailbox.fates().len()), (1, usize::from(visited)));
            assert!(!mailbox.visit(), "visited after the end");
            std::mem::forget(handle);
        });
    }
}

#[test]
fn two_visitors_exclude_each_other() {
    check(2, 4, |turn| {
        let (mailbox, handle) = Mailbox::new();
        let visits = turn.two(move || mailbox.visit(), move || mailbox.visit());
        assert!(visits.0 || visits.1);
        assert_eq!(mailbox.fates().len(), usize::from(visits.0) + usize::from(visits.1));
        std::mem::forget(handle);
    });
}

#[test]
fn a_letter_an_order_and_a_handle_that_goes_lead_to_one_end() {
    for order in [Order::Stop, Order::Kill] {
        check(3, 2, move |turn| {
            let (mailbox, one) = Mailbox::new();
            let (two, three) = (one.clone(), one.clone());
            let post = move || {
                let posted = mailbox.post(0);
                drop(one);
                posted
            };
            let give = move || {
                mailbox.order(order);
                drop(two);
                false
            };
            let go = move || {
                drop(three);
                false
            };
            let [posted, ..] = turn.all([Box::new(post), Box::new(give), Box::new(go)]);
            assert_eq!((mailbox.ends.get(), mailbox.freed.get()), (1, 1));
            assert_eq!(mailbox.fates().len(), usize::from(posted));
            assert!(order == Order::Kill || !mailbox.fates().contains(&(0, Fate::Discarded)));
        });
    }
}

#[test]
fn a_visitor_a_poster_and_an_order_exclude_each_other() {
    for order in [Order::Stop, Order::Kill] {
        check(3, 2, move |turn| {
            let (mailbox, handle) = Mailbox::new();
            let give = move || {
                mailbox.order(order);
                false
            };
            let threads: [Box<dyn FnOnce() -> bool>; 3] =
                [Box::new(move || mailbox.visit()), Box::new(move || mailbox.post(1)), Box::new(give)];
            let [visited, posted, _] = turn.all(threads);
            assert_eq!(mailbox.ends.get(), 1);
            assert_eq!(mailbox.fates().len(), usize::from(visited) + usize::from(posted));
            std::mem::forget(handle);
        });
    }
}
