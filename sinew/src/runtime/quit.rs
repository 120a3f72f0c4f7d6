//! Prints a dump when SIGQUIT comes.
//!
//! A kernel thread waits for the signal, as any thread does. So there is a dump also while every processor is
//! stuck. There is one such thread in a process, while there is a runtime that has asked for it.

use super::reading::dump;
use crate::base::fatal;
use crate::base::kernel::say;
use crate::signal::{Signal, Signals};
use crate::sync::{Select, mpmc};
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

/// Dumps are printed while this exists.
pub(super) struct DumpsOnQuit {
    /// Dropped to end the thread.
    end: Option<mpmc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl DumpsOnQuit {
    /// Returns the one of the process.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn begin() -> io::Result<Arc<DumpsOnQuit>> {
        static CURRENT: Mutex<Weak<DumpsOnQuit>> = Mutex::new(Weak::new());
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dumps) = current.upgrade() {
            return Ok(dumps);
        }
        let signals = Signals::new([Signal::QUIT])?;
        let (end, is_over) = mpmc::channel();
        let thread = thread::Builder::new().name("sinew-dumps".to_owned()).spawn(move || print(&signals, &is_over))?;
        let dumps = Arc::new(DumpsOnQuit { end: Some(end), thread: Some(thread) });
        *current = Arc::downgrade(&dumps);
        Ok(dumps)
    }
}

impl Drop for DumpsOnQuit {
    fn drop(&mut self) {
        self.end = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            fatal("the thread that prints dumps panicked");
        }
    }
}

fn print(signals: &Signals, is_over: &mpmc::Receiver<()>) {
    let is_next = || Select::new().recv(signals.receiver(), |signal| signal.is_ok()).recv(is_over, |_| false).run();
    while is_next() {
        say(&[&dump()]);
    }
}
