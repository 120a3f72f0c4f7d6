//! The names of strands, as far as their memory tells while they live.

use crate::error::Error;
use crate::layout::Layout;
use crate::memory::{Memory, u32_at, u64_at, word};
use std::collections::HashMap;

/// A longer name is cut.
const LONGEST: u64 = 256;

/// Where names are.
struct Places {
    kind: u64,
    magic: u64,
    magic_value: u64,
    class: u64,
    fibre: u64,
    task: u64,
    id: u64,
    name: u64,
    name_length: u64,
    fibre_spawned_at: u64,
    task_spawned_at: u64,
    file: u64,
    file_length: u64,
    line: u64,
}

/// The id and the label of a strand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// The id of a fibre; 0 for all others.
    pub(super) id: u64,
    pub(super) label: String,
}

/// Looks up what strands are called.
pub(super) struct Names {
    places: Places,
    /// All strands that were found at an address, in order.
    known: HashMap<u64, Vec<Known>>,
    locations: HashMap<u64, Option<String>>,
}

impl Names {
    pub(super) fn new(layout: &Layout) -> Result<Names, Error> {
        let places = Places {
            kind: layout.need("strand.kind")?,
            magic: layout.need("kind.magic")?,
            magic_value: layout.need("kind.magic_value")?,
            class: layout.need("kind.class")?,
            fibre: layout.need("class.fibre")?,
            task: layout.need("class.task")?,
            id: layout.need("fibre.id")?,
            name: layout.need("fibre.name")?,
            name_length: layout.need("fibre.name_length")?,
            fibre_spawned_at: layout.need("fibre.spawned_at")?,
            task_spawned_at: layout.need("task.spawned_at")?,
            file: layout.need("location.file")?,
            file_length: layout.need("location.length")?,
            line: layout.need("location.line")?,
        };
        Ok(Names { places, known: HashMap::new(), locations: HashMap::new() })
    }

    /// Looks at the strand at an address, unless that was done. `began` is the id of a fibre that has begun there.
    pub(super) fn look_up(&mut self, memory: &dyn Memory, address: u64, began: Option<u64>) {
        let known = self.known.get(&address).and_then(|known| known.last());
        let is_new = known.is_none_or(|known| began.is_some_and(|id| id != known.id));
        if is_new && let Some(known) = self.read(memory, address) {
            let all = self.known.entry(address).or_default();
            if all.last() != Some(&known) {
                all.push(known);
            }
        }
    }

    /// Looks at the strands of which something was read, once more: they may have been replaced.
    pub(super) fn look_again(&mut self, memory: &dyn Memory) {
        let addresses: Vec<u64> = self.known.keys().copied().collect();
        for address in addresses {
            if let Some(known) = self.read(memory, address)
                && let Some(all) = self.known.get_mut(&address)
                && all.last() != Some(&known)
            {
                all.push(known);
            }
        }
    }

    /// Returns the label of a strand. `id` is that of a fibre that has begun at the address, and `spawned_at` where it
    /// was spawned. `ordinal` tells which of the strands at this address it is, from the first on.
    pub(super) fn label(
        &mut self,
        memory: &dyn Memory,
        address: u64,
        (id, spawned_at): (Option<u64>, u64),
        is_first: bool,
    ) -> String {
        let known = self.known.get(&address).map_or(&[][..], Vec::as_slice);
        match id {
            Some(id) => match known.iter().find(|known| known.id == id) {
                Some(known) => known.label.clone(),
                None => fibre_label(id, None, self.location(memory, spawned_at)),
            },
            // The one that was there when the address was first seen, or the one that is there now.
            None => match if is_first { known.first() } else { known.last() } {
                Some(known) => known.label.clone(),
                None => format!("strand {address:#x}"),
            },
        }
    }

    fn read(&mut self, memory: &dyn Memory, address: u64) -> Option<Known> {
        let at = |offset: u64| word(memory, address.wrapping_add(offset)).ok();
        let (kind, places) = (at(self.places.kind)?, &self.places);
        if word(memory, kind.wrapping_add(places.magic)).ok()? != places.magic_value {
            return None;
        }
        let class = word(memory, kind.wrapping_add(places.class)).ok()?;
        if class == places.fibre {
            let (id, spawned_at) = (at(places.id)?, at(places.fibre_spawned_at)?);
            let (name, length) = (at(places.name)?, at(places.name_length)?);
            let name = if name == 0 { None } else { text(memory, name, length) };
            // The fibre may have ended meanwhile.
            if word(memory, address.wrapping_add(places.id)).ok()? != id {
                return None;
            }
            let location = if name.is_none() { self.location(memory, spawned_at) } else { None };
            return Some(Known { id, label: fibre_label(id, name.as_deref(), location) });
        }
        if class == places.task {
            let place = at(places.task_spawned_at).and_then(|location| self.location(memory, location));
            let place = place.map_or(String::new(), |place| format!(" ({place})"));
            return Some(Known { id: 0, label: format!("task {address:#x}{place}") });
        }
        Some(Known { id: 0, label: format!("mailbox {address:#x}") })
    }

    /// Returns the place in the program that a `Location` tells.
    fn location(&mut self, memory: &dyn Memory, address: u64) -> Option<String> {
        if let Some(known) = self.locations.get(&address) {
            return known.clone();
        }
        let places = &self.places;
        let read = || {
            let mut bytes = [0; 64];
            let length = [places.file + 8, places.file_length + 8, places.line + 4].into_iter().max()? as usize;
            let bytes = bytes.get_mut(..length)?;
            memory.read(address, bytes).ok()?;
            let file = text(memory, u64_at(bytes, places.file as usize)?, u64_at(bytes, places.file_length as usize)?)?;
            Some(format!("{file}:{}", u32_at(bytes, places.line as usize)?))
        };
        let location = if address == 0 { None } else { read() };
        self.locations.insert(address, location.clone());
        location
    }
}

fn fibre_label(id: u64, name: Option<&str>, location: Option<String>) -> String {
    match (name, location) {
        (Some(name), _) => format!("fibre {id} {name}"),
        (None, Some(location)) => format!("fibre {id} ({location})"),
        (None, None) => format!("fibre {id}"),
    }
}

/// Reads a text. A file name that has no end, or other bytes, is none.
pub(super) fn text(memory: &dyn Memory, address: u64, length: u64) -> Option<String> {
    let mut bytes = vec![0; length.min(LONGEST) as usize];
    memory.read(address, &mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
}
