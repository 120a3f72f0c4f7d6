//! How urgent a strand is.

use crate::base::describe::Entry;

/// How urgent a strand is. A processor runs the most urgent of the strands that it has. Strands of one
/// level share fairly.
///
/// # No level starves
///
/// A level that waits while more urgent strands are ready gets one turn in 64. So a strand that holds
/// a lock releases it in the end, and a strand that waits for the lock goes on, whatever their levels
/// are. A turn lasts until the strand gives up its processor.
/// [`Background`](Priority::Background) has a bound of its own. Inheriting the priority of a waiting
/// strand was rejected: semaphores, channels and conditions have no holder that could inherit it.
///
/// This holds for the schedulers of this crate. A scheduler that an application has written decides by
/// itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Before everything else.
    High = 0,
    /// The level of a strand that does not ask for another one.
    #[default]
    Normal = 1,
    /// After everything normal.
    Low = 2,
    /// When the processor finds nothing else to run in the whole cluster. Beside other work, a strand
    /// that has waited for 10 ms gets a turn, one every 10 ms on each processor at most.
    Background = 3,
}

/// The entries of the description.
pub(crate) const ENTRIES: &[Entry] = &[
    Entry::number("priority.high", Priority::High as usize),
    Entry::number("priority.normal", Priority::Normal as usize),
    Entry::number("priority.low", Priority::Low as usize),
    Entry::number("priority.background", Priority::Background as usize),
];

impl Priority {
    pub(crate) const LEVELS: usize = 3;
}
