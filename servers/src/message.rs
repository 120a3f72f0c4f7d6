//! What a server says on standard error, to whoever looks after it.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt::Arguments;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of the longest message. A pipe that the kernel reports as writable takes so many at
/// once.
const LONGEST: usize = 4096;

/// Messages that could not be written since the last one that could.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Says it in a line of its own. Nobody has to be there to read it: a server does not end
/// because its messages cannot be written, as it would by `eprintln!`, and it does not wait for
/// somebody to read them. Messages that would have to wait are lost; their number is said with
/// the next one.
#[cold]
#[inline(never)]
pub fn say(text: Arguments<'_>) {
    let mut output = io::stderr().lock();
    // Another process that fills the same pipe right now would make the write wait after all.
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

/// Whether a line can be written at once, or cannot be written at all.
fn is_writable(output: &impl AsFd) -> bool {
    let mut ready = [PollFd::new(output, PollFlags::OUT)];
    poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
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
        // As much as it takes.
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        while writer.write(&[0; 4096]).is_ok() {}
        assert!(!is_writable(&writer));
        drop(reader);
        assert!(is_writable(&writer), "to write would be an error at once");
    }
}
