//! The programs and libraries that a process has mapped.

use crate::file::{FileMap, Piece};
use crate::memory::Memory;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{CompressionFormat, Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind};
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
#[derive(Clone)]
pub(crate) struct Section {
    pub(crate) range: Range<u64>,
    pub(crate) bytes: Piece,
}

/// A program or library in the memory of a process.
pub struct Module {
    /// As the process knows it.
    pub path: String,
    /// The addresses from its first mapping to its last.
    pub range: Range<u64>,
    /// The difference between an address in the process and the same address in the file.
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
        match read_magic(&module.file) {
            Some(magic) if magic != *b"\x7fELF" => return None,
            Some(_) => _ = module.read_file(memory),
            None => {}
        }
        Some(module)
    }

    /// Reads what unwinding needs.
    fn read_file(&mut self, memory: &dyn Memory) -> Option<()> {
        let file = Arc::new(FileMap::open(&self.file)?);
        let elf = ElfFile64::<Endianness, _>::parse(&file[..]).ok()?;
        let endian = elf.endian();
        self.bias = self.mappings.iter().find_map(|mapping| {
            let loads = elf.elf_program_headers().iter().filter(|header| header.p_type(endian) == PT_LOAD);
            let mut same = loads.filter(|header| header.p_offset(endian) / PAGE * PAGE == mapping.offset);
            same.next().map(|header| mapping.start.wrapping_sub(header.p_vaddr(endian) / PAGE * PAGE))
        })?;
        self.is_same = is_same(memory, &self.mappings, &file);
        if !self.is_same {
            return None;
        }
        let read = |name: &str| {
            let section = elf.section_by_name(name)?;
            let range = section.address()..section.address().checked_add(section.size())?;
            Some(Section { range, bytes: Piece::of(&file, bytes_of(section.file_range()?)?)? })
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
fn is_same(memory: &dyn Memory, mappings: &[Mapping], file: &[u8]) -> bool {
    const HEAD: usize = size_of::<FileHeader64<Endianness>>() + 8 * 56;
    let Some(first) = mappings.iter().find(|mapping| mapping.offset == 0) else { return true };
    let mut mapped = [0; HEAD];
    let Some(stored) = file.get(..HEAD) else { return false };
    memory.read(first.start, &mut mapped).is_err() || mapped[..] == *stored
}

/// Returns the place of a section in its file.
fn bytes_of((offset, length): (u64, u64)) -> Option<Range<usize>> {
    let end = offset.checked_add(length)?;
    Some(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
}

/// The parts of a module's file that give addresses names.
pub(crate) struct DebugFile<'a> {
    elf: ElfFile64<'a, Endianness>,
    /// Functions of the symbol table, sorted by address: address, size, name.
    pub(crate) functions: Vec<(u64, u64, &'a str)>,
}

impl<'a> DebugFile<'a> {
    pub(crate) fn of(file: &'a FileMap) -> Option<DebugFile<'a>> {
        let elf = ElfFile64::parse(&file[..]).ok()?;
        Some(DebugFile { functions: functions(&elf), elf })
    }

    /// Returns the contents of a section; none if it is not there.
    pub(crate) fn section(&self, name: &str) -> &'a [u8] {
        let section = self.elf.section_by_name(name);
        // A compressed section is as good as none: the symbol table has to do.
        let bytes = section.and_then(|section| section.compressed_data().ok());
        bytes.filter(|bytes| bytes.format == CompressionFormat::None).map_or(&[], |bytes| bytes.data)
    }
}

fn functions<'a>(elf: &ElfFile64<'a, Endianness>) -> Vec<(u64, u64, &'a str)> {
    let all = elf.symbols().chain(elf.dynamic_symbols());
    let mut functions: Vec<(u64, u64, &str)> = all
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.address() != 0)
        .filter_map(|symbol| Some((symbol.address(), symbol.size(), symbol.name().ok()?)))
        .collect();
    functions.sort_unstable();
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
