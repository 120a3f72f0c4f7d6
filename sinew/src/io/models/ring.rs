//! `Flight` and `Room`: completions against limits, drops, and callers that wait for room.
#![allow(unsafe_code)]

use crate::base::Deadline;
use crate::base::models::{Watched, check};
use crate::io::ring::flight::{Flight, ROOM};
use crate::io::ring::plan::{Plan, What};
use crate::io::ring::queues::Landing;
use crate::io::ring::room::{Room, Taken};
use crate::wait::{self, Limit, Outcome, Party, Signalled, Wait};
use io_uring::squeue::Entry;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Returns a limit that has ended before the wait begins.
fn ended() -> Limit {
    Limit::until(Deadline::after(Duration::ZERO))
}

/// One operation in flight, and the buffer that the kernel fills.
struct Read {
    flight: Flight,
    buffer: Watched<u32>,
    user_data: u64,
}

impl Read {
    fn begin(kept: Option<Waker>) -> (Arc<Read>, Arc<Read>) {
        let read = Read { flight: Flight::new(1, false), buffer: Watched::new(0), user_data: 0 };
        // The flight does not move from here on.
        let mut read = std::sync::Arc::new(read);
        read.flight.depart(kept);
        let user_data = entries(&read.flight)[0].get_user_data();
        std::sync::Arc::get_mut(&mut read).expect("it is not shared yet").user_data = user_data;
        let read = Arc::from_std(read);
        (Arc::clone(&read), read)
    }

    /// The kernel completes the read, and a reaper counts that. Returns the room that is free then.
    fn complete(&self) -> usize {
        self.buffer.set(7);
        land(self.user_data, 1)
    }

    /// Cancels the read, and lands the helpers until none is owed. A cancel misses while `misses` is
    /// greater than 0. Returns the room that is free then.
    fn cancel(&self, mut misses: u32) -> usize {
        let mut helpers: Vec<u64> = self.flight.ask().iter().map(Entry::get_user_data).collect();
        let mut room = 0;
        while let Some(helper) = helpers.pop() {
            let result = if misses > 0 { -libc::ENOENT } else { -libc::EALREADY };
            misses = misses.saturating_sub(1);
            let mut signalled = Signalled::new();
            // SAFETY: the helper was owed, and lands here.
            let landed = unsafe { Landing::for_model(helper, result) }.land(&mut signalled);
            signalled.go_on();
            room += landed.room;
            helpers.extend(landed.help.iter().map(Entry::get_user_data));
        }
        room
    }
}

fn entries(flight: &Flight) -> Vec<Entry> {
    flight.entries(|_| Plan::bare(What::Nothing, None)).collect()
}

fn land(user_data: u64, result: i32) -> usize {
    let mut signalled = Signalled::new();
    // SAFETY: the operation has departed, and the model lands it once.
    let landed = unsafe { Landing::for_model(user_data, result) }.land(&mut signalled);
    assert!(landed.help.is_none());
    signalled.go_on();
    landed.room
}

/// A fibre's part, as `fly` plays it. Returns the room that it saw becoming free.
fn wait_for(read: &Read, limit: Limit, misses: u32) -> usize {
    let enter = |wait: &Wait| read.flight.wait(Party::timed(wait));
    let mut room = 0;
    if wait::block_within(limit, wait::Why::SLEEP, enter, |_| read.flight.withdraw()) != Outcome::Told {
        room = read.cancel(misses);
        wait::block(wait::Why::SLEEP, |party| read.flight.wait(party));
    }
    // The kernel is done with the buffer.
    assert_eq!(read.buffer.get(), 7);
    assert!(read.flight.results().eq([Some(1)]));
    room
}

#[test]
fn a_completion_while_the_fibre_begins_to_wait_is_not_missed() {
    check(2, 4, |turn| {
        let (read, its) = Read::begin(None);
        let (given, seen) = turn.two(move || read.complete(), move || wait_for(&its, Limit::NONE, 0));
        assert_eq!(given + seen, ROOM);
    });
}

#[test]
fn a_fibre_whose_limit_ends_waits_for_the_completion_and_gets_it() {
    for misses in [0, 1, 3] {
        check(2, 3, move |turn| {
            let (read, its) = Read::begin(None);
            let (given, seen) = turn.two(move || read.complete(), move || wait_for(&its, ended(), misses));
            assert_eq!(given + seen, ROOM);
        });
    }
}

/// A waker that sets a flag.
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(1, Release);
    }
}

#[test]
fn a_future_is_woken_when_its_operation_has_landed() {
    check(2, 4, |turn| {
        let (read, its) = Read::begin(None);
        let poll = move || {
            let woken = std::sync::Arc::new(Woken(AtomicU32::new(0)));
            let waker = Waker::from(std::sync::Arc::clone(&woken));
            if its.flight.poll(&Context::from_waker(&waker)).is_pending() {
                while woken.0.load(Acquire) == 0 {
                    loom::thread::yield_now();
                }
                assert!(its.flight.poll(&Context::from_waker(&waker)).is_ready());
            }
            assert_eq!(its.buffer.get(), 7);
        };
        let (given, ()) = turn.two(move || read.complete(), poll);
        assert_eq!(given, ROOM);
    });
}

/// The record of a task: its call drops the reference that the flight has kept.
struct Kept;

impl Wake for Kept {
    fn wake(self: std::sync::Arc<Self>) {}
}

#[test]
fn the_record_of_a_dropped_future_is_freed_once_the_operation_has_landed() {
    for misses in [0, 1] {
        check(2, 4, move |turn| {
            let kept = std::sync::Arc::new(Kept);
            let (read, its) = Read::begin(Some(Waker::from(std::sync::Arc::clone(&kept))));
            // The flight is there until the end, as if the record that it keeps were there.
            let _flight = Arc::clone(&read);
            let poll_and_drop = move || match its.flight.poll(&Context::from_waker(Waker::noop())) {
                Poll::Ready(()) => 0,
                Poll::Pending if its.flight.abandon() => its.cancel(misses),
                Poll::Pending => 0,
            };
            let (given, seen) = turn.two(move || read.complete(), poll_and_drop);
            assert_eq!(given + seen, ROOM);
            assert_eq!(std::sync::Arc::strong_count(&kept), 1);
        });
    }
}

fn full_room() -> (Arc<Room>, Arc<Room>) {
    let room = Room::new(ROOM);
    assert_eq!(room.take(ROOM, Limit::NONE), Taken::Yes);
    let room = Arc::new(room);
    (Arc::clone(&room), room)
}

#[test]
fn room_that_is_given_back_goes_to_the_caller_that_waits() {
    check(2, 4, |turn| {
        let (room, its) = full_room();
        let (_, taken) = turn.two(move || room.give(ROOM), move || its.take(ROOM, Limit::NONE));
        assert_eq!(taken, Taken::Yes);
    });
}

/// The first that waits wants all, and gives up. The one behind it wants less.
#[test]
fn a_caller_that_gives_up_lets_the_next_one_have_the_room() {
    check(3, 2, |turn| {
        let room = Arc::new(Room::new(2 * ROOM));
        assert_eq!(room.take(ROOM, Limit::NONE), Taken::Yes);
        let (one, two, kept) = (Arc::clone(&room), Arc::clone(&room), room);
        let give_up = move || {
            if one.take(2 * ROOM, ended()) == Taken::Yes {
                one.give(2 * ROOM);
            }
        };
        let take = move || {
            assert_eq!(two.take(ROOM, Limit::NONE), Taken::Yes);
            two.give(ROOM);
        };
        turn.two(give_up, take);
        kept.give(ROOM);
        assert!(kept.is_empty());
    });
}

#[test]
fn a_future_that_is_dropped_passes_its_room_on() {
    check(2, 4, |turn| {
        let (room, its) = full_room();
        let kept = Arc::clone(&room);
        let poll_and_drop = move || {
            let mut takes = Box::pin(its.take_async(ROOM));
            if takes.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                its.give(ROOM);
            }
        };
        turn.two(move || room.give(ROOM), poll_and_drop);
        assert!(kept.is_empty());
    });
}

#[test]
fn a_ring_that_ends_refuses_the_caller_that_waits() {
    check(2, 4, |turn| {
        let (room, its) = full_room();
        let ((), taken) = turn.two(move || room.close(), move || its.take(ROOM, Limit::NONE));
        assert_eq!(taken, Taken::Closed);
    });
}
