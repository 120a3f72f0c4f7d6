//! Looking up the names of hosts.
//!
//! The C library's `getaddrinfo` blocks, so threads of the pool of [`blocking`](crate::blocking())
//! call it. A lookup is given away, not lent: a strand that stops waiting leaves it to its thread.
//! A resolver that hangs would take the whole pool in time, and files need the pool as well. So only
//! some threads look up, and each takes the next lookup from a queue:
//!
//! ```text
//!   a caller    1  append the lookup to the queue
//!               2  fewer threads than the bound look up: count one, and have the pool run it
//!               3  wait for the answer
//!   a thread    1  take the first lookup; there is none: count down, and end
//!               2  does anybody wait for it? look up, answer
//!               3  go to 1
//! ```

use super::addrs::invalid;
use crate::base::Deadline;
use crate::cancel;
use crate::io::run_aside;
use crate::stack::current_stack;
use crate::sync::oneshot;
use crate::wait::{self, Hold};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The largest number of threads that look up at the same time: a sixteenth of the pool. Unmeasured.
const MOST_THREADS: usize = 32;

type Answer = io::Result<Vec<SocketAddr>>;

/// The lookups of the process.
pub(super) static SYSTEM: Lookups =
    Lookups::new(|host| Ok(std::net::ToSocketAddrs::to_socket_addrs(&(host, 0))?.collect()));

/// Looks up the addresses of a host, which may be a name or an address. The fibre waits, not its
/// processor.
///
/// ```
/// sinew::run(|| {
///     let addresses = sinew::net::lookup("localhost")?;
///     assert!(addresses.iter().all(|address| address.is_loopback()));
///     std::io::Result::Ok(())
/// })
/// # .unwrap();
/// ```
///
/// A kernel thread of the [pool](crate::blocking()) makes the call. At most 32 threads look up at the
/// same time, so that a name server that does not answer leaves threads for files. An address is
/// returned at once.
///
/// # Errors
/// Those of the lookup; [`Cancelled`](crate::cancel::Cancelled). A lookup that nobody waits for any
/// more runs to its end all the same.
///
/// # Panics
/// In a task, if `host` is a name: see [`lookup_async`].
pub fn lookup(host: &str) -> io::Result<Vec<IpAddr>> {
    SYSTEM.look_up(host, Deadline::NEVER).map(without_ports)
}

/// As [`lookup`], but waits no longer than `timeout`.
///
/// # Errors
/// As for `lookup`, and `TimedOut`.
pub fn lookup_timeout(host: &str, timeout: Duration) -> io::Result<Vec<IpAddr>> {
    SYSTEM.look_up(host, Deadline::after(timeout)).map(without_ports)
}

/// As [`lookup`], but waits no longer than until `deadline`.
///
/// # Errors
/// As for `lookup`, and `TimedOut`.
pub fn lookup_deadline(host: &str, deadline: Instant) -> io::Result<Vec<IpAddr>> {
    SYSTEM.look_up(host, Deadline::at(deadline)).map(without_ports)
}

/// As [`lookup`], for tasks. Dropped before its end, it leaves the lookup to its thread.
///
/// ```
/// sinew::run(|| {
///     let task = sinew::task::spawn(async { sinew::net::lookup_async("127.0.0.1").await });
///     assert_eq!(task.join().unwrap().unwrap(), [std::net::Ipv4Addr::LOCALHOST]);
/// });
/// ```
///
/// # Errors
/// Those of the lookup.
pub async fn lookup_async(host: &str) -> io::Result<Vec<IpAddr>> {
    SYSTEM.look_up_async(host).await.map(without_ports)
}

fn without_ports(addresses: Vec<SocketAddr>) -> Vec<IpAddr> {
    let mut hosts: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
    hosts.dedup();
    hosts
}

/// Lookups by one resolver.
pub(crate) struct Lookups {
    /// Returns the addresses of a name, with port 0.
    resolve: fn(&str) -> Answer,
    state: Mutex<State>,
}

struct State {
    /// The number of threads that look up.
    threads: usize,
    queue: VecDeque<Lookup>,
}

struct Lookup {
    host: String,
    answer: oneshot::Sender<Answer>,
}

impl Lookups {
    pub(crate) const fn new(resolve: fn(&str) -> Answer) -> Lookups {
        Lookups { resolve, state: Mutex::new(State { threads: 0, queue: VecDeque::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the addresses of a host, with port 0.
    pub(crate) fn look_up(&'static self, host: &str, deadline: Deadline) -> Answer {
        if let Some(address) = literal(host) {
            return Ok(vec![address]);
        }
        wait::refuse_tasks();
        if current_stack().is_none() && deadline.is_never() && wait::carried().deadline.is_never() {
            return (self.resolve)(host);
        }
        let _hold = Hold::begin();
        let answer = self.begin(host)?;
        answer.recv_until(deadline).unwrap_or_else(|_| {
            cancel::check()?;
            Err(io::Error::new(io::ErrorKind::TimedOut, "the lookup of a host took too long"))
        })
    }

    /// As [`look_up`](Lookups::look_up), for tasks.
    pub(crate) async fn look_up_async(&'static self, host: &str) -> Answer {
        if let Some(address) = literal(host) {
            return Ok(vec![address]);
        }
        let _hold = Hold::begin();
        let mut answer = self.begin(host)?;
        answer.recv_async().await.unwrap_or_else(|_| unreachable!("a lookup is answered"))
    }

    fn begin(&'static self, host: &str) -> io::Result<oneshot::Receiver<Answer>> {
        if host.contains('\0') {
            return Err(invalid("the name of a host must not contain a NUL byte"));
        }
        let (answer, answered) = oneshot::channel();
        let mut state = self.state();
        state.queue.push_back(Lookup { host: host.to_owned(), answer });
        let is_wanted = state.threads < MOST_THREADS;
        state.threads += usize::from(is_wanted);
        drop(state);
        if is_wanted {
            run_aside(|| self.serve());
        }
        Ok(answered)
    }

    /// Returns the next lookup. If there is none, the thread is not counted any more.
    fn next(&self) -> Option<Lookup> {
        let mut state = self.state();
        let next = state.queue.pop_front();
        state.threads -= usize::from(next.is_none());
        next
    }

    /// Looks up until the queue is empty. By a thread that has been counted.
    fn serve(&self) {
        while let Some(Lookup { host, answer }) = self.next() {
            if !answer.is_closed() {
                // If nobody waits any more, nobody wants to know.
                let _ = answer.send((self.resolve)(&host));
            }
        }
    }
}

/// Returns the address that `host` is, if it is no name.
fn literal(host: &str) -> Option<SocketAddr> {
    host.parse().ok().map(|ip| SocketAddr::new(ip, 0))
}
