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

/// A waker without a reference of its own: for as long as the task runs, and not to be
/// dropped.
#[inline]
pub(crate) fn borrowed_waker(strand: &Strand) -> ManuallyDrop<Waker> {
    // SAFETY: the functions of the table keep the contract of wakers: the strand may be
    // unparked from anywhere, and lives as long as a reference to it.
    ManuallyDrop::new(unsafe { Waker::from_raw(raw(NonNull::from(strand))) })
}

/// # Safety
/// `data` is that of a waker with this table.
#[inline]
unsafe fn strand<'a>(data: *const ()) -> &'a Strand {
    // SAFETY: by the contract; the waker's reference keeps it.
    unsafe { &*data.cast() }
}

/// # Safety
/// As for [`strand`]; the waker's reference is used up.
#[inline]
unsafe fn arc(data: *const ()) -> StrandArc {
    // SAFETY: by the contract.
    unsafe { StrandArc::from_raw(NonNull::from(strand(data))) }
}

/// # Safety
/// As for [`strand`].
unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: by the contract.
    raw(StrandArc::new(unsafe { strand(data) }).into_raw())
}

/// # Safety
/// As for [`arc`].
unsafe fn wake(data: *const ()) {
    // SAFETY: by the contract.
    let arc = unsafe { arc(data) };
    unpark(arc.strand());
}

/// # Safety
/// As for [`strand`].
unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: by the contract.
    unpark(unsafe { strand(data) });
}

/// # Safety
/// As for [`arc`].
unsafe fn drop_waker(data: *const ()) {
    // SAFETY: by the contract.
    drop(unsafe { arc(data) });
}

#[inline]
fn unpark(strand: &Strand) {
    if let Some(ready) = strand.unpark() {
        make_ready(ready);
    }
}

/// The strand of the task whose waker this is, if it is one.
#[inline]
pub(crate) fn strand_of(waker: &Waker) -> Option<*const Strand> {
    std::ptr::eq(waker.vtable(), &WAKER).then(|| waker.data().cast())
}

/// The waker as the reference to a task that it is; itself if it is another's.
#[inline]
pub(crate) fn task_of(waker: Waker) -> Result<StrandArc, Waker> {
    match strand_of(&waker) {
        None => Err(waker),
        Some(_) => {
            let waker = ManuallyDrop::new(waker);
            // SAFETY: the table is ours, and the waker's reference is used up.
            Ok(unsafe { arc(waker.data()) })
        }
    }
}
