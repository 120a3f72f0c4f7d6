//! The description: where the runtime keeps what a reader needs.

use crate::error::Error;
use crate::memory::{Memory, u64_at};
use crate::module::Module;
use std::collections::HashMap;

const MAGIC: &[u8; 16] = b"sinew inspection";
/// The version that this reader knows.
const VERSION: u64 = 1;
const HEAD: usize = 32;
const PART: usize = 16;
const ENTRY: usize = 48;
const NAME: usize = 40;
/// More parts or entries are a mistake.
const MOST: u64 = 4096;
/// The most bytes of a mapping that are searched for the magic.
const MOST_SEARCHED: u64 = 64 << 20;

/// The entries of a description: offsets, addresses and numbers by name.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    entries: HashMap<String, u64>,
}

impl Layout {
    /// Finds the description of a process and reads it.
    ///
    /// # Errors
    /// There is none of the version that this reader knows, or it cannot be read.
    pub fn find(memory: &dyn Memory, modules: &[Module]) -> Result<Layout, Error> {
        let mut other = None;
        let sections = modules.iter().filter_map(|module| module.description.clone());
        // A program without section headers has its description somewhere in its data.
        let stripped = modules.iter().filter(|module| module.description.is_none());
        let data = stripped.flat_map(|module| module.mappings.iter().filter(|mapping| mapping.is_writable));
        let data = data.map(|mapping| mapping.start..mapping.end.min(mapping.start + MOST_SEARCHED));
        for range in sections.chain(data) {
            let mut bytes = vec![0; (range.end - range.start).min(MOST_SEARCHED) as usize];
            if memory.read(range.start, &mut bytes).is_err() {
                continue;
            }
            for at in (0..bytes.len().saturating_sub(HEAD - 1)).step_by(8) {
                if bytes[at..at + MAGIC.len()] != *MAGIC {
                    continue;
                }
                match u64_at(&bytes, at + 16) {
                    Some(VERSION) => return Layout::read(memory, range.start + at as u64),
                    version => other = other.or(version),
                }
            }
        }
        Err(other.map_or(Error::NoDescription, Error::OtherVersion))
    }

    /// Reads the description at `address`.
    fn read(memory: &dyn Memory, address: u64) -> Result<Layout, Error> {
        let unreadable = |_| Error::Unreadable("the description");
        let mut head = [0; HEAD];
        memory.read(address, &mut head).map_err(unreadable)?;
        let count = u64_at(&head, 24).filter(|&count| count <= MOST).ok_or(Error::Unreadable("the description"))?;
        let mut parts = vec![0; count as usize * PART];
        memory.read(address + HEAD as u64, &mut parts).map_err(unreadable)?;
        let mut layout = Layout::default();
        for part in parts.chunks_exact(PART) {
            let (Some(start), Some(count)) = (u64_at(part, 0), u64_at(part, 8).filter(|&count| count <= MOST)) else {
                return Err(Error::Unreadable("a part of the description"));
            };
            let mut entries = vec![0; count as usize * ENTRY];
            memory.read(start, &mut entries).map_err(|_| Error::Unreadable("a part of the description"))?;
            for entry in entries.chunks_exact(ENTRY) {
                let name = entry[..NAME].split(|&byte| byte == 0).next().unwrap_or_default();
                let value = u64_at(entry, NAME).unwrap_or(0);
                layout.entries.insert(String::from_utf8_lossy(name).into_owned(), value);
            }
        }
        Ok(layout)
    }

    /// Returns the value of an entry.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.entries.get(name).copied()
    }

    /// Returns the value of an entry that has to be there.
    ///
    /// # Errors
    /// It is not there.
    pub fn need(&self, name: &'static str) -> Result<u64, Error> {
        self.get(name).ok_or(Error::Missing(name))
    }

    /// Returns the entries whose names begin with `prefix`: the rest of their names, and their values.
    pub fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
        self.entries.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, *value)))
    }

    /// Returns the addresses that the directory at `address` has: those that are not 0.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn directory(memory: &dyn Memory, address: u64) -> Result<Vec<u64>, Error> {
        let unreadable = |_| Error::Unreadable("a directory");
        let mut head = [0; 16];
        memory.read(address, &mut head).map_err(unreadable)?;
        let (used, entries) = (u64_at(&head, 0).unwrap_or(0), u64_at(&head, 8).unwrap_or(0));
        if used == 0 || entries == 0 {
            return Ok(Vec::new());
        }
        // 2^27 slabs would be 32 TiB.
        if used > 1 << 27 {
            return Err(Error::Unreadable("a directory"));
        }
        let mut bytes = vec![0; used as usize * 8];
        memory.read(entries, &mut bytes).map_err(unreadable)?;
        let addresses = bytes.chunks_exact(8).filter_map(|bytes| u64_at(bytes, 0));
        Ok(addresses.filter(|&address| address != 0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::fake::Fake;

    /// Puts a description of `version` at `address`, with its entries in two parts.
    fn describe(memory: &mut Fake, address: u64, version: u64, entries: &[(&str, u64)]) {
        let (first, second) = entries.split_at(1);
        memory.set(address, MAGIC);
        memory.set_u64(address + 16, version);
        memory.set_u64(address + 24, 2);
        for (number, part) in [first, second].into_iter().enumerate() {
            let at = address + 0x1000 * (number as u64 + 1);
            memory.set_u64(address + 32 + 16 * number as u64, at);
            memory.set_u64(address + 40 + 16 * number as u64, part.len() as u64);
            for (place, (name, value)) in part.iter().enumerate() {
                memory.set(at + (ENTRY * place) as u64, name.as_bytes());
                memory.set_u64(at + (ENTRY * place + NAME) as u64, *value);
            }
        }
    }

    #[test]
    fn entries_are_found_by_name_and_a_missing_one_is_named() {
        let mut memory = Fake::default();
        memory.region(0x10000, 0x8000);
        describe(&mut memory, 0x10008, VERSION, &[("strand.kind", 8), ("reason.park", 1), ("reason.sleep", 2)]);
        let layout = Layout::read(&memory, 0x10008).unwrap();
        assert_eq!(layout.get("strand.kind"), Some(8));
        let mut reasons: Vec<_> = layout.under("reason.").collect();
        reasons.sort();
        assert_eq!(reasons, [("park", 1), ("sleep", 2)]);
        assert_eq!(layout.need("strand.state").unwrap_err().to_string(), "the description has no entry `strand.state`");
    }

    #[test]
    fn an_unknown_version_is_named_and_a_known_one_behind_it_is_taken() {
        let mut memory = Fake::default();
        memory.region(0x10000, 0x8000);
        describe(&mut memory, 0x10010, 7, &[("a", 1), ("b", 2)]);
        let modules = [Module::fake(0x10000..0x18000, 0x10000..0x11000)];
        assert!(matches!(Layout::find(&memory, &modules), Err(Error::OtherVersion(7))));
        describe(&mut memory, 0x10100, VERSION, &[("a", 3), ("b", 4)]);
        assert_eq!(Layout::find(&memory, &modules).unwrap().get("a"), Some(3));
        assert!(matches!(Layout::find(&memory, &[]), Err(Error::NoDescription)));
    }

    #[test]
    fn a_directory_leaves_out_what_is_not_used() {
        let mut memory = Fake::default();
        memory.region(0x1000, 0x100);
        assert!(Layout::directory(&memory, 0x1000).unwrap().is_empty());
        memory.set_u64(0x1000, 3);
        memory.set_u64(0x1008, 0x1010);
        memory.set_u64(0x1010, 0x77);
        memory.set_u64(0x1020, 0x99);
        assert_eq!(Layout::directory(&memory, 0x1000).unwrap(), [0x77, 0x99]);
        memory.set_u64(0x1000, u64::MAX);
        assert!(Layout::directory(&memory, 0x1000).is_err());
    }
}
