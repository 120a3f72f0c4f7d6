//! The programs and libraries that a process has mapped.

use crate::memory::Memory;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{CompressionFormat, Endianness, Object, ObjectSection, ObjectSymbol, ReadCache, ReadRef, SymbolKind};
use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PAGE: u64 = 4096;

/// A piece of a file that a process has mapped.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    pub(crate) is_writable: bool,
    pub(crate) is_executable: bool,
    /// As the process knows it.
    pub(crate) path: String,
    /// Where the reader finds it.
    pub(crate) file: PathBuf,
}

/// A section of a file: where the file says that it is, and its contents.
#[derive(Clone, Default)]
pub(crate) struct Section {
    pub(crate) range: Range<u64>,
    pub(crate) bytes: Arc<[u8]>,
}

/// A program or library in the memory of a process.
pub struct Module {
    /// As the process knows it.
    pub path: String,
    /// The addresses from its first mapping to its last.
    pub range: Range<u64>,
    /// What is added to an address in the file to get the address in the process.
    pub bias: u64,
    /// Whether the file on the disk is the one that was mapped. If not, it is not used.
    pub is_same: bool,
    pub(crate) file: PathBuf,
    pub(crate) mappings: Vec<Mapping>,
    /// The section with descriptions, as addresses of the process.
    pub(crate) description: Option<Range<u64>>,
    pub(crate) text: Range<u64>,
    pub(crate) eh_frame: Option<Section>,
    pub(crate) eh_frame_hdr: Option<Section>,
}

/// Returns the file mappings of a process that lives.
pub(crate) fn live_mappings(pid: u32) -> Vec<Mapping> {
    let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let exe = fs::read_link(format!("/proc/{pid}/exe")).map(|path| path.to_string_lossy().into_owned());
    let exe = exe.unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(|line| live_mapping(pid, &exe, line)).collect()
}

fn live_mapping(pid: u32, exe: &str, line: &str) -> Option<Mapping> {
    // start-end permissions offset device inode path
    let mut words = line.splitn(6, ' ');
    let (range, permissions, offset) = (words.next()?, words.next()?, words.next()?);
    let path = words.nth(2)?.trim_start();
    if !path.starts_with('/') {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let file = if path == exe {
        // The kernel keeps the program, even if it was removed or replaced.
        PathBuf::from(format!("/proc/{pid}/exe"))
    } else if path.ends_with(" (deleted)") {
        PathBuf::from(format!("/proc/{pid}/map_files/{range}"))
    } else {
        // As the process sees it, which may be in a container.
        PathBuf::from(format!("/proc/{pid}/root{path}"))
    };
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        is_writable: permissions.contains('w'),
        is_executable: permissions.contains('x'),
        path: path.to_owned(),
        file,
    })
}

/// Makes modules of mappings, which are in the order of addresses.
pub(crate) fn modules(memory: &dyn Memory, mappings: Vec<Mapping>) -> Vec<Module> {
    let mut groups: Vec<Vec<Mapping>> = Vec::new();
    for mapping in mappings {
        match groups.iter_mut().find(|group| group[0].path == mapping.path) {
            Some(group) => group.push(mapping),
            None => groups.push(vec![mapping]),
        }
    }
    let mut modules: Vec<Module> = groups.into_iter().filter_map(|group| Module::of(memory, group)).collect();
    modules.sort_by_key(|module| module.range.start);
    modules
}

/// Returns the module that an address is in.
pub(crate) fn module_at(modules: &[Module], address: u64) -> Option<&Module> {
    let behind = modules.partition_point(|module| module.range.start <= address);
    modules[..behind].last().filter(|module| address < module.range.end)
}

impl Module {
    fn of(memory: &dyn Memory, mappings: Vec<Mapping>) -> Option<Module> {
        let code = mappings.iter().find(|mapping| mapping.is_executable)?;
        let range = mappings.first()?.start..mappings.iter().map(|mapping| mapping.end).max()?;
        let mut module = Module {
            path: code.path.clone(),
            range,
            bias: 0,
            is_same: false,
            file: code.file.clone(),
            description: None,
            text: 0..0,
            eh_frame: None,
            eh_frame_hdr: None,
            mappings,
        };
        // Without its file, a module is a name and a range.
        let is_program = read_magic(&module.file).is_none_or(|magic| magic == *b"\x7fELF");
        let _ = module.read_file(memory);
        is_program.then_some(module)
    }

    /// Reads what unwinding needs.
    fn read_file(&mut self, memory: &dyn Memory) -> Option<()> {
        let cache = ReadCache::new(File::open(&self.file).ok()?);
        let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let endian = elf.endian();
        self.bias = self.mappings.iter().find_map(|mapping| {
            let loads = elf.elf_program_headers().iter().filter(|header| header.p_type(endian) == PT_LOAD);
            let mut same = loads.filter(|header| header.p_offset(endian) / PAGE * PAGE == mapping.offset);
            same.next().map(|header| mapping.start.wrapping_sub(header.p_vaddr(endian) / PAGE * PAGE))
        })?;
        self.is_same = is_same(memory, &self.mappings, &cache);
        if !self.is_same {
            return None;
        }
        let read = |name: &str| {
            let section = elf.section_by_name(name)?;
            let range = section.address()..section.address().checked_add(section.size())?;
            Some(Section { range, bytes: section.data().ok()?.into() })
        };
        self.eh_frame = read(".eh_frame");
        self.eh_frame_hdr = read(".eh_frame_hdr");
        if let Some(text) = elf.section_by_name(".text") {
            self.text = text.address()..text.address().saturating_add(text.size());
        }
        self.description = elf.section_by_name(".sinew").map(|section| {
            let start = self.bias.wrapping_add(section.address());
            start..start.saturating_add(section.size())
        });
        Some(())
    }
}

/// Returns the first bytes of a file, if it can be read.
fn read_magic(path: &Path) -> Option<[u8; 4]> {
    let mut magic = [0; 4];
    File::open(path).ok()?.read_exact(&mut magic).ok()?;
    Some(magic)
}

/// Says whether the head of the file, which has the sizes and places of all parts, is that in memory. A
/// program that was built again almost never has the same. A core file without that page gives no
/// answer; the file counts as the same then.
fn is_same(memory: &dyn Memory, mappings: &[Mapping], cache: &ReadCache<File>) -> bool {
    const HEAD: usize = size_of::<FileHeader64<Endianness>>() + 8 * 56;
    let Some(first) = mappings.iter().find(|mapping| mapping.offset == 0) else { return true };
    let mut mapped = [0; HEAD];
    let Ok(stored) = cache.read_bytes_at(0, HEAD as u64) else { return false };
    memory.read(first.start, &mut mapped).is_err() || mapped[..] == *stored
}

/// The file of a module, with the sections that give addresses names.
pub(crate) struct DebugFile {
    bytes: Vec<u8>,
    sections: Vec<(String, Range<usize>)>,
    /// Functions of the symbol table, sorted by address: address, size, name.
    pub(crate) functions: Vec<(u64, u64, String)>,
}

impl DebugFile {
    pub(crate) fn read(path: &Path) -> Option<DebugFile> {
        let bytes = fs::read(path).ok()?;
        let elf = ElfFile64::<Endianness, _>::parse(&bytes[..]).ok()?;
        let mut sections = Vec::new();
        for section in elf.sections() {
            // A compressed section is as good as none: the symbol table has to do.
            let is_plain = section.compressed_file_range().is_ok_and(|range| range.format == CompressionFormat::None);
            if let (Ok(name), Some((offset, length)), true) = (section.name(), section.file_range(), is_plain)
                && name.starts_with(".debug_")
            {
                sections.push((name.to_owned(), offset as usize..offset.saturating_add(length) as usize));
            }
        }
        let functions = functions(&elf);
        Some(DebugFile { sections, functions, bytes })
    }

    /// Returns the contents of a section; none if it is not there.
    pub(crate) fn section(&self, name: &str) -> &[u8] {
        let range = self.sections.iter().find(|(found, _)| found == name).map(|(_, range)| range.clone());
        range.and_then(|range| self.bytes.get(range)).unwrap_or_default()
    }
}

fn functions<'a>(elf: &ElfFile64<'a, Endianness, &'a [u8]>) -> Vec<(u64, u64, String)> {
    let all = elf.symbols().chain(elf.dynamic_symbols());
    let mut functions: Vec<(u64, u64, String)> = all
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.address() != 0)
        .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned())))
        .collect();
    functions.sort();
    functions.dedup_by_key(|function| function.0);
    functions
}

#[cfg(test)]
impl Module {
    pub(crate) fn fake(range: Range<u64>, description: Range<u64>) -> Module {
        Module {
            path: "/fake".to_owned(),
            range,
            bias: 0,
            is_same: true,
            file: PathBuf::new(),
            mappings: Vec::new(),
            description: Some(description),
            text: 0..0,
            eh_frame: None,
            eh_frame_hdr: None,
        }
    }
}
