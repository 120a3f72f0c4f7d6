//! The served files: found, opened, and kept for a while.
//!
//! Every call that may wait for a disk runs on the pool for blocking calls: opening, reading the
//! status, reading bytes that are not in the page cache. A session asks the cache first.

mod cache;
mod entry;

pub use entry::{Content, Entry, Form};

use super::{Options, clock};
use crate::tree::{Kind, Listings, Names, Top};
use cache::Cache;
use rustix::fs::Dir;
use rustix::io::Errno;
use sinew_http_protocol::target::Place;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of further entries that are checked with each look at the disk. Unmeasured.
const PATROL: usize = 4;

/// The file that stands for its directory.
const INDEX: &[u8] = b"index.html";

/// The result of a search at a place.
pub enum Found {
    /// A file, in one or several forms.
    File(Arc<Entry>),
    /// A directory, but the target has no slash at the end.
    WithoutSlash,
    /// A directory without an index.
    Directory,
    /// Nothing.
    Nothing,
    /// A file that is not shown.
    Forbidden,
    /// Unknown: the system lacks the resources to look.
    Unavailable,
}

/// The directory, and the entries of files in it.
pub struct Files {
    top: Top,
    max_age: Option<u32>,
    /// No suspension happens under the lock.
    cache: Mutex<Cache>,
    listings: Listings,
    /// Whether names that begin with a dot are listed.
    hidden: bool,
    /// The time that a listing may wait for its turn.
    patience: Duration,
}

impl Files {
    /// Opens the directory that the options name.
    ///
    /// # Errors
    /// It cannot be opened, or is not a directory.
    pub fn open(options: &Options) -> io::Result<Files> {
        let top = Top::open(&options.directory, options.follow_links)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", options.directory.display())))?;
        Ok(Files {
            top,
            max_age: options.max_age,
            cache: Mutex::new(Cache::new(options.cached_files as usize)),
            listings: Listings::new(),
            hidden: options.hidden,
            patience: options.send_timeout,
        })
    }

    /// Finds the file at this place, as it was at most about a second ago.
    #[inline]
    pub fn find(&self, place: &Place<'_>) -> Found {
        let known = self.cache().find(&place.path, place.is_directory);
        match known {
            Some(entry) if entry.is_fresh(clock::now()) => Found::File(entry),
            known => self.find_slow(place, known),
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the disk. An unchanged entry is kept.
    #[cold]
    #[inline(never)]
    fn find_slow(&self, place: &Place<'_>, known: Option<Arc<Entry>>) -> Found {
        if let Some(entry) = known {
            // One session looks. Meanwhile the others take the entry as it is.
            let is_unchanged = || {
                self.patrol();
                entry.is_unchanged(&self.top)
            };
            if !entry.claim(clock::now()) || sinew::blocking(is_unchanged) {
                return Found::File(entry);
            }
            self.cache().remove(&place.path, place.is_directory);
        }
        let found = sinew::blocking(|| {
            self.patrol();
            self.look(place)
        });
        let found = found.unwrap_or_else(refusal);
        if let Found::File(entry) = &found {
            self.cache().insert(&place.path, place.is_directory, Arc::clone(entry));
        }
        found
    }

    /// Checks a few entries that nobody asks for. A deleted file takes room on the disk as long as
    /// it is open here. May block.
    fn patrol(&self) {
        let next = self.cache().next(PATROL);
        for (key, entry) in next {
            if entry.claim(clock::now()) && !entry.is_unchanged(&self.top) {
                self.cache().forget(&key, &entry);
            }
        }
    }

    /// Looks for a file at this place on the disk. May block.
    fn look(&self, place: &Place<'_>) -> Result<Found, Errno> {
        let entry = |path: &[u8], opened| {
            let entry = Entry::new(&self.top, path, opened, self.max_age, clock::now())?;
            Ok(Found::File(Arc::new(entry)))
        };
        if !place.is_directory {
            let (opened, kind) = self.top.open_file(&place.path)?;
            return match kind {
                Kind::File => entry(&place.path, opened),
                Kind::Directory => Ok(Found::WithoutSlash),
                Kind::Other => Ok(Found::Forbidden),
            };
        }
        let index = if place.path.is_empty() { INDEX.to_vec() } else { [&place.path, INDEX].join(&b'/') };
        match self.top.open_file(&index) {
            Ok((opened, Kind::File)) => entry(&index, opened),
            Ok(_) | Err(Errno::NOENT) => self.top.open_directory(&place.path).map(|_| Found::Directory),
            Err(error) => Err(error),
        }
    }

    /// Returns the names in a directory, as they were at `oldest` or later. The caller holds them
    /// only for a moment: see [`Listings`].
    ///
    /// # Errors
    /// Returns what is at the place instead.
    pub fn list(&self, place: &Place<'_>, oldest: Instant) -> Result<Arc<Names>, Found> {
        let read = || Names::read(Dir::new(self.top.open_directory(&place.path)?)?, self.hidden);
        self.listings.find(&place.path, oldest, self.patience, read).map_err(refusal)
    }
}

fn refusal(error: Errno) -> Found {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => Found::Nothing,
        // A link, or a path that leads out.
        Errno::LOOP | Errno::XDEV | Errno::ACCESS | Errno::PERM | Errno::NXIO => Found::Forbidden,
        _ => Found::Unavailable,
    }
}
