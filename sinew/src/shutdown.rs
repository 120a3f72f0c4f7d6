//! Ending a server in order.
//!
//! A server that stops has four duties. It takes no new sessions. It tells its sessions, so that those
//! without work end at once. It gives the others time to finish what they have begun, but not for
//! ever. And it says what it has cut off. A [`Shutdown`] does all four, for servers whose sessions
//! are fibres, tasks or both.
//!
//! ```
//! use sinew::net::{TcpListener, TcpStream};
//! use sinew::shutdown::Shutdown;
//! use std::io::{self, Read, Write};
//! use std::time::Duration;
//!
//! fn session(mut stream: &TcpStream, shutdown: &Shutdown) -> io::Result<()> {
//!     let Some(session) = shutdown.enter() else { return Ok(()) };
//!     let mut request = [0; 100];
//!     loop {
//!         // Here the session has no work. Everywhere else it is left alone until the limit.
//!         match session.idle(|| (&*stream).read(&mut request))? {
//!             0 => return Ok(()),
//!             count => stream.write_all(&request[..count])?,
//!         }
//!     }
//! }
//!
//! sinew::run(|| {
//!     let listener = TcpListener::bind("127.0.0.1:0").unwrap();
//!     let shutdown = Shutdown::new(Duration::from_secs(10));
//!     sinew::scope(|scope| {
//!         scope.spawn(|| {
//!             // An acceptor is a session, too, which never has work.
//!             let Some(door) = shutdown.enter() else { return };
//!             let mut clients = listener.incoming();
//!             while let Ok(Some(stream)) = door.idle(|| clients.next().transpose()) {
//!                 let shutdown = &shutdown;
//!                 scope.spawn(move || session(&stream, shutdown));
//!             }
//!         });
//!         let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
//!         client.write_all(b"hello").unwrap();
//!         client.read_exact(&mut [0; 5]).unwrap();
//!         // A server waits for a signal here.
//!         shutdown.stop().unwrap();
//!         assert_eq!(client.read(&mut [0; 5]).unwrap(), 0);
//!     });
//! });
//! ```
//!
//! The example `graceful` adds the [signals](crate::signal). The servers of this project cancel their
//! scope at once instead, and [shield](crate::cancel::shield) what a session has begun: that costs
//! a session nothing while the server runs. They use [`tell`](Shutdown::tell),
//! [`is_told`](Shutdown::is_told) and [`deadline`](Shutdown::deadline) only.

use crate::cancel::Cancelled;
use crate::fibre::{Fibre, current};
use crate::sync::OnceLock;
use crate::time::deadline_async;
use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

/// The end of a server: whether it has been told to stop, the sessions that have to end, and the time
/// by which they have to. See [the module](self).
pub struct Shutdown {
    limit: Duration,
    /// The time at which the last session has to end. Set once, when the server is told to stop.
    told: OnceLock<Instant>,
    /// Set when the server has been told, and the last session has left.
    ended: OnceLock<()>,
    /// No suspension happens under the lock.
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    by_number: BTreeMap<u64, Arc<Mutex<Place>>>,
    last_number: u64,
    /// Whether the server has been told. No session enters from then on.
    is_closed: bool,
}

/// A session as the server sees it. Locked by the session when it begins and ends to be idle, and by
/// the server when it tells.
struct Place {
    /// The fibre that has used the session last.
    fibre: Fibre,
    is_idle: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shutdown {
    /// Returns the state of a server that goes on. Once told to stop, it gives sessions the time
    /// `limit` to finish what they have begun.
    #[must_use]
    pub fn new(limit: Duration) -> Shutdown {
        Shutdown { limit, told: OnceLock::new(), ended: OnceLock::new(), sessions: Mutex::default() }
    }

    /// Returns whether the server has been told to stop.
    #[inline]
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.told.get().is_some()
    }

    /// Returns the time at which the last session has to end, if the server stops now or before.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.told.get().copied().unwrap_or_else(|| self.limit_from_now())
    }

    fn limit_from_now(&self) -> Instant {
        // A limit beyond the range of the clock is a century.
        let now = Instant::now();
        now.checked_add(self.limit).unwrap_or_else(|| now + Duration::from_secs(100 * 365 * 86_400))
    }

    /// Begins a session, which ends when the value is dropped. Returns `None` if the server has been
    /// told to stop.
    #[must_use]
    pub fn enter(&self) -> Option<Session<'_>> {
        let mut sessions = locked(&self.sessions);
        if sessions.is_closed {
            return None;
        }
        sessions.last_number += 1;
        let number = sessions.last_number;
        let place = Arc::new(Mutex::new(Place { fibre: current(), is_idle: false }));
        sessions.by_number.insert(number, Arc::clone(&place));
        Some(Session { shutdown: self, number, place })
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        locked(&self.sessions).by_number.len()
    }

    /// Tells the server to stop, and does not wait. No session begins from now on. Sessions that are
    /// [idle](Session::idle) end, and the others when they become so. Only the first call counts.
    pub fn tell(&self) {
        let mut sessions = locked(&self.sessions);
        if std::mem::replace(&mut sessions.is_closed, true) {
            return;
        }
        let places: Vec<_> = sessions.by_number.values().cloned().collect();
        drop(sessions);
        // Only the first caller gets here, so nothing was set before.
        let _ = self.told.set(self.limit_from_now());
        if places.is_empty() {
            let _ = self.ended.set(());
        }
        for place in places {
            // A session that takes this lock later sees that the server has been told.
            let place = locked(&place);
            if place.is_idle {
                place.fibre.cancel();
            }
        }
    }

    /// Tells the server to stop, as [`tell`](Shutdown::tell) does, and waits until all sessions have
    /// ended. At the limit [cancels](crate::cancel) the fibres of those that are left, and does not
    /// wait for these. Tasks that are left are not ended.
    ///
    /// # Errors
    /// [`Left`] if sessions were left at the limit.
    pub fn stop(&self) -> Result<(), Left> {
        self.tell();
        match self.ended.wait_deadline(self.deadline()) {
            Some(()) => Ok(()),
            None => self.cut(),
        }
    }

    /// As [`stop`](Shutdown::stop), for tasks.
    ///
    /// # Errors
    /// As `stop`.
    pub async fn stop_async(&self) -> Result<(), Left> {
        self.tell();
        match deadline_async(self.deadline(), self.ended.wait_async()).await {
            Ok(()) => Ok(()),
            Err(_) => self.cut(),
        }
    }

    /// Cancels what is left.
    fn cut(&self) -> Result<(), Left> {
        let left: Vec<_> = locked(&self.sessions).by_number.values().cloned().collect();
        left.iter().for_each(|place| locked(place).fibre.cancel());
        match left.len() {
            // The last one has left just now.
            0 => Ok(()),
            sessions => Err(Left { sessions, limit: self.limit }),
        }
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shutdown")
            .field("limit", &self.limit)
            .field("is_told", &self.is_told())
            .field("sessions", &self.sessions())
            .finish()
    }
}

/// A session of a server that can be [shut down](Shutdown). It has ended when this is dropped.
pub struct Session<'a> {
    shutdown: &'a Shutdown,
    number: u64,
    place: Arc<Mutex<Place>>,
}

impl Session<'_> {
    /// Calls `f`, which waits for work: for the next request, or the next connection. If the server is
    /// told to stop meanwhile, the fibre is [cancelled](crate::cancel), so `f` returns an error.
    /// A kernel thread cannot be cancelled, and waits on.
    ///
    /// If work comes at the same moment, `f` returns it and the fibre is cancelled all the same. Its
    /// calls succeed from then on as far as they need not wait. To be sure that such a request is
    /// answered, answer it in a [`shield`](crate::cancel::shield).
    ///
    /// # Errors
    /// Those of `f`; and [`Cancelled`], without a call of `f`, if the server has been told.
    pub fn idle<T>(&self, f: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        /// Ends the idle time, also if `f` panics.
        struct Idle<'a>(&'a Mutex<Place>);
        impl Drop for Idle<'_> {
            fn drop(&mut self) {
                locked(self.0).is_idle = false;
            }
        }
        let fibre = current();
        let mut place = locked(&self.place);
        if self.shutdown.is_told() {
            return Err(Cancelled::Requested.into());
        }
        (place.fibre, place.is_idle) = (fibre, true);
        drop(place);
        let _idle = Idle(&self.place);
        f()
    }

    /// Awaits `future`, which waits for work, as [`idle`](Session::idle) does for fibres. If the
    /// server is told to stop meanwhile, the future is dropped.
    ///
    /// # Errors
    /// Those of `future`; and [`Cancelled`] if the server has been told.
    pub async fn idle_async<T>(&self, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let (mut told, mut future) = (pin!(self.shutdown.told.wait_async()), pin!(future));
        poll_fn(|context| match told.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(Err(Cancelled::Requested.into())),
            Poll::Pending => future.as_mut().poll(context),
        })
        .await
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let mut sessions = locked(&self.shutdown.sessions);
        sessions.by_number.remove(&self.number);
        let is_last = sessions.is_closed && sessions.by_number.is_empty();
        drop(sessions);
        if is_last {
            // No session enters any more, so this happens once.
            let _ = self.shutdown.ended.set(());
        }
    }
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("number", &self.number)
            .field("is_idle", &locked(&self.place).is_idle)
            .finish_non_exhaustive()
    }
}

/// The sessions that were left when the time for a [shutdown](Shutdown::stop) was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Their number.
    pub sessions: usize,
    /// The time that they had.
    pub limit: Duration,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} session(s) did not end within {:?}", self.sessions, self.limit)
    }
}

impl std::error::Error for Left {}
