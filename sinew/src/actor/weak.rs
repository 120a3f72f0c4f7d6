//! References that do not keep an actor.
#![allow(unsafe_code)]

use crate::base::spin::SpinLock;
use crate::strand::{Strand, StrandArc};
use std::ptr::NonNull;
use std::sync::Arc;

/// The place where weak references find the actor.
pub(super) struct Anchor {
    /// The actor's strand, until its memory is freed. Its memory stays while the lock is held.
    strand: SpinLock<Option<Place>>,
}

struct Place(NonNull<Strand>);

// SAFETY: the strand is used under the lock, for its count of references, which is atomic.
unsafe impl Send for Place {}

impl Anchor {
    pub(super) fn new(strand: &Strand) -> Anchor {
        Anchor { strand: SpinLock::new(Some(Place(NonNull::from(strand)))) }
    }

    /// Forgets the actor. By the thread that frees its memory.
    pub(super) fn clear(&self) {
        *self.strand.lock() = None;
    }
}

/// A reference that does not keep an actor.
#[derive(Clone)]
pub(super) struct Weak(pub(super) Arc<Anchor>);

impl Weak {
    /// Returns a counted reference, if anybody else has one.
    pub(super) fn upgrade(&self) -> Option<StrandArc> {
        let strand = self.0.strand.lock();
        // SAFETY: the memory stays while the lock is held: `clear` comes before it is freed.
        strand.as_ref().and_then(|place| StrandArc::another(unsafe { place.0.as_ref() }))
    }

    /// Returns whether the memory of the actor has been freed.
    pub(super) fn is_gone(&self) -> bool {
        self.0.strand.lock().is_none()
    }

    pub(super) fn is(&self, other: &Weak) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
