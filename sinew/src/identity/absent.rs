//! Fibres have no identities of their own on this machine: other architectures than x86-64, or another C library.

use std::convert::Infallible;

/// Why fibres cannot have identities here.
pub(crate) type Refusal = &'static str;

/// There is none.
pub(crate) struct Libc(Infallible);

/// There is none.
#[derive(Clone, Copy)]
pub(crate) struct Identity(Infallible);

/// There are none.
pub(crate) struct Identities(Infallible);

/// Refuses.
///
/// # Errors
/// Always.
pub(crate) fn learn() -> Result<&'static Libc, Refusal> {
    Err("fibres have thread-local variables of their own only on x86-64 with the GNU C library")
}

impl Identity {
    pub(crate) fn into_raw(self) -> usize {
        match self.0 {}
    }

    /// # Safety
    /// Nobody has one.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn from_raw(_: usize) -> Identity {
        unreachable!("there are no identities")
    }

    pub(crate) fn lend_to<R>(self, _: &Identities, _: *mut (), _: impl FnOnce() -> R) -> R {
        match self.0 {}
    }
}

impl Identities {
    pub(crate) fn new(libc: &'static Libc) -> Identities {
        match libc.0 {}
    }

    pub(crate) fn libc(&self) -> &'static Libc {
        match self.0 {}
    }

    pub(crate) fn take(&self) -> Identity {
        match self.0 {}
    }

    pub(crate) fn put(&self, _: Identity) {
        match self.0 {}
    }
}

pub(crate) fn begin(libc: &Libc) {
    match libc.0 {}
}

pub(crate) fn end(libc: &Libc) {
    match libc.0 {}
}

pub(crate) fn as_kernel_thread<R>(f: fn() -> R) -> R {
    f()
}
