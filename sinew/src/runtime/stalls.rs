//! The functions that the runtime plugs into the watch for stalls.

use super::reading::walk;
use crate::fibre::record::Record;
use crate::processor::stall::{Hook, Portrait, Present, StallPlan};
use crate::signal::Signal;
use crate::stack::peek_strand;
use crate::strand::{Class, Strand};
use crate::{mailbox, task};
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

/// The stalls that a builder asks to be reported.
pub(super) struct Stalls {
    pub(super) limit: Option<Duration>,
    pub(super) hook: Option<Hook>,
    pub(super) signal: Signal,
}

/// A strand that keeps its processor for longer is reported.
const LIMIT: Duration = Duration::from_millis(10);

impl Default for Stalls {
    fn default() -> Stalls {
        Stalls { limit: Some(LIMIT), hook: None, signal: Signal::URG }
    }
}

impl Stalls {
    pub(super) fn plan(self) -> Option<StallPlan> {
        let (signal, limit) = (self.signal.number(), by_operator().unwrap_or(self.limit));
        Some(StallPlan { limit: limit?, signal, hook: self.hook, walk })
    }
}

/// Returns the limit that the variable `SINEW_STALLS` of the environment asks for: a number of milliseconds, or `off`.
/// `None` if it asks for nothing.
fn by_operator() -> Option<Option<Duration>> {
    static ASKED: OnceLock<Option<Option<Duration>>> = OnceLock::new();
    *ASKED.get_or_init(|| parse(&std::env::var("SINEW_STALLS").ok()?))
}

fn parse(asked: &str) -> Option<Option<Duration>> {
    match asked {
        "off" => Some(None),
        number => number.parse().ok().filter(|ms| *ms > 0).map(|ms| Some(Duration::from_millis(ms))),
    }
}

impl fmt::Debug for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stalls").field("limit", &self.limit).field("signal", &self.signal).finish_non_exhaustive()
    }
}

/// Draws what a processor runs. It may be called in a signal handler.
pub(super) fn portray(present: Present, portrait: &mut Portrait) {
    if present.stack != 0 {
        if let Some(mailbox) = Record::portray(peek_strand(present.stack), portrait) {
            mailbox::portray(mailbox, portrait);
        }
    } else if let Some(kind) = Strand::peek_kind(present.task) {
        match kind.face.class() {
            Class::Task => task::portray(present.task, kind, portrait),
            _ => mailbox::portray(present.task, portrait),
        }
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_environment_asks_for_a_limit_or_for_none() {
        assert_eq!(parse("off"), Some(None));
        assert_eq!(parse("250"), Some(Some(Duration::from_millis(250))));
        for nonsense in ["", "0", "-1", "soon"] {
            assert_eq!(parse(nonsense), None);
        }
    }
}
