//! The stacks of all fibres that do not run, read in batches, and grouped by the addresses of their frames.

use crate::census::{Class, Moment, Strand, moments, running};
use crate::memory::{Batch, Memory, u64_at};
use crate::offsets::Offsets;
use crate::unwind::{Registers, StackCopy, Walker};
use std::collections::{HashMap, HashSet};

/// The number of stacks that are read at once: 2 MiB at least.
const AT_ONCE: usize = 1024;

/// The bytes below the top of a stack that are read with the top. Measured in a release build of
/// `servers/examples/inspected`: fibres in a lock, a sleep, a join or a channel are 216 to 552 bytes deep. Deeper
/// ones take one more read.
const NEAR: u64 = 2048;

/// Deeper stacks are not read.
const DEEPEST: u64 = 1 << 20;

const PAGE: u64 = 4096;

/// A stack that one or more fibres have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    /// The innermost first.
    pub(crate) frames: Box<[u64]>,
    /// Whether the outermost frame is the one that fibres begin with.
    pub(crate) is_complete: bool,
}

/// The result of reading a fibre's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It is the stack of this number.
    Stack(usize),
    /// The fibre ran each time that its stack was read.
    Moving,
    /// It has no stack, or one that cannot be read.
    Nothing,
}

/// Stacks by their frames.
#[derive(Default)]
pub(crate) struct Stacks {
    pub(crate) all: Vec<Stack>,
    numbers: HashMap<Box<[u64]>, usize>,
}

impl Stacks {
    pub(crate) fn number(&mut self, frames: &[u64], is_complete: bool) -> usize {
        if let Some(&number) = self.numbers.get(frames) {
            return number;
        }
        let number = self.all.len();
        self.all.push(Stack { frames: frames.into(), is_complete });
        self.numbers.insert(frames.into(), number);
        number
    }
}

/// Reads the stacks of the strands at these places of `strands`. A strand whose words change meanwhile is
/// tried once more; the strand then has the newer words.
pub(crate) fn read(
    memory: &dyn Memory,
    offsets: &Offsets,
    walker: &mut Walker,
    strands: &mut [Strand],
    wanted: &[usize],
) -> (Stacks, Vec<Seen>) {
    let mut reader = Reader { memory, offsets, walker, stacks: Stacks::default(), frames: Vec::new() };
    let mut seen = vec![Seen::Nothing; strands.len()];
    for some in wanted.chunks(AT_ONCE) {
        let again = reader.read(strands, some, &mut seen);
        let still = if again.is_empty() { again } else { reader.read(strands, &again, &mut seen) };
        still.into_iter().for_each(|place| seen[place] = Seen::Moving);
    }
    (reader.stacks, seen)
}

struct Reader<'a> {
    memory: &'a dyn Memory,
    offsets: &'a Offsets,
    walker: &'a mut Walker,
    stacks: Stacks,
    frames: Vec<u64>,
}

impl Reader<'_> {
    /// Reads the stacks of some strands. Returns those whose words have changed since they were read, with
    /// their newer words.
    fn read(&mut self, strands: &mut [Strand], some: &[usize], seen: &mut [Seen]) -> Vec<usize> {
        let o = self.offsets;
        let mut near = Batch::new();
        let start_of = |top: u64| top.saturating_sub(NEAR).max(top & !(PAGE - 1));
        for &place in some {
            let top = strands[place].own;
            let start = start_of(top);
            near.add(start, (top - start) as usize + o.top_bytes());
        }
        near.read(self.memory);
        // Those that are deeper are read whole.
        let mut deep = Batch::new();
        let mut found = Vec::with_capacity(some.len());
        for (number, &place) in some.iter().enumerate() {
            let (address, top) = (strands[place].address, strands[place].own);
            let start = start_of(top);
            let record = near.get(number).map(|bytes| &bytes[(top - start) as usize..]);
            let saved = record.and_then(|record| saved_pointer(o, record, address, top));
            let deeper = saved.filter(|&saved| saved < start).map(|saved| deep.add(saved, (top - saved) as usize));
            found.push((saved, deeper));
        }
        deep.read(self.memory);
        let addresses: Vec<u64> = some.iter().map(|&place| strands[place].address).collect();
        let now = moments(self.memory, o, &addresses);
        // A fibre that is ready may have begun to run, which its words do not tell.
        let has_ready = some.iter().any(|&place| !o.is_stopped(strands[place].state));
        let running = if has_ready { running(self.memory, o) } else { HashSet::new() };
        let mut again = Vec::new();
        for (number, &place) in some.iter().enumerate() {
            let (saved, deeper) = found[number];
            let strand = &mut strands[place];
            let top = strand.own;
            let Some(moment) = now[number] else { continue };
            if has_moved(o, strand.moment(), moment) {
                if can_be_read(o, strand, moment) {
                    strand.take(moment);
                    again.push(place);
                } else {
                    seen[place] = Seen::Moving;
                }
                continue;
            }
            if running.contains(&strand.address) {
                seen[place] = Seen::Moving;
                continue;
            }
            let Some(saved) = saved else { continue };
            let start = start_of(top);
            let (address, bytes) = match deeper {
                Some(deeper) => (saved, deep.get(deeper)),
                None => (start, near.get(number).map(|bytes| &bytes[..(top - start) as usize])),
            };
            let Some(bytes) = bytes else { continue };
            let at = (saved - address) as usize;
            let Some(registers) = Registers::saved(saved, &bytes[at..]) else { continue };
            let is_complete = self.walker.walk(registers, StackCopy { address, bytes, top }, &mut self.frames);
            seen[place] = Seen::Stack(self.stacks.number(&self.frames, is_complete));
        }
        again
    }
}

/// Returns the stack pointer that the coroutine of a strand has saved. `record` is what lies at `top`. The
/// words of a coroutine are in no certain order. Two of them lie in the stack: where it began, and the
/// saved one, which is lower.
fn saved_pointer(offsets: &Offsets, record: &[u8], strand: u64, top: u64) -> Option<u64> {
    if u64_at(record, offsets.top_strand)? != strand {
        return None;
    }
    let words = (0..offsets.top_body_words.min(64)).filter_map(|word| u64_at(record, offsets.top_body + 8 * word));
    words.filter(|&word| word < top && top - word <= DEEPEST && word.is_multiple_of(8)).min()
}

/// Says whether a strand has run, or was woken, between two readings of its words. Flags may come to a
/// strand that stays where it is.
fn has_moved(offsets: &Offsets, before: Moment, now: Moment) -> bool {
    offsets.is_stopped(before.state) != offsets.is_stopped(now.state)
        || (before.stamp, before.after, before.own) != (now.stamp, now.after, now.own)
}

fn can_be_read(offsets: &Offsets, strand: &Strand, now: Moment) -> bool {
    strand.kind.class == Class::Fibre && now.own != 0 && now.state as usize & offsets.finished == 0
}
