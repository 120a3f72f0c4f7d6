//! Probes: places that a tracer of the kernel can hook into while the program runs (bpftrace's and
//! SystemTap's USDT). Provider `sinew`.
//!
//! A probe is one `nop` in the code, and a note in the section `.note.stapsdt` of the program. The note
//! says where the `nop` is, and in which registers or words of memory a tracer finds the arguments. If
//! nobody looks, the `nop` is all that a probe costs: the arguments are where they are anyway.
//!
//! | probe | when | arguments |
//! | --- | --- | --- |
//! | `spawn` | a strand is given to a runtime | strand |
//! | `park` | a strand is about to stop | strand, what it waits for: the reason in the top 8 bits |
//! | `ready` | a strand that had stopped is ready again | strand |
//! | `steal` | a processor takes a strand from another one | strand |
//! | `stall` | a processor is found to be held up | address of its post, 1 if a strand computes, 2 if it is blocked |
//!
//! A function that is inlined at several places has a note for each of them. A strand is known by its
//! address, which the next strand may have as well when that one has ended.
#![allow(unsafe_code)]

/// Says how a note names a register, and a word of memory behind one.
#[cfg(target_arch = "x86_64")]
macro_rules! place {
    (register $operand:literal) => {
        concat!("8@%{", $operand, "}")
    };
    (memory $operand:literal $offset:literal) => {
        concat!("8@{", $offset, "}(%{", $operand, "})")
    };
}

/// As above.
#[cfg(target_arch = "aarch64")]
macro_rules! place {
    (register $operand:literal) => {
        concat!("8@{", $operand, "}")
    };
    (memory $operand:literal $offset:literal) => {
        concat!("8@[{", $operand, "}, {", $offset, "}]")
    };
}

/// Makes a probe. `$arguments` says where a tracer finds the arguments.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! probe {
    ($name:literal, $arguments:expr, $($operands:tt)*) => {
        // SAFETY: a `nop` changes nothing, and what is put into other sections is not run.
        unsafe {
            std::arch::asm!(
                "990: nop",
                // As SystemTap's `sdt.h` defines it. The flag keeps a note with the code that it is for.
                ".pushsection .note.stapsdt,\"?\",\"note\"",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                // No semaphore: the probe is always there.
                ".8byte 0",
                ".asciz \"sinew\"",
                concat!(".asciz \"", $name, "\""),
                concat!(".asciz \"", $arguments, "\""),
                "994: .balign 4",
                ".popsection",
                // By the distance to this section, a tracer notices that the program was moved.
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base,\"aGR\",\"progbits\",.stapsdt.base,comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                $($operands)*
                options(readonly, nostack, preserves_flags),
            );
        }
    };
}

/// There are no probes on other machines.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! probe {
    ($name:literal, $arguments:expr, $(in(reg) $value:expr,)* $(const $number:expr,)?) => {
        let _ = ($($value,)* $($number)?);
    };
}

/// The probe `spawn`.
#[inline(always)]
pub(crate) fn spawn(strand: *const ()) {
    probe!("spawn", place!(register 0), in(reg) strand,);
}

/// The probe `park`. `WAIT` is the offset of the word that says what the strand waits for.
#[inline(always)]
pub(crate) fn park<const WAIT: usize>(strand: *const ()) {
    probe!("park", concat!(place!(register 0), " ", place!(memory 0 1)), in(reg) strand, const WAIT,);
}

/// The probe `ready`.
#[inline(always)]
pub(crate) fn ready(strand: *const ()) {
    probe!("ready", place!(register 0), in(reg) strand,);
}

/// The probe `steal`.
#[inline(always)]
pub(crate) fn steal(strand: *const ()) {
    probe!("steal", place!(register 0), in(reg) strand,);
}

/// The probe `stall`.
#[inline(always)]
pub(crate) fn stall(post: *const (), hold: usize) {
    probe!("stall", concat!(place!(register 0), " ", place!(register 1)), in(reg) post, in(reg) hold,);
}
