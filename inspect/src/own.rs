//! Backtraces of the calling process, from registers and a copy of a stack.

use crate::error::Error;
use crate::memory::LiveProcess;
use crate::module::{Module, live_mappings, module_at, modules};
use crate::symbols::{Frame, Symbols, without_outer_end};
use crate::unwind::{Registers, StackCopy, Walker};
use std::sync::{Mutex, PoisonError};

/// The modules, tables and names of the calling process.
struct Own {
    modules: Vec<Module>,
    walker: Walker,
    symbols: Symbols,
}

impl Own {
    fn read() -> Result<Own, Error> {
        let memory = LiveProcess::own()?;
        let modules = modules(&memory, live_mappings(memory.pid()));
        Ok(Own { walker: Walker::new(&modules), modules, symbols: Symbols::new() })
    }
}

/// Returns the frames of a stack of the calling process, the innermost first. `stack_bytes` were copied from
/// `stack_address`, while the registers had these values. Frames of the runtime at the outer end are left
/// out.
///
/// The first call reads the process's modules. Addresses that were seen before cost little.
pub fn backtrace_of(registers: Registers, stack_address: u64, stack_bytes: &[u8]) -> Vec<Frame> {
    static OWN: Mutex<Option<Own>> = Mutex::new(None);
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_known = own.as_ref().is_some_and(|own| module_at(&own.modules, registers.instruction).is_some());
    if !is_known {
        // The first call, or a library that was loaded since.
        *own = Own::read().ok();
    }
    let Some(own) = own.as_mut() else { return Vec::new() };
    let mut addresses = Vec::new();
    own.walker.walk(registers, StackCopy { address: stack_address, bytes: stack_bytes, top: 0 }, &mut addresses);
    own.symbols.learn(&own.modules, &addresses, &[]);
    let frames: Vec<Frame> =
        addresses.iter().flat_map(|&address| own.symbols.frames(address).iter().cloned().collect::<Vec<_>>()).collect();
    without_outer_end(frames)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    #![allow(unsafe_code)]

    use super::*;
    use crate::memory::Memory;
    use std::arch::asm;

    #[inline(never)]
    fn outer_of_two() -> Vec<Frame> {
        let frames = inner_of_two();
        std::hint::black_box(frames)
    }

    #[inline(never)]
    fn inner_of_two() -> Vec<Frame> {
        let (instruction, stack, frame): (u64, u64, u64);
        // SAFETY: reads three registers.
        unsafe {
            asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) instruction, out(reg) stack, out(reg) frame);
        }
        let mut bytes = vec![0; 16 << 10];
        let memory = LiveProcess::own().unwrap();
        // The stack of a test's thread is larger than what is used of it.
        let length =
            (0..bytes.len()).step_by(1024).rev().find(|&length| memory.read(stack, &mut bytes[..length]).is_ok());
        bytes.truncate(length.unwrap());
        std::hint::black_box(backtrace_of(Registers { instruction, stack, frame, link: 0 }, stack, &bytes))
    }

    #[test]
    fn a_backtrace_names_the_functions_and_their_lines() {
        let frames = outer_of_two();
        let names: Vec<&str> = frames.iter().map(|frame| frame.function.rsplit("::").next().unwrap()).collect();
        assert_eq!(names[..2], ["inner_of_two", "outer_of_two"], "{frames:?}");
        assert!(frames[0].file.as_ref().unwrap().ends_with("inspect/src/own.rs"));
        assert!(frames[0].line > frames[1].line, "the inner function stands below the outer one");
        assert!(frames.iter().any(|frame| frame.function.contains("a_backtrace_names_the_functions")), "{names:?}");
    }

    #[test]
    fn a_walk_over_garbage_ends() {
        let own = Own::read().unwrap();
        let code = own.modules.iter().find(|module| !module.text.is_empty()).unwrap();
        let mut walker = Walker::new(&own.modules);
        let mut seed = 1_u64;
        let mut next = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let mut frames = Vec::new();
        for round in 0..20_000 {
            let address = if round % 10 == 0 { next() & !15 } else { 0x7000_0000_0000 };
            let mut word = || match next() % 4 {
                0 => code.bias + code.text.start + next() % (code.text.end - code.text.start),
                1 => address.wrapping_add(next() % 512),
                2 => next() % 64,
                _ => next(),
            };
            let bytes: Vec<u8> = (0..64).flat_map(|_| word().to_le_bytes()).collect();
            let registers = Registers { instruction: word(), stack: address, frame: word(), link: word() };
            let top = if round % 2 == 0 { address.wrapping_add(512) } else { 0 };
            walker.walk(registers, StackCopy { address, bytes: &bytes, top }, &mut frames);
            assert!(!frames.is_empty() && frames.len() <= 1000);
        }
    }
}
