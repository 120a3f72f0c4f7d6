//! `Weak`: an upgrade against the last reference.
#![allow(unsafe_code)]

use super::super::weak::{Anchor, Weak};
use crate::base::models::{Watched, check};
use crate::strand::{Kind, Ready, Strand, StrandArc, container};
use std::ptr::NonNull;
use std::sync::Arc;

/// An actor. Its memory stays: where the next one lies must not depend on when this one ends.
#[repr(C)]
struct Actor {
    strand: Strand,
    anchor: std::sync::OnceLock<Arc<Anchor>>,
    /// Written by the thread that frees it.
    freed: Watched<u32>,
}

static KIND: Kind = Kind::for_model(free);

/// # Safety
/// The strand is that of an actor that was made below, and no reference is left.
unsafe fn free(strand: NonNull<Strand>) {
    // SAFETY: by the contract; the memory stays, so that a second free would show.
    unsafe { container::<Actor>(strand).as_ref() }.anchor.get().unwrap().clear();
    // SAFETY: as above. Nobody else uses the strand from here on.
    unsafe { (*strand.as_ptr()).end_for_model() };
    // SAFETY: as above.
    unsafe { container::<Actor>(strand).as_ref() }.freed.change(|freed| *freed += 1);
}

fn actor() -> (&'static Watched<u32>, StrandArc, Weak) {
    let strand = Strand::for_model(&KIND).without_life();
    let actor = Box::leak(Box::new(Actor { strand, anchor: Default::default(), freed: Watched::new(0) }));
    let memory = NonNull::from(actor);
    // SAFETY: the strand is new, and is the head of the actor.
    let (ready, reference) = unsafe { Ready::of_new(memory.cast()) };
    ready.let_go();
    // SAFETY: the memory stays for ever.
    let actor = unsafe { container::<Actor>(memory.cast()).as_ref() };
    let anchor = actor.anchor.get_or_init(|| Arc::new(Anchor::new(reference.strand())));
    (&actor.freed, reference, Weak(Arc::clone(anchor)))
}

#[test]
fn an_upgrade_finds_an_actor_that_stays_or_none() {
    check(2, 4, |turn| {
        let (freed, reference, weak) = actor();
        let later = weak.clone();
        let upgrade = move || {
            if let Some(reference) = weak.upgrade() {
                assert_eq!(freed.get(), 0);
                drop(reference);
            }
        };
        turn.two(upgrade, move || drop(reference));
        assert_eq!(freed.get(), 1);
        assert!(later.upgrade().is_none());
    });
}

#[test]
fn an_upgrade_counts_beside_two_references() {
    check(3, 2, |turn| {
        let (freed, one, weak) = actor();
        let two = one.clone();
        let upgrade = move || drop(weak.upgrade());
        turn.all([Box::new(move || drop(one)), Box::new(move || drop(two)), Box::new(upgrade)]);
        assert_eq!(freed.get(), 1);
    });
}
