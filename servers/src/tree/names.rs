//! The names in a directory.

use crate::memory;
use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;
use std::time::Instant;

/// The largest number of bytes for the names of a directory, enough for some 200,000 names. Names
/// that do not fit are left out.
const MOST: usize = 8 << 20;

/// The names in a directory at one moment: directories first, then files, each sorted.
pub struct Names {
    /// The bytes of all names, unsorted.
    text: Vec<u8>,
    /// Sorted.
    records: Vec<Record>,
    /// Whether some names are left out.
    pub are_cut: bool,
    /// The time before the directory was read.
    pub read_at: Instant,
}

struct Record {
    size: u64,
    modified: i64,
    /// The position of the name in `text`.
    start: u32,
    length: u16,
    is_directory: bool,
}

/// A name, with what a listing shows of it.
pub struct Name<'a> {
    pub bytes: &'a [u8],
    pub is_directory: bool,
    pub size: u64,
    /// The time of the last change, in seconds since 1970.
    pub modified: i64,
}

impl Names {
    /// Reads a directory. With `hidden`, names that begin with a dot are included. May block.
    ///
    /// # Errors
    /// The error of the kernel; `NOMEM`.
    pub fn read(mut directory: Dir, hidden: bool) -> Result<Names, Errno> {
        let read_at = Instant::now();
        let mut names = Names { text: Vec::new(), records: Vec::new(), are_cut: false, read_at };
        while let Some(entry) = directory.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." || name.starts_with(b".") && !hidden {
                continue;
            }
            if names.weight() + name.len() + size_of::<Record>() > MOST {
                names.are_cut = true;
                break;
            }
            // A file that is gone already is left out.
            let Ok(stat) = statat(directory.fd()?, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let enough = memory::reserve(&mut names.text, name.len()).and(memory::reserve(&mut names.records, 1));
            enough.map_err(|_| Errno::NOMEM)?;
            names.records.push(Record {
                size: stat.st_size as u64,
                modified: stat.st_mtime,
                start: names.text.len() as u32,
                length: name.len() as u16,
                is_directory: FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
            });
            names.text.extend_from_slice(name);
        }
        names.sort();
        Ok(names)
    }

    fn sort(&mut self) {
        let Names { text, records, .. } = self;
        let key = |record: &Record| (!record.is_directory, name(text, record));
        records.sort_unstable_by(|one, other| key(one).cmp(&key(other)));
        text.shrink_to_fit();
        records.shrink_to_fit();
    }

    /// Returns the names that sort after `last`, which may be gone. Returns all names if `last` is
    /// `None`.
    pub fn after<'a>(&'a self, last: Option<(bool, &[u8])>) -> impl Iterator<Item = Name<'a>> + use<'a> {
        let is_before = |record: &Record| {
            last.is_some_and(|(is_directory, bytes)| {
                (!record.is_directory, name(&self.text, record)) <= (!is_directory, bytes)
            })
        };
        let start = self.records.partition_point(is_before);
        self.records[start..].iter().map(|record| Name {
            bytes: name(&self.text, record),
            is_directory: record.is_directory,
            size: record.size,
            modified: record.modified,
        })
    }

    /// Returns the bytes of memory, roughly.
    pub fn weight(&self) -> usize {
        self.text.len() + self.records.len() * size_of::<Record>()
    }
}

fn name<'a>(text: &'a [u8], record: &Record) -> &'a [u8] {
    &text[record.start as usize..][..record.length.into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, openat};

    #[test]
    fn names_are_sorted_and_can_be_read_in_parts() {
        let top = std::env::temp_dir().join(format!("sinew-web-names-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&top);
        for name in ["b/", "z/", ".hidden/", "a", "c", "B"] {
            let path = top.join(name);
            std::fs::create_dir_all(if name.ends_with('/') { &path } else { &top }).unwrap();
            if !name.ends_with('/') {
                std::fs::write(path, "1234").unwrap();
            }
        }
        let open = || Dir::new(openat(CWD, &top, OFlags::RDONLY, Mode::empty()).unwrap()).unwrap();
        let names = Names::read(open(), false).unwrap();
        let list = |last| names.after(last).map(|name| String::from_utf8_lossy(name.bytes).into_owned()).collect();
        let all: Vec<String> = list(None);
        assert_eq!(all, ["b", "z", "B", "a", "c"]);
        let rest: Vec<String> = list(Some((true, b"m")));
        assert_eq!(rest, ["z", "B", "a", "c"], "after a directory that is gone");
        let rest: Vec<String> = list(Some((false, b"a")));
        assert_eq!(rest, ["c"]);
        assert_eq!(names.after(Some((false, b"c"))).count(), 0);
        assert_eq!(names.after(None).nth(2).map(|name| (name.size, name.is_directory)), Some((4, false)));
        assert_eq!(Names::read(open(), true).unwrap().after(None).count(), 6);
        std::fs::remove_dir_all(top).unwrap();
    }
}
