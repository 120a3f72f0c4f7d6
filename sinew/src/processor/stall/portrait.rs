//! The description of a strand that runs on another thread, read without its help.
//!
//! The strand may end while it is looked at, and its memory may be used for something else. So all is read
//! by [`peek`], as words. A [`Portrait`] has a meaning only if the strand is known to have stayed
//! meanwhile: `capture.rs` says when it is.
#![allow(unsafe_code)]

use super::report::StrandKind;
use crate::base::{here, peek};
use crate::processor::current::with_current;
use std::num::NonZeroU64;
use std::panic::Location;

/// The longest part of a name that is shown, in bytes.
const LONGEST_NAME: usize = 128;

/// The addresses of the stack and the task that a processor runs at a moment.
#[derive(Clone, Copy, Default)]
pub(crate) struct Present {
    /// The top of the stack that is in use; 0 if that is the kernel thread's own one.
    pub(crate) stack: usize,
    /// The strand that runs on the processor's own stack; 0 if there is none.
    pub(crate) task: usize,
}

/// Words that describe a strand. Filled in by the layers that know its kind.
#[derive(Clone, Copy)]
pub(crate) struct Portrait {
    pub(crate) kind: Option<StrandKind>,
    pub(crate) id: u64,
    name: [u8; LONGEST_NAME],
    name_length: usize,
    /// The address of a `Location`, or 0.
    pub(crate) spawned_at: usize,
    pub(crate) type_name: Option<fn() -> &'static str>,
}

/// Describes what a processor runs. Plugged in by the runtime. It is called in a signal handler, so it may
/// not allocate or lock.
pub(crate) type Portray = fn(Present, &mut Portrait);

/// A strand that stayed while it was looked at.
pub(crate) struct Whom {
    pub(crate) kind: Option<StrandKind>,
    pub(crate) id: Option<NonZeroU64>,
    pub(crate) name: Option<String>,
    pub(crate) type_name: Option<&'static str>,
    pub(crate) spawned_at: Option<&'static Location<'static>>,
}

impl Whom {
    /// Returns the strand that runs the caller, if one does.
    pub(crate) fn calls() -> Option<Whom> {
        with_current(|processor| {
            let processor = processor?;
            let task = processor.task().map_or(0, |task| std::ptr::from_ref(task).addr());
            let mut portrait = Portrait::EMPTY;
            (processor.cluster().runtime().portray())(Present { stack: here::stack().addr(), task }, &mut portrait);
            // SAFETY: the strand stays while it runs the caller.
            let whom = unsafe { portrait.interpret() };
            whom.kind.is_some().then_some(whom)
        })
    }
}

impl Portrait {
    pub(super) const EMPTY: Portrait =
        Portrait { kind: None, id: 0, name: [0; LONGEST_NAME], name_length: 0, spawned_at: 0, type_name: None };

    /// Copies the name of this length at this address.
    pub(crate) fn copy_name(&mut self, address: usize, length: usize) {
        self.name_length = peek::copy(address, &mut self.name[..length.min(LONGEST_NAME)]);
    }

    /// # Safety
    /// The strand stayed while it was looked at.
    pub(super) unsafe fn interpret(&self) -> Whom {
        let name = &self.name[..self.name_length];
        let place = std::ptr::with_exposed_provenance::<Location<'static>>(self.spawned_at);
        Whom {
            kind: self.kind,
            id: NonZeroU64::new(self.id),
            name: (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned()),
            type_name: self.type_name.map(|type_name| type_name()),
            // SAFETY: 0, or the word of a strand that holds a reference to a place in the program.
            spawned_at: unsafe { place.as_ref() },
        }
    }
}
