//! One session object, used in both directions at the same time.

use super::line::{Line, Notes};
use super::socket::Socket;
use super::{TcpStream, UnixStream};
use crate::base::Deadline;
use crate::base::spin::SpinLock;
use crate::io::{Side, limit_error};
use crate::sync::Mutex;
use crate::wait::budget;
use crate::wait::{End, Limit, Outcome, Queue, wait_in, wait_in_async};
use crate::wait::{Reason, Why};
use std::error::Error;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};
use std::{fmt, mem};

/// A session object that several fibres and tasks use in both directions at the same time: a
/// `rustls::StreamOwned`, a `tungstenite::WebSocket`, or anything else that reads and writes
/// through one socket.
///
/// A plain socket needs none of this: see [`TcpStream::split`]. A session object has one state for
/// both directions, so it needs a lock. Under a plain lock a fibre that waits for its peer would
/// keep all others from writing. A `Duplex` holds its lock only while the session object works. When
/// the socket makes it wait, the calling fibre releases the lock and waits for the socket.
///
/// A `Duplex` is a handle: its clones share the session. If the session object is [`Read`] and
/// [`Write`], so is the `Duplex`. For others there are [`read_with`](Duplex::read_with) and
/// [`write_with`](Duplex::write_with).
///
/// ```
/// use sinew::net::{Duplex, UnixStream};
/// use std::io::{BufReader, Read, Write};
///
/// sinew::run(|| {
///     let (here, mut there) = UnixStream::pair()?;
///     // Any object that reads and writes through the socket.
///     let session = BufReader::new(here.try_clone()?);
///     let mut reader = Duplex::new(session, &here);
///     let writer = reader.clone();
///     let reads = sinew::spawn(move || {
///         let mut line = [0; 3];
///         reader.read_exact(&mut line).map(|()| line)
///     });
///     // The other fibre waits for bytes, and this one writes.
///     writer.write_with(|session| session.get_mut().write_all(b"ping"))?;
///     there.read_exact(&mut [0; 4])?;
///     there.write_all(b"yes")?;
///     assert_eq!(&reads.join().unwrap()?, b"yes");
///     std::io::Result::Ok(())
/// })
/// # .unwrap();
/// ```
///
/// The session object never waits while it works. So a function of it runs from its beginning to
/// its end on one kernel thread, also where fibres [migrate](crate::Builder::migrating).
///
/// While there is a `Duplex`, no call through any handle to the socket waits: calls give `WouldBlock`
/// instead. The timeouts of the socket hold for the calls of the `Duplex`.
///
/// A call that reads may make the session object send, such as the answer to a ping. If the socket
/// is full then, the bytes are held back, and are sent with the next call.
///
/// The calls are for fibres and tasks. On a kernel thread that runs none, a call that has to wait
/// fails with `Unsupported`.
pub struct Duplex<S> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    /// `None` only after it was taken out.
    session: Mutex<Option<S>>,
    socket: Socket,
    progress: Arc<Progress>,
    /// Tells of progress.
    waker: Waker,
}

/// A socket that a session object may read from and write to.
pub trait DuplexSocket: sealed::HasSocket {}

mod sealed {
    pub struct Handle(pub(super) super::Socket);

    pub trait HasSocket {
        fn handle(&self) -> Handle;
    }
}

macro_rules! sockets {
    ($($Stream:ident),*) => {$(
        impl DuplexSocket for $Stream {}

        impl sealed::HasSocket for $Stream {
            fn handle(&self) -> sealed::Handle {
                sealed::Handle(self.socket().clone())
            }
        }
    )*};
}

sockets!(TcpStream, UnixStream);

impl<S> Duplex<S> {
    /// Shares `session`, which reads and writes through `socket`. Do the handshake of the session
    /// before, by its usual blocking calls: not all session objects can do it in pieces.
    pub fn new(session: S, socket: &impl DuplexSocket) -> Duplex<S> {
        let (socket, progress) = (socket.handle().0, Arc::new(Progress::new()));
        socket.set_on_line(true);
        let waker = Waker::from(Arc::clone(&progress));
        Duplex { shared: Arc::new(Shared { session: Mutex::new(Some(session)), socket, progress, waker }) }
    }

    /// Returns the session if this is the last handle to it. Calls on its socket wait again. Waits
    /// until bytes that were held back have been sent.
    ///
    /// # Errors
    /// This handle, if there are others.
    ///
    /// # Panics
    /// In a task, if it has to wait.
    pub fn into_inner(self) -> Result<S, Duplex<S>> {
        let mut last = self;
        if Arc::get_mut(&mut last.shared).is_none() {
            return Err(last);
        }
        // If it cannot be sent, the next write fails.
        let _ = last.write_with(|_| io::Result::Ok(()));
        let session = last.shared.session.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        Ok(session.expect("only the last handle takes it out"))
    }

    /// Calls `attempt`, which reads. Each time it fails with `WouldBlock` because of the socket,
    /// releases the session, waits for the socket, and calls it again.
    ///
    /// `WouldBlock` may be the error, or the [source](Error::source) of one.
    ///
    /// # Errors
    /// Those of `attempt`; `WouldBlock` beyond the read timeout of the socket;
    /// [`Cancelled`](crate::cancel::Cancelled).
    pub fn read_with<R, E>(&self, attempt: impl FnMut(&mut S) -> Result<R, E>) -> Result<R, E>
    where
        E: Error + From<io::Error> + 'static,
    {
        Ok(self.operate(Side::Read, self.deadline(Side::Read), attempt)?.0)
    }

    /// As [`read_with`](Duplex::read_with), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// `TimedOut` instead of `WouldBlock`.
    pub fn read_with_timeout<R, E>(
        &self,
        timeout: Duration,
        attempt: impl FnMut(&mut S) -> Result<R, E>,
    ) -> Result<R, E>
    where
        E: Error + From<io::Error> + 'static,
    {
        self.operate_until(Side::Read, Deadline::after(timeout), attempt)
    }

    /// As [`read_with`](Duplex::read_with), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// `TimedOut` instead of `WouldBlock`.
    pub fn read_with_deadline<R, E>(
        &self,
        deadline: Instant,
        attempt: impl FnMut(&mut S) -> Result<R, E>,
    ) -> Result<R, E>
    where
        E: Error + From<io::Error> + 'static,
    {
        self.operate_until(Side::Read, Deadline::at(deadline), attempt)
    }

    /// As [`read_with`](Duplex::read_with), for tasks. The timeouts of the socket do not hold for
    /// it.
    ///
    /// # Errors
    /// Those of `attempt`.
    pub async fn read_with_async<R, E>(&self, attempt: impl FnMut(&mut S) -> Result<R, E>) -> Result<R, E>
    where
        E: Error + From<io::Error> + 'static,
    {
        Ok(self.operate_async(Side::Read, attempt).await?.0)
    }

    /// Calls `attempt`, which writes. Each time it fails with `WouldBlock` because of the socket,
    /// releases the session, waits for the socket, and calls it again.
    ///
    /// Most session objects keep what they could not send, so the next attempt must not pass it
    /// again:
    ///
    /// ```
    /// use sinew::net::{Duplex, UnixStream};
    /// use std::io::{self, BufWriter, Read, Write};
    ///
    /// /// Sends a message through a session object that keeps it.
    /// fn send(session: &Duplex<BufWriter<UnixStream>>, message: &[u8]) -> io::Result<()> {
    ///     let mut message = Some(message);
    ///     session.write_with(|session| {
    ///         if let Some(message) = message.take() {
    ///             session.write_all(message)?;
    ///         }
    ///         session.flush()
    ///     })
    /// }
    ///
    /// sinew::run(|| {
    ///     let (here, mut there) = UnixStream::pair()?;
    ///     send(&Duplex::new(BufWriter::new(here.clone()), &here), b"hello")?;
    ///     there.read_exact(&mut [0; 5])
    /// })
    /// # .unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of `attempt`; `WouldBlock` beyond the write timeout of the socket;
    /// [`Cancelled`](crate::cancel::Cancelled).
    pub fn write_with<R, E>(&self, attempt: impl FnMut(&mut S) -> Result<R, E>) -> Result<R, E>
    where
        E: Error + From<io::Error> + 'static,
    {
        Ok(self.operate(Side::Write, self.deadline(Side::Write), attempt)?.0)
    }

    /// As [`write_with`](Duplex::write_with), but waits no longer than `timeout`.
    ///
    /// # Errors
    /// `TimedOut` instead of `WouldBlock`.
    pub fn write_with_timeout<R, E>(
        &self,
        timeout: Duration,
        attempt: impl FnMut(&mut S) -> Result<R, E>,
    ) -> Result<R, E>
    where
        E: Error + From<io::Error> + 'static,
    {
        self.operate_until(Side::Write, Deadline::after(timeout), attempt)
    }

    /// As [`write_with`](Duplex::write_with), but waits no longer than until `deadline`.
    ///
    /// # Errors
    /// `TimedOut` instead of `WouldBlock`.
    pub fn write_with_deadline<R, E>(
        &self,
        deadline: Instant,
        attempt: impl FnMut(&mut S) -> Result<R, E>,
    ) -> Result<R, E>
    where
        E: Error + From<io::Error> + 'static,
    {
        self.operate_until(Side::Write, Deadline::at(deadline), attempt)
    }

    /// As [`write_with`](Duplex::write_with), for tasks. The timeouts of the socket do not hold for
    /// it.
    ///
    /// # Errors
    /// Those of `attempt`.
    pub async fn write_with_async<R, E>(&self, attempt: impl FnMut(&mut S) -> Result<R, E>) -> Result<R, E>
    where
        E: Error + From<io::Error> + 'static,
    {
        Ok(self.operate_async(Side::Write, attempt).await?.0)
    }

    fn deadline(&self, side: Side) -> Deadline {
        self.shared.socket.deadline(side)
    }

    fn operate_until<R, E>(
        &self,
        side: Side,
        deadline: Deadline,
        attempt: impl FnMut(&mut S) -> Result<R, E>,
    ) -> Result<R, E>
    where
        E: Error + From<io::Error> + 'static,
    {
        match self.operate(side, deadline, attempt) {
            Err(error) if would_block(&error) => Err(super::socket::overdue(io::ErrorKind::WouldBlock.into()).into()),
            done => Ok(done?.0),
        }
    }

    /// Attempts until it succeeds or fails, and waits in between. Returns also whether the socket
    /// would have made the last attempt wait.
    fn operate<R, E>(
        &self,
        side: Side,
        deadline: Deadline,
        mut attempt: impl FnMut(&mut S) -> Result<R, E>,
    ) -> Result<(R, bool), E>
    where
        E: Error + From<io::Error> + 'static,
    {
        let shared = &*self.shared;
        let mut value = None;
        loop {
            budget::spend(budget::KERNEL_CALL);
            let step = match shared.session.lock() {
                Ok(mut session) => shared.step(&mut session, side, &mut value, &mut attempt),
                Err(_) => return Err(poisoned().into()),
            };
            let version = match step {
                Step::Done(outcome) => return outcome,
                Step::Again => continue,
                Step::Wait(version) => version,
            };
            if let Err(outcome) = shared.progress.wait(version, Limit::carried_until(deadline)) {
                // If the session object has done its part, so has the caller.
                return match value {
                    Some(done) => Ok(done),
                    None => Err(limit_error(outcome, deadline).into()),
                };
            }
        }
    }

    async fn operate_async<R, E>(
        &self,
        side: Side,
        mut attempt: impl FnMut(&mut S) -> Result<R, E>,
    ) -> Result<(R, bool), E>
    where
        E: Error + From<io::Error> + 'static,
    {
        let shared = &*self.shared;
        let mut value = None;
        loop {
            budget::spend_async().await;
            let step = match shared.session.lock_async().await {
                Ok(mut session) => shared.step(&mut session, side, &mut value, &mut attempt),
                Err(_) => return Err(poisoned().into()),
            };
            match step {
                Step::Done(outcome) => return outcome,
                Step::Again => {}
                Step::Wait(version) => shared.progress.wait_async(version).await,
            }
        }
    }
}

/// The next step of an operation.
enum Step<T> {
    Done(T),
    Again,
    /// Wait until there has been progress since this version.
    Wait(u64),
}

impl<S> Shared<S> {
    fn line(&self) -> &Line {
        self.socket.line().expect("the socket is on its line until this is dropped")
    }

    /// Attempts once, under the lock of the session. Keeps the result in `value` while bytes of a
    /// call that writes are held back.
    fn step<R, E>(
        &self,
        session: &mut Option<S>,
        side: Side,
        value: &mut Option<(R, bool)>,
        attempt: &mut impl FnMut(&mut S) -> Result<R, E>,
    ) -> Step<Result<(R, bool), E>>
    where
        E: Error + From<io::Error> + 'static,
    {
        let line = self.line();
        line.begin(&self.socket, side);
        let session = session.as_mut().expect("only the last handle takes it out");
        let outcome = if value.is_some() { None } else { Some(attempt(session)) };
        let Notes { blocked, moved } = line.end();
        if moved {
            self.progress.tell_all();
        }
        match outcome {
            Some(Ok(done)) => *value = Some((done, blocked != [false, false])),
            Some(Err(error)) if !would_block(&error) || blocked == [false, false] => return Step::Done(Err(error)),
            _ => {}
        }
        if value.is_some() && (side == Side::Read || !line.holds_bytes()) {
            return Step::Done(Ok(mem::take(value).expect("there is one")));
        }
        // An event before a side is looked at makes it ready. An event after that has a new version.
        let version = self.progress.version();
        let sides = [Side::Read, Side::Write].into_iter().filter(|side| blocked[*side as usize]);
        for side in sides {
            match self.socket.source().is_ready_or_wakes(side, &self.waker) {
                Ok(false) => {}
                Ok(true) => return Step::Again,
                Err(error) => return Step::Done(Err(error.into())),
            }
        }
        Step::Wait(version)
    }
}

impl<S> Drop for Shared<S> {
    /// Lets calls on the socket wait again: there may be other handles to it.
    fn drop(&mut self) {
        self.line().begin(&self.socket, Side::Write);
        self.socket.set_on_line(false);
    }
}

/// The strands that wait until the socket, or another strand, has changed something.
struct Progress(SpinLock<Waiting>);

struct Waiting {
    /// Counts the changes.
    version: u64,
    queue: Queue<()>,
}

impl Progress {
    fn new() -> Progress {
        Progress(SpinLock::new(Waiting { version: 0, queue: Queue::new() }))
    }

    fn version(&self) -> u64 {
        self.0.lock().version
    }

    fn tell_all(&self) {
        let mut waiting = self.0.lock();
        waiting.version += 1;
        while !waiting.queue.is_empty() {
            let told = waiting.queue.pop_all();
            drop(waiting);
            drop(told);
            waiting = self.0.lock();
        }
    }

    /// Waits until the version is another one.
    fn wait(&self, version: u64, limit: Limit) -> Result<(), Outcome> {
        let waiting = self.0.lock();
        if waiting.version != version {
            return Ok(());
        }
        match wait_in(
            &self.0,
            waiting,
            |waiting| &mut waiting.queue,
            End::Back.of(Why::at(Reason::Duplex, self)),
            (),
            limit,
            || (),
        ) {
            (Outcome::Told, ()) => Ok(()),
            (outcome, ()) => Err(outcome),
        }
    }

    async fn wait_async(&self, version: u64) {
        let waiting = self.0.lock();
        if waiting.version != version {
            return;
        }
        wait_in_async(
            &self.0,
            waiting,
            |waiting| &mut waiting.queue,
            End::Back.of(Why::at(Reason::Duplex, self)),
            (),
            || (),
            |_, ()| (),
        )
        .await;
    }
}

impl Wake for Progress {
    fn wake(self: Arc<Self>) {
        self.tell_all();
    }
}

fn poisoned() -> io::Error {
    io::Error::other("a call on this session panicked")
}

/// Returns whether the error is `WouldBlock`, or comes from it.
fn would_block(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        match error.downcast_ref::<io::Error>() {
            Some(error) => return error.kind() == io::ErrorKind::WouldBlock,
            None => next = error.source(),
        }
    }
    false
}

impl<S: Read> Read for &Duplex<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with(|session| session.read(buffer))
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.read_with(|session| session.read_vectored(buffers))
    }
}

/// A write returns when the session object has sent what it was given.
impl<S: Write> Write for &Duplex<S> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_and_send(buffer.is_empty(), |session| session.write(buffer))
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let is_empty = buffers.iter().all(|buffer| buffer.is_empty());
        self.write_and_send(is_empty, |session| session.write_vectored(buffers))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_with(|session| self.shared.sent(session.flush()))
    }
}

impl<S: Write> Duplex<S> {
    /// Writes, and lets the session object send what it has taken and could not send at once.
    fn write_and_send(&self, is_empty: bool, mut write: impl FnMut(&mut S) -> io::Result<usize>) -> io::Result<usize> {
        let deadline = self.deadline(Side::Write);
        let write = |session: &mut S| self.shared.taken(write(session), is_empty);
        let (count, has_blocked) = self.operate(Side::Write, deadline, write)?;
        if has_blocked {
            // It has taken the bytes. An error is one of the next call.
            let _ = self.operate(Side::Write, deadline, |session| self.shared.sent(session.flush()));
        }
        Ok(count)
    }

    /// As [`write_all`](Write::write_all), for tasks. Dropped before its end, it may have written
    /// some.
    ///
    /// # Errors
    /// As `write_all`.
    pub async fn write_all_async(&self, mut buffer: &[u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let write = |session: &mut S| self.shared.taken(session.write(buffer), false);
            let (count, has_blocked) = self.operate_async(Side::Write, write).await?;
            if has_blocked {
                self.operate_async(Side::Write, |session| self.shared.sent(session.flush())).await?;
            }
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            buffer = &buffer[count..];
        }
        Ok(())
    }
}

impl<S> Shared<S> {
    /// Returns `WouldBlock` for a write of which the session object has taken nothing, because the
    /// socket would have made it wait: rustls says that this way.
    fn taken(&self, outcome: io::Result<usize>, is_empty: bool) -> io::Result<usize> {
        match outcome {
            Ok(0) if !is_empty && self.line().has_blocked() => Err(io::ErrorKind::WouldBlock.into()),
            outcome => outcome,
        }
    }

    /// Returns `WouldBlock` for a flush after which there may be something left to send.
    fn sent(&self, outcome: io::Result<()>) -> io::Result<()> {
        if outcome.is_ok() && self.line().has_blocked() { Err(io::ErrorKind::WouldBlock.into()) } else { outcome }
    }
}

impl<S: Read> Duplex<S> {
    /// As [`read`](Read::read), for tasks. Dropped before its end, it has read nothing.
    ///
    /// # Errors
    /// Those of the session.
    pub async fn read_async(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with_async(|session| session.read(buffer)).await
    }
}

impl<S: Read> Read for Duplex<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(buffers)
    }
}

impl<S: Write> Write for Duplex<S> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

impl<S> Clone for Duplex<S> {
    fn clone(&self) -> Duplex<S> {
        Duplex { shared: Arc::clone(&self.shared) }
    }
}

impl<S> fmt::Debug for Duplex<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Duplex").field("fd", &self.shared.socket.number()).finish_non_exhaustive()
    }
}
