//! `io::slots`: what the kernel has reported and what a call has shown, in any order.

use crate::check;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use sinew::protocols::{Shown, Slot};
use std::task::{Context, Poll, Waker};

/// A descriptor: what the kernel has, and what is known of it.
struct Descriptor {
    bytes: AtomicU32,
    is_over: AtomicU32,
    slot: Slot,
}

impl Descriptor {
    fn new() -> (Arc<Descriptor>, Arc<Descriptor>) {
        let descriptor = Descriptor { bytes: AtomicU32::new(0), is_over: AtomicU32::new(0), slot: Slot::new() };
        let descriptor = Arc::new(descriptor);
        (Arc::clone(&descriptor), descriptor)
    }

    /// The kernel takes one byte out. Whether there was one.
    fn take(&self) -> bool {
        self.bytes.fetch_update(AcqRel, Acquire, |bytes| bytes.checked_sub(1)).is_ok()
    }

    /// Reads a byte as `Source::operate` does. `shown` is what that shows.
    fn read(&self, shown: Shown) {
        loop {
            let events = self.slot.wait();
            if self.take() {
                return self.slot.finish(events, shown);
            }
            self.slot.finish(events, Shown::Nothing);
        }
    }

    /// Reads all that there is, which is less than was asked for. The number of bytes.
    fn read_all(&self) -> u32 {
        loop {
            let events = self.slot.wait();
            match self.bytes.swap(0, AcqRel) {
                0 => self.slot.finish(events, Shown::Nothing),
                count => {
                    self.slot.finish(events, Shown::Short);
                    return count;
                }
            }
        }
    }

    /// Reads the end, as `read`.
    fn read_end(&self) {
        loop {
            let events = self.slot.wait();
            if self.is_over.load(Acquire) == 1 {
                return self.slot.finish(events, Shown::More);
            }
            self.slot.finish(events, Shown::Nothing);
        }
    }
}

#[test]
fn what_comes_while_a_call_finds_nothing_is_not_missed() {
    check(2, 4, |turn| {
        let (descriptor, its) = Descriptor::new();
        let poll = move || {
            descriptor.bytes.fetch_add(1, Release);
            descriptor.slot.announce(false);
        };
        turn.two(poll, move || its.read_all());
    });
}

#[test]
fn each_event_is_seen_though_the_one_before_was_read_meanwhile() {
    check(2, 3, |turn| {
        let (descriptor, its) = Descriptor::new();
        let poll = move || {
            for _ in 0..2 {
                descriptor.bytes.fetch_add(1, Release);
                descriptor.slot.announce(false);
            }
        };
        let read = move || {
            let mut count = 0;
            while count < 2 {
                count += its.read_all();
            }
        };
        turn.two(poll, read);
    });
}

#[test]
fn the_end_is_seen_though_it_was_reported_before_the_last_bytes_were_read() {
    check(2, 3, |turn| {
        let (descriptor, its) = Descriptor::new();
        let poll = move || {
            descriptor.bytes.fetch_add(1, Release);
            descriptor.is_over.store(1, Release);
            descriptor.slot.announce(true);
        };
        let read = move || {
            its.read(Shown::Short);
            its.read_end();
        };
        turn.two(poll, read);
    });
}

/// Two bytes, one event: the first who is told leaves the second byte to the next. One of them is
/// a future, which may be dropped instead of being told.
#[test]
fn one_who_is_done_leaves_the_rest_to_the_one_who_waits() {
    check(2, 3, |turn| {
        let (descriptor, its) = Descriptor::new();
        its.slot.finish(0, Shown::Nothing);
        let poll_and_read = move || {
            let mut context = Context::from_waker(Waker::noop());
            let mut waits = Box::pin(descriptor.slot.wait_async());
            let is_pending = waits.as_mut().poll(&mut context).is_pending();
            assert!(is_pending);
            descriptor.bytes.fetch_add(2, Release);
            descriptor.slot.announce(false);
            if let Poll::Ready(events) = waits.as_mut().poll(&mut context) {
                assert!(descriptor.take());
                descriptor.slot.finish(events, Shown::More);
            }
        };
        turn.two(poll_and_read, move || its.read(Shown::More));
    });
}

#[test]
fn a_future_that_is_dropped_when_it_was_told_leaves_its_turn_to_the_one_who_waits() {
    check(2, 3, |turn| {
        let (descriptor, its) = Descriptor::new();
        its.slot.finish(0, Shown::Nothing);
        let poll_and_drop = move || {
            let mut waits = Box::pin(descriptor.slot.wait_async());
            assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            descriptor.bytes.fetch_add(1, Release);
            descriptor.slot.announce(false);
        };
        turn.two(poll_and_drop, move || its.read(Shown::More));
    });
}

/// The end of a runtime, whose poller will not report what comes.
#[test]
fn one_who_waits_goes_on_when_nobody_polls_any_more() {
    check(2, 3, |turn| {
        let (descriptor, its) = Descriptor::new();
        its.slot.adopt();
        let read = move || {
            let events = its.slot.begin().expect("it is worth trying at first");
            its.slot.finish(events, Shown::Nothing);
            // Otherwise another poller is asked to report.
            if its.slot.is_reported() {
                its.slot.wait();
            }
        };
        turn.two(move || descriptor.slot.disown(), read);
    });
}
