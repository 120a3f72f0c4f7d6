//! Why a process cannot be read.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why the memory of a process, or what it says, cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    File(PathBuf, io::Error),
    /// There is no process of this number.
    NoSuchProcess(u32),
    /// The kernel does not allow it; the text says what is missing.
    Denied(String),
    /// The process, or the core, has no description: it does not run Sinew, or an older one.
    NoDescription,
    /// The process has descriptions, but none of a version that this reader knows.
    OtherVersion(u64),
    /// The description has no entry of this name.
    Missing(&'static str),
    /// The description points to memory that cannot be read.
    Unreadable(&'static str),
    /// The file is no core file that can be read; the text says why.
    NoCore(PathBuf, String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File(path, error) => write!(f, "{}: {error}", path.display()),
            Error::NoSuchProcess(pid) => write!(f, "there is no process {pid}"),
            Error::Denied(why) => f.write_str(why),
            Error::NoDescription => f.write_str(
                "no description of Sinew was found: the program does not use Sinew, or a version without inspection",
            ),
            Error::OtherVersion(version) => {
                write!(f, "the description has version {version}, and this reader knows version 1")
            }
            Error::Missing(name) => write!(f, "the description has no entry `{name}`"),
            Error::Unreadable(what) => write!(f, "{what} cannot be read"),
            Error::NoCore(path, why) => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error {
            Error::File(path, error) => io::Error::new(error.kind(), format!("{}: {error}", path.display())),
            Error::NoSuchProcess(_) => io::Error::new(io::ErrorKind::NotFound, error),
            Error::Denied(_) => io::Error::new(io::ErrorKind::PermissionDenied, error),
            _ => io::Error::new(io::ErrorKind::InvalidData, error),
        }
    }
}
