//! Samples: what a live process runs at this moment, and its counters. Cheap enough for hundreds in a second.

use crate::census::{self, running};
use crate::error::Error;
use crate::layout::Layout;
use crate::memory::{Batch, u32_at, u64_at, word};
use crate::offsets::Offsets;
use crate::target::Target;
use std::collections::HashMap;
use std::sync::Arc;

/// Takes samples of a process.
pub struct Sampler<'a> {
    target: &'a Target,
    offsets: Offsets,
    /// The names of the counters, and where they lie in a processor's post.
    meters: Vec<(String, usize)>,
    /// The spawn sites that were met, by their addresses.
    sites: HashMap<u64, Option<Arc<str>>>,
}

/// The counters of a processor, by their names. They only grow.
pub type Meters = HashMap<String, u64>;

impl<'a> Sampler<'a> {
    /// Prepares to take samples of a process.
    ///
    /// # Errors
    /// The description lacks an entry.
    pub fn new(target: &'a Target) -> Result<Sampler<'a>, Error> {
        let layout = target.layout();
        let first = layout.get("post.meters");
        let place = |(name, offset): (&str, u64)| Some((name.to_owned(), (first? + offset) as usize));
        let meters = layout.under("meter.").filter_map(place).collect();
        Ok(Sampler { target, offsets: Offsets::of(layout)?, meters, sites: HashMap::new() })
    }

    /// Returns the spawn sites of the strands that run at this moment; `None` for one that has no site.
    pub fn running(&mut self) -> Vec<Option<Arc<str>>> {
        running(self.target.memory(), &self.offsets).into_iter().map(|strand| self.site_of(strand)).collect()
    }

    fn site_of(&mut self, strand: u64) -> Option<Arc<str>> {
        let (memory, o) = (self.target.memory(), &self.offsets);
        let at = |address: u64, offset: usize| word(memory, address.checked_add(offset as u64)?).ok();
        let class = at(at(strand, o.kind)?, o.kind_class)? as usize;
        let place = match class {
            class if class == o.class_fibre => o.fibre_spawned_at,
            class if class == o.class_task => o.task_spawned_at,
            _ => return None,
        };
        let location = at(strand, place)?;
        self.sites.entry(location).or_insert_with(|| census::site(memory, o, location)).clone()
    }

    /// Returns the counters of each processor, by the number of its kernel thread.
    ///
    /// # Errors
    /// The list of processors cannot be read.
    pub fn meters(&self) -> Result<HashMap<u32, Meters>, Error> {
        let memory = self.target.memory();
        let posts = Layout::directory(memory, self.offsets.posts as u64)?;
        let thread = self.offsets.post_thread;
        let bytes = self.meters.iter().map(|(_, place)| place + 8).max().unwrap_or(0).max(thread + 4);
        let mut batch = Batch::new();
        for post in &posts {
            batch.add(*post, bytes);
        }
        batch.read(memory);
        let read = |number: usize| {
            let bytes = batch.get(number)?;
            let thread = u32_at(bytes, thread).filter(|thread| *thread != 0)?;
            let meter = |(name, place): &(String, usize)| Some((name.clone(), u64_at(bytes, *place)?));
            Some((thread, self.meters.iter().filter_map(meter).collect()))
        };
        Ok((0..posts.len()).filter_map(read).collect())
    }
}
