//! Children that were dropped while they ran.

use crate::io::Home;
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The children for which no thread waits yet. Empty, except while a thread starts and after the
/// kernel has refused one.
static WAITING: Mutex<Vec<Child>> = Mutex::new(Vec::new());

fn waiting() -> MutexGuard<'static, Vec<Child>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a kernel thread wait for a child whose pipes have been taken out.
pub(super) fn adopt(child: Child) {
    sweep();
    waiting().push(child);
    // In the main event scope: the thread may outlive all others. If the kernel refuses the thread,
    // the child stays in the list.
    let _ = Home::main().spawn("sinew-orphan".to_owned(), || {
        let child = waiting().pop();
        if let Some(mut child) = child {
            // Nobody is left to be told of the status, nor of an error.
            let _ = child.wait();
        }
    });
}

/// Takes the children out of the list that have ended.
pub(super) fn sweep() {
    waiting().retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}
