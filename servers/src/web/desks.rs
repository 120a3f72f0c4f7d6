//! Memory that sessions borrow while they work, so that idle ones hold none.

use crate::memory;
use sinew_http_protocol::Fields;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a buffer: a head at most, and what is gathered before it is sent.
pub const SIZE: usize = 16 * 1024;

/// As many desks as are kept for later. Unmeasured: as many as sessions ever work at the
/// same time without waiting for a client, by far.
const MOST_KEPT: usize = 64;

/// All desks.
#[derive(Default)]
pub struct Desks {
    /// No suspension happens under the lock.
    room: Mutex<Room>,
}

#[derive(Default)]
struct Room {
    /// Those that nobody uses at the moment. Boxed, because a pointer is what is to lie on the
    /// stack of a session.
    #[allow(clippy::vec_box)]
    kept: Vec<Box<Desk>>,
    /// How many are in use.
    lent: usize,
}

/// What a session works with.
pub struct Desk {
    /// What is received: [`SIZE`] bytes, of whatever was in them before.
    pub input: Vec<u8>,
    /// What is to be sent. Empty at first.
    pub output: Vec<u8>,
    /// For the head that is being read.
    pub fields: Fields,
}

/// A desk until it is given back.
pub struct Borrowed<'a> {
    /// `None` if there was no memory for another: nothing can be received then.
    desk: Option<Box<Desk>>,
    home: &'a Desks,
}

impl Desks {
    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends a desk, if there is one, or memory for it.
    #[inline]
    pub fn take(&self) -> Borrowed<'_> {
        let mut room = self.room();
        room.lent += 1;
        let (kept, lent) = (room.kept.pop(), room.lent);
        drop(room);
        Borrowed { desk: kept.or_else(|| Desk::new(lent)), home: self }
    }
}

impl Desk {
    /// Another, if there is memory for it. Where so many are lent, something has to be left.
    #[cold]
    fn new(lent: usize) -> Option<Box<Desk>> {
        if lent > MOST_KEPT && !memory::is_left(2 * SIZE) {
            return None;
        }
        let (mut input, mut output) = (Vec::new(), Vec::new());
        input.try_reserve_exact(SIZE).and_then(|()| output.try_reserve_exact(SIZE)).ok()?;
        input.resize(SIZE, 0);
        Some(Box::new(Desk { input, output, fields: Fields::default() }))
    }
}

impl Drop for Borrowed<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(desk) = &mut self.desk {
            desk.output.clear();
            // What has grown is not kept.
            desk.output.shrink_to(2 * SIZE);
        }
        let mut room = self.home.room();
        room.lent -= 1;
        if room.kept.len() < MOST_KEPT {
            room.kept.extend(self.desk.take());
        }
    }
}

impl Deref for Borrowed<'_> {
    type Target = Desk;

    #[inline]
    fn deref(&self) -> &Desk {
        self.desk.as_ref().expect("something was received at it")
    }
}

impl DerefMut for Borrowed<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Desk {
        self.desk.as_mut().expect("something was received at it")
    }
}

/// Where to receive: nowhere if there is no desk.
impl AsMut<[u8]> for Borrowed<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        self.desk.as_mut().map_or(&mut [], |desk| &mut desk.input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_desk_comes_back_cleared_and_small() {
        let desks = Desks::default();
        let mut first = desks.take();
        first.output.extend_from_slice(b"secret");
        let place = first.output.as_ptr();
        drop(first);
        let mut again = desks.take();
        assert_eq!((again.output.as_ptr(), again.output.len()), (place, 0));
        again.output.resize(100 * SIZE, 0);
        drop(again);
        assert!(desks.take().output.capacity() <= 2 * SIZE);
    }

    #[test]
    fn no_more_are_kept_than_are_useful() {
        let desks = Desks::default();
        let many: Vec<_> = (0..MOST_KEPT + 10).map(|_| desks.take()).collect();
        drop(many);
        let room = desks.room.lock().unwrap();
        assert_eq!((room.kept.len(), room.lent), (MOST_KEPT, 0));
    }
}
