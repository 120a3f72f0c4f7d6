//! The census: all strands, processors and clusters of a process, as they lie in its memory.
//!
//! Slabs are read whole, and looked through here. A block counts as a strand if its word for the kind
//! leads to a kind, it has references, and its cluster is one of the process.

use crate::clock::{self, Clock};
use crate::error::Error;
use crate::layout::Layout;
use crate::memory::{Batch, Memory, u32_at, u64_at, word};
use crate::module::module_at;
use crate::offsets::Offsets;
use crate::target::Target;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The bytes of slabs that are read at once.
const AT_ONCE: usize = 16 << 20;
/// Longer names and paths are cut.
const LONGEST_TEXT: u64 = 4096;

/// The classes of strands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Class {
    Fibre,
    Task,
    Mailbox,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) class: Class,
    pub(crate) symbol: u64,
}

/// A strand, as its memory has it.
#[derive(Clone, Debug)]
pub(crate) struct Strand {
    pub(crate) address: u64,
    pub(crate) kind: Kind,
    pub(crate) state: u32,
    pub(crate) wait: u64,
    pub(crate) stamp: u64,
    pub(crate) cluster: u64,
    pub(crate) post: u64,
    pub(crate) bound: u8,
    pub(crate) priority: u8,
    pub(crate) after: u8,
    pub(crate) own: u64,
    /// 0 for strands that are no fibres, as are all numbers below.
    pub(crate) id: u64,
    /// The address and length of its name; 0 if it has none.
    name_at: (u64, u64),
    pub(crate) name: Option<Arc<str>>,
    /// The mailbox that the fibre carries.
    pub(crate) carried: u64,
    pub(crate) scope: u64,
    /// The limits of its waits: 0 if it carries none, and the wait that it is in has none of its own.
    pub(crate) carries: u8,
    pub(crate) cancel: u32,
    /// The address of a location, also of tasks.
    pub(crate) spawned_at: u64,
}

/// The words of a strand that change when it stops or goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) state: u32,
    pub(crate) stamp: u64,
    pub(crate) wait: u64,
    pub(crate) after: u8,
    pub(crate) own: u64,
}

pub(crate) struct Post {
    pub(crate) address: u64,
    pub(crate) cluster: u64,
    pub(crate) index: u64,
    pub(crate) thread: u32,
    pub(crate) pulse: u64,
    pub(crate) hold: u8,
    /// The address of the strand that runs there.
    pub(crate) running: Option<u64>,
}

pub(crate) struct Cluster {
    pub(crate) address: u64,
    pub(crate) name: String,
}

pub(crate) struct Census {
    pub(crate) strands: Vec<Strand>,
    pub(crate) posts: Vec<Post>,
    pub(crate) clusters: Vec<Cluster>,
    /// The spawn sites, by the addresses of their locations.
    pub(crate) sites: HashMap<u64, Arc<str>>,
    pub(crate) clock: Clock,
}

impl Census {
    /// Reads all of a process.
    pub(crate) fn take(target: &Target, offsets: &Offsets) -> Result<Census, Error> {
        let memory = target.memory();
        let clusters = clusters(memory, offsets)?;
        let in_modules = |address: u64| module_at(target.modules(), address).is_some();
        let mut search = Search::new(memory, offsets, &clusters, &in_modules);
        search.slabs()?;
        search.large()?;
        let mut strands = search.found;
        let posts = posts(memory, offsets)?;
        name(memory, &mut strands);
        let sites = sites(memory, offsets, &strands);
        let cycles_per_ms = word(memory, offsets.cycles_per_ms as u64).unwrap_or(0);
        let now = if memory.is_live() {
            clock::cycles()
        } else {
            let stamps = strands.iter().map(|strand| strand.stamp);
            stamps.chain(posts.iter().map(|post| post.pulse)).max().unwrap_or(0)
        };
        Ok(Census { strands, posts, clusters, sites, clock: Clock { now, cycles_per_ms } })
    }
}

fn clusters(memory: &dyn Memory, offsets: &Offsets) -> Result<Vec<Cluster>, Error> {
    let addresses = Layout::directory(memory, offsets.clusters as u64)?;
    let name = |address: u64| {
        let start = word(memory, address.checked_add(offsets.cluster_name as u64)?).ok()?;
        let length = word(memory, address.checked_add(offsets.cluster_name_length as u64)?).ok()?;
        let mut bytes = vec![0; length.min(LONGEST_TEXT) as usize];
        memory.read(start, &mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(addresses.into_iter().map(|address| Cluster { address, name: name(address).unwrap_or_default() }).collect())
}

fn posts(memory: &dyn Memory, offsets: &Offsets) -> Result<Vec<Post>, Error> {
    let addresses = Layout::directory(memory, offsets.posts as u64)?;
    let mut batch = Batch::new();
    for &address in &addresses {
        batch.add(address, offsets.post_bytes());
    }
    batch.read(memory);
    let mut posts = Vec::new();
    for (number, &address) in addresses.iter().enumerate() {
        let Some(bytes) = batch.get(number) else { continue };
        let at = |offset: usize| u64_at(bytes, offset).unwrap_or(0);
        // The thread may have ended, and its words with it.
        let word = |address: u64| if address == 0 { 0 } else { word(memory, address).unwrap_or(0) };
        let top = word(at(offsets.post_stack_word));
        let fibre = if top == 0 { 0 } else { word(top.wrapping_add(offsets.top_strand as u64)) };
        // A mailbox's handler runs on a fibre; the task word is of code that runs without one.
        let running = if fibre != 0 { fibre } else { word(at(offsets.post_task_word)) };
        posts.push(Post {
            address,
            cluster: at(offsets.post_cluster),
            // A number of 16 bits.
            index: at(offsets.post_index) & 0xffff,
            thread: u32_at(bytes, offsets.post_thread).unwrap_or(0),
            pulse: at(offsets.post_pulse),
            hold: bytes.get(offsets.post_hold).copied().unwrap_or(0),
            running: (running != 0).then_some(running),
        });
    }
    Ok(posts)
}

/// Returns the strands that run now.
pub(crate) fn running(memory: &dyn Memory, offsets: &Offsets) -> HashSet<u64> {
    posts(memory, offsets).unwrap_or_default().into_iter().filter_map(|post| post.running).collect()
}

/// Looks for strands in memory.
struct Search<'a> {
    memory: &'a dyn Memory,
    offsets: &'a Offsets,
    clusters: HashSet<u64>,
    kinds: HashMap<u64, Option<Kind>>,
    /// Says whether an address can be that of a kind: they are constants.
    in_modules: &'a dyn Fn(u64) -> bool,
    found: Vec<Strand>,
}

impl<'a> Search<'a> {
    fn new(
        memory: &'a dyn Memory,
        offsets: &'a Offsets,
        clusters: &[Cluster],
        in_modules: &'a dyn Fn(u64) -> bool,
    ) -> Search<'a> {
        let clusters = clusters.iter().map(|cluster| cluster.address).collect();
        Search { memory, offsets, clusters, kinds: HashMap::new(), in_modules, found: Vec::new() }
    }

    fn slabs(&mut self) -> Result<(), Error> {
        let offsets = self.offsets;
        let slabs = Layout::directory(self.memory, offsets.slabs as u64)?;
        let (chunks, chunk_bytes, head_bytes) = (offsets.chunks, offsets.chunk_bytes, offsets.head_bytes);
        let heads_bytes = chunks.checked_mul(head_bytes).filter(|&bytes| bytes < chunk_bytes && chunk_bytes < 1 << 30);
        let heads_bytes = heads_bytes.ok_or(Error::Unreadable("the shape of slabs"))?;
        let mut heads = Batch::new();
        for &slab in &slabs {
            heads.add(slab, heads_bytes);
        }
        heads.read(self.memory);
        // Only what is cut into blocks is read: the rest may have no memory.
        let mut pieces = Vec::new();
        for (number, &slab) in slabs.iter().enumerate() {
            let Some(heads) = heads.get(number) else { continue };
            for chunk in 0..chunks {
                let head = &heads[chunk * head_bytes..][..head_bytes];
                let count = u32_at(head, offsets.head_count).unwrap_or(0) as usize;
                let block = u32_at(head, offsets.head_block).unwrap_or(0) as usize;
                let first = if chunk == 0 { heads_bytes } else { 0 };
                let fits = count.checked_mul(block).is_some_and(|bytes| bytes <= chunk_bytes - first);
                if count != 0 && block >= offsets.strand_bytes() && fits {
                    pieces.push((slab + (chunk * chunk_bytes + first) as u64, count, block));
                }
            }
        }
        let mut batch = Batch::new();
        for some in pieces.chunks((AT_ONCE / chunk_bytes).max(1)) {
            batch.clear();
            for &(address, count, block) in some {
                batch.add(address, count * block);
            }
            batch.read(self.memory);
            for (number, &(address, _, block)) in some.iter().enumerate() {
                for (place, bytes) in batch.get(number).unwrap_or_default().chunks_exact(block).enumerate() {
                    self.look_at(address + (place * block) as u64, bytes);
                }
            }
        }
        Ok(())
    }

    fn large(&mut self) -> Result<(), Error> {
        let addresses = Layout::directory(self.memory, self.offsets.large as u64)?;
        let mut batch = Batch::new();
        for &address in &addresses {
            batch.add(address, self.offsets.large_bytes());
        }
        batch.read(self.memory);
        for (number, &address) in addresses.iter().enumerate() {
            if let Some(bytes) = batch.get(number) {
                self.look_at(address, bytes);
            }
        }
        Ok(())
    }

    fn look_at(&mut self, address: u64, bytes: &[u8]) {
        if let Some(strand) = self.strand(address, bytes) {
            self.found.push(strand);
        }
    }

    fn strand(&mut self, address: u64, bytes: &[u8]) -> Option<Strand> {
        let o = self.offsets;
        let cluster = u64_at(bytes, o.cluster)?;
        if u32_at(bytes, o.refs)? == 0 || !self.clusters.contains(&cluster) {
            return None;
        }
        let kind = self.kind(u64_at(bytes, o.kind)?)?;
        let mut strand = Strand {
            address,
            kind,
            state: u32_at(bytes, o.state)?,
            wait: u64_at(bytes, o.wait)?,
            stamp: u64_at(bytes, o.stamp)?,
            cluster,
            post: u64_at(bytes, o.post)?,
            bound: *bytes.get(o.bound)?,
            priority: *bytes.get(o.priority)?,
            after: *bytes.get(o.after)?,
            own: u64_at(bytes, o.own)?,
            id: 0,
            name_at: (0, 0),
            name: None,
            carried: 0,
            scope: 0,
            carries: 0,
            cancel: 0,
            spawned_at: 0,
        };
        match kind.class {
            Class::Fibre => {
                strand.id = u64_at(bytes, o.fibre_id)?;
                strand.scope = u64_at(bytes, o.fibre_scope)?;
                strand.carries = *bytes.get(o.fibre_carries)?;
                strand.cancel = u32_at(bytes, o.fibre_cancel)?;
                strand.spawned_at = u64_at(bytes, o.fibre_spawned_at)?;
                let (name, length) = (u64_at(bytes, o.fibre_name)?, u64_at(bytes, o.fibre_name_length)?);
                if name == 0 {
                    strand.carried = length;
                } else {
                    strand.name_at = (name, length);
                }
            }
            Class::Task => strand.spawned_at = u64_at(bytes, o.task_spawned_at).unwrap_or(0),
            Class::Mailbox => {}
        }
        Some(strand)
    }

    /// Returns the kind at an address, if one is there.
    fn kind(&mut self, address: u64) -> Option<Kind> {
        if let Some(known) = self.kinds.get(&address) {
            return *known;
        }
        if !address.is_multiple_of(8) || !(self.in_modules)(address) {
            return None;
        }
        let kind = self.read_kind(address);
        self.kinds.insert(address, kind);
        kind
    }

    fn read_kind(&self, address: u64) -> Option<Kind> {
        let o = self.offsets;
        let at = |offset: usize| word(self.memory, address.checked_add(offset as u64)?).ok();
        if at(o.kind_magic)? != o.kind_magic_value as u64 {
            return None;
        }
        let class = at(o.kind_class)? as usize;
        let class = if class == o.class_fibre {
            Class::Fibre
        } else if class == o.class_task {
            Class::Task
        } else if class == o.class_mailbox {
            Class::Mailbox
        } else {
            return None;
        };
        Some(Kind { class, symbol: at(o.kind_symbol)? })
    }
}

/// Reads the names of fibres.
fn name(memory: &dyn Memory, strands: &mut [Strand]) {
    let mut batch = Batch::new();
    let mut named: Vec<&mut Strand> = strands.iter_mut().filter(|strand| strand.name_at.0 != 0).collect();
    for some in named.chunks_mut(8192) {
        batch.clear();
        for strand in &*some {
            let (address, length) = strand.name_at;
            batch.add(address, length.min(LONGEST_TEXT) as usize);
        }
        batch.read(memory);
        for (number, strand) in some.iter_mut().enumerate() {
            strand.name = batch.get(number).map(|bytes| String::from_utf8_lossy(bytes).into());
        }
    }
}

/// Reads the places where strands were spawned.
fn sites(memory: &dyn Memory, offsets: &Offsets, strands: &[Strand]) -> HashMap<u64, Arc<str>> {
    let addresses: HashSet<u64> = strands.iter().map(|strand| strand.spawned_at).filter(|&at| at != 0).collect();
    addresses.into_iter().filter_map(|address| Some((address, site(memory, offsets, address)?))).collect()
}

/// Reads the place at which strands were spawned.
pub(crate) fn site(memory: &dyn Memory, offsets: &Offsets, address: u64) -> Option<Arc<str>> {
    let at = |offset: usize| word(memory, address.checked_add(offset as u64)?).ok();
    let length = at(offsets.location_length)?.min(LONGEST_TEXT);
    let mut file = vec![0; length as usize];
    memory.read(at(offsets.location_file)?, &mut file).ok()?;
    let (line, column) = (at(offsets.location_line)? as u32, at(offsets.location_column)? as u32);
    Some(Arc::from(format!("{}:{line}:{column}", String::from_utf8_lossy(&file))))
}

/// Returns what the words of a strand's head say now.
pub(crate) fn moment(offsets: &Offsets, head: &[u8]) -> Option<Moment> {
    Some(Moment {
        state: u32_at(head, offsets.state)?,
        stamp: u64_at(head, offsets.stamp)?,
        wait: u64_at(head, offsets.wait)?,
        after: *head.get(offsets.after)?,
        own: u64_at(head, offsets.own)?,
    })
}

impl Strand {
    /// Returns the words that were read with the strand.
    pub(crate) fn moment(&self) -> Moment {
        Moment { state: self.state, stamp: self.stamp, wait: self.wait, after: self.after, own: self.own }
    }

    /// Takes words that were read later.
    pub(crate) fn take(&mut self, moment: Moment) {
        let Moment { state, stamp, wait, after, own } = moment;
        (self.state, self.stamp, self.wait, self.after, self.own) = (state, stamp, wait, after, own);
    }
}

/// Reads the words of strands again: `None` for one whose memory is gone.
pub(crate) fn moments(memory: &dyn Memory, offsets: &Offsets, addresses: &[u64]) -> Vec<Option<Moment>> {
    let mut batch = Batch::new();
    for &address in addresses {
        batch.add(address, offsets.strand_bytes());
    }
    batch.read(memory);
    (0..addresses.len()).map(|number| moment(offsets, batch.get(number)?)).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::memory::fake::Fake;

    const SLABS: u64 = 0x1000;
    const LARGE: u64 = 0x1010;
    const CLUSTERS: u64 = 0x1020;
    const KIND: u64 = 0x2000;
    const SLAB: u64 = 0x10_0000;
    const CHUNK: usize = 0x1000;
    const BLOCK: usize = 0x100;

    /// Offsets that are like those of a process.
    pub(crate) fn offsets() -> Offsets {
        let mut o = Offsets::zero();
        (o.slabs, o.large, o.clusters) = (SLABS as usize, LARGE as usize, CLUSTERS as usize);
        (o.chunks, o.chunk_bytes, o.head_bytes, o.head_count, o.head_block) = (2, CHUNK, 64, 24, 28);
        (o.kind_magic, o.kind_magic_value, o.kind_class, o.kind_symbol) = (8, 0x77, 16, 24);
        (o.class_fibre, o.class_task, o.class_mailbox) = (1, 2, 3);
        (o.wait, o.stamp, o.refs, o.state, o.kind) = (0, 8, 16, 20, 24);
        (o.cluster, o.post, o.bound, o.priority, o.after, o.own) = (32, 40, 48, 49, 50, 56);
        (o.parked, o.waiting, o.finished) = (4, 8, 16);
        (o.fibre_id, o.fibre_name, o.fibre_name_length, o.fibre_scope) = (64, 72, 80, 88);
        (o.fibre_cancel, o.fibre_carries, o.fibre_spawned_at, o.task_spawned_at) = (96, 100, 104, 64);
        o.carries_timed = 3;
        (o.mutex_word, o.mutex_locked, o.mutex_owner) = (0, 1, 8);
        (o.rwlock_word, o.rwlock_writing, o.rwlock_owner) = (0, 2, 8);
        (o.owner_fibre, o.owner_task, o.owner_thread) = (0, 1, 2);
        o
    }

    /// Makes a strand that has stopped at time 1.
    pub(crate) fn stopped(address: u64, class: Class, id: u64, wait: u64) -> Strand {
        Strand {
            address,
            kind: Kind { class, symbol: 0 },
            state: 8,
            wait,
            stamp: 1,
            cluster: 0,
            post: 0,
            bound: 0,
            priority: 0,
            after: 0,
            own: 0,
            id,
            name_at: (0, 0),
            name: None,
            carried: 0,
            scope: 0,
            carries: 0,
            cancel: 0,
            spawned_at: 0,
        }
    }

    fn process() -> Fake {
        let mut memory = Fake::default();
        memory.region(0x1000, 0x2000);
        memory.region(SLAB, 2 * CHUNK);
        // One slab, one cluster.
        memory.set_u64(SLABS, 1);
        memory.set_u64(SLABS + 8, 0x1100);
        memory.set_u64(0x1100, SLAB);
        memory.set_u64(CLUSTERS, 2);
        memory.set_u64(CLUSTERS + 8, 0x1200);
        memory.set_u64(0x1208, 0xc0);
        memory.set_u64(KIND + 8, 0x77);
        memory.set_u64(KIND + 16, 1);
        // The second chunk is cut into four blocks, the first one is not cut.
        memory.set(SLAB + 64 + 24, &4_u32.to_le_bytes());
        memory.set(SLAB + 64 + 28, &(BLOCK as u32).to_le_bytes());
        memory
    }

    fn fibre(memory: &mut Fake, address: u64, id: u64) {
        memory.set_u64(address, 0x0300_0000_0000_5000);
        memory.set_u64(address + 8, 42);
        memory.set(address + 16, &1_u32.to_le_bytes());
        memory.set(address + 20, &8_u32.to_le_bytes());
        memory.set_u64(address + 24, KIND);
        memory.set_u64(address + 32, 0xc0);
        memory.set_u64(address + 64, id);
    }

    fn search(memory: &Fake) -> Vec<Strand> {
        let offsets = offsets();
        let clusters = clusters(memory, &offsets).unwrap();
        let in_modules = |address: u64| (0x1000..0x3000).contains(&address);
        let mut search = Search::new(memory, &offsets, &clusters, &in_modules);
        search.slabs().unwrap();
        search.large().unwrap();
        search.found
    }

    #[test]
    fn a_block_is_a_strand_by_its_kind_its_references_and_its_cluster() {
        let mut memory = process();
        let block = |number: u64| SLAB + CHUNK as u64 + number * BLOCK as u64;
        for number in 0..4 {
            fibre(&mut memory, block(number), number + 1);
        }
        assert_eq!(search(&memory).len(), 4);
        memory.set_u64(block(0) + 24, 0x5555_5555);
        memory.set(block(1) + 16, &0_u32.to_le_bytes());
        memory.set_u64(block(2) + 32, 0xc1);
        let found = search(&memory);
        let [strand] = &found[..] else { panic!("{found:?}") };
        assert_eq!((strand.address, strand.id, strand.stamp), (block(3), 4, 42));
        assert_eq!(strand.wait, 0x0300_0000_0000_5000);
        memory.set_u64(KIND + 8, 0x78);
        assert!(search(&memory).is_empty(), "no kind without the magic number");
    }

    #[test]
    fn large_strands_are_listed_and_slabs_that_are_gone_are_not() {
        let mut memory = process();
        memory.region(0x20_0000, 0x100);
        fibre(&mut memory, 0x20_0000, 9);
        memory.set_u64(LARGE, 2);
        memory.set_u64(LARGE + 8, 0x1300);
        memory.set_u64(0x1300, 0x20_0000);
        memory.set_u64(0x1308, 0x99_0000);
        memory.set_u64(0x1100, 0x88_0000);
        let found = search(&memory);
        assert_eq!(found.iter().map(|strand| strand.id).collect::<Vec<_>>(), [9]);
    }

    #[test]
    fn names_and_places_are_texts() {
        let mut memory = process();
        let offsets = Offsets { location_length: 8, location_line: 16, location_column: 20, ..offsets() };
        memory.set(0x1800, b"worker");
        memory.set(0x1810, b"src/main.rs");
        memory.set_u64(0x1900, 0x1810);
        memory.set_u64(0x1908, 11);
        memory.set(0x1910, &7_u32.to_le_bytes());
        memory.set(0x1914, &9_u32.to_le_bytes());
        let mut strands = [stopped(1, Class::Fibre, 1, 0), stopped(2, Class::Fibre, 2, 0)];
        strands[0].name_at = (0x1800, 6);
        strands[1].name_at = (0x99_0000, 6);
        strands[0].spawned_at = 0x1900;
        name(&memory, &mut strands);
        assert_eq!((strands[0].name.as_deref(), strands[1].name.as_deref()), (Some("worker"), None));
        assert_eq!(&*sites(&memory, &offsets, &strands)[&0x1900], "src/main.rs:7:9");
    }
}
