//! `Child`: a process that was started here.

use super::capture::{read_both, read_both_async};
use super::{ChildStderr, ChildStdin, ChildStdout, end, orphans};
use crate::base::Deadline;
use crate::io::{Done, Side, Source};
use rustix::process::{Pid, Signal, kill_process};
use std::fmt;
use std::io;
use std::process::{ExitStatus, Output};
use std::time::{Duration, Instant};

/// A child process, as std's `Child`.
///
/// If it is dropped, the child runs on, unless the command said
/// [`kill_on_drop`](super::Command::kill_on_drop). In both cases its end is noticed, and it does not
/// stay as a zombie: see [the module](super).
///
/// A child may be waited for in any [event scope](crate::io::EventScope). Its pipes belong to the one
/// in which it was spawned.
pub struct Child {
    /// The end to which the child's standard input is written, if it is a pipe.
    pub stdin: Option<ChildStdin>,
    /// The end from which the child's standard output is read, if it is a pipe.
    pub stdout: Option<ChildStdout>,
    /// The end from which the child's standard error output is read, if it is a pipe.
    pub stderr: Option<ChildStderr>,
    process: Process,
}

/// The process itself. Programs may move the pipes out of a `Child`, so that has no `Drop`.
struct Process {
    /// `None` only while this is being dropped.
    child: Option<std::process::Child>,
    /// Becomes readable when the child ends. Made by the first call that has to wait.
    end: Option<Source>,
    kill_on_drop: bool,
}

impl Child {
    /// Wraps a child that was just spawned in the caller's event scope.
    ///
    /// # Errors
    /// The kernel's. The child is dropped.
    pub(super) fn new(mut child: std::process::Child, kill_on_drop: bool) -> io::Result<Child> {
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let process = Process { child: Some(child), end: None, kill_on_drop };
        Ok(Child {
            stdin: pipes.0.map(ChildStdin::new).transpose()?,
            stdout: pipes.1.map(ChildStdout::new).transpose()?,
            stderr: pipes.2.map(ChildStderr::new).transpose()?,
            process,
        })
    }

    /// Returns the kernel's number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.child().id()
    }

    /// Kills the child with SIGKILL. Does nothing if it has been waited for. Does not wait for its
    /// end.
    ///
    /// # Errors
    /// The kernel's.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.child_mut().kill()
    }

    /// Sends a signal to the child, such as `Signal::TERM.number()` to ask it to end.
    ///
    /// # Errors
    /// `InvalidInput` if there is no such signal, or if the child has ended and was waited for.
    /// Others are the kernel's.
    ///
    /// ```
    /// use sinew::{process::Command, signal::Signal};
    /// use std::os::unix::process::ExitStatusExt;
    /// sinew::run(|| {
    ///     let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    ///     child.send_signal(Signal::TERM.number()).unwrap();
    ///     assert_eq!(child.wait().unwrap().signal(), Some(Signal::TERM.number()));
    ///     assert!(child.send_signal(Signal::TERM.number()).is_err());
    /// });
    /// ```
    pub fn send_signal(&mut self, signal: i32) -> io::Result<()> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        let signal = Signal::from_named_raw(signal).ok_or_else(|| invalid("there is no such signal"))?;
        // A child that has ended is waited for here. If it ends after this look, it is a zombie, and
        // its number is still its own.
        if self.try_wait()?.is_some() {
            return Err(invalid("the child has ended"));
        }
        Ok(kill_process(Pid::from_child(self.process.child()), signal)?)
    }

    /// Closes the pipe to the child's input, and waits until the child has ended.
    ///
    /// # Errors
    /// The kernel's, and [`Cancelled`](crate::cancel::Cancelled). Then the child may be waited for
    /// again.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        self.process.wait(Deadline::NEVER)
    }

    /// As [`wait`](Child::wait), for tasks. A future that is dropped leaves the child as it is.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn wait_async(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        self.process.wait_async().await
    }

    /// As [`wait`](Child::wait), but waits no longer than `timeout`. Returns `None` if the child
    /// still runs then.
    ///
    /// # Errors
    /// As [`wait`](Child::wait).
    pub fn wait_timeout(&mut self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        self.wait_until(Deadline::after(timeout))
    }

    /// As [`wait`](Child::wait), but waits no longer than until `deadline`. Returns `None` if the
    /// child still runs then.
    ///
    /// # Errors
    /// As [`wait`](Child::wait).
    pub fn wait_deadline(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        self.wait_until(Deadline::at(deadline))
    }

    fn wait_until(&mut self, deadline: Deadline) -> io::Result<Option<ExitStatus>> {
        drop(self.stdin.take());
        match self.process.wait(deadline) {
            // Only the deadline gives this error.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// Returns the child's status if it has ended.
    ///
    /// # Errors
    /// The kernel's.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.child_mut().try_wait()
    }

    /// Closes the pipe to the child's input, reads its outputs to their ends, and waits until it has
    /// ended. Both outputs are read at once.
    ///
    /// # Errors
    /// As [`wait`](Child::wait). The child is dropped.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = read_both(self.stdout.take(), self.stderr.take())?;
        Ok(Output { status: self.wait()?, stdout, stderr })
    }

    /// As [`wait_with_output`](Child::wait_with_output), for tasks. A future that is dropped drops
    /// the child.
    ///
    /// # Errors
    /// The kernel's. The child is dropped.
    pub async fn wait_with_output_async(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (stdout, stderr) = read_both_async(self.stdout.take(), self.stderr.take()).await?;
        Ok(Output { status: self.wait_async().await?, stdout, stderr })
    }
}

impl Process {
    fn child(&self) -> &std::process::Child {
        self.child.as_ref().expect("it is there until this is dropped")
    }

    fn child_mut(&mut self) -> &mut std::process::Child {
        self.child.as_mut().expect("it is there until this is dropped")
    }

    /// Makes a descriptor to wait for, if there is none in this event scope. Returns the status
    /// instead if the child has ended.
    fn begin_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child_mut().try_wait()?;
        let has_end = self.end.as_ref().is_some_and(|end| end.fd().is_ok());
        if status.is_none() && !has_end {
            self.end = Some(end::watch(self.child())?);
        }
        Ok(status)
    }

    /// Waits until the child has ended; beyond the deadline fails with `WouldBlock`.
    fn wait(&mut self, deadline: Deadline) -> io::Result<ExitStatus> {
        if let Some(status) = self.begin_wait()? {
            return Ok(status);
        }
        let (Some(child), Some(end)) = (&mut self.child, &self.end) else { unreachable!("the wait has begun") };
        end.operate(Side::Read, deadline, |_| status_of(child))
    }

    async fn wait_async(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.begin_wait()? {
            return Ok(status);
        }
        let (Some(child), Some(end)) = (&mut self.child, &self.end) else { unreachable!("the wait has begun") };
        end.operate_async(Side::Read, |_| status_of(child)).await
    }
}

fn status_of(child: &mut std::process::Child) -> io::Result<Done<ExitStatus>> {
    child.try_wait()?.map(Done::some).ok_or_else(|| io::ErrorKind::WouldBlock.into())
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error says that somebody else has waited for the child.
        if let Some(mut child) = self.child.take()
            && matches!(child.try_wait(), Ok(None))
        {
            if self.kill_on_drop {
                // It may have ended just now.
                let _ = child.kill();
            }
            orphans::adopt(child);
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child")
            .field("id", &self.id())
            .field("stdin", &self.stdin)
            .field("stdout", &self.stdout)
            .field("stderr", &self.stderr)
            .finish_non_exhaustive()
    }
}
