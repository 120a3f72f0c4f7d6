//! Memory that sessions borrow while they work. Idle sessions hold none.

use super::clock::Calendar;
use crate::memory;
use sinew_http_protocol::Fields;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The size of a buffer in bytes. It holds one head of the largest size, or answers before they are
/// sent.
pub const SIZE: usize = 16 * 1024;

/// The number of desks that are kept for later. Unmeasured. Far fewer sessions work at the same
/// time without waiting for a client.
const MOST_KEPT: usize = 64;

/// All desks.
#[derive(Default)]
pub struct Desks {
    /// No suspension happens under the lock.
    room: Mutex<Room>,
}

#[derive(Default)]
struct Room {
    /// Desks that are not in use. Boxed, so that a session has only a pointer on its stack.
    #[allow(clippy::vec_box)]
    kept: Vec<Box<Desk>>,
    /// The number of desks in use.
    lent: usize,
}

/// The buffers that a session works with.
pub struct Desk {
    /// For received bytes: [`SIZE`] bytes with any content.
    pub input: Vec<u8>,
    /// For answers. Empty at first.
    pub output: Vec<u8>,
    /// For the fields of the head that is read.
    pub fields: Fields,
    /// The date of answers. It goes with the desk, because few desks serve many sessions.
    pub calendar: Calendar,
}

/// A desk that goes back to the others when this value is dropped.
pub struct Borrowed<'a> {
    /// `None` if there was no memory for another desk. Nothing can be received then.
    desk: Option<Box<Desk>>,
    desks: &'a Desks,
}

impl Desks {
    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends a desk that is kept, or a new one if there is memory for it.
    #[inline]
    pub fn take(&self) -> Borrowed<'_> {
        let mut room = self.room();
        room.lent += 1;
        let (kept, lent) = (room.kept.pop(), room.lent);
        drop(room);
        Borrowed { desk: kept.or_else(|| Desk::new(lent)), desks: self }
    }
}

impl Desk {
    /// Returns a new desk, if there is memory for it. If more than [`MOST_KEPT`] are lent, the
    /// reserve has to stay untouched.
    #[cold]
    fn new(lent: usize) -> Option<Box<Desk>> {
        if lent > MOST_KEPT && !memory::is_left(2 * SIZE) {
            return None;
        }
        let (mut input, mut output) = (Vec::new(), Vec::new());
        input.try_reserve_exact(SIZE).and_then(|()| output.try_reserve_exact(SIZE)).ok()?;
        input.resize(SIZE, 0);
        Some(Box::new(Desk { input, output, fields: Fields::default(), calendar: Calendar::new() }))
    }
}

impl Drop for Borrowed<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(desk) = &mut self.desk {
            desk.output.clear();
            // A buffer that has grown is not kept.
            desk.output.shrink_to(2 * SIZE);
        }
        let mut room = self.desks.room();
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
        self.desk.as_ref().expect("bytes were received, so there is a desk")
    }
}

impl DerefMut for Borrowed<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Desk {
        self.desk.as_mut().expect("bytes were received, so there is a desk")
    }
}

/// Returns the buffer to receive into, which is empty if there is no desk.
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
    fn the_number_of_kept_desks_is_bounded() {
        let desks = Desks::default();
        let many: Vec<_> = (0..MOST_KEPT + 10).map(|_| desks.take()).collect();
        drop(many);
        let room = desks.room.lock().unwrap();
        assert_eq!((room.kept.len(), room.lent), (MOST_KEPT, 0));
    }
}
