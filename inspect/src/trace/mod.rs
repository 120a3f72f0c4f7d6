//! Traces: what processors did, from the rings of their flight recorders, in Perfetto's format.
//!
//! The rings are read again and again while the process runs, or once from a core. Nothing is stopped. Entries that
//! are overwritten before they are read are lost, and counted.

mod history;
mod names;
mod perfetto;
mod rings;
mod story;

use crate::error::Error;
use crate::layout::Layout;
use crate::memory::{Memory, u32_at, word};
use history::Codes;
use names::Names;
use rings::{Piece, RingLayout, RingReader};
use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};
use story::{Processor, Story};

/// The distance between two readings, unless a ring fills faster.
const READ_EVERY: Duration = Duration::from_millis(10);

/// The part of a ring that may fill between two readings. Beyond that the next reading follows at once.
const HURRY: f64 = 0.125;

/// No more entries are kept than this: the trace would be some hundreds of megabytes.
const MOST_ENTRIES: usize = 4 << 20;

/// Reads the flight recorders of a process.
pub struct Tracer<'a> {
    memory: &'a dyn Memory,
    layout: &'a Layout,
    ring_layout: RingLayout,
    codes: Codes,
    names: Names,
    posts: Vec<PostRing>,
    kept: usize,
}

struct PostRing {
    post: u64,
    ring: RingReader,
    /// The number of pieces whose strands were looked up.
    looked_up: usize,
}

/// A trace.
#[derive(Debug)]
#[non_exhaustive]
pub struct Trace {
    /// The trace, in Perfetto's format.
    pub bytes: Vec<u8>,
    /// The number of processors whose recorders had entries.
    pub processors: usize,
    /// The number of entries that were read.
    pub entries: u64,
    /// The number of slots that were overwritten before they could be read: an entry has one or two.
    pub lost: u64,
    /// Whether the trace ended early, because it became too large.
    pub is_cut: bool,
    /// Whether a recorder was on at the last reading.
    pub is_recording: bool,
}

impl<'a> Tracer<'a> {
    /// Begins to read the recorders of a process.
    ///
    /// # Errors
    /// The process has no recorders that this reader knows.
    pub fn new(memory: &'a dyn Memory, layout: &'a Layout) -> Result<Tracer<'a>, Error> {
        let codes = Codes {
            yielded: layout.need("code.yielded")?,
            parked: layout.need("code.parked")?,
            waited: layout.need("code.waited")?,
            moved: layout.need("code.moved")?,
            declined: layout.need("code.declined")?,
            finished: layout.need("code.finished")?,
            left: layout.need("code.left")?,
            rested: layout.need("code.rested")?,
            spawned: layout.need("code.spawned")?,
            began: layout.need("code.began")?,
            readied: layout.need("code.readied")?,
            stole: layout.need("code.stole")?,
            stalled: layout.need("code.stalled")?,
            slept: layout.need("code.slept")?,
            resumed: layout.need("code.resumed")?,
            polled: layout.need("code.polled")?,
            called: layout.need("code.called")?,
            looked: layout.need("code.looked")?,
        };
        let ring_layout = RingLayout::of(layout)?;
        let names = Names::new(layout)?;
        Ok(Tracer { memory, layout, ring_layout, codes, names, posts: Vec::new(), kept: 0 })
    }

    /// Reads what is new in all recorders. Returns the part of a ring that had filled, of the one that fills fastest.
    ///
    /// # Errors
    /// The directory of processors cannot be read.
    pub fn read(&mut self) -> Result<f64, Error> {
        let place = self.layout.need("post.ring")?;
        for post in Layout::directory(self.memory, self.layout.need("posts")?)? {
            let ring = word(self.memory, post + place).unwrap_or(0);
            let is_known = self.posts.iter().any(|known| known.post == post && known.ring.address() == ring);
            if ring != 0
                && !is_known
                && let Some(ring) = RingReader::open(self.memory, self.ring_layout, ring)
            {
                self.posts.push(PostRing { post, ring, looked_up: 0 });
            }
        }
        let mut most = 0.0_f64;
        for post in &mut self.posts {
            most = most.max(post.ring.read(self.memory));
        }
        for post in &mut self.posts {
            for piece in &post.ring.history[post.looked_up..] {
                let Piece::Entry(entry) = piece else { continue };
                if entry.strand != 0 {
                    let began = (entry.code == self.codes.began).then_some(entry.argument);
                    self.names.look_up(self.memory, entry.strand, began);
                }
            }
            post.looked_up = post.ring.history.len();
        }
        self.kept = self.posts.iter().map(|post| post.ring.history.len()).sum();
        Ok(most)
    }

    /// Reads the recorders of a live process for this time, or until the trace becomes too large.
    ///
    /// # Errors
    /// As [`read`](Tracer::read).
    pub fn watch(&mut self, time: Duration) -> Result<(), Error> {
        let began = Instant::now();
        loop {
            let filled = self.read()?;
            let left = time.saturating_sub(began.elapsed());
            if left.is_zero() || self.kept >= MOST_ENTRIES {
                return Ok(());
            }
            if filled < HURRY {
                thread::sleep(left.min(READ_EVERY));
            }
        }
    }

    /// Makes the trace. `program` is the name of the process.
    ///
    /// # Errors
    /// The description lacks something.
    pub fn finish(mut self, pid: u32, program: &str) -> Result<Trace, Error> {
        self.names.look_again(self.memory);
        let (memory, layout) = (self.memory, self.layout);
        let cycles_per_ms = word(memory, layout.need("clock.cycles_per_ms")?).unwrap_or(0);
        let mut lost = 0;
        let mut is_recording = false;
        let mut entries = 0;
        let mut end = 0;
        let mut processors = Vec::new();
        let posts = std::mem::take(&mut self.posts);
        for post in &posts {
            lost += post.ring.lost;
            is_recording |= post.ring.is_recording;
            let own = post.ring.history.iter().filter(|piece| matches!(piece, Piece::Entry(_))).count();
            entries += own as u64;
            let history = history::tell(&post.ring.history, &self.codes, cycles_per_ms);
            end = end.max(history.last);
            if own > 0 {
                let (name, thread) = self.processor(post.post)?;
                processors.push((post, Processor { name, thread, history }));
            }
        }
        // The last reading of a clock, in a process that stands still.
        let pulse = layout.need("post.pulse")?;
        for (post, _) in &processors {
            end = end.max(word(memory, post.post + pulse).unwrap_or(0));
        }
        for (post, processor) in &mut processors {
            let history = &mut processor.history;
            if post.ring.is_recording
                && !history.is_asleep
                && let Some(strand) = self.running(post.post)
            {
                let begin = history.last;
                self.names.look_up(memory, strand, None);
                let run = history::Run { strand, begin, end, ready: 0, code: 0, argument: 0, began: None };
                history.runs.push(run);
            }
        }
        let reasons: HashMap<u64, String> =
            layout.under("reason.").map(|(name, number)| (number, name.to_owned())).collect();
        let count = processors.len();
        let story = Story {
            memory,
            pid,
            program: program.to_owned(),
            codes: self.codes,
            reasons,
            cycles_per_ms,
            names: self.names,
            processors: processors.into_iter().map(|(_, processor)| processor).collect(),
            end,
        };
        let is_cut = self.kept >= MOST_ENTRIES;
        Ok(Trace { bytes: story.write(), processors: count, entries, lost, is_cut, is_recording })
    }

    /// Returns the name of a processor, and the number of its kernel thread.
    fn processor(&self, post: u64) -> Result<(String, u32), Error> {
        let (memory, layout) = (self.memory, self.layout);
        let mut number = [0; 8];
        let number_at = |bytes: &mut [u8; 8], offset| memory.read(post + offset, &mut bytes[..4]).ok();
        number_at(&mut number, layout.need("post.thread")?);
        let thread = u32_at(&number, 0).unwrap_or(0);
        number_at(&mut number, layout.need("post.index")?);
        // The number has 16 bits.
        let index = u32_at(&number, 0).unwrap_or(0) & 0xffff;
        let cluster = word(memory, post + layout.need("post.cluster")?).unwrap_or(0);
        let (name, length) = (layout.need("cluster.name")?, layout.need("cluster.name_length")?);
        let name = word(memory, cluster.wrapping_add(name)).ok().zip(word(memory, cluster.wrapping_add(length)).ok());
        let name = name.and_then(|(name, length)| names::text(memory, name, length));
        Ok((format!("{}-{index}", name.as_deref().unwrap_or("processor")), thread))
    }

    /// Returns the strand that runs at a post at this moment.
    fn running(&self, post: u64) -> Option<u64> {
        let (memory, layout) = (self.memory, self.layout);
        let read = |address: u64| word(memory, address).ok().filter(|word| *word != 0);
        let at = |name: &'static str| layout.get(name).and_then(|offset| read(post + offset)).and_then(read);
        let on_stack = || read(at("post.stack_word")?.wrapping_add(layout.get("top.strand")?));
        at("post.task_word").or_else(on_stack)
    }
}
