//! The names in directories, read for listings and kept for a while.
//!
//! To read a large directory takes long and needs much memory. So a session that lists a directory
//! does not own the names. It looks for them here for each piece that it sends, and holds them only
//! while it makes that piece. The names that are kept here, and those that are being read, bound the
//! memory of all listings.

use super::names::Names;
use rustix::io::Errno;
use sinew::sync::Semaphore;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of directories that are read at a time. Other sessions wait, without a thread of the
/// pool: files are opened there. A session that reads from a hanging disk keeps its turn.
/// Unmeasured.
const MOST_AT_A_TIME: usize = 2;

/// The bytes of names that are kept.
const MOST_BYTES: usize = 16 << 20;

/// The number of directories that are kept.
const MOST_KEPT: usize = 32;

/// The names of some directories.
pub struct Listings {
    /// The directory that was used last is at the end. No suspension happens under the lock.
    kept: Mutex<Vec<Kept>>,
    readers: Semaphore,
}

struct Kept {
    path: Box<[u8]>,
    names: Arc<Names>,
}

impl Listings {
    /// Returns listings that keep nothing yet.
    pub fn new() -> Listings {
        Listings { kept: Mutex::default(), readers: Semaphore::new(MOST_AT_A_TIME) }
    }

    /// Returns the names in the directory at this path, as they were at `oldest` or later. If
    /// nothing suitable is kept, calls `read`, on a thread that may block.
    ///
    /// # Errors
    /// The errors of `read`; `AGAIN` if the turn does not come within `patience`.
    pub fn find(
        &self,
        path: &[u8],
        oldest: Instant,
        patience: Duration,
        read: impl FnOnce() -> Result<Names, Errno> + Send,
    ) -> Result<Arc<Names>, Errno> {
        if let Some(names) = self.look(path, oldest) {
            return Ok(names);
        }
        let _turn = self.readers.acquire_timeout(patience).map_err(|_| Errno::AGAIN)?;
        // Another session may have read them meanwhile.
        if let Some(names) = self.look(path, oldest) {
            return Ok(names);
        }
        let names = Arc::new(sinew::blocking(read)?);
        self.keep(path, &names);
        Ok(names)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, path: &[u8], oldest: Instant) -> Option<Arc<Names>> {
        let mut kept = self.kept();
        let place = kept.iter().position(|kept| *kept.path == *path && kept.names.read_at >= oldest)?;
        kept[place..].rotate_left(1);
        kept.last().map(|last| Arc::clone(&last.names))
    }

    fn keep(&self, path: &[u8], names: &Arc<Names>) {
        let mut kept = self.kept();
        kept.retain(|kept| *kept.path != *path);
        kept.push(Kept { path: path.into(), names: Arc::clone(names) });
        let (mut bytes, mut first) = (0, kept.len());
        while first > 0 && kept.len() - first < MOST_KEPT {
            bytes += kept[first - 1].names.weight();
            if bytes > MOST_BYTES {
                break;
            }
            first -= 1;
        }
        kept.drain(..first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    fn read() -> Result<Names, Errno> {
        Names::read(Dir::new(openat(CWD, "/", OFlags::RDONLY, Mode::empty())?)?, false)
    }

    #[test]
    fn names_are_read_once_for_all_sessions_and_again_when_they_are_old() {
        sinew::run(|| {
            let (listings, begin, hour) = (Listings::new(), Instant::now(), Duration::from_secs(3600));
            let first = listings.find(b"a", begin, hour, read).unwrap();
            let again = listings.find(b"a", begin, hour, || panic!("they are kept")).unwrap();
            assert!(Arc::ptr_eq(&first, &again));
            let later = listings.find(b"a", Instant::now(), hour, read).unwrap();
            assert!(!Arc::ptr_eq(&first, &later));
            assert_eq!(listings.find(b"b", begin, hour, || Err(Errno::NOENT)).map(|_| ()), Err(Errno::NOENT));
        });
    }

    #[test]
    fn the_number_of_kept_directories_is_bounded_and_the_last_used_ones_stay() {
        sinew::run(|| {
            let (listings, begin, hour) = (Listings::new(), Instant::now(), Duration::from_secs(3600));
            listings.find(b"popular", begin, hour, read).unwrap();
            for number in 0..100u8 {
                listings.find(&[number], begin, hour, read).unwrap();
                listings.find(b"popular", begin, hour, || panic!("it is kept")).unwrap();
                assert!(listings.kept().len() <= MOST_KEPT);
            }
            assert_eq!(listings.kept().len(), MOST_KEPT);
        });
    }

    #[test]
    fn directories_that_hang_leave_threads_of_the_pool_to_files() {
        sinew::run(|| {
            let (listings, hour) = (&Listings::new(), Duration::from_secs(3600));
            let (release, stuck) = std::sync::mpsc::channel::<()>();
            let (stuck, tried) = (&Mutex::new(stuck), &AtomicUsize::new(0));
            sinew::scope(|scope| {
                // These are more than the threads of the pool.
                for number in 0..sinew::io::BLOCKING_THREADS + 100 {
                    scope.spawn(move || {
                        let hang = || {
                            tried.fetch_add(1, Relaxed);
                            // The channel's end is an error.
                            stuck.lock().unwrap().recv().map_or(Err(Errno::IO), |()| read())
                        };
                        listings.find(&number.to_ne_bytes(), Instant::now(), hour, hang).map(drop)
                    });
                }
                while tried.load(Relaxed) < MOST_AT_A_TIME {
                    sinew::yield_now();
                }
                assert_eq!(sinew::blocking(|| 42), 42);
                assert_eq!(tried.load(Relaxed), MOST_AT_A_TIME);
                drop(release);
            });
        });
    }

    #[test]
    fn a_session_whose_turn_does_not_come_gets_an_error() {
        sinew::run(|| {
            let listings = Listings::new();
            let _busy = listings.readers.acquire_many(MOST_AT_A_TIME).unwrap();
            let outcome = listings.find(b"a", Instant::now(), Duration::from_millis(1), || panic!("not its turn"));
            assert_eq!(outcome.map(|_| ()), Err(Errno::AGAIN));
        });
    }
}
