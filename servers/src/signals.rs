//! What the system and its users ask of a server by signals.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::{flag, low_level::pipe};
use sinew::io::Pollable;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What is asked for. Each server decides what it means there.
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

/// Signals as they come.
///
/// A handler sets the flag of its signal, then writes a byte into a socket. A fibre looks at
/// the flags, then waits for a byte, as it does at any descriptor. So a signal that comes
/// after the look is not missed.
pub struct Signals {
    flags: [Arc<AtomicBool>; CAUGHT.len()],
    told: Pollable<UnixStream>,
}

impl Signals {
    /// Catches the four signals. From now on they do not end the process;
    /// [`next`](Signals::next) sees them.
    ///
    /// # Errors
    /// The kernel's.
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

    /// Waits for the next signal. A signal that comes twice before it is seen is seen once.
    ///
    /// # Errors
    /// That of a fibre that was cancelled.
    pub fn next(&mut self) -> io::Result<Signal> {
        loop {
            let mut caught = CAUGHT.iter().zip(&self.flags);
            if let Some(((_, signal), _)) = caught.find(|(_, flag)| flag.swap(false, Relaxed)) {
                return Ok(*signal);
            }
            // More bytes than signals may be waiting here.
            if self.told.read(&mut [0; 64])? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
