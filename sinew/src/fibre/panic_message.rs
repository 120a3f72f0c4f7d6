//! The message of a panic names the fibre, the task or the actor, not only its kernel thread.
//!
//! std's message names the thread, and nothing can tell it another name. So the runtime has a panic hook
//! that writes std's message with the strand's name. It takes the place of std's hook only: a program that
//! has a hook of its own before its first runtime keeps it, and a program that sets one later replaces
//! the runtime's.

use super::handle::current_record;
use super::record::Record;
use crate::processor::stall::{StrandKind, Whom};
use std::any::Any;
use std::backtrace::Backtrace;
use std::fmt;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};
use std::thread;

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// Installs the hook, once in a process, if std's own hook is in place.
pub(crate) fn install_panic_hook() {
    static ONCE: Once = Once::new();
    // std does not let a thread change the hook that panics. The next runtime tries again.
    if !thread::panicking() {
        ONCE.call_once(install);
    }
}

fn install() {
    let found = take_hook();
    // `take_hook` leaves std's hook behind.
    let of_std = take_hook();
    if is_same(&found, &of_std) {
        set_hook(Box::new(move |info| match panicking_strand() {
            Some(strand) => write_message(&strand, info),
            None => of_std(info),
        }));
    } else {
        set_hook(found);
    }
}

/// Says whether both hooks are the same function without data. One function may count as two if the
/// compiler has duplicated it; then a hook of std's is taken for one of the program's.
#[allow(ambiguous_wide_pointer_comparisons)]
fn is_same(one: &Hook, other: &Hook) -> bool {
    size_of_val(&**one) == 0 && std::ptr::eq(&**one, &**other)
}

/// Returns the strand that panics. A fibre is asked for its name directly, which may be long.
fn panicking_strand() -> Option<Whom> {
    let fibre = |record: &Record| Whom {
        kind: Some(StrandKind::Fibre),
        id: Some(record.id()),
        name: record.name().map(str::to_owned),
        type_name: None,
        spawned_at: Some(record.spawned_at()),
    };
    match current_record() {
        Some(record) if record.carried() == 0 => Some(fibre(record)),
        Some(record) => Whom::calls().or_else(|| Some(fibre(record))),
        None => Whom::calls(),
    }
}

/// Writes what std's hook would write, for a strand.
fn write_message(strand: &Whom, info: &PanicHookInfo<'_>) {
    // In one piece, because other threads write, too.
    eprint!("{}", Message { strand, info, style: Style::get() });
}

struct Message<'a> {
    strand: &'a Whom,
    info: &'a PanicHookInfo<'a>,
    style: Style,
}

/// Returns the text of a panic's payload, if it has one.
fn text(payload: &(dyn Any + Send)) -> Option<&str> {
    let owned = || payload.downcast_ref::<String>().map(String::as_str);
    payload.downcast_ref::<&str>().copied().or_else(owned)
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Whom { kind, id, name, type_name, spawned_at } = self.strand;
        let kind = kind.unwrap_or(StrandKind::Fibre);
        write!(f, "\n{kind}")?;
        match name {
            Some(name) => write!(f, " '{name}'")?,
            None if kind == StrandKind::Fibre => f.write_str(" '<unnamed>'")?,
            None => {}
        }
        if let Some(id) = id {
            write!(f, " (id {id})")?;
        }
        if let Some(type_name) = type_name {
            write!(f, " ({type_name})")?;
        }
        write!(f, " on thread '{}' panicked", thread::current().name().unwrap_or("<unnamed>"))?;
        if let Some(location) = self.info.location() {
            write!(f, " at {location}")?;
        }
        writeln!(f, ":\n{}", text(self.info.payload()).unwrap_or("Box<dyn Any>"))?;
        if let Some(place) = spawned_at {
            writeln!(f, "note: the {kind} was spawned at {place}")?;
        }
        match self.style {
            Style::Off if is_first() => {
                writeln!(f, "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace")
            }
            Style::Off => Ok(()),
            Style::Short => writeln!(f, "stack backtrace:\n{}", Backtrace::force_capture()),
            Style::Full => writeln!(f, "stack backtrace:\n{:#}", Backtrace::force_capture()),
        }
    }
}

/// Says whether no panic has been reported before.
fn is_first() -> bool {
    static FIRST: AtomicBool = AtomicBool::new(true);
    FIRST.swap(false, Ordering::Relaxed)
}

/// The backtrace that the environment variable `RUST_BACKTRACE` asks for.
#[derive(Clone, Copy)]
enum Style {
    Off,
    Short,
    Full,
}

impl Style {
    fn get() -> Style {
        static STYLE: OnceLock<Style> = OnceLock::new();
        *STYLE.get_or_init(|| match std::env::var_os("RUST_BACKTRACE") {
            None => Style::Off,
            Some(value) if value == "0" => Style::Off,
            Some(value) if value == "full" => Style::Full,
            Some(_) => Style::Short,
        })
    }
}
