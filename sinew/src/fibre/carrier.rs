//! Carriers: fibres that run the code of strands without a stack, one strand after the other. The essay of
//! [`carriers`](crate::processor) says how a processor uses them.
#![allow(unsafe_code)]

use super::enter_roll;
use super::handle::{current_record, record_of};
use super::record::{Plan, Record};
use crate::processor::{Processor, with_current};
use crate::stack::current_stack;
use crate::strand::{After, Priority, Ready};
use crate::wait::suspend;
use std::io;
use std::panic::Location;

/// Makes a carrier that rests on the processor. Each time it is resumed with a strand, it calls `work`.
///
/// # Errors
/// There is no memory for another stack.
#[track_caller]
pub(crate) fn create(processor: &Processor, work: fn()) -> io::Result<Ready> {
    let cluster = processor.cluster();
    let class = cluster.default_class();
    processor.stacks().promise(class)?;
    let plan = Plan {
        cluster,
        blocks: Some(processor.blocks()),
        priority: Priority::Normal,
        class,
        pinned: false,
        id: processor.fresh_id(),
        name: None,
        scope: None,
        spawned_at: Location::caller(),
    };
    // SAFETY: nothing is borrowed.
    let (ready, handle) = unsafe { Record::create(plan, move || serve(work)) };
    // Nobody joins it.
    record_of(&handle).detach();
    drop(handle);
    if let Some(roll) = cluster.runtime().roll() {
        enter_roll(roll, ready.strand());
    }
    record_of_ready(&ready).begin_here(processor);
    Ok(ready)
}

fn record_of_ready(ready: &Ready) -> &Record {
    // SAFETY: the caller has made it a moment ago.
    unsafe { Record::of(ready.strand()) }
}

/// The body of a carrier.
fn serve(work: fn()) {
    while with_current(|processor| processor.expect("carriers run on processors").carriers().handed() != 0) {
        work();
        if !is_fresh() || is_cancelled() {
            break;
        }
        suspend(current_stack().expect("a carrier is a fibre"), After::Resting);
    }
    // The processor counts the end of every fibre. Carriers were not counted when they were made.
    with_current(|processor| processor.expect("carriers run on processors").count_spawned());
}

/// Clears what one piece of work has left behind, so that the next one finds the carrier as a new fibre
/// would be. Returns `false` if it cannot be cleared: somebody has a handle to the carrier, by which it may be
/// cancelled or unparked later. Such a carrier does no more work.
#[inline]
pub(crate) fn renew() -> bool {
    let Some(record) = current_record() else { return false };
    record.locals().renew(|| record.head().ignore_switches());
    is_fresh()
}

/// Notes that the calling carrier runs the mailbox at this address.
#[inline]
pub(crate) fn take(mailbox: usize) {
    current_record().into_iter().for_each(|record| record.carry(mailbox));
}

/// Returns the address of the mailbox whose letter the caller is; 0 if it is none.
#[inline]
pub(crate) fn carried() -> usize {
    current_record().map_or(0, Record::carried)
}

/// Says whether the calling carrier has been cancelled with its last piece of work.
fn is_cancelled() -> bool {
    current_record().is_some_and(|record| record.head().cancel().is_requested())
}

/// Says whether nobody has a handle to the calling carrier.
#[inline]
fn is_fresh() -> bool {
    let Some(record) = current_record() else { return false };
    let strand = record.strand();
    // One reference is for being alive, and the roll has one.
    strand.references() == 1 || (strand.references() == 2 && strand.cluster().runtime().roll().is_some())
}
