//! Words of each thread: the processor that it is, the stack of the fibre that it runs, and the kernel thread below it if
//! it is a fibre with an [identity](crate::identity) of its own.
//!
//! A fibre may continue on another kernel thread after any suspension. Compilers do not know that. They
//! compute the address of a `thread_local!` variable once in a function, keep it across the suspension,
//! and then read the variable of the thread before. So these words are read by value, each time anew, in
//! a way that a compiler cannot see into:
//!
//! - on x86-64 by two instructions, in `asm!` that is not `pure`, relative to the register that holds the
//!   address of the present thread;
//! - elsewhere by a function that is never inlined and returns the value.
//!
//! **Rejected**: to find the fibre from the stack pointer, by the alignment of stacks. It takes 20
//! instructions, each of which waits for the one before, at a place where the CPU has nothing else to
//! do. A yield takes 18.5 ns with it and 15.5 ns by these words, a `cycle` 38 and 33 (medians of five, in
//! turns). It also needs a word like these, for code that has switched to a stack of its own making.
#![allow(unsafe_code)]

/// Returns the processor that this kernel thread is; null if it is none.
#[inline(always)]
pub(crate) fn processor() -> *const () {
    words::read::<PROCESSOR>() as *const ()
}

/// Returns the top of the stack of the fibre that this kernel thread runs; null while it runs none.
#[inline(always)]
pub(crate) fn stack() -> *mut () {
    words::read::<STACK>() as *mut ()
}

/// Returns the address of the identity of the kernel thread that runs the caller, if the caller is a fibre with an
/// identity of its own; 0 if not.
#[inline(always)]
pub(crate) fn thread() -> usize {
    words::read::<THREAD>()
}

/// The words, as they lie in memory.
#[repr(C)]
pub(crate) struct Words {
    pub(crate) processor: *const (),
    pub(crate) stack: *mut (),
    pub(crate) thread: usize,
    /// The processor that has written the words of a fibre's identity, by a number that is never used again; 0 if none
    /// has.
    pub(crate) writer: usize,
}

/// Returns the distance of the words from the address that thread-local variables are relative to.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn offset() -> isize {
    words::offset()
}

/// Returns the address of the word with the stack, for readers of memory.
pub(crate) fn stack_word() -> usize {
    words::address() + STACK
}

pub(crate) fn set_processor(processor: *const ()) {
    words::write::<PROCESSOR>(processor as usize);
}

#[inline(always)]
pub(crate) fn set_stack(stack: *mut ()) {
    words::write::<STACK>(stack as usize);
}

/// The offsets of the words, in bytes.
const PROCESSOR: usize = 0;
const STACK: usize = 8;
const THREAD: usize = 16;

#[cfg(target_arch = "x86_64")]
mod words {
    use std::arch::{asm, global_asm};

    // The words, zero in a new thread. The name has the version, because two versions of the
    // crate may be linked into one program.
    macro_rules! symbol {
        () => {
            concat!("sinew_thread_words_", env!("CARGO_PKG_VERSION_MAJOR"), "_", env!("CARGO_PKG_VERSION_MINOR"))
        };
    }

    global_asm!(
        ".pushsection .tbss.sinew,\"awT\",@nobits",
        ".p2align 4",
        concat!(".globl ", symbol!()),
        concat!(".type ", symbol!(), ",@object"),
        concat!(".size ", symbol!(), ", 32"),
        concat!(symbol!(), ":"),
        ".zero 32",
        ".popsection",
    );

    #[inline(always)]
    pub(super) fn read<const OFFSET: usize>() -> usize {
        let word;
        // SAFETY: reads a word of this thread. Not `pure`: it must not be merged with an earlier
        // reading, because the thread may be another one by now.
        unsafe {
            asm!(
                concat!("mov {word}, qword ptr [rip + ", symbol!(), "@gottpoff]"),
                "mov {word}, qword ptr fs:[{word} + {offset}]",
                word = out(reg) word,
                offset = const OFFSET,
                options(nostack, preserves_flags, readonly),
            );
        }
        word
    }

    #[inline(always)]
    pub(super) fn offset() -> isize {
        let offset;
        // SAFETY: reads a constant of the program, which the linker or the loader has filled in.
        unsafe {
            asm!(
                concat!("mov {offset}, qword ptr [rip + ", symbol!(), "@gottpoff]"),
                offset = out(reg) offset,
                options(pure, nostack, preserves_flags, readonly),
            );
        }
        offset
    }

    /// Returns the address of the words of this thread.
    pub(super) fn address() -> usize {
        let address;
        // SAFETY: the word at `fs:0` is the address that the others are relative to: the ABI says so.
        unsafe {
            asm!(
                "mov {address}, qword ptr fs:[0]",
                concat!("add {address}, qword ptr [rip + ", symbol!(), "@gottpoff]"),
                address = out(reg) address,
                options(nostack, readonly),
            );
        }
        address
    }

    #[inline(always)]
    pub(super) fn write<const OFFSET: usize>(word: usize) {
        // SAFETY: writes a word of this thread, to which no reference exists.
        unsafe {
            asm!(
                concat!("mov {place}, qword ptr [rip + ", symbol!(), "@gottpoff]"),
                "mov qword ptr fs:[{place} + {offset}], {word}",
                place = out(reg) _,
                word = in(reg) word,
                offset = const OFFSET,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod words {
    use std::cell::Cell;
    use std::hint::black_box;

    thread_local!(static WORDS: [Cell<usize>; 4] = const { [const { Cell::new(0) }; 4] });

    #[inline(never)]
    pub(super) fn read<const OFFSET: usize>() -> usize {
        black_box(WORDS.with(|words| words[OFFSET / 8].get()))
    }

    pub(super) fn address() -> usize {
        WORDS.with(|words| words.as_ptr().addr())
    }

    #[inline(never)]
    pub(super) fn write<const OFFSET: usize>(word: usize) {
        WORDS.with(|words| words[OFFSET / 8].set(black_box(word)));
    }
}
