//! Signals that users and the system send to a server.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::{flag, low_level::pipe};
use sinew::io::Pollable;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A request by signal. Each server decides what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGHUP.
    HangUp,
    /// SIGUSR1.
    User,
}

const CAUGHT: [(i32, Signal); 4] =
    [(SIGTERM, Signal::Stop), (SIGINT, Signal::Stop), (SIGHUP, Signal::HangUp), (SIGUSR1, Signal::User)];

/// A source of signals.
///
/// A handler sets the flag of its signal, then writes a byte into a socket. A fibre looks at the
/// flags, then waits for a byte, as it does at any descriptor. So a signal that comes after the
/// look is not missed.
pub struct Signals {
    flags: [Arc<AtomicBool>; CAUGHT.len()],
    told: Pollable<UnixStream>,
}

impl Signals {
    /// Catches the four signals. From now on they do not end the process; [`next`](Signals::next)
    /// returns them.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn catch() -> io::Result<Signals> {
        let (told, tell) = UnixStream::pair()?;
        let flags = CAUGHT.map(|_| Arc::<AtomicBool>::default());
        for ((number, _), flag) in CAUGHT.iter().zip(&flags) {
            // Handlers run in the order of registration.
            flag::register(*number, Arc::clone(flag))?;
            pipe::register(*number, tell.try_clone()?)?;
        }
        Ok(Signals { flags, told: Pollable::new(told)? })
    }

    /// Waits for the next signal, and returns it. A signal that comes twice before it is seen is
    /// returned once.
    ///
    /// # Errors
    /// `Interrupted` if the fibre is cancelled.
    pub fn next(&mut self) -> io::Result<Signal> {
        loop {
            let mut caught = CAUGHT.iter().zip(&self.flags);
            if let Some(((_, signal), _)) = caught.find(|(_, flag)| flag.swap(false, Relaxed)) {
                return Ok(*signal);
            }
            // There may be more bytes than signals.
            if self.told.read(&mut [0; 64])? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
