//! The roll of a runtime: its live strands. A runtime keeps one only if it asks its strands to end when
//! it is dropped.
//!
//! A strand enters when it is spawned. It does not leave at its end: that would cost each strand
//! another lock. Instead a list drops the strands that have finished each time it has doubled. So the
//! roll holds at most about twice the largest number of strands that lived at once, and their records.

use crate::strand::{Strand, StrandArc};
use std::sync::{Mutex, PoisonError};

/// The number of lists. Processors that spawn at the same time rarely want the same one. Unmeasured.
const LISTS: usize = 16;

/// A list that is shorter than this is not searched for strands that have finished. Unmeasured.
const SHORT: usize = 32;

/// How strands of one kind end.
pub(crate) struct Ending {
    /// Returns whether the strand has finished.
    pub(crate) is_finished: fn(&StrandArc) -> bool,
    /// Asks all of these strands to end.
    pub(crate) ask: fn(&[StrandArc]),
}

/// The live strands of a runtime, and some that have finished.
pub(crate) struct Roll {
    lists: [Mutex<List>; LISTS],
}

struct List {
    strands: Vec<(StrandArc, &'static Ending)>,
    /// The length at which the list is searched for strands that have finished.
    search_at: usize,
    /// Says that all strands have been asked to end. Later ones are asked when they enter.
    is_ending: bool,
}

impl Roll {
    pub(crate) fn new() -> Roll {
        Roll { lists: [const { Mutex::new(List { strands: Vec::new(), search_at: SHORT, is_ending: false }) }; LISTS] }
    }

    /// Enters a new strand, before it is started.
    pub(crate) fn enter(&self, strand: &Strand, ending: &'static Ending) {
        // Strands are aligned to 64 bytes.
        let number = std::ptr::from_ref(strand).addr() / 64 % LISTS;
        let strand = StrandArc::new(strand);
        let mut list = self.lists[number].lock().unwrap_or_else(PoisonError::into_inner);
        if list.is_ending {
            drop(list);
            return (ending.ask)(&[strand]);
        }
        if list.strands.len() >= list.search_at {
            list.strands.retain(|(strand, ending)| !(ending.is_finished)(strand));
            list.search_at = 2 * list.strands.len() + SHORT;
        }
        list.strands.push((strand, ending));
    }

    /// Asks all strands to end, and each strand that enters later.
    pub(crate) fn end(&self) {
        let mut all = Vec::new();
        for list in &self.lists {
            let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
            list.is_ending = true;
            all.append(&mut list.strands);
        }
        while let Some(&(_, ending)) = all.first() {
            let (same, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, its)| std::ptr::eq(*its, ending));
            let same: Vec<_> = same.into_iter().map(|(strand, _)| strand).collect();
            (ending.ask)(&same);
            all = others;
        }
    }
}
