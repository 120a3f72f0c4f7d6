//! `RawRwLock`.

use super::overdue;
use crate::base::models::{Watched, check};
use crate::sync::raw_rwlock::RawRwLock;
use crate::wait::Limit;
use loom::sync::Arc;
use std::pin::Pin;
use std::task::{Context, Waker};

/// A sum that the lock guards.
struct Guarded {
    lock: RawRwLock,
    sum: Watched<u32>,
}

impl Guarded {
    fn new<const N: usize>() -> [Arc<Guarded>; N] {
        let guarded = Arc::new(Guarded { lock: RawRwLock::new(), sum: Watched::new(0) });
        [(); N].map(|()| Arc::clone(&guarded))
    }

    fn add_and_unlock(&self) {
        self.sum.change(|sum| *sum += 1);
        self.lock.unlock_write();
    }

    fn add(&self) -> u32 {
        self.lock.write(Limit::NONE);
        self.add_and_unlock();
        1
    }

    fn add_overdue(&self) -> u32 {
        let locked = self.lock.write(overdue());
        if locked {
            self.add_and_unlock();
        }
        locked.into()
    }

    fn read_and_unlock(&self) -> u32 {
        let sum = self.sum.get();
        self.lock.unlock_read();
        sum
    }

    fn read(&self) -> u32 {
        self.lock.read(Limit::NONE);
        self.read_and_unlock()
    }

    /// The lock is free, and can be used as a new one.
    fn assert_free(&self, sum: u32) {
        assert!(self.lock.try_write(), "the lock is free");
        assert!(!self.lock.try_read());
        assert_eq!(self.sum.get(), sum);
        self.lock.unlock_write();
        assert!(self.lock.try_read() && self.lock.try_read());
        assert!(!self.lock.try_write());
    }
}

#[test]
fn writers_exclude_each_other_and_see_what_the_last_writer_did() {
    check(2, 3, |turn| {
        let [one, two, after] = Guarded::new();
        turn.two(move || one.add(), move || two.add());
        after.assert_free(2);
    });
}

#[test]
fn a_reader_and_a_writer_exclude_each_other() {
    check(2, 3, |turn| {
        let [reader, writer, after] = Guarded::new();
        let (seen, _) = turn.two(move || (reader.read(), reader.read()), move || writer.add());
        assert!(seen.0 <= seen.1);
        after.assert_free(1);
    });
}

#[test]
fn a_writer_that_waits_gets_the_lock_when_the_last_of_two_readers_has_left() {
    check(3, 2, |turn| {
        let [one, two, writer, after] = Guarded::new();
        assert!(one.lock.try_read() && two.lock.try_read());
        let read = |reader: Arc<Guarded>| Box::new(move || reader.read_and_unlock());
        let [first, second, _] = turn.all([read(one), read(two), Box::new(move || writer.add())]);
        assert_eq!((first, second), (0, 0));
        after.assert_free(1);
    });
}

#[test]
fn a_reader_that_passes_while_another_is_woken_sees_what_the_writer_did() {
    check(3, 2, |turn| {
        let [writer, waiter, passer, after] = Guarded::new();
        writer.lock.write(Limit::NONE);
        let release = move || {
            writer.add_and_unlock();
            1
        };
        let pass = move || if passer.lock.try_read() { passer.read_and_unlock() } else { 1 };
        let seen = turn.all([Box::new(release), Box::new(move || waiter.read()), Box::new(pass)]);
        assert_eq!(seen, [1; 3]);
        after.assert_free(1);
    });
}

#[test]
fn a_writer_whose_limit_ends_during_the_release_leaves_the_lock_usable() {
    check(2, 3, |turn| {
        let [one, two, after] = Guarded::new();
        one.lock.write(Limit::NONE);
        let (locked, ()) = turn.two(move || two.add_overdue() + two.add(), move || one.add_and_unlock());
        after.assert_free(1 + locked);
    });
}

#[test]
fn a_writer_that_gives_up_lets_readers_behind_it_in_beside_the_one_that_it_waited_for() {
    check(2, 3, |turn| {
        let [holder, writer, reader] = Guarded::new();
        assert!(holder.lock.try_read());
        let (locked, seen) = turn.two(move || writer.add_overdue(), move || reader.read());
        assert_eq!((locked, seen), (0, 0));
        holder.lock.unlock_read();
        holder.assert_free(0);
    });
}

#[test]
fn a_writer_that_becomes_a_reader_shares_what_it_did_with_readers_only() {
    check(2, 3, |turn| {
        let [writer, other, after] = Guarded::new();
        writer.lock.write(Limit::NONE);
        let downgrade = move || {
            writer.sum.set(1);
            writer.lock.downgrade();
            writer.read_and_unlock()
        };
        let look = move || {
            let seen = if other.lock.try_read() { other.read_and_unlock() } else { 1 };
            (seen, other.add_overdue(), other.read())
        };
        let (seen, (others, added, last)) = turn.two(downgrade, look);
        assert_eq!((seen, others, last), (1, 1, 1 + added));
        after.assert_free(1 + added);
    });
}

#[test]
fn a_writer_that_becomes_a_reader_lets_in_the_readers_that_wait() {
    check(3, 2, |turn| {
        let [writer, reader, passer, after] = Guarded::new();
        writer.lock.write(Limit::NONE);
        let downgrade = move || {
            writer.sum.set(1);
            writer.lock.downgrade();
            1
        };
        let pass = move || if passer.lock.try_read() { passer.read_and_unlock() } else { 1 };
        let seen = turn.all([Box::new(downgrade), Box::new(move || reader.read()), Box::new(pass)]);
        assert_eq!(seen, [1; 3]);
        after.lock.unlock_read();
        after.assert_free(1);
    });
}

/// A future that takes the lock, to write or to read.
fn future(guarded: &Arc<Guarded>, writes: bool) -> Pin<Box<dyn Future<Output = ()>>> {
    let its = Arc::clone(guarded);
    Box::pin(async move {
        match writes {
            true => its.lock.write_async().await,
            false => its.lock.read_async().await,
        }
    })
}

/// The first of two futures that wait is dropped.
#[test]
fn a_future_that_is_given_the_lock_and_dropped_passes_it_on() {
    for first_writes in [false, true] {
        check(2, 3, move |turn| {
            let [holder, next, after] = Guarded::new();
            holder.lock.write(Limit::NONE);
            let mut context = Context::from_waker(Waker::noop());
            let [mut first, mut second] = [future(&holder, first_writes), future(&holder, true)];
            assert!(first.as_mut().poll(&mut context).is_pending());
            assert!(second.as_mut().poll(&mut context).is_pending());
            turn.two(move || holder.add_and_unlock(), move || drop(first));
            assert!(second.as_mut().poll(&mut context).is_ready(), "the lock is passed on");
            next.add_and_unlock();
            after.assert_free(2);
        });
    }
}
