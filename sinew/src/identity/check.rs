//! Tries identities before the first fibre gets one.
#![allow(unsafe_code)]

use super::base::call_with;
use super::libc::{Libc, Refusal, allocate, randomise};
use super::memory::Identity;
use super::setxid;
use crate::base::fallback::{Facility, denied};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Learns what there is to know, and tries it.
///
/// # Errors
/// Says what is missing, or does not work.
pub(super) fn learn() -> Result<Libc, Refusal> {
    if denied(Facility::OwnThreadLocals) {
        return Err("`SINEW_WITHOUT` forbids them");
    }
    // On a thread that the C library has begun as any other. The first one of a process is set up differently.
    let trial = std::thread::Builder::new().name("sinew-trial".to_owned()).spawn(|| {
        let mut libc = Libc::learn()?;
        Libc::prepare_lender();
        find_shared(&mut libc)?;
        try_out(&libc)?;
        setxid::install();
        Ok(libc)
    });
    trial.map_err(|_| "the kernel refused a thread")?.join().unwrap_or(Err("the trial of identities panicked"))
}

fn make(libc: &Libc) -> Result<Identity, Refusal> {
    Identity::make(libc).ok_or("there is no memory for thread-local variables")
}

/// Finds the words in which the C library's allocator and its source of random numbers keep what belongs to a thread:
/// those that change when a new identity uses them for the first time. The allocator's are variables. A program with
/// another allocator has none; that one's values for keys in the record are not borrowed. The word for random numbers
/// is in the record. Older libraries and kernels have none.
fn find_shared(libc: &mut Libc) -> Result<(), Refusal> {
    type Words = unsafe fn(&Libc, *const u8) -> Vec<(isize, usize)>;
    type Use = fn(&mut ());
    let uses: [(Words, Use); 2] = [(Libc::own_variables, |()| allocate()), (Libc::own_record, |()| randomise())];
    // Not freed: the allocator's cache of this identity would be lost with it. It is the only one.
    let identity = make(libc)?;
    identity.renew(libc);
    for (words, call) in uses {
        // SAFETY: it is ours, and nobody runs with it.
        let before = unsafe { words(libc, identity.pointer()) };
        // SAFETY: it is whole and ours, and `call` comes back.
        unsafe { call_with(identity, call, &mut ()) };
        // SAFETY: as above.
        let after = unsafe { words(libc, identity.pointer()) };
        for ((offset, _), _) in before.iter().zip(&after).filter(|(before, after)| before != after) {
            let place = libc.shared.get_mut(libc.shares);
            *place.ok_or("the C library keeps more for a thread than was expected")? = *offset;
            libc.shares += 1;
        }
    }
    Ok(())
}

/// The destructors that were called.
static DROPPED: AtomicU32 = AtomicU32::new(0);

struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Relaxed);
    }
}

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(7) };
    static COUNTED: Counted = const { Counted };
}

/// Gives an identity to code twice, and looks whether it is a thread of its own each time.
fn try_out(libc: &Libc) -> Result<(), Refusal> {
    struct Trial<'a>(&'a Libc, bool);
    fn live(trial: &mut Trial<'_>) {
        trial.0.begin();
        Libc::prepare_lender();
        // SAFETY: the address is this identity's.
        let errno = unsafe { &mut *libc::__errno_location() };
        // SAFETY: the string ends; characters have a class.
        let is_letter = unsafe { libc::isalpha(c_int_of(b'x')) != 0 };
        trial.1 = *errno == 0 && NUMBER.replace(9) == 7 && is_letter;
        *errno = 33;
        COUNTED.with(|_| ());
        // A key of std's: the handle of a thread is dropped by one.
        let id = std::thread::current().id();
        trial.1 &= std::thread::current().id() == id;
        trial.0.end();
    }
    fn c_int_of(letter: u8) -> std::ffi::c_int {
        letter.into()
    }
    NUMBER.set(8);
    // SAFETY: the address is this thread's.
    unsafe { *libc::__errno_location() = 5 };
    let identity = make(libc)?;
    for round in 1..=2 {
        identity.renew(libc);
        identity.borrow_shared(libc);
        let lent = identity.shared(libc);
        let mut trial = Trial(libc, false);
        // SAFETY: it is whole and ours, and `live` comes back.
        unsafe { call_with(identity, live, &mut trial) };
        if identity.shared(libc) != lent {
            return Err("the C library does not keep what it was lent");
        }
        // SAFETY: the address is this thread's.
        let errno = unsafe { *libc::__errno_location() };
        if !trial.1 || DROPPED.load(Relaxed) != round || NUMBER.get() != 8 || errno != 5 {
            return Err("an identity of a fibre does not work as that of a thread does");
        }
    }
    identity.free(libc);
    Ok(())
}
