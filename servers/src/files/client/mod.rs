//! The client: copies files, lists directories, measures servers.

mod connection;
mod get;
mod list;
mod read;

pub use get::get;
pub use list::list;
pub use read::read;

use super::options::Access;
use connection::Connection;
use sinew::Runtime;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Connects to a server, and runs `talk` in a fibre.
fn with<T: Send>(access: &Access, talk: impl FnOnce(Connection) -> io::Result<T> + Send) -> io::Result<T> {
    let runtime = Runtime::builder().processors(1).spares(0).build()?;
    runtime.run(|| talk(Connection::open(access)?))
}

/// Returns a path as a request names it, without slashes at its end.
fn bytes(path: &Path) -> &[u8] {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    if end == 0 && !bytes.is_empty() { b"/" } else { &bytes[..end] }
}

/// Returns an error about this path.
fn about(path: &Path, kind: ErrorKind, what: &str) -> io::Error {
    io::Error::new(kind, format!("{}: {what}", path.display()))
}

/// Returns the error for an answer that does not fit the request.
fn unexpected() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the server's answer does not fit the request")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_at_the_end_of_a_path_are_not_sent() {
        for (path, sent) in [("", ""), ("a/b", "a/b"), ("a/", "a"), ("a//", "a"), ("/", "/"), ("/a/", "/a")] {
            assert_eq!(bytes(Path::new(path)), sent.as_bytes());
        }
    }
}
