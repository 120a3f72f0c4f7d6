//! The report of a stall.

use crate::sched::ProcessorId;
use std::fmt;
use std::num::NonZeroU64;
use std::panic::Location;
use std::time::Duration;

/// The kind of strand that stalls its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StrandKind {
    /// A fibre.
    Fibre,
    /// A task.
    Task,
    /// An actor, in a message.
    Actor,
    /// An event of a colour.
    Event,
}

impl fmt::Display for StrandKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StrandKind::Fibre => "fibre",
            StrandKind::Task => "task",
            StrandKind::Actor => "actor",
            StrandKind::Event => "event",
        })
    }
}

/// A strand that keeps its processor for long: see [`Builder::on_stall`](crate::Builder::on_stall).
///
/// Its `Display` is the text that is written to standard error if there is no hook.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stall {
    /// The kind of strand that stalls the processor. `None` if no strand runs there: a waker or a destructor, which a processor
    /// calls between two strands, or a strand that could not be looked at.
    pub kind: Option<StrandKind>,
    /// The name of the fibre or the actor, if it has one.
    pub name: Option<String>,
    /// The id of the fibre: see [`FibreId`](crate::FibreId).
    pub id: Option<NonZeroU64>,
    /// The type of the task's future, or of the actor.
    pub type_name: Option<&'static str>,
    /// The place in the program that spawned the fibre or the task.
    pub spawned_at: Option<&'static Location<'static>>,
    /// The name of the cluster.
    pub cluster: String,
    /// The number of the processor.
    pub processor: ProcessorId,
    /// For how long the strand has kept its processor at least, when it was found. Time in which the kernel
    /// let the processor wait for a CPU does not count.
    pub held: Duration,
    /// Whether the strand waits in the kernel. If not, it computes.
    pub is_blocked: bool,
    /// The number of ready strands that may not move, and wait for this processor.
    pub neighbours: usize,
    /// The functions that the strand is in, the innermost first. Empty if they could not be found out.
    pub frames: Vec<String>,
    /// The number of stalls like this one since the last that was reported.
    pub unreported: u64,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sinew: ")?;
        match self.kind {
            Some(kind) => write!(f, "{kind}")?,
            None => f.write_str("a call between two strands")?,
        }
        if let Some(name) = &self.name {
            write!(f, " '{name}'")?;
        }
        match (self.id, self.type_name) {
            (Some(id), _) => write!(f, " (id {id})")?,
            (None, Some(type_name)) => write!(f, " ({type_name})")?,
            (None, None) => {}
        }
        if let Some(place) = self.spawned_at {
            write!(f, ", spawned at {place},")?;
        }
        let (processor, ms) = (self.processor.index(), self.held.as_micros() as f64 / 1000.0);
        write!(f, " stalls processor {}-{processor}: it ", self.cluster)?;
        match self.is_blocked {
            true => write!(f, "has waited in the kernel for {ms:.1} ms")?,
            false => write!(f, "has computed for {ms:.1} ms without giving way")?,
        }
        match self.neighbours {
            0 => {}
            1 => f.write_str("; 1 ready neighbour waits for it")?,
            neighbours => write!(f, "; {neighbours} ready neighbours wait for it")?,
        }
        match self.unreported {
            0 => {}
            unreported => write!(f, "; {unreported} more stalls like this since the last report")?,
        }
        f.write_str(match self.is_blocked {
            true => "\nhelp: call what blocks by `sinew::blocking`, or use what Sinew has in its place\n",
            false => "\nhelp: call `sinew::yield_now` at times, or compute in `sinew::blocking`\n",
        })?;
        for (number, frame) in self.frames.iter().enumerate() {
            writeln!(f, "{number:4}: {frame}")?;
        }
        Ok(())
    }
}
