//! Stopping in order when the system asks for it: SIGTERM and SIGINT.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use sinew::io::Pollable;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;

/// Told when the process is asked to stop.
///
/// The handler writes a byte into a socket; whoever waits here reads it, as any fibre
/// reads from any descriptor.
pub struct StopSignal {
    told: Pollable<UnixStream>,
}

impl StopSignal {
    /// From now on these signals do not end the process; [`wait`](StopSignal::wait) sees
    /// them.
    pub fn catch() -> io::Result<StopSignal> {
        let (told, tell) = UnixStream::pair()?;
        pipe::register(SIGTERM, tell.try_clone()?)?;
        pipe::register(SIGINT, tell)?;
        Ok(StopSignal { told: Pollable::new(told)? })
    }

    /// Waits for the next signal.
    ///
    /// # Errors
    /// That of a fibre that was cancelled.
    pub fn wait(&mut self) -> io::Result<()> {
        self.told.read_exact(&mut [0])
    }
}
