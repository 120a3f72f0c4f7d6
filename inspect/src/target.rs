//! A process that can be read: its memory, its modules, and its description.

use crate::error::Error;
use crate::layout::Layout;
use crate::memory::{CoreFile, LiveProcess, Memory};
use crate::module::{Module, live_mappings, modules};
use crate::unwind::Registers;
use std::path::Path;

enum Source {
    Live(LiveProcess),
    Core(CoreFile),
}

/// A process whose strands can be read: a live one, or what a core file has left of one.
pub struct Target {
    source: Source,
    modules: Vec<Module>,
    layout: Layout,
}

impl Target {
    /// Opens the calling process.
    ///
    /// # Errors
    /// It has no description that this reader knows.
    pub fn own() -> Result<Target, Error> {
        Target::of(Source::Live(LiveProcess::own()?))
    }

    /// Opens another process of this machine.
    ///
    /// # Errors
    /// It may not be read, or has no description that this reader knows.
    pub fn process(pid: u32) -> Result<Target, Error> {
        Target::of(Source::Live(LiveProcess::open(pid)?))
    }

    /// Opens a core file. `exe` is the program, if it is no longer where it was started from.
    ///
    /// # Errors
    /// The file is no core file, or has no description that this reader knows.
    pub fn core(path: &Path, exe: Option<&Path>) -> Result<Target, Error> {
        Target::of(Source::Core(CoreFile::open(path, exe)?))
    }

    fn of(source: Source) -> Result<Target, Error> {
        let mappings = match &source {
            Source::Live(process) => live_mappings(process.pid()),
            Source::Core(core) => core.mappings(),
        };
        let modules = modules(source.memory(), mappings);
        let layout = Layout::find(source.memory(), &modules)?;
        Ok(Target { source, modules, layout })
    }

    /// Returns the memory.
    pub fn memory(&self) -> &dyn Memory {
        self.source.memory()
    }

    /// Returns the programs and libraries, in the order of their addresses.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// Returns the description.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the number of the process.
    pub fn pid(&self) -> u32 {
        match &self.source {
            Source::Live(process) => process.pid(),
            Source::Core(core) => core.pid(),
        }
    }

    /// Returns the registers of a kernel thread. A process that lives does not show them.
    pub(crate) fn registers(&self, thread: u32) -> Option<Registers> {
        match &self.source {
            Source::Live(_) => None,
            Source::Core(core) => core.registers(thread),
        }
    }
}

impl Source {
    fn memory(&self) -> &dyn Memory {
        match self {
            Source::Live(process) => process,
            Source::Core(core) => core,
        }
    }
}
