//! Messages of a server on standard error, and what a user has asked for on standard output.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The longest message in bytes. A pipe that the kernel reports as writable takes this many at
/// once.
const LONGEST: usize = 4096;

/// The number of messages lost since the last one that was written.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Writes a message as one line. A server must not end because its messages cannot be written, as
/// it would with `eprintln!`. It must not wait for a reader either. A message that would have to
/// wait is lost; the next one says how many were lost.
#[cold]
#[inline(never)]
pub fn say(text: Arguments<'_>) {
    let mut output = io::stderr().lock();
    // If another process fills the same pipe at this moment, the write waits after all.
    if !is_writable(&output) {
        LOST.fetch_add(1, Relaxed);
        return;
    }
    let lost = LOST.swap(0, Relaxed);
    if output.write_all(&line(text, lost)).is_err() {
        LOST.fetch_add(lost + 1, Relaxed);
    }
}

fn line(text: Arguments<'_>, lost: u64) -> Vec<u8> {
    let mut line = match lost {
        0 => String::new(),
        lost => format!("sinew: {lost} messages were lost here\n"),
    };
    // Writing to a string does not fail.
    let _ = std::fmt::Write::write_fmt(&mut line, text);
    let mut line = line.into_bytes();
    line.truncate(LONGEST - 1);
    line.push(b'\n');
    line
}

/// Returns whether a line can be written at once, or fails at once.
fn is_writable(output: &impl AsFd) -> bool {
    let mut ready = [PollFd::new(output, PollFlags::OUT)];
    poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}

/// Writes all of `text` to standard output.
///
/// # Errors
/// The output cannot be written. A closed pipe is no error.
pub fn print(text: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(text).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_line_of_bounded_length_that_says_what_was_lost() {
        assert_eq!(line(format_args!("one"), 0), b"one\n");
        assert_eq!(line(format_args!("one"), 3), b"sinew: 3 messages were lost here\none\n");
        let long = line(format_args!("{}", "x".repeat(10_000)), 3);
        assert!(long.len() == LONGEST && long.ends_with(b"x\n"));
    }

    #[test]
    fn a_full_pipe_is_not_writable() {
        let (reader, mut writer) = io::pipe().unwrap();
        assert!(is_writable(&writer));
        // Fill the pipe.
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        while writer.write(&[0; 4096]).is_ok() {}
        assert!(!is_writable(&writer));
        drop(reader);
        assert!(is_writable(&writer), "a write fails at once");
    }
}
