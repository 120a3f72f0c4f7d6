//! A strand as a [`Waker`].
#![allow(unsafe_code)]

use super::make_ready;
use crate::strand::{Strand, StrandArc};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

/// A waker is a [`StrandArc`]; its `data` is the strand's address.
static WAKER: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

fn raw(strand: NonNull<Strand>) -> RawWaker {
    RawWaker::new(strand.as_ptr().cast_const().cast(), &WAKER)
}

/// Returns a waker without a reference of its own. It may be used while the task runs, and must not
/// be dropped.
#[inline]
pub(crate) fn borrowed_waker(strand: &Strand) -> ManuallyDrop<Waker> {
    // SAFETY: the functions of the table keep the contract of wakers: the strand may be
    // unparked from anywhere, and lives as long as a reference to it.
    ManuallyDrop::new(unsafe { Waker::from_raw(raw(NonNull::from(strand))) })
}

/// Returns the reference of a waker. It is still the waker's, unless the waker is gone.
///
/// # Safety
/// `data` is that of a waker with this table, which is there or has just been given up.
#[inline]
unsafe fn arc(data: *const ()) -> ManuallyDrop<StrandArc> {
    // SAFETY: by the contract; the waker's reference keeps the strand alive.
    ManuallyDrop::new(unsafe { StrandArc::from_raw(NonNull::from(&*data.cast())) })
}

/// # Safety
/// As for [`arc`].
unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: by the contract.
    raw(StrandArc::new(unsafe { arc(data) }.strand()).into_raw())
}

/// # Safety
/// As for [`arc`]; the waker is gone.
unsafe fn wake(data: *const ()) {
    // SAFETY: by the contract.
    let arc = ManuallyDrop::into_inner(unsafe { arc(data) });
    unpark(arc.strand());
}

/// # Safety
/// As for [`arc`].
unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: by the contract.
    unpark(unsafe { arc(data) }.strand());
}

/// # Safety
/// As for [`arc`]; the waker is gone.
unsafe fn drop_waker(data: *const ()) {
    // SAFETY: by the contract.
    drop(ManuallyDrop::into_inner(unsafe { arc(data) }));
}

#[inline]
fn unpark(strand: &Strand) {
    if let Some(ready) = strand.unpark() {
        make_ready(ready);
    }
}

/// Returns the strand of the task whose waker this is, if it is a task's.
#[inline]
pub(crate) fn strand_of(waker: &Waker) -> Option<*const Strand> {
    std::ptr::eq(waker.vtable(), &WAKER).then(|| waker.data().cast())
}

/// Turns a task's waker into the reference that it holds. Returns any other waker as it is.
#[inline]
pub(crate) fn task_of(waker: Waker) -> Result<StrandArc, Waker> {
    match strand_of(&waker) {
        None => Err(waker),
        Some(_) => {
            let waker = ManuallyDrop::new(waker);
            // SAFETY: the table is ours, and `ManuallyDrop` leaves the waker's reference to the result.
            Ok(ManuallyDrop::into_inner(unsafe { arc(waker.data()) }))
        }
    }
}
