//! Counts of messages that travel. Each kernel thread has a page of its own.

use std::cell::OnceCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::measure::latency::Latency;

/// The counts of all kernel threads since the last [`take`].
#[derive(Default)]
pub struct Tally {
    pub sent: u64,
    /// The time of each delivery.
    pub latency: Latency,
}

static PAGES: Mutex<Vec<Arc<Mutex<Tally>>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: OnceCell<Arc<Mutex<Tally>>> = const { OnceCell::new() };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a new page that the others know.
fn page() -> Arc<Mutex<Tally>> {
    let page = Arc::default();
    lock(&PAGES).push(Arc::clone(&page));
    page
}

/// Counts a message that a session sends. Never inlined: a caller may be on another kernel thread at its next call.
#[inline(never)]
pub fn note_sent() {
    OWN.with(|own| lock(own.get_or_init(page)).sent += 1);
}

/// Counts a delivery. Never inlined, as [`note_sent`].
#[inline(never)]
pub fn note_delivered(time: Duration) {
    OWN.with(|own| lock(own.get_or_init(page)).latency.note(time));
}

/// Returns the numbers of messages that were sent and delivered so far.
pub fn counts() -> (u64, u64) {
    lock(&PAGES).iter().fold((0, 0), |(sent, delivered), page| {
        let page = lock(page);
        (sent + page.sent, delivered + page.latency.count())
    })
}

/// Returns all counts, and begins anew. No message travels.
pub fn take() -> Tally {
    let mut sum = Tally::default();
    for page in lock(&PAGES).iter() {
        let page = std::mem::take(&mut *lock(page));
        sum.sent += page.sent;
        sum.latency.add(&page.latency);
    }
    sum
}
