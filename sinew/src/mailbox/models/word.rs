//! `Word`: posts against each other, against the owner that goes idle, and against the end.

use crate::base::models::{Watched, check};
use crate::mailbox::word::{Address, Posted, Rested, Unposted, Word};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};

const LETTERS: usize = 3;

/// A mailbox, and the letters that may be posted to it, by number.
struct Mailbox {
    word: AtomicU64,
    letters: [Letter; LETTERS],
    /// The numbers of the letters that have run. Only the owner uses it.
    run: Watched<Vec<usize>>,
    /// What handles do to the mailbox. Only holders of the one handle use it.
    used: Watched<u32>,
    freed: Watched<bool>,
}

struct Letter {
    link: Watched<Option<Address>>,
    content: Watched<u32>,
}

fn address(number: usize) -> Address {
    Address::new(64 * (number as u64 + 1)).unwrap()
}

fn number(address: Address) -> usize {
    (address.get() / 64) as usize - 1
}

impl Mailbox {
    fn new() -> Arc<Mailbox> {
        let letter = || Letter { link: Watched::new(None), content: Watched::new(0) };
        Arc::new(Mailbox {
            word: AtomicU64::new(0),
            letters: std::array::from_fn(|_| letter()),
            run: Watched::new(Vec::new()),
            used: Watched::new(0),
            freed: Watched::new(false),
        })
    }

    fn word(&self) -> Word<'_> {
        Word::of(&self.word)
    }

    /// Posts a letter. Runs the mailbox if that activates it. Returns whether the letter was posted.
    fn post(&self, letter: usize) -> bool {
        self.letters[letter].content.set(7);
        match self.word().post(address(letter), true, |older| self.letters[letter].link.set(older)) {
            Ok(Posted::Activated) => self.run(),
            Ok(Posted::Added) => {}
            Err(Unposted::Closed) => return false,
            Err(Unposted::Idle) => unreachable!("the post may activate"),
        }
        true
    }

    /// Runs all letters, as the owner does.
    fn run(&self) {
        loop {
            // The owner looks at its pile first.
            self.run.change(|_| ());
            let (mut pile, mut next) = (Vec::new(), self.word().take());
            while let Some(letter) = next.map(number) {
                assert_eq!(self.letters[letter].content.get(), 7);
                next = self.letters[letter].link.get();
                pile.push(letter);
            }
            self.run.change(|run| run.extend(pile.into_iter().rev()));
            match self.word().rest(false) {
                Rested::Idle => return,
                Rested::Forsaken => return self.free(),
                Rested::Letters => {}
                Rested::Ordered => unreachable!("a colour has no orders"),
            }
        }
    }

    fn use_handle(&self) {
        self.used.change(|used| *used += 1);
    }

    fn drop_last_handle(&self) {
        if self.word().abandon() {
            self.free();
        }
    }

    /// Everything that anybody has done to the mailbox must have happened before.
    fn free(&self) {
        let (run, used) = (self.run.change(|run| run.len()), self.used.get());
        assert_eq!((run, used), (1, 1));
        assert!(!self.freed.change(|freed| std::mem::replace(freed, true)), "freed twice");
    }
}

#[test]
fn each_of_two_letters_runs_once_and_nobody_runs_at_the_same_time() {
    check(2, 4, |turn| {
        let mailbox = Mailbox::new();
        let (a, b) = (Arc::clone(&mailbox), Arc::clone(&mailbox));
        let posted = turn.two(move || a.post(0), move || b.post(1));
        assert_eq!(posted, (true, true));
        let mut run = mailbox.run.change(|run| std::mem::take(run));
        run.sort_unstable();
        assert_eq!(run, [0, 1]);
        assert_eq!(mailbox.word.load(Relaxed), 0, "the mailbox is idle");
    });
}

#[test]
fn letters_of_one_poster_run_in_order() {
    check(2, 3, |turn| {
        let mailbox = Mailbox::new();
        let (a, b) = (Arc::clone(&mailbox), Arc::clone(&mailbox));
        turn.two(move || (a.post(0), a.post(1)), move || b.post(2));
        let run = mailbox.run.change(|run| std::mem::take(run));
        assert_eq!(run.len(), 3);
        let place = |letter| run.iter().position(|number| *number == letter).unwrap();
        assert!(place(0) < place(1), "{run:?}");
    });
}

#[test]
fn a_letter_is_refused_by_a_closed_mailbox_or_runs() {
    check(2, 4, |turn| {
        let mailbox = Mailbox::new();
        let (a, b) = (Arc::clone(&mailbox), Arc::clone(&mailbox));
        let close = move || {
            a.word().close();
            a.post(1)
        };
        let (late, posted) = turn.two(close, move || b.post(0));
        assert!(!late, "a closed mailbox took a letter");
        let run = mailbox.run.change(|run| std::mem::take(run));
        assert_eq!(run, if posted { vec![0] } else { Vec::new() });
    });
}

#[test]
fn a_mailbox_without_handles_is_freed_once_after_all_that_was_done_to_it() {
    check(2, 4, |turn| {
        let mailbox = Mailbox::new();
        mailbox.letters[0].content.set(7);
        assert_eq!(mailbox.word().post(address(0), true, |_| ()), Ok(Posted::Activated));
        let (owner, handle) = (Arc::clone(&mailbox), Arc::clone(&mailbox));
        let drop_handle = move || {
            handle.use_handle();
            handle.drop_last_handle();
        };
        turn.two(move || owner.run(), drop_handle);
        assert!(mailbox.freed.get(), "not freed");
    });
}
