#![doc = include_str!("README.md")]
#![allow(unsafe_code)]

mod base;
mod check;
mod libc;
mod memory;
mod setxid;

pub(crate) use libc::{Libc, Refusal};
pub(crate) use memory::{Identities, Identity};

use crate::base::here;
use std::sync::OnceLock;

/// Returns what is needed to give fibres identities.
///
/// # Errors
/// Why that cannot be done here.
pub(crate) fn learn() -> Result<&'static Libc, Refusal> {
    static LEARNT: OnceLock<Result<Libc, Refusal>> = OnceLock::new();
    LEARNT.get_or_init(check::learn).as_ref().map_err(|refusal| *refusal)
}

impl Identity {
    /// Calls `f`, which resumes a fibre, with this identity as the present one. `stack` is the fibre's. By the processor
    /// that the pool belongs to.
    ///
    /// The identity is the fibre's alone: nobody else runs with it. `f` comes back on the same kernel thread, when the
    /// fibre is suspended or has ended.
    #[inline(always)]
    pub(crate) fn lend_to<R>(self, pool: &Identities, stack: *mut (), f: impl FnOnce() -> R) -> R {
        let own = base::present();
        // SAFETY: nobody runs with the identity, so the words are ours.
        if unsafe { (*self.words()).writer } != pool.number() {
            self.settle_in(pool, stack);
        }
        // SAFETY: the identity is whole, and ours until the fibre gives up the processor. `f` only switches to the
        // fibre's stack and back.
        unsafe { base::change_to(self.pointer()) };
        let result = f();
        // SAFETY: it was the present one before, and is this kernel thread's.
        unsafe { base::change_to(own) };
        result
    }

    /// Writes what a fibre has to know of the kernel thread below it. It is there already if the fibre ran here last.
    #[inline(never)]
    fn settle_in(self, pool: &Identities, stack: *mut ()) {
        let (processor, thread) = (here::processor(), base::present().addr());
        // SAFETY: as in `lend_to`.
        unsafe { self.words().write(here::Words { processor, stack, thread, writer: pool.number() }) };
        self.borrow_shared(pool.libc());
    }
}

/// Begins the life of the calling fibre as a thread.
pub(crate) fn begin(libc: &Libc) {
    libc.begin();
}

/// Ends the life of the calling fibre as a thread: drops its thread-local variables.
pub(crate) fn end(libc: &Libc) {
    libc.end();
}

/// Calls `f` with the identity of the kernel thread, also if the caller is a fibre with one of its own. `f` must not
/// suspend the caller.
pub(crate) fn as_kernel_thread<R>(f: fn() -> R) -> R {
    struct Call<R>(fn() -> R, Option<R>);
    let mut call = Call(f, None);
    as_kernel_thread_with(&mut call, |call| call.1 = Some((call.0)()));
    call.1.expect("the function was called")
}

/// As [`as_kernel_thread`], with an argument. A signal handler may call it.
fn as_kernel_thread_with<T>(argument: &mut T, f: fn(&mut T)) {
    match here::thread() {
        0 => f(argument),
        // SAFETY: the kernel thread that runs the caller has lent it its place, and is not elsewhere.
        own => unsafe { base::call_with(Identity::from_raw(own), f, argument) },
    }
}
