//! Lookups of names by a resolver that hangs: what waits for it can stop waiting, and what does not
//! goes on.

use super::Runtime;
use crate::base::Deadline;
use crate::cancel::Cancelled;
use crate::fibre::{spawn, yield_now};
use crate::io::blocking;
use crate::net::lookup::Lookups;
use crate::task;
use crate::time::{timeout, timeout_async};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A resolver that answers when it is told to.
struct Resolver {
    answers: Mutex<bool>,
    told: Condvar,
    asked: AtomicUsize,
}

impl Resolver {
    const fn new() -> Resolver {
        Resolver { answers: Mutex::new(false), told: Condvar::new(), asked: AtomicUsize::new(0) }
    }

    fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        self.asked.fetch_add(1, Relaxed);
        let answers = self.answers.lock().unwrap();
        drop(self.told.wait_while(answers, |answers| !*answers).unwrap());
        Ok(vec![SocketAddr::from(([192, 0, 2, 1], 0))])
    }

    /// Answers everything from now on.
    fn answer(&self) {
        *self.answers.lock().unwrap() = true;
        self.told.notify_all();
    }

    fn wait_until_asked(&self, times: usize) {
        while self.asked.load(Relaxed) < times {
            yield_now();
        }
    }
}

fn cancelled(error: &io::Error) -> Option<Cancelled> {
    error.get_ref().and_then(|source| source.downcast_ref::<Cancelled>()).copied()
}

#[test]
fn a_fibre_and_a_task_stop_waiting_for_a_resolver_that_hangs() {
    static RESOLVER: Resolver = Resolver::new();
    static STUCK: Lookups = Lookups::new(|_| RESOLVER.resolve());
    Runtime::builder().processors(1).build().unwrap().run(|| {
        let look_up = || STUCK.look_up("host.test", Deadline::NEVER).unwrap_err();
        assert_eq!(cancelled(&timeout(MS, look_up)), Some(Cancelled::Overdue));
        let late = STUCK.look_up("host.test", Deadline::after(MS)).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        let fibre = spawn(look_up);
        yield_now();
        fibre.fibre().cancel();
        assert_eq!(cancelled(&fibre.join().unwrap()), Some(Cancelled::Requested));
        let task = task::spawn(async { timeout_async(MS, STUCK.look_up_async("host.test")).await.is_err() });
        assert!(task.join().unwrap(), "the task has got an answer");
        // An address is not asked for.
        assert_eq!(STUCK.look_up("::1", Deadline::NEVER).unwrap().len(), 1);
        RESOLVER.answer();
        assert_eq!(STUCK.look_up("host.test", Deadline::NEVER).unwrap().len(), 1);
    });
    // A kernel thread.
    assert_eq!(STUCK.look_up("host.test", Deadline::after(Duration::from_secs(60))).unwrap().len(), 1);
}

#[test]
fn lookups_that_hang_leave_threads_for_other_blocking_calls() {
    const LOOKUPS: usize = 1000;
    static RESOLVER: Resolver = Resolver::new();
    static STUCK: Lookups = Lookups::new(|_| RESOLVER.resolve());
    Runtime::builder().processors(2).build().unwrap().run(|| {
        let all: Vec<_> =
            (0..LOOKUPS).map(|_| spawn(|| STUCK.look_up("host.test", Deadline::NEVER).unwrap().len())).collect();
        RESOLVER.wait_until_asked(32);
        // The pool has threads left.
        assert_eq!(blocking(|| 7), 7);
        assert_eq!(RESOLVER.asked.load(Relaxed), 32, "more threads look up than may");
        RESOLVER.answer();
        assert!(all.into_iter().all(|fibre| fibre.join().unwrap() == 1));
    });
}
