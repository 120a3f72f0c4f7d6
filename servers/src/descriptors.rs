//! Descriptors for all that a server promises to keep open.

use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::{self, ErrorKind};

/// What a server needs beside those of connections and of files: for pollers, alarms, listeners,
/// the standard streams. Far more than these are.
pub const OTHERS: u64 = 64;

/// Makes sure that there are as many, and some for the server itself.
///
/// # Errors
/// If the system does not allow it; `option` is what the user may lower.
pub fn allow(count: u64, option: &str) -> io::Result<()> {
    let wanted = count + OTHERS;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    limit.current = Some(wanted);
    limit.maximum = limit.maximum.map(|maximum| maximum.max(wanted));
    setrlimit(Resource::Nofile, limit).map_err(|error| {
        let text = format!("no {wanted} descriptors: {error}; lower {option}, or see ulimit -n");
        io::Error::new(ErrorKind::PermissionDenied, text)
    })
}
