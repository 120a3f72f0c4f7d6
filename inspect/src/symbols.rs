//! Names of addresses: functions, files and lines, with the functions that were inlined.

use crate::file::FileMap;
use crate::module::{DebugFile, Module, module_at};
use addr2line::Context;
use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use std::collections::HashMap;
use std::sync::Arc;

/// One line of a backtrace: a function, and the place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Frame {
    /// The address in the process. Functions that were inlined have that of the function around them.
    pub address: u64,
    /// The function's name; empty if it is not known.
    pub function: String,
    /// The file, if it is known.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub file: Option<String>,
    /// The line in the file.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub line: Option<u32>,
    /// Whether the compiler has put the function into the one that comes next.
    pub is_inlined: bool,
    /// The program or library, if the function has no name.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub module: Option<String>,
}

/// The names of addresses. Each address is looked up once.
#[derive(Default)]
pub struct Symbols {
    frames: HashMap<u64, Arc<[Frame]>>,
    functions: HashMap<u64, Option<String>>,
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;

impl Symbols {
    /// Makes a table that knows nothing yet.
    pub fn new() -> Symbols {
        Symbols::default()
    }

    /// Looks up addresses of code in frames, and addresses of functions.
    pub fn learn(&mut self, modules: &[Module], addresses: &[u64], functions: &[u64]) {
        // By module, so that each file is read once, and only if it is needed.
        let mut wanted: HashMap<u64, (Vec<u64>, Vec<u64>)> = HashMap::new();
        let start_of = |address| module_at(modules, address).map_or(0, |module| module.range.start);
        for &address in addresses.iter().filter(|address| !self.frames.contains_key(address)) {
            wanted.entry(start_of(address)).or_default().0.push(address);
        }
        for &address in functions.iter().filter(|address| !self.functions.contains_key(address)) {
            wanted.entry(start_of(address)).or_default().1.push(address);
        }
        for (start, (addresses, functions)) in wanted {
            let module = module_at(modules, start);
            let file = module.filter(|module| module.is_same).and_then(|module| FileMap::open(&module.file));
            match (module, file.as_ref().and_then(DebugFile::of)) {
                (Some(module), Some(file)) => self.learn_of(module, &file, addresses, functions),
                (module, _) => {
                    for address in addresses {
                        self.frames.insert(address, [unknown(module, address)].into());
                    }
                    self.functions.extend(functions.into_iter().map(|address| (address, None)));
                }
            }
        }
    }

    fn learn_of(&mut self, module: &Module, file: &DebugFile<'_>, addresses: Vec<u64>, functions: Vec<u64>) {
        let load = |id: SectionId| Ok::<_, gimli::Error>(Slice::new(file.section(id.name()), LittleEndian));
        let context = Dwarf::load(load).and_then(Context::from_dwarf).ok();
        for address in addresses {
            let offset = address.wrapping_sub(module.bias);
            let mut frames = context.as_ref().map(|context| lines(context, address, offset)).unwrap_or_default();
            let symbol = symbol(file, offset);
            match frames.last_mut() {
                None => {
                    let function = symbol.map(demangled);
                    frames.push(function.map_or_else(
                        || unknown(Some(module), address),
                        |function| Frame { address, function, ..Frame::default() },
                    ));
                }
                // Tables of lines alone have short names, without modules. The symbol table has the whole
                // name of the function around those that were inlined.
                Some(last) if !is_whole(&last.function) => {
                    if let Some(symbol) = symbol {
                        last.function = demangled(symbol);
                    }
                }
                Some(_) => {}
            }
            self.frames.insert(address, frames.into());
        }
        for address in functions {
            let name = symbol(file, address.wrapping_sub(module.bias)).map(demangled);
            self.functions.insert(address, name);
        }
    }

    /// Returns the frames at an address that was learnt, the innermost first.
    pub fn frames(&self, address: u64) -> Arc<[Frame]> {
        self.frames.get(&address).cloned().unwrap_or_else(|| [unknown(None, address)].into())
    }

    /// Returns the name of the function at an address that was learnt.
    pub fn function(&self, address: u64) -> Option<&str> {
        self.functions.get(&address)?.as_deref()
    }
}

fn unknown(module: Option<&Module>, address: u64) -> Frame {
    Frame { address, module: module.map(|module| module.path.clone()), ..Frame::default() }
}

fn lines(context: &Context<Slice<'_>>, address: u64, offset: u64) -> Vec<Frame> {
    let mut found = Vec::new();
    let Ok(mut frames) = context.find_frames(offset).skip_all_loads() else { return found };
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|name| Some(readable(&name.raw_name().ok()?)));
        let place = frame.location.as_ref();
        found.push(Frame {
            address,
            function: name.unwrap_or_default(),
            file: place.and_then(|place| place.file).map(str::to_owned),
            line: place.and_then(|place| place.line),
            is_inlined: true,
            module: None,
        });
    }
    if let Some(last) = found.last_mut() {
        last.is_inlined = false;
    }
    found
}

/// Returns the mangled name of the function that is at `offset` of a file.
fn symbol<'a>(file: &DebugFile<'a>, offset: u64) -> Option<&'a str> {
    let behind = file.functions.partition_point(|function| function.0 <= offset);
    let &(start, size, name) = file.functions[..behind].last()?;
    // Functions of assembly may have no size.
    (size == 0 || offset < start.saturating_add(size)).then_some(name)
}

fn demangled(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

/// Demangles a name of the debug information. A name that is short anyway loses its types, which are long.
fn readable(name: &str) -> String {
    let whole = demangled(name);
    match whole.find('<') {
        Some(types) if types > 0 && whole == name => whole[..types].to_owned(),
        _ => whole,
    }
}

/// Says whether a name has its modules.
fn is_whole(name: &str) -> bool {
    name.starts_with('<') || name.contains("::")
}

/// Returns the type that a function's name is about: that of a future's `poll`, or of what
/// `drop_in_place` drops.
pub(crate) fn type_of_function(name: &str) -> &str {
    let dropped = name.strip_prefix("core::ptr::drop_in_place<").and_then(|rest| rest.strip_suffix('>'));
    if let Some(dropped) = dropped {
        // The runtime's record of an actor is around the actor's value.
        let value = dropped.strip_prefix("sinew::actor::cell::Cell<").and_then(|rest| rest.strip_suffix('>'));
        return value.unwrap_or(dropped);
    }
    let of_trait = name.strip_prefix('<').and_then(|rest| rest.split_once(" as core::future::future::Future>::poll"));
    of_trait.map_or(name, |(implementor, _)| implementor)
}

/// The modules of the runtime that are not a program's own code. A program whose crate is called
/// `sinew`, too, has other modules.
const RUNTIME_MODULES: [&str; 26] = [
    "actor",
    "base",
    "cancel",
    "context",
    "event",
    "fibre",
    "fs",
    "inspect",
    "io",
    "mailbox",
    "memory",
    "net",
    "process",
    "processor",
    "runtime",
    "sched",
    "shutdown",
    "signal",
    "stack",
    "stand",
    "strand",
    "sync",
    "task",
    "thread",
    "time",
    "wait",
];

/// Says whether a function belongs to the runtime, or to the library below it.
fn is_inner(frame: &Frame) -> bool {
    if is_whole(&frame.function) {
        return is_inner_name(&frame.function);
    }
    let trampolines = ["stack_init_trampoline", "stack_init_trampoline_return", "__rust_try"];
    trampolines.contains(&&frame.function[..]) || frame.file.as_deref().is_some_and(is_inner_file)
}

fn is_inner_name(function: &str) -> bool {
    let path = function.trim_start_matches(['<', '&', '*', '(']).trim_start_matches("mut ").trim_start_matches("dyn ");
    let mut parts = path.split("::");
    let krate = parts.next().unwrap_or_default().split('[').next().unwrap_or_default();
    match krate {
        "core" | "std" | "alloc" | "corosensei" => true,
        "sinew" => {
            let module = parts.next().unwrap_or_default();
            let module = module.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            RUNTIME_MODULES.contains(&module) || parts.next().is_none()
        }
        _ => false,
    }
}

/// Says the same by the file, for functions that were inlined and have a short name.
fn is_inner_file(file: &str) -> bool {
    if file.starts_with("/rustc/") || file.contains("/library/std/src/") || file.contains("/library/core/src/") {
        return true;
    }
    let Some((before, within)) = file.rsplit_once("/src/") else { return false };
    let package = before.rsplit('/').next().unwrap_or_default();
    let module = within.split(['/', '.']).next().unwrap_or_default();
    let is_runtime = package == "sinew" || package.strip_prefix("sinew-").is_some_and(is_version);
    package.strip_prefix("corosensei-").is_some_and(is_version) || is_runtime && RUNTIME_MODULES.contains(&module)
}

fn is_version(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the frames that a user wants to see: the program's own, and the function of the runtime that
/// the program has called. All of them if none is the program's own.
pub(crate) fn own_frames<'a>(frames: &'a [&'a Frame]) -> &'a [&'a Frame] {
    let is_unknown = |frame: &Frame| frame.function.is_empty() && frame.module.is_none();
    let own = |frame: &&Frame| !is_inner(frame) && !is_unknown(frame);
    let Some(first) = frames.iter().position(own) else { return frames };
    let last = frames.iter().rposition(own).unwrap_or(first);
    &frames[first.saturating_sub(1)..=last]
}

/// Leaves out the frames of the runtime at the outer end, unless all are.
pub(crate) fn without_outer_end(mut frames: Vec<Frame>) -> Vec<Frame> {
    if let Some(last) = frames.iter().rposition(|frame| !is_inner(frame)) {
        frames.truncate(last + 1);
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<Frame> {
        names.iter().map(|name| Frame { function: (*name).to_owned(), ..Frame::default() }).collect()
    }

    #[test]
    fn the_runtime_is_cut_off_at_both_ends_but_for_what_was_called() {
        let frames = named(&[
            "corosensei::coroutine::Yielder<Input,Yield>::suspend",
            "sinew::stack::switch::Stack::switch",
            "sinew::sync::mutex::Mutex<T>::lock",
            "app::transfer",
            "core::iter::traits::iterator::Iterator::for_each",
            "<app::Job as app::Run>::run",
            "core::ops::function::FnOnce::call_once",
            "sinew::fibre::record::Record<F>::execute",
            "stack_init_trampoline",
        ]);
        let frames: Vec<&Frame> = frames.iter().collect();
        let shown: Vec<&str> = own_frames(&frames).iter().map(|frame| frame.function.as_str()).collect();
        assert_eq!(
            shown,
            [
                "sinew::sync::mutex::Mutex<T>::lock",
                "app::transfer",
                "core::iter::traits::iterator::Iterator::for_each",
                "<app::Job as app::Run>::run",
            ]
        );
        assert_eq!(own_frames(&frames[..3]).len(), 3, "nothing of the program's own: all");
    }

    #[test]
    fn a_program_that_is_called_sinew_has_code_of_its_own() {
        assert!(!is_inner_name("sinew::web::session::serve"));
        assert!(is_inner_name("<sinew::net::tcp::TcpStream as std::io::Read>::read"));
        assert!(is_inner_name("sinew::yield_now"));
    }

    #[test]
    fn short_names_are_told_apart_by_their_files() {
        for file in [
            "/rustc/abc/library/std/src/panicking.rs",
            "/home/x/.cargo/registry/src/index/corosensei-0.3.4/src/coroutine.rs",
            "/home/x/.cargo/registry/src/index/sinew-0.1.0/src/fibre/mod.rs",
            "/home/x/sinew/sinew/src/thread.rs",
        ] {
            assert!(is_inner_file(file), "{file}");
        }
        for file in ["/home/x/app/src/fibre.rs", "/home/x/sinew/servers/src/web/mod.rs", "src/main.rs"] {
            assert!(!is_inner_file(file), "{file}");
        }
        assert_eq!(readable("catch_unwind<(), app::main::{closure#0}>"), "catch_unwind");
    }

    #[test]
    fn the_type_of_a_task_or_actor_is_read_from_a_function() {
        assert_eq!(type_of_function("app::main::{{closure}}"), "app::main::{{closure}}");
        assert_eq!(type_of_function("<app::Answer as core::future::future::Future>::poll"), "app::Answer");
        assert_eq!(type_of_function("core::ptr::drop_in_place<app::Account>"), "app::Account");
        let cell = "core::ptr::drop_in_place<sinew::actor::cell::Cell<app::Account>>";
        assert_eq!(type_of_function(cell), "app::Account");
    }
}
