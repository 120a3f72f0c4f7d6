//! Memory that sessions borrow while they work, so that idle ones hold none.

use sinew_http_protocol::Fields;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// Bytes of a buffer: a head at most, and what is gathered before it is sent.
pub const SIZE: usize = 16 * 1024;

/// As many desks as are kept for later. Unmeasured: as many as sessions ever work at the
/// same time without waiting for a client, by far.
const MOST_KEPT: usize = 64;

/// Desks that nobody uses at the moment.
#[derive(Default)]
pub struct Desks {
    /// No suspension happens under the lock. Boxed, because a pointer is what is to lie on
    /// the stack of a session.
    #[allow(clippy::vec_box)]
    kept: Mutex<Vec<Box<Desk>>>,
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
    /// Always there, but for the moment of giving it back.
    desk: Option<Box<Desk>>,
    home: &'a Desks,
}

impl Desks {
    /// Lends a desk.
    #[inline]
    pub fn take(&self) -> Borrowed<'_> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Borrowed { desk: Some(kept.unwrap_or_else(Desk::new)), home: self }
    }
}

impl Desk {
    #[cold]
    fn new() -> Box<Desk> {
        Box::new(Desk { input: vec![0; SIZE], output: Vec::with_capacity(SIZE), fields: Fields::default() })
    }
}

impl Drop for Borrowed<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(mut desk) = self.desk.take() else { return };
        desk.output.clear();
        // What has grown is not kept.
        desk.output.shrink_to(2 * SIZE);
        let mut kept = self.home.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_KEPT {
            kept.push(desk);
        }
    }
}

impl Deref for Borrowed<'_> {
    type Target = Desk;

    #[inline]
    fn deref(&self) -> &Desk {
        self.desk.as_ref().expect("it has not been given back")
    }
}

impl DerefMut for Borrowed<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Desk {
        self.desk.as_mut().expect("it has not been given back")
    }
}

/// Where to receive.
impl AsMut<[u8]> for Borrowed<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.input
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
        assert_eq!(desks.kept.lock().unwrap().len(), MOST_KEPT);
    }
}
