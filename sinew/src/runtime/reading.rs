//! Reads stacks, and the whole process, by the crate `sinew-inspect`.

use crate::processor::stall::CopiedStack;
use sinew_inspect::{Dump, Error, Frame, Options, Registers, StackCopy, Symbols, Target, Walker};
use std::sync::{Mutex, PoisonError};

/// The largest number of functions in a report.
const MOST_FRAMES: usize = 64;

/// The largest distance from the stack pointer to the frame pointer that is looked for, in bytes.
const FARTHEST_GUESS: usize = 4096;

/// The modules, tables and names of this process's code.
struct Reader {
    target: Target,
    walker: Walker,
    symbols: Symbols,
}

impl Reader {
    fn open() -> Result<Reader, Error> {
        let target = Target::own()?;
        Ok(Reader { walker: Walker::new(target.modules()), target, symbols: Symbols::new() })
    }

    fn knows(&self, address: u64) -> bool {
        self.target.modules().iter().any(|module| module.range.contains(&address))
    }

    fn walk(&mut self, stack: &CopiedStack<'_>) -> Vec<String> {
        let registers = Registers {
            instruction: stack.registers.instruction as u64,
            stack: stack.registers.stack as u64,
            frame: stack.registers.frame as u64,
            link: stack.registers.link as u64,
        };
        let copy = StackCopy { address: registers.stack, bytes: stack.bytes, top: stack.top as u64 };
        let mut addresses = Vec::new();
        if !self.walker.walk(registers, copy, &mut addresses) && registers.frame == 0 {
            self.walk_by_guess(registers, copy, &mut addresses);
        }
        addresses.truncate(MOST_FRAMES);
        self.symbols.learn(self.target.modules(), &addresses, &[]);
        let frames = addresses.iter().flat_map(|address| self.symbols.frames(*address).to_vec());
        let mut frames: Vec<_> = frames.collect();
        // The frames around those of the program say nothing.
        if let Some(last) = frames.iter().rposition(|frame| !is_around(&frame.function)) {
            frames.truncate(last + 1);
        }
        frames.iter().map(text_of).collect()
    }
}

impl Reader {
    /// Walks a stack whose frame pointer the kernel does not tell. Functions that have one begin by saving that of
    /// their caller, below the return address. So it is one of the places above the stack pointer that have a
    /// return address behind them: the lowest from which the walk comes to an end. If none does, it is the one from which
    /// the walk goes farthest.
    fn walk_by_guess(&mut self, registers: Registers, copy: StackCopy<'_>, addresses: &mut Vec<u64>) {
        let mut some = Vec::new();
        let unaligned = (copy.address.next_multiple_of(16) - copy.address) as usize;
        let words =
            copy.bytes.get(unaligned..).unwrap_or_default().chunks_exact(16).take(FARTHEST_GUESS / 16).enumerate();
        for (number, words) in words {
            let back = u64::from_ne_bytes(words[8..].try_into().expect("half of sixteen bytes"));
            if self.knows(back) {
                let frame = copy.address.next_multiple_of(16) + 16 * number as u64;
                let is_complete = self.walker.walk(Registers { frame, ..registers }, copy, &mut some);
                if is_complete || some.len() > addresses.len() {
                    std::mem::swap(addresses, &mut some);
                }
                if is_complete {
                    break;
                }
            }
        }
    }
}

/// Says whether a function is one of those that call the program's code in a strand.
fn is_around(function: &str) -> bool {
    const AROUND: [&str; 7] = ["sinew::", "corosensei::", "std::", "core::", "alloc::", "stack_", "__"];
    function.is_empty() || AROUND.iter().any(|start| function.trim_start_matches('<').starts_with(start))
}

fn text_of(frame: &Frame) -> String {
    let function = match (frame.function.as_str(), &frame.module) {
        ("", Some(module)) => format!("{:#x} in {module}", frame.address),
        ("", None) => format!("{:#x}", frame.address),
        (function, _) => function.to_owned(),
    };
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{function} at {file}:{line}"),
        _ => function,
    }
}

/// Returns the functions that a stack is in, the innermost first.
pub(super) fn walk(stack: &CopiedStack<'_>) -> Vec<String> {
    static READER: Mutex<Option<Reader>> = Mutex::new(None);
    let address = stack.registers.instruction as u64;
    if address == 0 {
        return Vec::new();
    }
    let mut reader = READER.lock().unwrap_or_else(PoisonError::into_inner);
    // The program may have loaded a library since.
    if reader.as_ref().is_none_or(|reader| !reader.knows(address)) {
        *reader = Reader::open().ok();
    }
    reader.as_mut().map_or_else(Vec::new, |reader| reader.walk(stack))
}

/// Returns the dump of this process as text, or the reason why there is none.
pub(super) fn dump() -> String {
    match Target::own().and_then(|target| Dump::take(&target, Options::default())) {
        Ok(dump) => dump.to_string(),
        Err(error) => format!("sinew: no dump: {error}\n"),
    }
}
