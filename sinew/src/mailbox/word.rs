//! The word of a mailbox: its newest letter, and who owns the mailbox.
//!
//! ```text
//!                post: the poster owns the mailbox          take: the owner has all letters
//!      idle ----------------------------------> ACTIVE, letters ----------------> ACTIVE
//!       ^                                              ^                             |
//!       |                                              +---------- post -------------+
//!       +---------------- rest: only if there are no letters ------------------------+
//!
//!      any --close--> + CLOSED: posts are refused     any --abandon--> + ABANDONED: no handle is left
//!
//!      any --order--> ACTIVE, CLOSED, + STOP or KILL; the thread that made an idle mailbox active owns it
//!      ACTIVE, an order --end--> ACTIVE, + ENDED: the owner has carried the order out
//! ```
//!
//! A mailbox is ACTIVE while somebody owns it: a scheduler's queue, a processor, or a carrier. Letters exist
//! only in an active mailbox. The letters are a list, the newest first. Each letter has the address of the
//! next older one.
//!
//! Orders are for mailboxes that end (actors). The owner of such a mailbox does not rest before it has
//! carried an order out. To have no handle left is an order too.

use crate::base::atomic::{AcqRel, Acquire, AtomicU64, Relaxed, Release, SeqCst, fence};
use std::num::{NonZeroU64, NonZeroUsize};

/// Somebody owns the mailbox.
const ACTIVE: u64 = 1;
/// No letter is taken any more.
const CLOSED: u64 = 2;
/// No handle to the mailbox is left. So nobody posts.
const ABANDONED: u64 = 4;
/// The mailbox ends when it has no more letters.
const STOP: u64 = 8;
/// The mailbox ends before its next letter.
const KILL: u64 = 16;
/// The mailbox has ended.
const ENDED: u64 = 32;
/// Letters are aligned to 64 bytes, so the lowest bits of an address are free.
const FLAGS: u64 = 63;

/// The address of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address(NonZeroU64);

impl Address {
    /// Returns the address if it is that of a letter: not 0, and aligned.
    #[inline]
    pub(crate) fn new(address: u64) -> Option<Address> {
        debug_assert_eq!(address & FLAGS, 0);
        NonZeroU64::new(address).map(Address)
    }

    #[inline]
    pub(crate) fn get(self) -> u64 {
        self.0.get()
    }

    #[inline]
    fn of(word: u64) -> Option<Address> {
        NonZeroU64::new(word & !FLAGS).map(Address)
    }
}

impl From<Address> for NonZeroUsize {
    #[inline]
    fn from(address: Address) -> NonZeroUsize {
        NonZeroUsize::new(address.get() as usize).expect("an address is not 0")
    }
}

/// What a thread that has posted a letter now has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    /// The mailbox was idle and is the caller's: make it ready.
    Activated,
    /// Nothing: the owner of the mailbox finds the letter.
    Added,
}

/// Why a letter was not posted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unposted {
    Closed,
    /// The mailbox is idle, and the caller has not said that it may become active.
    Idle,
}

/// What the owner of a mailbox without letters now has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rested {
    /// Nothing: the mailbox is idle, and no longer the caller's.
    Idle,
    /// Free the mailbox: it is idle, and nobody has a handle to it.
    Forsaken,
    /// Go on: letters have come.
    Letters,
    /// End the mailbox: there is an order that has not been carried out.
    Ordered,
}

/// An order to a mailbox that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// End when there are no more letters.
    Stop,
    /// End before the next letter.
    Kill,
}

impl Order {
    fn flags(self) -> u64 {
        match self {
            Order::Stop => CLOSED | STOP,
            Order::Kill => CLOSED | KILL,
        }
    }
}

/// What a thread that has given an order now has to do.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ordered {
    /// The mailbox was idle and is the caller's: make it ready.
    Activated,
    /// Nothing: the owner of the mailbox finds the order, or the mailbox has had it before.
    Noted,
    /// Try again, with the right to activate: the mailbox is idle, and the order was not noted.
    Idle,
}

/// The word of one mailbox.
#[derive(Clone, Copy)]
pub(crate) struct Word<'a>(&'a AtomicU64);

impl<'a> Word<'a> {
    /// The bit that says that somebody owns the mailbox, for readers of memory.
    pub(super) const IS_ACTIVE: u64 = ACTIVE;

    /// Returns the word that is kept in `word`, 0 at first.
    #[inline(always)]
    pub(crate) fn of(word: &'a AtomicU64) -> Word<'a> {
        Word(word)
    }

    /// `idle -> ACTIVE, the letter | ACTIVE -> one more letter`. `link` stores the next older letter in the
    /// new one. It may be called several times, and the last call counts. By any thread that has a handle.
    ///
    /// # Errors
    /// The mailbox is closed; or it is idle, and `may_activate` is false.
    #[inline]
    pub(crate) fn post(
        self,
        letter: Address,
        may_activate: bool,
        link: impl Fn(Option<Address>),
    ) -> Result<Posted, Unposted> {
        let mut seen = self.0.load(Relaxed);
        loop {
            if seen & CLOSED != 0 {
                return Err(Unposted::Closed);
            }
            if seen & ACTIVE == 0 && !may_activate {
                return Err(Unposted::Idle);
            }
            link(Address::of(seen));
            let next = letter.get() | (seen & FLAGS) | ACTIVE;
            // Release: the owner that takes the letter sees its content; pairs with the Acquire in `take`.
            // Acquire: a new owner sees what the last one left; pairs with the Release in `rest`.
            match self.0.compare_exchange_weak(seen, next, AcqRel, Relaxed) {
                Ok(_) if seen & ACTIVE == 0 => return Ok(Posted::Activated),
                Ok(_) => return Ok(Posted::Added),
                Err(now) => seen = now,
            }
        }
    }

    /// `ACTIVE, letters -> ACTIVE`. Returns the newest letter, which leads to all others. By the owner.
    #[inline]
    pub(crate) fn take(self) -> Option<Address> {
        let mut seen = self.0.load(Relaxed);
        loop {
            let newest = Address::of(seen)?;
            // Acquire pairs with the Releases in `post`: each post is a read-modify-write, so this sees the
            // content of all letters.
            match self.0.compare_exchange_weak(seen, seen & FLAGS, Acquire, Relaxed) {
                Ok(_) => return Some(newest),
                Err(now) => seen = now,
            }
        }
    }

    /// Returns whether there are letters. By the owner.
    #[inline]
    pub(crate) fn has_letters(self) -> bool {
        self.0.load(Relaxed) & !FLAGS != 0
    }

    /// `ACTIVE -> idle`, unless there are letters, or an order to a mailbox that `ends`. By the owner, who has
    /// run all letters that it took. If the mailbox is idle then, the caller must not use it any more.
    #[inline]
    pub(crate) fn rest(self, ends: bool) -> Rested {
        // Mostly nothing has been set.
        let mut seen = ACTIVE;
        loop {
            if seen & !FLAGS != 0 {
                return Rested::Letters;
            }
            if ends && seen & (STOP | KILL | ABANDONED) != 0 && seen & ENDED == 0 {
                return Rested::Ordered;
            }
            // Release: what the owner did happens before the next owner's work, and before the mailbox is freed;
            // pairs with the Acquires in `post` and `abandon`. Acquire: what handles did before they were
            // dropped happens before the mailbox is freed here; pairs with the Release in `abandon`.
            match self.0.compare_exchange_weak(seen, seen & !ACTIVE, AcqRel, Relaxed) {
                Ok(_) if seen & ABANDONED != 0 => return Rested::Forsaken,
                Ok(_) => return Rested::Idle,
                Err(now) => seen = now,
            }
        }
    }

    /// `-> + CLOSED`: posts are refused from now on. Letters that are in the mailbox stay. By any thread that
    /// has a handle.
    pub(crate) fn close(self) {
        // Relaxed: a post that comes later sees the flag because it changes the same word.
        self.0.fetch_or(CLOSED, Relaxed);
    }

    pub(crate) fn is_closed(self) -> bool {
        self.0.load(Relaxed) & CLOSED != 0
    }

    /// `any -> ACTIVE, CLOSED, the order`. An idle mailbox is left alone unless `may_activate`. By any thread
    /// that has a handle, by the owner, and by the thread that was told to free the mailbox.
    pub(crate) fn order(self, order: Order, may_activate: bool) -> Ordered {
        let mut seen = self.0.load(Relaxed);
        loop {
            if seen & ENDED != 0 || seen & order.flags() == order.flags() {
                return Ordered::Noted;
            }
            if seen & ACTIVE == 0 && !may_activate {
                return Ordered::Idle;
            }
            // Acquire: a new owner sees what the last one left; pairs with the Release in `rest`. Release: an owner
            // that stops sees what the caller did before; pairs with the Acquire in `is_stopped`.
            match self.0.compare_exchange_weak(seen, seen | order.flags() | ACTIVE, AcqRel, Relaxed) {
                Ok(_) if seen & ACTIVE == 0 => return Ordered::Activated,
                Ok(_) => return Ordered::Noted,
                Err(now) => seen = now,
            }
        }
    }

    /// Returns whether there is an order to end before the next letter.
    pub(crate) fn is_killed(self) -> bool {
        self.0.load(Relaxed) & KILL != 0
    }

    /// Returns whether there is an order to end when there are no more letters. Then the caller sees what was done
    /// before the order was given.
    pub(crate) fn is_stopped(self) -> bool {
        // Acquire pairs with the Release in `order`.
        self.0.load(Acquire) & STOP != 0
    }

    /// `ACTIVE, CLOSED -> + ENDED`: the order has been carried out. By the owner, who then reads what other threads
    /// have written for it: see [`has_ended_by_now`](Word::has_ended_by_now).
    pub(crate) fn end(self) {
        // Release: a thread that sees it sees what the owner did; pairs with the Acquire in `has_ended`.
        self.0.fetch_or(ENDED, Release);
        // Pairs with the fence in `has_ended_by_now`.
        fence(SeqCst);
    }

    /// Returns whether the mailbox has ended, to a thread that has written something for its owner. If this returns
    /// `false`, the owner sees it after `end`.
    pub(crate) fn has_ended_by_now(self) -> bool {
        // Pairs with the fence in `end`: either this sees the flag, or the owner sees what was written before.
        fence(SeqCst);
        self.has_ended()
    }

    /// Returns whether the mailbox has ended.
    pub(crate) fn has_ended(self) -> bool {
        // Acquire pairs with the Release in `end`.
        self.0.load(Acquire) & ENDED != 0
    }

    /// `idle -> ACTIVE`: makes a mailbox active that nobody else can reach. By the thread that has made it, or that is
    /// to free it.
    pub(crate) fn claim(self) {
        // Relaxed: the caller has acquired what others have done to it.
        self.0.fetch_or(ACTIVE, Relaxed);
    }

    /// `idle -> ACTIVE`, if nothing else is known of the mailbox. Returns whether the caller owns it now. By any thread
    /// that has a handle.
    #[must_use]
    pub(crate) fn visit(self) -> bool {
        // Acquire: the new owner sees what the last one left; pairs with the Release in `rest`.
        self.0.compare_exchange(0, ACTIVE, Acquire, Relaxed).is_ok()
    }

    /// Returns whether no handle is left. The owner may [revive](Word::revive) the mailbox.
    pub(crate) fn is_abandoned(self) -> bool {
        self.0.load(Relaxed) & ABANDONED != 0
    }

    /// `ABANDONED -> not`: the owner makes a handle anew. Returns `false` if the mailbox is not marked as
    /// abandoned: the thread that drops the last handle is about to do so.
    #[must_use]
    pub(crate) fn revive(self) -> bool {
        // Acquire: what handles did happens before what the new one does; pairs with the Release in `abandon`.
        self.0.fetch_and(!ABANDONED, Acquire) & ABANDONED != 0
    }

    /// Says whether somebody owns the mailbox. The answer may be out of date.
    pub(crate) fn is_active(self) -> bool {
        self.0.load(Relaxed) & ACTIVE != 0
    }

    /// `-> + ABANDONED`. Returns whether the caller has to free the mailbox: it is idle. Otherwise its owner
    /// does so. By the thread that drops the last handle.
    #[must_use]
    pub(crate) fn abandon(self) -> bool {
        // Acquire: what the last owner did happens before the mailbox is freed; pairs with the Release in
        // `rest`. Release: what handles did happens before the owner frees it; pairs with the Acquire there.
        self.0.fetch_or(ABANDONED, AcqRel) & ACTIVE == 0
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    fn letter(number: u64) -> Address {
        Address::new(number * 64).unwrap()
    }

    #[test]
    fn the_first_post_activates_and_later_ones_add() {
        let word = AtomicU64::new(0);
        let (word, older) = (Word::of(&word), std::cell::Cell::new(None));
        let post = |number| word.post(letter(number), true, |next| older.set(next));
        assert_eq!((post(1), older.get()), (Ok(Posted::Activated), None));
        assert_eq!((post(2), older.get()), (Ok(Posted::Added), Some(letter(1))));
        assert_eq!(word.rest(false), Rested::Letters);
        assert_eq!(word.take(), Some(letter(2)));
        assert_eq!(word.take(), None);
        assert_eq!((post(3), older.get()), (Ok(Posted::Added), None));
        assert_eq!(word.take(), Some(letter(3)));
        assert_eq!(word.rest(false), Rested::Idle);
        assert_eq!((post(4), older.get()), (Ok(Posted::Activated), None));
    }

    #[test]
    fn a_post_that_may_not_activate_leaves_an_idle_mailbox_alone() {
        let word = AtomicU64::new(0);
        let word = Word::of(&word);
        assert_eq!(word.post(letter(1), false, |_| ()), Err(Unposted::Idle));
        assert!(!word.is_active());
    }

    #[test]
    fn a_closed_mailbox_keeps_its_letters_and_takes_no_more() {
        let word = AtomicU64::new(0);
        let word = Word::of(&word);
        assert_eq!(word.post(letter(1), true, |_| ()), Ok(Posted::Activated));
        word.close();
        assert_eq!(word.post(letter(2), true, |_| ()), Err(Unposted::Closed));
        assert_eq!(word.take(), Some(letter(1)));
        assert_eq!(word.rest(false), Rested::Idle);
        assert!(word.is_closed());
    }

    #[test]
    fn an_abandoned_mailbox_is_freed_by_its_owner_if_it_has_one() {
        let word = AtomicU64::new(0);
        assert!(Word::of(&word).abandon());
        let word = AtomicU64::new(0);
        let word = Word::of(&word);
        assert_eq!(word.post(letter(1), true, |_| ()), Ok(Posted::Activated));
        assert!(!word.abandon());
        assert_eq!(word.take(), Some(letter(1)));
        assert_eq!(word.rest(false), Rested::Forsaken);
    }
}
