//! Opens files beneath a directory, and no others.
//!
//! A place has no `..` in it, so only a link could lead out of the directory. `openat2` refuses
//! such a link while it resolves the path. On a system without `openat2` each name is opened on its
//! own, and no link is followed.

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// The directory that is served.
pub struct Top {
    directory: OwnedFd,
    /// `None` if the system has no `openat2`.
    resolve: Option<ResolveFlags>,
}

/// The kind of an opened file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file: it can be sent.
    File,
    /// A directory: it has an index, or can be listed.
    Directory,
    /// A pipe, a socket or a device: it is not shown to clients.
    Other,
}

/// With these flags, opening a pipe does not wait for the other end. Opening a terminal does not
/// make it the process's controlling terminal.
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY);

/// The number of times that a path is resolved while names in it change.
const MOST_ATTEMPTS: usize = 16;

/// For the status only, not for reading.
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

impl Top {
    /// Opens the directory that is served.
    ///
    /// # Errors
    /// It is not a directory, or it cannot be opened.
    pub fn open(directory: &Path, follow_links: bool) -> io::Result<Top> {
        let directory = openat(CWD, directory, LOOK | OFlags::DIRECTORY, Mode::empty())?;
        let links = if follow_links { ResolveFlags::empty() } else { ResolveFlags::NO_SYMLINKS };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | links;
        let has_openat2 = openat2(&directory, c".", LOOK, Mode::empty(), resolve).is_ok();
        Ok(Top { directory, resolve: has_openat2.then_some(resolve) })
    }

    /// Opens the file at this path, and returns its kind. Nothing is read from it unless it is a
    /// regular file.
    pub fn open_file(&self, path: &[u8]) -> Result<(OwnedFd, Kind), Errno> {
        let opened = self.resolve(path, READ)?;
        let kind = match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            _ => Kind::Other,
        };
        Ok((opened, kind))
    }

    /// Opens a directory for listing.
    pub fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.resolve(path, DIRECTORY)
    }

    /// Returns the status of the file at this path.
    pub fn status(&self, path: &[u8]) -> Result<Stat, Errno> {
        fstat(self.resolve(path, LOOK)?)
    }

    fn resolve(&self, path: &[u8], how: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        match self.resolve {
            Some(resolve) => {
                let attempt = |_| match openat2(&self.directory, path, how, Mode::empty(), resolve) {
                    // A name was changed meanwhile, and the kernel could not decide.
                    Err(Errno::AGAIN | Errno::INTR) => None,
                    outcome => Some(outcome),
                };
                (0..MOST_ATTEMPTS).find_map(attempt).unwrap_or(Err(Errno::AGAIN))
            }
            None => self.walk(path, how),
        }
    }

    /// Resolves a path name by name. A link fails with `LOOP`, as it does above, or with `NOTDIR`
    /// where a directory is wanted.
    fn walk(&self, path: &[u8], how: OFlags) -> Result<OwnedFd, Errno> {
        let mut names = path.split(|&byte| byte == b'/');
        let last = names.next_back().unwrap_or(b".");
        let mut above: Option<OwnedFd> = None;
        let at = |above: &Option<OwnedFd>| -> Result<OwnedFd, Errno> {
            above.as_ref().map_or(self.directory.as_fd(), AsFd::as_fd).try_clone_to_owned().map_err(|_| Errno::MFILE)
        };
        for name in names {
            let here: OwnedFd = at(&above)?;
            above = Some(open_name(here.as_fd(), name, LOOK | OFlags::DIRECTORY)?);
        }
        open_name(at(&above)?.as_fd(), last, how)
    }
}

fn open_name(directory: BorrowedFd<'_>, name: &[u8], how: OFlags) -> Result<OwnedFd, Errno> {
    let opened = openat(directory, name, how | OFlags::NOFOLLOW, Mode::empty())?;
    // With `PATH` a link itself can be opened.
    let is_link = how.contains(OFlags::PATH) && FileType::from_raw_mode(fstat(&opened)?.st_mode) == FileType::Symlink;
    if is_link { Err(Errno::LOOP) } else { Ok(opened) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn tree(name: &str) -> std::path::PathBuf {
        let top = std::env::temp_dir().join(format!("sinew-web-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&top);
        std::fs::create_dir_all(top.join("inside/deep")).unwrap();
        std::fs::write(top.join("inside/deep/file"), "here").unwrap();
        std::fs::write(top.join("secret"), "outside").unwrap();
        symlink("../secret", top.join("inside/out")).unwrap();
        symlink("deep", top.join("inside/in")).unwrap();
        symlink("deep/file", top.join("inside/link")).unwrap();
        top
    }

    #[test]
    fn walking_by_names_finds_what_the_kernel_finds() {
        let top = tree("walk");
        let kernel = Top::open(&top.join("inside"), false).unwrap();
        let by_names = Top { directory: kernel.directory.try_clone().unwrap(), resolve: None };
        for path in ["", "deep", "deep/file", "nothing", "deep/file/more", "out", "in", "in/file", "link", "deep/no"] {
            let (one, other) = (kernel.open_file(path.as_bytes()), by_names.open_file(path.as_bytes()));
            let refused = |error: Errno| if error == Errno::LOOP { Errno::NOTDIR } else { error };
            let kind = |outcome: Result<(OwnedFd, Kind), Errno>| outcome.map(|(_, kind)| kind).map_err(refused);
            assert_eq!(kind(one), kind(other), "{path}");
            let size = |outcome: Result<Stat, Errno>| outcome.map(|stat| stat.st_ino).map_err(refused);
            assert_eq!(size(kernel.status(path.as_bytes())), size(by_names.status(path.as_bytes())), "{path}");
        }
        std::fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn links_are_refused_or_followed_inside_only() {
        let top = tree("links");
        let strict = Top::open(&top.join("inside"), false).unwrap();
        let following = Top::open(&top.join("inside"), true).unwrap();
        for path in [&b"out"[..], b"in/file", b"link"] {
            assert_eq!(strict.open_file(path).map(|_| ()), Err(Errno::LOOP));
        }
        assert_eq!(following.open_file(b"out").map(|_| ()), Err(Errno::XDEV));
        assert_eq!(following.open_file(b"in/file").unwrap().1, Kind::File);
        std::fs::remove_dir_all(top).unwrap();
    }
}
