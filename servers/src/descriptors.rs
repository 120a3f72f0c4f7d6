//! The descriptor limit of the process.

use rustix::process::{Resource, getrlimit, setrlimit};
use std::io::{self, ErrorKind};

/// The descriptors that a server needs besides those of connections and files: for pollers, bells,
/// listeners and the standard streams. 64 is far more than these need.
pub const OTHERS: u64 = 64;

/// Raises the limit to `count` descriptors and those that the server itself needs.
///
/// # Errors
/// The system does not allow it. The message names `option`, which the user may lower.
pub fn allow(count: u64, option: &str) -> io::Result<()> {
    let wanted = count + OTHERS;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    limit.current = Some(wanted);
    limit.maximum = limit.maximum.map(|maximum| maximum.max(wanted));
    setrlimit(Resource::Nofile, limit).map_err(|error| {
        let text = format!("cannot have {wanted} descriptors: {error}; lower {option}, or see ulimit -n");
        io::Error::new(ErrorKind::PermissionDenied, text)
    })
}
