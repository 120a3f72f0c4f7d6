//! The form for tasks: what is in flight lies in a record on the heap, with its buffers. A future that is
//! dropped has its operations cancelled, and leaves the record to the ring, which frees it when the kernel
//! has said its last word.
#![allow(unsafe_code)]

use super::super::event_scope::OtherScope;
use super::fibre::{MOST_RENEWALS, closed};
use super::flight::{Flight, ROOM};
use super::plan::{Plan, What};
use super::room::{Reserved, Taken};
use super::shared::Ring;
use crate::wait::budget;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The buffer and the descriptor that an operation of a task owns.
pub(super) struct Cargo {
    pub(super) what: What,
    pub(super) descriptor: Option<Box<dyn Descriptor>>,
    pub(super) buffer: Vec<u8>,
    pub(super) offset: Option<u64>,
}

/// A descriptor that an operation keeps open.
pub(super) trait Descriptor: Send {
    /// Lends the descriptor, in its event scope.
    fn lend(&self) -> Result<BorrowedFd<'_>, OtherScope>;
}

/// A descriptor of the program. Its `as_fd` decides what happens in other event scopes.
pub(super) struct Foreign<F>(pub(super) F);

impl<F: AsFd + Send> Descriptor for Foreign<F> {
    fn lend(&self) -> Result<BorrowedFd<'_>, OtherScope> {
        Ok(self.0.as_fd())
    }
}

impl Cargo {
    fn plan(&mut self) -> Result<Plan, OtherScope> {
        let fd = self.descriptor.as_ref().map(|descriptor| descriptor.lend()).transpose()?;
        Ok(match (self.what, fd) {
            (What::Read | What::Receive, Some(fd)) => Plan::into(self.what, fd, &mut self.buffer, self.offset),
            (What::Write | What::Send, Some(fd)) => Plan::from(self.what, fd, &self.buffer, self.offset),
            (what, fd) => Plan::bare(what, fd),
        })
    }
}

/// The operations of a task, and all that the kernel needs for them.
struct Record {
    flight: Flight,
    /// The kernel uses the buffers while the flight is not over; the task looks at them before and
    /// after that.
    cargo: Mutex<Vec<Cargo>>,
}

impl Record {
    fn cargo(&self) -> MutexGuard<'_, Vec<Cargo>> {
        self.cargo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The waker that a flight keeps: its call drops the record, where no lock is held. The drop runs code of
/// others, which may panic.
impl Wake for Record {
    fn wake(self: Arc<Self>) {}
}

/// Submits the operations, and waits for them. They are not more than the ring has room for. Returns the
/// cargo and the result of each.
///
/// # Errors
/// If the ring has ended, or the caller is in another event scope than the ring or a descriptor. Then
/// nothing was submitted, or all operations were cancelled.
pub(super) async fn fly_owned(
    ring: Arc<Ring>,
    cargo: Vec<Cargo>,
    linked: bool,
) -> io::Result<Vec<(Cargo, Option<i32>)>> {
    budget::spend_async().await;
    let record = Arc::new(Record { flight: Flight::new(cargo.len(), linked), cargo: Mutex::new(cargo) });
    for _ in 0..=MOST_RENEWALS {
        match ring.room().take_async(record.flight.idle() * ROOM).await {
            Taken::Yes => {}
            Taken::Closed | Taken::Not(_) => return Err(closed()),
        }
        launch(&ring, &record)?;
        Landing { ring: &ring, record: Some(&record) }.await;
        let mut cargo = record.cargo();
        if !record.flight.renew(|number| cargo[number].plan().unwrap_or_else(|_| Plan::bare(What::Nothing, None))) {
            break;
        }
    }
    let Ok(record) = Arc::try_unwrap(record).map_err(drop) else { unreachable!("the ring is done with the record") };
    let results: Vec<_> = record.flight.results().collect();
    let cargo = record.cargo.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(cargo.into_iter().zip(results).collect())
}

/// Submits the idle operations. The room for them is taken.
fn launch(ring: &Arc<Ring>, record: &Arc<Record>) -> io::Result<()> {
    // Descriptors of the program run its code, which may panic.
    let reserved = Reserved::new(ring.room(), record.flight.idle() * ROOM);
    let plans: Result<Vec<Plan>, OtherScope> = record.cargo().iter_mut().map(Cargo::plan).collect();
    let mut plans: Vec<_> = plans?.into_iter().map(Some).collect();
    let kept = Some(Waker::from(Arc::clone(record)));
    let plan = |number: usize| plans[number].take().expect("each is planned once");
    // SAFETY: the waker keeps the record until the flight is over, and the record keeps the buffers.
    // The task uses them only afterwards.
    unsafe { ring.launch(&record.flight, kept, plan)? };
    reserved.used();
    Ok(())
}

/// The future that is ready when a flight is over. If it is dropped before, the operations are cancelled.
struct Landing<'a> {
    ring: &'a Arc<Ring>,
    /// Until it is ready.
    record: Option<&'a Arc<Record>>,
}

impl Future for Landing<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let record = self.record.expect("a future is not polled after it was ready");
        let polled = record.flight.poll(context);
        if polled.is_ready() {
            self.record = None;
        }
        polled
    }
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if let Some(record) = self.record
            && record.flight.abandon()
        {
            let record = Arc::clone(record);
            self.ring.call_there(move |ring| ring.cancel(&record.flight));
        }
    }
}
