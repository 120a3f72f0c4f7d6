//! The memory of a process as a core file has it.
//!
//! The kernel leaves pages of mapped files out that nobody has written to. They come from these files,
//! if they are still on the disk.

use super::{Memory, Unreadable, u32_at, u64_at};
use crate::error::Error;
use crate::module::Mapping;
use crate::unwind::Registers;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PROGRAM_HEADER: usize = 56;
const LOAD: u32 = 1;
const NOTE: u32 = 4;
const NOTE_STATUS: u32 = 1;
const NOTE_PROCESS: u32 = 3;
const NOTE_FILES: u32 = 0x4649_4c45;
/// The count of program headers that says: the true count is elsewhere.
const MANY_HEADERS: u16 = 0xffff;
/// Notes that are longer are not those of a core file.
const MOST_NOTES: u64 = 1 << 30;

/// A range of addresses of the process.
struct Segment {
    start: u64,
    end: u64,
    /// Where its bytes begin in the core, and how many are there.
    offset: u64,
    stored: u64,
    flags: u32,
}

/// A core file.
pub struct CoreFile {
    file: File,
    /// Sorted by address, and none overlaps the next.
    segments: Vec<Segment>,
    /// The mappings of files, in the order of addresses.
    mapped: Vec<MappedFile>,
    files: HashMap<String, File>,
    pid: u32,
    /// The number of each thread, and its registers.
    threads: Vec<(u32, Registers)>,
}

struct MappedFile {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

impl CoreFile {
    /// Opens a core file. `exe` is the program that it is a core of, if that is no longer where it
    /// was started from.
    ///
    /// # Errors
    /// It cannot be read, or is no core file of a 64-bit little-endian Linux.
    pub fn open(path: &Path, exe: Option<&Path>) -> Result<CoreFile, Error> {
        let file = File::open(path).map_err(|error| Error::File(path.to_owned(), error))?;
        let wrong = |why: &str| Error::NoCore(path.to_owned(), why.to_owned());
        let mut head = [0; 64];
        file.read_exact_at(&mut head, 0).map_err(|_| wrong("it is too short to be a core file"))?;
        if head[..6] != *b"\x7fELF\x02\x01" {
            return Err(wrong("it is no ELF file of 64 bits, little-endian"));
        }
        if head[16] != 4 {
            return Err(wrong("it is no core file, but a program or library"));
        }
        let headers = u64_at(&head, 32).unwrap_or(0);
        let count = u16::from_le_bytes([head[56], head[57]]);
        let count = match count {
            MANY_HEADERS => {
                let mut section = [0; 64];
                let at = u64_at(&head, 40).unwrap_or(0);
                file.read_exact_at(&mut section, at).map_err(|_| wrong("its first section is missing"))?;
                u32_at(&section, 44).unwrap_or(0) as usize
            }
            count => count as usize,
        };
        let mut table = vec![0; count * PROGRAM_HEADER];
        file.read_exact_at(&mut table, headers).map_err(|_| wrong("it is cut off: its headers are missing"))?;
        let mut core = CoreFile {
            file,
            segments: Vec::new(),
            mapped: Vec::new(),
            files: HashMap::new(),
            pid: 0,
            threads: Vec::new(),
        };
        for header in table.chunks_exact(PROGRAM_HEADER) {
            let [kind, flags] = [0, 4].map(|at| u32_at(header, at).unwrap_or(0));
            let [offset, start, stored, length] = [8, 16, 32, 40].map(|at| u64_at(header, at).unwrap_or(0));
            match kind {
                LOAD => {
                    let end = start.saturating_add(length);
                    core.segments.push(Segment { start, end, offset, stored: stored.min(length), flags });
                }
                NOTE if stored <= MOST_NOTES => {
                    let mut notes = vec![0; stored as usize];
                    if core.file.read_exact_at(&mut notes, offset).is_ok() {
                        core.take_notes(&notes);
                    }
                }
                _ => {}
            }
        }
        core.segments.sort_by_key(|segment| segment.start);
        core.mapped.sort_by_key(|mapped| mapped.start);
        if let Some(exe) = exe {
            core.replace_program(exe);
        }
        for mapped in &core.mapped {
            if !core.files.contains_key(&mapped.path)
                && let Ok(file) = File::open(&mapped.path)
            {
                core.files.insert(mapped.path.clone(), file);
            }
        }
        Ok(core)
    }

    fn take_notes(&mut self, mut notes: &[u8]) {
        let padded = |length: u32| (length as usize).next_multiple_of(4);
        while let (Some(name), Some(length), Some(kind)) = (u32_at(notes, 0), u32_at(notes, 4), u32_at(notes, 8)) {
            let start = 12 + padded(name);
            let Some(body) = notes.get(start..start.saturating_add(length as usize)) else { return };
            match kind {
                NOTE_FILES => self.take_files(body),
                NOTE_PROCESS => self.pid = u32_at(body, 24).unwrap_or(0),
                NOTE_STATUS => {
                    if let (Some(thread), Some(registers)) = (u32_at(body, 32), Registers::of_status(body)) {
                        self.threads.push((thread, registers));
                    }
                }
                _ => {}
            }
            notes = notes.get(start + padded(length)..).unwrap_or_default();
        }
    }

    fn take_files(&mut self, body: &[u8]) {
        let (Some(count), Some(page)) = (u64_at(body, 0), u64_at(body, 8)) else { return };
        let Some(names) = (count as usize).checked_mul(24).and_then(|length| body.get(length + 16..)) else { return };
        let mut names = names.split(|&byte| byte == 0);
        for number in 0..count as usize {
            let at = 16 + 24 * number;
            let (Some(start), Some(end), Some(pages)) = (u64_at(body, at), u64_at(body, at + 8), u64_at(body, at + 16))
            else {
                return;
            };
            let Some(name) = names.next() else { return };
            let path = String::from_utf8_lossy(name).into_owned();
            self.mapped.push(MappedFile { start, end, offset: pages.wrapping_mul(page), path });
        }
    }

    /// Takes `exe` for the program: the file that was mapped with the same name, else the one that was
    /// mapped lowest with code.
    fn replace_program(&mut self, exe: &Path) {
        let name = exe.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let same = self.mapped.iter().find(|mapped| {
            let path = mapped.path.trim_end_matches(" (deleted)");
            Path::new(path).file_name().is_some_and(|found| found.to_string_lossy() == name)
        });
        let old = same.or(self.mapped.first()).map(|mapped| mapped.path.clone());
        let new = exe.to_string_lossy().into_owned();
        for mapped in &mut self.mapped {
            if Some(&mapped.path) == old.as_ref() {
                mapped.path.clone_from(&new);
            }
        }
    }

    /// Returns the number that the process had.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the registers of the kernel thread of this number.
    pub fn registers(&self, thread: u32) -> Option<Registers> {
        self.threads.iter().find(|(number, _)| *number == thread).map(|(_, registers)| *registers)
    }

    pub(crate) fn mappings(&self) -> Vec<Mapping> {
        let of = |mapped: &MappedFile| {
            // gdb leaves out what nobody wrote to, such as code.
            let flags = self.segment(mapped.start).map_or(1, |segment| segment.flags);
            Mapping {
                start: mapped.start,
                end: mapped.end,
                offset: mapped.offset,
                is_writable: flags & 2 != 0,
                is_executable: flags & 1 != 0,
                file: PathBuf::from(&mapped.path),
                path: mapped.path.clone(),
            }
        };
        self.mapped.iter().map(of).collect()
    }

    fn segment(&self, address: u64) -> Option<&Segment> {
        let behind = self.segments.partition_point(|segment| segment.start <= address);
        self.segments[..behind].last().filter(|segment| address < segment.end)
    }

    /// Reads from the file that was mapped at `address`.
    fn read_mapped(&self, address: u64, into: &mut [u8]) -> Result<usize, Unreadable> {
        let behind = self.mapped.partition_point(|mapped| mapped.start <= address);
        let mapped = self.mapped[..behind].last().filter(|mapped| address < mapped.end).ok_or(Unreadable)?;
        let file = self.files.get(&mapped.path).ok_or(Unreadable)?;
        let length = into.len().min((mapped.end - address) as usize);
        let offset = mapped.offset.wrapping_add(address - mapped.start);
        file.read_exact_at(&mut into[..length], offset).map_err(|_| Unreadable)?;
        Ok(length)
    }
}

impl Memory for CoreFile {
    fn read(&self, mut address: u64, mut into: &mut [u8]) -> Result<(), Unreadable> {
        while !into.is_empty() {
            let segment = self.segment(address);
            let stored = segment.map_or(0, |segment| segment.stored.saturating_sub(address - segment.start));
            let length = match segment {
                Some(segment) if stored > 0 => {
                    let length = into.len().min(stored as usize);
                    let offset = segment.offset.wrapping_add(address - segment.start);
                    self.file.read_exact_at(&mut into[..length], offset).map_err(|_| Unreadable)?;
                    length
                }
                // The bytes up to the next segment of the core at most.
                _ => {
                    let next = self.segments.partition_point(|segment| segment.start <= address);
                    let room = self.segments.get(next).map_or(u64::MAX, |next| next.start - address);
                    let length = into.len().min(usize::try_from(room).unwrap_or(usize::MAX));
                    self.read_mapped(address, &mut into[..length])?
                }
            };
            address = address.checked_add(length as u64).ok_or(Unreadable)?;
            into = &mut into[length..];
        }
        Ok(())
    }

    fn is_live(&self) -> bool {
        false
    }
}
