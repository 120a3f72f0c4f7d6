//! Backtraces of stacks that do not run, from a copy of their bytes.
//!
//! A fibre that has stopped has left its registers on its stack. `corosensei` pushes three words:
//!
//! ```text
//!   top of the stack ->  the function that it began with
//!                        the link to the stack of its processor     <- the outermost frame pointer
//!                        ... frames of the program ...
//!                        rbp          (aarch64: padding)
//!                        rbx          (aarch64: pc)
//!   saved pointer   ->   rip          (aarch64: x29, x19 below it)
//! ```
//!
//! So the place where it goes on, its stack pointer and its frame pointer are known, and the tables by
//! which exceptions find their way give the rest. The outermost function is corosensei's trampoline.
//! Its frame leads to the stack of the processor, which is another one by now: the walk ends where it
//! reaches for the link.

use crate::file::Piece;
use crate::memory::u64_at;
use crate::module::Module;
use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder,
    UnwinderNative,
};

/// The distance from the top of a stack down to its link.
const LINK: u64 = 16;

/// A backtrace ends after this number of frames.
const MOST_FRAMES: usize = 1000;

/// The registers that a walk begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Where the code goes on (`rip`, `pc`).
    pub instruction: u64,
    /// The stack pointer (`rsp`, `sp`).
    pub stack: u64,
    /// The frame pointer (`rbp`, `x29`).
    pub frame: u64,
    /// Where a function that has not saved it returns to (`x30`). Not used on x86-64.
    pub link: u64,
}

impl Registers {
    /// Reads what a fibre has left at its saved stack pointer. `bytes` begins there.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn saved(pointer: u64, bytes: &[u8]) -> Option<Registers> {
        let [instruction, frame] = [u64_at(bytes, 0)?, u64_at(bytes, 16)?];
        Some(Registers { instruction, stack: pointer.checked_add(24)?, frame, link: 0 })
    }

    /// Reads what a fibre has left at its saved stack pointer. `bytes` begins there.
    #[cfg(target_arch = "aarch64")]
    pub(crate) fn saved(pointer: u64, bytes: &[u8]) -> Option<Registers> {
        let [frame, instruction] = [u64_at(bytes, 8)?, u64_at(bytes, 16)?];
        Some(Registers { instruction, stack: pointer.checked_add(32)?, frame, link: 0 })
    }

    /// Reads the note of a core file about a thread (`struct elf_prstatus`).
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn of_status(note: &[u8]) -> Option<Registers> {
        let register = |number: usize| u64_at(note, 112 + 8 * number);
        Some(Registers { instruction: register(16)?, stack: register(19)?, frame: register(4)?, link: 0 })
    }

    /// Reads the note of a core file about a thread (`struct elf_prstatus`).
    #[cfg(target_arch = "aarch64")]
    pub(crate) fn of_status(note: &[u8]) -> Option<Registers> {
        let register = |number: usize| u64_at(note, 112 + 8 * number);
        let (instruction, stack) = (register(32)?, register(31)?);
        Some(Registers { instruction, stack, frame: register(29)?, link: register(30)? })
    }

    #[cfg(target_arch = "x86_64")]
    fn native(self) -> UnwindRegsNative {
        UnwindRegsNative::new(self.instruction, self.stack, self.frame)
    }

    #[cfg(target_arch = "aarch64")]
    fn native(self) -> UnwindRegsNative {
        UnwindRegsNative::new(self.link, self.stack, self.frame)
    }
}

#[cfg(target_arch = "x86_64")]
fn frame_pointer(registers: &UnwindRegsNative) -> u64 {
    registers.bp()
}

#[cfg(target_arch = "x86_64")]
fn set_frame_pointer(registers: &mut UnwindRegsNative, value: u64) {
    registers.set_bp(value);
}

#[cfg(target_arch = "aarch64")]
fn frame_pointer(registers: &UnwindRegsNative) -> u64 {
    registers.fp()
}

#[cfg(target_arch = "aarch64")]
fn set_frame_pointer(registers: &mut UnwindRegsNative, value: u64) {
    registers.set_fp(value);
}

/// A copy of the upper end of a stack.
#[derive(Clone, Copy)]
pub struct StackCopy<'a> {
    /// The address that `bytes` were read from.
    pub address: u64,
    /// The bytes.
    pub bytes: &'a [u8],
    /// The top of the stack of a fibre, where corosensei's words end; 0 if it is no such stack.
    pub top: u64,
}

impl StackCopy<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        u64_at(self.bytes, usize::try_from(address.checked_sub(self.address)?).ok()?)
    }

    fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes.len() as u64)
    }
}

/// Walks stacks. It remembers how to leave each function that it has seen.
pub struct Walker {
    unwinder: UnwinderNative<Piece, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
}

impl Walker {
    /// Makes a walker of stacks of a process with these modules.
    pub fn new(modules: &[Module]) -> Walker {
        let mut unwinder = UnwinderNative::new();
        for module in modules {
            let (Some(frames), Some(index)) = (&module.eh_frame, &module.eh_frame_hdr) else { continue };
            let sections = ExplicitModuleSectionInfo {
                base_svma: 0,
                text_svma: Some(module.text.clone()),
                eh_frame_svma: Some(frames.range.clone()),
                eh_frame: Some(frames.bytes.clone()),
                eh_frame_hdr_svma: Some(index.range.clone()),
                eh_frame_hdr: Some(index.bytes.clone()),
                text: None,
                stubs_svma: None,
                stub_helper_svma: None,
                got_svma: None,
                unwind_info: None,
                debug_frame: None,
                text_segment_svma: None,
                text_segment: None,
            };
            unwinder.add_module(framehop::Module::new(
                module.path.clone(),
                module.range.clone(),
                module.bias,
                sections,
            ));
        }
        Walker { unwinder, cache: CacheNative::default() }
    }

    /// Puts the addresses of a stack's frames into `frames`, the innermost first. The first one is where
    /// the code goes on; those behind it point into the calls. Returns whether the walk reached the
    /// function that the fibre began with.
    pub fn walk(&mut self, registers: Registers, stack: StackCopy<'_>, frames: &mut Vec<u64>) -> bool {
        frames.clear();
        let link = stack.top.wrapping_sub(LINK);
        // A general value in the register of the frame pointer is nothing that arithmetic should meet.
        let nowhere = stack.end().saturating_add(4096).min(u64::MAX - 4096) & !15;
        let mut native = registers.native();
        let mut address = FrameAddress::from_instruction_pointer(registers.instruction);
        let mut has_reached_link = false;
        let mut below = registers.stack;
        while frames.len() < MOST_FRAMES {
            frames.push(address.address_for_lookup());
            let frame = frame_pointer(&native);
            if frame < stack.address || frame >= stack.end() {
                set_frame_pointer(&mut native, nowhere);
            }
            let mut read = |place: u64| {
                has_reached_link |= stack.top != 0 && (place == link || place == link + 8);
                if has_reached_link { Err(()) } else { stack.word(place).ok_or(()) }
            };
            let next = self.unwinder.unwind_frame(address, &mut native, &mut self.cache, &mut read);
            if has_reached_link {
                return true;
            }
            let Ok(Some(next)) = next else { return false };
            // The stack grows down, so the way out leads up.
            if native.sp() < below || native.sp() > stack.end() {
                return false;
            }
            below = native.sp();
            match FrameAddress::from_return_address(next) {
                Some(next) => address = next,
                None => return false,
            }
        }
        false
    }
}
