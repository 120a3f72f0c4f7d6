//! Dumps of the own process.

use crate::io::blocking;
use crate::stack::current_stack;
use sinew_inspect::{Dump, Error, Options, StrandReport, Target};

/// Returns what every fibre, task and actor of this process does: its state, what it waits for and for how long, who
/// holds the lock, where it was spawned, and the backtraces of fibres. `Display` shows it for people. It can be
/// serialised with the feature `serde` of the crate `sinew-inspect`.
///
/// It reads memory: nothing is stopped, polled or locked, and what changes meanwhile is left out or marked. A fibre that
/// calls this waits while a thread of the [pool](crate::blocking) reads.
///
/// ```
/// use sinew::{inspect, sync::mpsc};
///
/// sinew::run(|| {
///     let (sender, receiver) = mpsc::channel::<u32>();
///     let patient = sinew::FibreBuilder::new().name("patient").spawn(move || receiver.recv()).unwrap();
///     let dump = loop {
///         let dump = inspect::dump().unwrap();
///         if dump.strands.iter().any(|strand| strand.waits_for.as_deref() == Some("channel_receive")) {
///             break dump;
///         }
///     };
///     assert!(dump.to_string().contains("patient"));
///     drop(sender);
///     assert!(patient.join().unwrap().is_err());
/// });
/// ```
///
/// # Errors
/// The kernel does not let the process read its own memory.
pub fn dump() -> Result<Dump, Error> {
    outside_of_fibres(|| Dump::take(&Target::own()?, Options::default()))
}

/// Returns the circles of fibres that wait for each other, for ever: over mutexes, write locks, joins, scopes and
/// questions to actors. Each waits for the next one of its circle, and the last one for the first. It takes as long as
/// a [`dump`] without backtraces, some milliseconds for 10,000 fibres.
///
/// ```
/// use sinew::{inspect, sync::Mutex};
/// use std::sync::Arc;
///
/// let runtime = sinew::Runtime::builder().processors(1).build().unwrap();
/// let mutex = Arc::new(Mutex::new(()));
/// let its = Arc::clone(&mutex);
/// runtime.spawn(move || {
///     let _first = its.lock();
///     let _second = its.lock();
/// });
/// let circle = loop {
///     if let Some(circle) = inspect::deadlocks().unwrap().pop() {
///         break circle;
///     }
/// };
/// assert_eq!(circle.len(), 1);
/// assert_eq!(circle[0].waits_for.as_deref(), Some("mutex"));
/// # std::mem::forget(runtime);
/// ```
///
/// # Errors
/// As [`dump`].
pub fn deadlocks() -> Result<Vec<Vec<StrandReport>>, Error> {
    let options = Options { has_backtraces: false, ..Options::default() };
    let dump = outside_of_fibres(|| Dump::take(&Target::own()?, options))?;
    let certain = dump.deadlocks.iter().filter(|deadlock| deadlock.is_certain);
    Ok(certain.map(|deadlock| deadlock.strands.iter().map(|place| dump.strands[*place].clone()).collect()).collect())
}

/// Calls `f`, which takes long, where it holds up no processor.
fn outside_of_fibres<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    if current_stack().is_some() { blocking(f) } else { f() }
}
