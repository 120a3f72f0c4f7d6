//! Looks at a thread that stalls: which strand runs there, and a copy of its registers and its stack.
//!
//! **A strand that computes** is looked at by its own thread. The warden leaves a *request* with the post and
//! sends a signal. The handler takes the request, fills it in, and says so; the warden waits for that. The
//! strand stays meanwhile: the thread that could end it is in the handler. Nothing is unwound there, and
//! nothing allocates or locks.
//!
//! **A strand that waits in the kernel** is not sent a signal, because some calls do not go on after one.
//! The warden looks by itself. If the thread has used no CPU time between the beginning and the end of that
//! look, it has not run, and the strand has stayed.
//!
//! **If there is no handler**, because the program has one of its own for the signal, the warden looks at a
//! strand that computes as well, without registers. If the dispatch is the same afterwards, the strand
//! has stayed: a processor counts a dispatch before it lets go of the strand. Here the order of the reads
//! matters, and only CPUs that keep it (x86-64) can rely on it. On others nothing is said of the strand.
//!
//! In the first and the last case a mailbox can be gone while its carrier still runs, at the very end of its
//! turn. Its memory is that of records then, and stays mapped; what is there is taken for a mailbox only if
//! it points to a kind.
#![allow(unsafe_code)]

use super::portrait::{Portrait, Portray, Present, Whom};
use super::watch::Dispatch;
use crate::base::kernel::{self, Waiting, futex_wait, futex_wake};
use crate::base::peek;
use crate::processor::current::with_current;
use crate::processor::post::Post;
use crate::stack::arena;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// The longest part of a stack that is copied. Unmeasured: a frame has some hundred bytes, in a debug
/// build.
const STACK_BYTES: usize = 32 * 1024;

/// The longest wait for the handler. The thread may have to wait for a CPU first.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// The largest number of strands that are counted in an inbox.
const MOST_ARRIVALS: usize = 1000;

/// The registers from which a stack can be walked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Registers {
    pub(crate) instruction: usize,
    pub(crate) stack: usize,
    /// 0 if it is not known.
    pub(crate) frame: usize,
    /// The return address of a function that has not saved it, on machines that have a register for it.
    pub(crate) link: usize,
}

/// A look at a thread.
pub(super) struct Look {
    pub(super) dispatch: Dispatch,
    portrait: Portrait,
    /// The number of ready strands that wait for the processor and may not move.
    pub(super) neighbours: usize,
    pub(super) registers: Registers,
    /// The top of the fibre's stack; 0 if it runs on the kernel thread's own one.
    pub(super) top: usize,
    copied: usize,
    bytes: [u8; STACK_BYTES],
}

impl Look {
    fn new() -> Look {
        Look {
            dispatch: Dispatch::default(),
            portrait: Portrait::EMPTY,
            neighbours: 0,
            registers: Registers::default(),
            top: 0,
            copied: 0,
            bytes: [0; STACK_BYTES],
        }
    }

    /// Looks at the thread of a processor. Does only what a signal handler may.
    fn take(&mut self, post: &Post, portray: Portray, registers: Registers) {
        let window = post.window();
        self.dispatch = window.dispatch(post.pulse(), post.tally().spawned()).unwrap_or_default();
        self.portrait = Portrait::EMPTY;
        let top = post.stack_top();
        portray(Present { stack: top, task: post.task() }, &mut self.portrait);
        self.neighbours = window.lane() + post.count_arrivals(MOST_ARRIVALS);
        self.registers = registers;
        let (sp, own_end) = (registers.stack, window.end());
        let is_on = |top: usize| arena::slot_at(top).is_some_and(|slot| (slot.lowest()..top).contains(&sp));
        // A fibre may run on a stack of its own making. Nothing is known of its end.
        (self.top, self.copied) = match top {
            0 => (0, self.copy(sp, own_end)),
            top if is_on(top) => (top, self.copy(sp, top)),
            _ => (0, 0),
        };
    }

    fn copy(&mut self, from: usize, to: usize) -> usize {
        let length = to.saturating_sub(from).min(STACK_BYTES);
        peek::copy(from, &mut self.bytes[..length])
    }

    /// Returns the copied part of the stack, which begins at the stack pointer.
    pub(super) fn stack(&self) -> &[u8] {
        &self.bytes[..self.copied]
    }
}

/// A look that a signal handler is asked for.
pub(super) struct Capture {
    state: AtomicU32,
    /// Owner: the thread that has the request; then the warden, when the state is DONE.
    look: UnsafeCell<Look>,
    portray: Portray,
}

// SAFETY: see the owner of `look`.
unsafe impl Sync for Capture {}

const ASKED: u32 = 0;
const DONE: u32 = 1;

/// Installs the handler for this signal, unless the program has one of its own.
pub(crate) fn install(signal: i32) {
    let Some(current) = action_of(signal) else { return };
    if matches!(current.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) {
        // SAFETY: an all-zero action is valid.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_signal as *const () as usize;
        // As in `signal/handler.rs`.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        // SAFETY: the handler is of the kind that the flags announce, and does only what a handler may.
        unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
    }
}

fn action_of(signal: i32) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: the kernel writes the action.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: the call has succeeded.
    (result == 0).then(|| unsafe { action.assume_init() })
}

/// Says whether a thread that gets the signal calls our handler. If not, the signal is the program's.
fn is_installed(signal: i32) -> bool {
    action_of(signal).is_some_and(|action| action.sa_sigaction == on_signal as *const () as usize)
}

extern "C" fn on_signal(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the address is this thread's, and valid while the thread runs.
    let errno = unsafe { *libc::__errno_location() };
    with_current(|processor| {
        let Some(processor) = processor else { return };
        // Acquire pairs with the Release in `ask`.
        let request = processor.post().window().request.swap(std::ptr::null_mut(), Acquire);
        // SAFETY: the warden keeps it until the state is DONE.
        let Some(capture) = (unsafe { request.as_ref() }) else { return };
        // SAFETY: we have taken the request. The kernel passes a valid context.
        let (look, registers) = unsafe { (&mut *capture.look.get(), registers_of(context)) };
        look.take(processor.post(), capture.portray, registers);
        // Release pairs with the Acquire in `wait`.
        capture.state.store(DONE, Release);
        futex_wake(&raw const capture.state);
    });
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// # Safety
/// `context` is what the kernel passed to a handler.
#[cfg(target_arch = "x86_64")]
unsafe fn registers_of(context: *mut libc::c_void) -> Registers {
    // SAFETY: by the contract.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let register = |number: libc::c_int| registers[number as usize] as usize;
    let (instruction, stack) = (register(libc::REG_RIP), register(libc::REG_RSP));
    Registers { instruction, stack, frame: register(libc::REG_RBP), link: 0 }
}

/// # Safety
/// `context` is what the kernel passed to a handler.
#[cfg(target_arch = "aarch64")]
unsafe fn registers_of(context: *mut libc::c_void) -> Registers {
    // SAFETY: by the contract.
    let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    let register = |number: usize| machine.regs[number] as usize;
    Registers { instruction: machine.pc as usize, stack: machine.sp as usize, frame: register(29), link: register(30) }
}

/// # Safety
/// None.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn registers_of(_context: *mut libc::c_void) -> Registers {
    Registers::default()
}

/// Looks at threads for the warden.
pub(super) struct Looker {
    capture: Option<Box<Capture>>,
    portray: Portray,
    signal: i32,
}

impl Looker {
    pub(super) fn new(portray: Portray, signal: i32) -> Looker {
        Looker { capture: None, portray, signal }
    }

    /// Looks at the thread of a processor that computes in `dispatch`, and calls `f` with what it has seen. Does
    /// not call it if the dispatch is over.
    pub(super) fn at_computing<R>(
        &mut self,
        post: &Post,
        dispatch: Dispatch,
        f: impl FnOnce(&Look, Whom) -> R,
    ) -> Option<R> {
        let is_filled = is_installed(self.signal) && self.ask(post);
        let look = self.look();
        if !is_filled {
            if !cfg!(target_arch = "x86_64") {
                *look = Look::new();
                return Some(f(look, nobody()));
            }
            let portray = self.portray;
            let look = self.look();
            look.take(post, portray, Registers::default());
            if post.window().dispatch(post.pulse(), post.tally().spawned()) != Some(dispatch) {
                return None;
            }
        }
        let look = self.look();
        // SAFETY: the dispatch is the one that was looked at, so its strand has stayed: see above.
        (look.dispatch == dispatch).then(|| f(look, unsafe { look.portrait.interpret() }))
    }

    /// As [`at_computing`](Looker::at_computing), at a thread that waits in the kernel.
    pub(super) fn at_waiting<R>(
        &mut self,
        post: &Post,
        dispatch: Dispatch,
        f: impl FnOnce(&Look, Whom) -> R,
    ) -> Option<R> {
        let before = kernel::cpu_time_of(post.thread())?;
        let Waiting { instruction, stack } = kernel::waiting(post.thread())?;
        let portray = self.portray;
        let look = self.look();
        look.take(post, portray, Registers { instruction, stack, ..Registers::default() });
        let has_stayed = look.dispatch == dispatch && kernel::cpu_time_of(post.thread()) == Some(before);
        // SAFETY: the thread has not run, so the strand has stayed.
        has_stayed.then(|| f(look, unsafe { look.portrait.interpret() }))
    }

    fn capture(&mut self) -> &mut Box<Capture> {
        let portray = self.portray;
        self.capture.get_or_insert_with(|| {
            Box::new(Capture { state: AtomicU32::new(ASKED), look: UnsafeCell::new(Look::new()), portray })
        })
    }

    fn look(&mut self) -> &mut Look {
        self.capture().look.get_mut()
    }

    /// Lets the handler look. Returns whether it did.
    fn ask(&mut self, post: &Post) -> bool {
        let signal = self.signal;
        let capture = self.capture();
        capture.state.store(ASKED, Relaxed);
        let request: *mut Capture = &raw mut **capture;
        // Release: the handler sees what the request is; pairs with its Acquire.
        post.window().request.store(request, Release);
        if kernel::interrupt(post.thread(), signal) && capture.wait(LONGEST_WAIT) {
            return true;
        }
        // AcqRel is more than needed: nobody else has touched it if it is there.
        if post.window().request.compare_exchange(request, std::ptr::null_mut(), AcqRel, Relaxed).is_ok() {
            return false;
        }
        // The handler has it, and its thread may wait for a CPU.
        if capture.wait(50 * LONGEST_WAIT) {
            return true;
        }
        std::mem::forget(self.capture.take());
        false
    }
}

impl Capture {
    /// Waits until the handler has looked. Returns whether it did.
    fn wait(&self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        // Acquire pairs with the Release in the handler.
        while self.state.load(Acquire) != DONE {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            futex_wait(&self.state, ASKED, Some(left));
        }
        true
    }
}

fn nobody() -> Whom {
    Whom { kind: None, id: None, name: None, type_name: None, spawned_at: None }
}
