//! How urgent a strand is.

/// How urgent a strand is. A processor runs the most urgent of the strands that it has;
/// strands of one level share fairly.
///
/// # No level starves
///
/// A level that waits while more urgent strands are ready gets one turn in 64, so that a
/// strand which holds a lock ends its work in the end, and whoever waits for that lock
/// goes on, whatever their levels are. A turn lasts until the strand gives up its
/// processor. [`Background`](Priority::Background) has a bound of its own. Inheriting the
/// priority of those who wait was rejected: semaphores, channels and conditions have no
/// holder that could inherit it.
///
/// That is so with the schedulers of this crate. One that an application has written
/// decides by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Before everything else.
    High = 0,
    /// What a fibre has unless it asks for something else.
    #[default]
    Normal = 1,
    /// After everything normal.
    Low = 2,
    /// When the processor finds nothing else to run in the whole cluster; otherwise a
    /// strand that has waited for 10 ms gets a turn, at most one every 10 ms on each
    /// processor.
    Background = 3,
}

impl Priority {
    pub(crate) const LEVELS: usize = 3;
}
