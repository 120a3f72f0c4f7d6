//! `Owned`: what the kernel reports and what a call shows, in any order.

use crate::base::models::check;
use crate::io::slots::{Event, Owned, Shown, Side};
use crate::wait::Limit;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::mem::ManuallyDrop;
use std::task::{Context, Poll, Waker};

/// A descriptor that is read from: what the kernel has, and what is known of it.
struct Descriptor {
    bytes: AtomicU32,
    is_over: AtomicU32,
    slot: ManuallyDrop<Owned>,
}

impl Descriptor {
    fn new() -> (Arc<Descriptor>, Arc<Descriptor>) {
        let descriptor = Descriptor { bytes: AtomicU32::new(0), is_over: AtomicU32::new(0), slot: Owned::for_model() };
        let descriptor = Arc::new(descriptor);
        (Arc::clone(&descriptor), descriptor)
    }

    /// Waits until it is worth trying. Returns the number of events so far.
    fn wait(&self) -> u32 {
        self.slot.wait(Side::Read, Limit::NONE).expect("the wait has no limit")
    }

    fn finish(&self, events: u32, shown: Shown) {
        self.slot.finish(Side::Read, events, shown);
    }

    /// A poller has seen an event.
    fn announce(&self, is_closed: bool) {
        self.slot.announce(Event { ready: [true, false], closed: [is_closed, false] });
    }

    /// The kernel takes one byte out. Returns whether there was one.
    fn take(&self) -> bool {
        self.bytes.fetch_update(AcqRel, Acquire, |bytes| bytes.checked_sub(1)).is_ok()
    }

    /// Reads a byte, as `Source::operate` does. `shown` is what that shows.
    fn read(&self, shown: Shown) {
        loop {
            let events = self.wait();
            if self.take() {
                return self.finish(events, shown);
            }
            self.finish(events, Shown::Nothing);
        }
    }

    /// Reads all bytes, which are fewer than were asked for. Returns their number.
    fn read_all(&self) -> u32 {
        loop {
            let events = self.wait();
            match self.bytes.swap(0, AcqRel) {
                0 => self.finish(events, Shown::Nothing),
                count => {
                    self.finish(events, Shown::Short);
                    return count;
                }
            }
        }
    }

    /// Reads the end, as `read` reads a byte.
    fn read_end(&self) {
        loop {
            let events = self.wait();
            if self.is_over.load(Acquire) == 1 {
                return self.finish(events, Shown::More);
            }
            self.finish(events, Shown::Nothing);
        }
    }
}

#[test]
fn an_event_while_a_call_finds_nothing_is_not_missed() {
    check(2, 4, |turn| {
        let (descriptor, its) = Descriptor::new();
        let poll = move || {
            descriptor.bytes.fetch_add(1, Release);
            descriptor.announce(false);
        };
        turn.two(poll, move || its.read_all());
    });
}

#[test]
fn an_event_while_the_bytes_of_the_last_one_are_read_is_not_missed() {
    check(2, 3, |turn| {
        let (descriptor, its) = Descriptor::new();
        let poll = move || {
            for _ in 0..2 {
                descriptor.bytes.fetch_add(1, Release);
                descriptor.announce(false);
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
            descriptor.announce(true);
        };
        let read = move || {
            its.read(Shown::Short);
            its.read_end();
        };
        turn.two(poll, read);
    });
}

/// Two bytes, one event: the first reader that is told leaves the second byte to the next. One of
/// them is a future, which may be dropped instead of being told.
#[test]
fn a_reader_that_is_done_leaves_the_rest_to_the_one_that_waits() {
    check(2, 3, |turn| {
        let (descriptor, its) = Descriptor::new();
        its.finish(0, Shown::Nothing);
        let poll_and_read = move || {
            let mut context = Context::from_waker(Waker::noop());
            let mut waits = Box::pin(descriptor.slot.wait_async(Side::Read));
            let is_pending = waits.as_mut().poll(&mut context).is_pending();
            assert!(is_pending);
            descriptor.bytes.fetch_add(2, Release);
            descriptor.announce(false);
            if let Poll::Ready(events) = waits.as_mut().poll(&mut context) {
                assert!(descriptor.take());
                descriptor.finish(events, Shown::More);
            }
        };
        turn.two(poll_and_read, move || its.read(Shown::More));
    });
}

#[test]
fn a_future_that_is_told_and_dropped_leaves_its_turn_to_the_reader_that_waits() {
    check(2, 3, |turn| {
        let (descriptor, its) = Descriptor::new();
        its.finish(0, Shown::Nothing);
        let poll_and_drop = move || {
            let mut waits = Box::pin(descriptor.slot.wait_async(Side::Read));
            assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            descriptor.bytes.fetch_add(1, Release);
            descriptor.announce(false);
        };
        turn.two(poll_and_drop, move || its.read(Shown::More));
    });
}

/// The end of a runtime, whose poller reports no more events.
#[test]
fn a_reader_that_waits_goes_on_when_its_poller_ends() {
    check(2, 3, |turn| {
        let (descriptor, its) = Descriptor::new();
        its.slot.adopt(1, Side::Read);
        let read = move || {
            let events = its.slot.begin(Side::Read).expect("it is worth trying at first");
            its.finish(events, Shown::Nothing);
            // Otherwise the reader asks another poller to report.
            if its.slot.is_reported() {
                its.wait();
            }
        };
        turn.two(move || descriptor.slot.disown(), read);
    });
}
