//! The memory of identities, and pools of those that are free.
#![allow(unsafe_code)]

use super::base;
use super::libc::Libc;
use crate::base::here::Words;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The largest number of free identities that a processor keeps. It exchanges half of them with the shared pool at
/// once. As for stacks.
const KEPT: usize = 64;

/// The largest number in the shared pool: 4.5 MiB. Unmeasured.
const SHARED: usize = 1024;

/// The thread-local variables of a fibre, and the C library's record of it as a thread: what the register `fs`
/// points to while the fibre runs. Belongs to the holder.
#[derive(Clone, Copy)]
pub(crate) struct Identity(NonNull<u8>);

// SAFETY: an identity is memory that any thread may use in turn.
unsafe impl Send for Identity {}

/// The numbers of identities as threads. Those of the kernel's threads are below, and the library's locks have room for 30
/// bits.
const NUMBERS: RangeInclusive<u32> = 1 << 22..=(1 << 30) - 1;

/// Returns the next number. A number comes again after a billion.
fn next_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(*NUMBERS.start());
    let after = |number| Some(if number == *NUMBERS.end() { *NUMBERS.start() } else { number + 1 });
    let (Ok(number) | Err(number)) = NEXT.fetch_update(Relaxed, Relaxed, after);
    number
}

impl Identity {
    /// Makes a new one. Returns `None` if there is no memory.
    pub(super) fn make(libc: &Libc) -> Option<Identity> {
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(Identity::layout(libc)) })?;
        // SAFETY: within the memory.
        let identity = Identity(unsafe { memory.add(libc.before()) });
        // SAFETY: the memory is an identity's and ours.
        if unsafe { libc.allocate(identity.pointer()) } {
            // SAFETY: as above.
            unsafe { libc.set_number(identity.pointer(), next_number()) };
            return Some(identity);
        }
        // SAFETY: `alloc_zeroed` returned it.
        unsafe { dealloc(memory.as_ptr(), Identity::layout(libc)) };
        None
    }

    fn layout(libc: &Libc) -> Layout {
        Layout::from_size_align(libc.size, libc.align).expect("the size of a thread's variables")
    }

    /// Frees the memory.
    pub(super) fn free(self, libc: &Libc) {
        // SAFETY: `make` has made it. It is ours, and nobody runs with it.
        unsafe {
            libc.empty(self.pointer());
            dealloc(self.pointer().sub(libc.before()), Identity::layout(libc));
        }
    }

    pub(super) fn pointer(self) -> *mut u8 {
        self.0.as_ptr()
    }

    pub(crate) fn into_raw(self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    /// # Safety
    /// From [`into_raw`](Identity::into_raw).
    #[inline(always)]
    pub(crate) unsafe fn from_raw(raw: usize) -> Identity {
        // SAFETY: by the contract.
        Identity(unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(raw)) })
    }

    /// Makes it the identity of a thread that begins.
    pub(super) fn renew(self, libc: &Libc) {
        // SAFETY: it is ours, nobody runs with it, and `make` or `put` has had it set up.
        unsafe { libc.renew(self.pointer()) };
    }

    /// Returns the words of the runtime in the identity.
    #[inline(always)]
    pub(super) fn words(self) -> *mut Words {
        // SAFETY: they are among the thread-local variables.
        unsafe { self.pointer().offset(crate::base::here::offset()).cast() }
    }

    /// Returns the words that are borrowed. Nobody runs with the identity.
    pub(super) fn shared(self, libc: &Libc) -> Vec<usize> {
        let offsets = libc.shared[..libc.shares].iter();
        // SAFETY: the words are in the identity.
        offsets.map(|offset| unsafe { self.pointer().offset(*offset).cast::<usize>().read_volatile() }).collect()
    }

    /// Copies the words that are borrowed from the present identity.
    #[inline(always)]
    pub(super) fn borrow_shared(self, libc: &Libc) {
        let present = base::present();
        for offset in &libc.shared[..libc.shares] {
            // SAFETY: the words are among the thread-local variables of both. Nobody runs with this one.
            unsafe {
                self.pointer().offset(*offset).cast::<usize>().write(present.offset(*offset).cast::<usize>().read())
            };
        }
    }
}

/// Free identities that any processor may take.
static POOL: Mutex<Vec<Identity>> = Mutex::new(Vec::new());

fn pool() -> MutexGuard<'static, Vec<Identity>> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A processor's own pool of identities. Owner: the processor.
pub(crate) struct Identities {
    libc: &'static Libc,
    /// No other pool has, had or will have it.
    number: usize,
    free: RefCell<Vec<Identity>>,
}

impl Identities {
    /// Makes the pool of a processor, on its kernel thread.
    pub(crate) fn new(libc: &'static Libc) -> Identities {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        Libc::prepare_lender();
        Identities { libc, number: LAST.fetch_add(1, Relaxed) + 1, free: RefCell::new(Vec::new()) }
    }

    #[inline(always)]
    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn libc(&self) -> &'static Libc {
        self.libc
    }

    /// Takes an identity for a fibre that begins.
    pub(crate) fn take(&self) -> Identity {
        let kept = self.free.borrow_mut().pop();
        let identity = kept.unwrap_or_else(|| self.take_slow());
        identity.renew(self.libc);
        identity
    }

    #[cold]
    fn take_slow(&self) -> Identity {
        let mut pool = pool();
        let rest = pool.len().saturating_sub(KEPT / 2);
        self.free.borrow_mut().extend(pool.drain(rest..));
        drop(pool);
        self.free.borrow_mut().pop().or_else(|| Identity::make(self.libc)).unwrap_or_else(|| {
            crate::base::fatal("there is no memory for the thread-local variables of another fibre");
        })
    }

    /// Puts back the identity of a fibre that has ended.
    pub(crate) fn put(&self, identity: Identity) {
        // SAFETY: its fibre has ended, so it is ours.
        unsafe {
            if self.libc.has_grown(identity.pointer()) {
                self.libc.empty(identity.pointer());
                if !self.libc.allocate(identity.pointer()) {
                    crate::base::fatal("there is no memory for the thread-local variables of another fibre");
                }
            }
        }
        let mut free = self.free.borrow_mut();
        free.push(identity);
        if free.len() > KEPT {
            self.give_back(free.drain(..KEPT / 2));
        }
    }

    /// Gives identities to the shared pool, or frees them.
    #[cold]
    fn give_back(&self, identities: impl Iterator<Item = Identity>) {
        for identity in identities {
            let mut pool = pool();
            if pool.len() < SHARED {
                pool.push(identity);
            } else {
                drop(pool);
                identity.free(self.libc);
            }
        }
    }
}

impl Drop for Identities {
    fn drop(&mut self) {
        let free = std::mem::take(self.free.get_mut());
        self.give_back(free.into_iter());
    }
}
