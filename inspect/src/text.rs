//! A dump as text for people: what is wrong first, and what there is most of last.

use crate::dump::{Deadlock, Dump, Group, OwnerReport, Stack, State, StrandReport, What};
use crate::symbols::Frame;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display, Formatter, Write};

/// The members of a group that are named.
const NAMED: usize = 8;
/// The spawn sites and objects of a group that are named.
const SITES: usize = 4;
/// The locks that are listed.
const LOCKS: usize = 10;
/// Longer names of functions move their place onto the next line.
const COLUMN: usize = 64;

impl Display for Dump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        for deadlock in &self.deadlocks {
            self.deadlock(f, deadlock)?;
        }
        self.processors(f)?;
        self.locks(f)?;
        self.groups(f, "FIBRES", What::Fibre, &self.fibres)?;
        self.groups(f, "TASKS", What::Task, &self.tasks)?;
        self.groups(f, "MAILBOXES", What::Mailbox, &self.mailboxes)?;
        if !self.remarks.is_empty() {
            writeln!(f, "\nREMARKS")?;
        }
        self.remarks.iter().try_for_each(|remark| writeln!(f, "  {remark}"))
    }
}

impl Dump {
    fn head(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let from = if self.is_live { "read live" } else { "read from a core file" };
        writeln!(f, "process {}, {} ({from} in {})", self.pid, self.program, Time(self.took_ms))?;
        let mut sorts = Vec::new();
        for (what, groups) in [(What::Fibre, &self.fibres), (What::Task, &self.tasks), (What::Mailbox, &self.mailboxes)]
        {
            let count = groups.iter().map(|group| group.strands.len()).sum();
            let mut states: BTreeMap<State, usize> = BTreeMap::new();
            for group in groups {
                *states.entry(group.state).or_default() += group.strands.len();
            }
            let states: Vec<String> =
                states.into_iter().map(|(state, count)| format!("{} {}", Number(count), state_word(state))).collect();
            let states = if states.is_empty() { String::new() } else { format!(" ({})", states.join(", ")) };
            sorts.push(format!("{} {}{states}", Number(count), noun(what, count)));
        }
        let processors = self.processors.len();
        writeln!(f, "{}, {}", sorts.join(", "), plural(processors, "processor", "processors"))
    }

    fn deadlock(&self, f: &mut Formatter<'_>, deadlock: &Deadlock) -> fmt::Result {
        let members: Vec<&StrandReport> = deadlock.strands.iter().map(|&place| &self.strands[place]).collect();
        let certain = if deadlock.is_certain { "DEADLOCK" } else { "PROBABLE DEADLOCK" };
        match members[..] {
            [one] => writeln!(f, "\n{certain}: {} waits for itself", Who(one))?,
            _ => writeln!(
                f,
                "\n{certain} of {} strands: each waits for the next, the last for the first",
                members.len()
            )?,
        }
        for (number, &member) in members.iter().enumerate() {
            let next = members[(number + 1) % members.len()];
            write!(f, "  {}{} ", Who(member), Spawned(member))?;
            writeln!(f, "{}{}, {} {}", phrase(member, 1), For(member), held(member), Who(next))?;
        }
        if !deadlock.is_certain {
            writeln!(
                f,
                "  (a task may wait for other things as well, and a wait with a deadline or a time limit ends)"
            )?;
        }
        // Those who do the same in the same place have one stack.
        let mut stacks: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for member in members {
            if let Some(number) = member.stack {
                stacks.entry(number).or_default().push(Who(member).to_string());
            }
        }
        for (number, members) in stacks {
            writeln!(f, "  {}:", members.join(", "))?;
            frames(f, &self.stacks[number], "      ")?;
        }
        Ok(())
    }

    fn processors(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.processors.is_empty() {
            writeln!(f, "\nPROCESSORS")?;
        }
        for processor in &self.processors {
            write!(f, "  {} {}, thread {}: ", quoted(&processor.cluster), processor.index, processor.thread)?;
            match processor.runs.map(|place| &self.strands[place]) {
                Some(strand) => write!(f, "runs {}{}", Who(strand), Spawned(strand))?,
                None => f.write_str("runs no strand")?,
            }
            if let Some(hold) = processor.hold {
                write!(f, ", HELD UP: {hold}")?;
                if let Some(ms) = processor.pulse_ms {
                    write!(f, " for {}", Time(ms))?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn locks(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.locks.is_empty() {
            writeln!(f, "\nLOCKS that strands wait for")?;
        }
        for lock in self.locks.iter().take(LOCKS) {
            let waiters = plural(lock.waiters, "strand waits", "strands wait");
            write!(f, "  {} {:#x}: {waiters}", lock.what, lock.address)?;
            if let Some(ms) = lock.longest_ms {
                write!(f, ", the first for {}", Time(ms))?;
            }
            match &lock.owner {
                Some(owner) => writeln!(f, "; held by {}", Holder(owner))?,
                None => writeln!(f)?,
            }
        }
        match self.locks.len().saturating_sub(LOCKS) {
            0 => Ok(()),
            more => writeln!(f, "  and {} more", Number(more)),
        }
    }

    fn groups(&self, f: &mut Formatter<'_>, title: &str, what: What, groups: &[Group]) -> fmt::Result {
        if !groups.is_empty() {
            writeln!(f, "\n{title}")?;
        }
        groups.iter().try_for_each(|group| self.group(f, what, group))
    }

    fn group(&self, f: &mut Formatter<'_>, what: What, group: &Group) -> fmt::Result {
        let members: Vec<&StrandReport> = group.strands.iter().map(|&place| &self.strands[place]).collect();
        let (Some(&first), Some(&last)) = (members.first(), members.last()) else { return Ok(()) };
        let count = members.len();
        write!(f, "{} {}", Number(count), noun(what, count))?;
        match (&group.type_name, what) {
            (Some(name), What::Fibre) => write!(f, " of `{name}`")?,
            (Some(name), _) => write!(f, " `{name}`")?,
            (None, _) => {}
        }
        write!(f, " {}", phrase(first, count))?;
        match (first.for_ms, last.for_ms) {
            (Some(oldest), Some(newest)) if Time(oldest).to_string() != Time(newest).to_string() => {
                write!(f, " for {} to {}", Time(newest), Time(oldest))?;
            }
            (Some(oldest), _) => write!(f, " for {}", Time(oldest))?,
            _ => {}
        }
        writeln!(f)?;
        if what == What::Fibre {
            let names: Vec<String> = members.iter().take(NAMED).map(|member| label(member)).collect();
            writeln!(f, "  {}{}", names.join(", "), More(count, NAMED))?;
        }
        tally(f, "spawned at ", &members, |member| member.spawned_at.as_deref().map(Cow::from))?;
        tally(f, "held by ", &members, |member| Some(Holder(member.owner.as_deref()?).to_string().into()))?;
        tally(f, "", &members, |member| remarks(member).map(Cow::from))?;
        match group.stack.and_then(|number| self.stacks.get(number)) {
            Some(stack) => frames(f, stack, "    "),
            None => Ok(()),
        }
    }
}

/// Writes the values that members of a group have, the most frequent first.
fn tally<'a>(
    f: &mut Formatter<'_>,
    title: &str,
    members: &[&'a StrandReport],
    value: impl Fn(&'a StrandReport) -> Option<Cow<'a, str>>,
) -> fmt::Result {
    let mut counts: HashMap<Cow<'a, str>, usize> = HashMap::new();
    // Equal values come one after the other.
    for run in members.chunk_by(|&one, &other| value(one) == value(other)) {
        if let Some(value) = value(run[0]) {
            *counts.entry(value).or_default() += run.len();
        }
    }
    if counts.is_empty() {
        return Ok(());
    }
    let mut counts: Vec<(Cow<'a, str>, usize)> = counts.into_iter().collect();
    counts.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
    let shown = counts.iter().take(SITES).map(|(value, count)| {
        if *count == members.len() { value.to_string() } else { format!("{value} ({})", Number(*count)) }
    });
    let shown: Vec<String> = shown.collect();
    writeln!(f, "  {title}{}{}", shown.join(", "), More(counts.len(), SITES))
}

/// Says what is special about a strand.
fn remarks(strand: &StrandReport) -> Option<String> {
    let mut remarks = Vec::new();
    if strand.is_cancelled {
        remarks.push("cancelled".to_owned());
    }
    if strand.has_deadline {
        remarks.push("with a deadline".to_owned());
    }
    if strand.has_time_limit && strand.waits_for.as_deref() != Some("sleep") {
        remarks.push("with a time limit".to_owned());
    }
    if strand.state == State::Running {
        remarks.extend(strand.processor.map(|index| format!("running on processor {index}")));
    }
    match strand.priority.as_deref() {
        None | Some("normal") => {}
        Some(priority) => remarks.push(format!("{priority} priority")),
    }
    (!remarks.is_empty()).then(|| remarks.join(", "))
}

fn frames(f: &mut Formatter<'_>, stack: &Stack, indent: &str) -> fmt::Result {
    for frame in &stack.frames {
        let name = frame_name(frame);
        match (&frame.file, frame.line) {
            (Some(file), Some(line)) if name.chars().count() <= COLUMN => {
                writeln!(f, "{indent}{name:COLUMN$}  {}:{line}", short_path(file))?;
            }
            (Some(file), line) => {
                writeln!(f, "{indent}{name}")?;
                let place =
                    line.map_or_else(|| short_path(file).to_owned(), |line| format!("{}:{line}", short_path(file)));
                writeln!(f, "{indent}{:COLUMN$}  {place}", "")?;
            }
            (None, _) => writeln!(f, "{indent}{name}")?,
        }
    }
    if !stack.is_complete {
        writeln!(f, "{indent}(the rest of this stack could not be read)")?;
    }
    Ok(())
}

fn frame_name(frame: &Frame) -> String {
    match (&frame.function[..], &frame.module) {
        ("", Some(module)) => format!("{:#x} in {module}", frame.address),
        ("", None) => format!("{:#x}", frame.address),
        (name, _) => name.to_owned(),
    }
}

/// Leaves out of a path where a machine keeps the sources of libraries.
fn short_path(path: &str) -> &str {
    if let Some((_, rest)) = path.split_once("/registry/src/") {
        return rest.split_once('/').map_or(rest, |(_, rest)| rest);
    }
    path.strip_prefix("/rustc/").and_then(|rest| rest.split_once('/')).map_or(path, |(_, rest)| rest)
}

fn quoted(name: &str) -> String {
    if name.is_empty() { "cluster".to_owned() } else { name.escape_debug().to_string() }
}

fn label(strand: &StrandReport) -> String {
    match &strand.name {
        Some(name) => format!("{} \"{}\"", strand.id, name.escape_debug()),
        None => strand.id.to_string(),
    }
}

fn noun(what: What, count: usize) -> &'static str {
    match (what, count) {
        (What::Fibre, 1) => "fibre",
        (What::Fibre, _) => "fibres",
        (What::Task, 1) => "task",
        (What::Task, _) => "tasks",
        (What::Mailbox, 1) => "mailbox",
        (What::Mailbox, _) => "mailboxes",
    }
}

fn state_word(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Ready => "ready",
        State::New => "not begun",
        State::Stopped => "stopped",
        State::Idle => "idle",
        State::InHandler => "in a handler that waits",
        State::Finished => "finished",
    }
}

/// Returns what a strand does, for one or for many.
fn phrase(strand: &StrandReport, count: usize) -> String {
    let number = if count == 1 { 0 } else { 1 };
    let verb = |words: [&str; 2]| words[number].to_owned();
    match strand.state {
        State::Running => return verb(["runs", "run"]),
        State::Ready => return verb(["is ready and has not run", "are ready and have not run"]),
        State::New => return verb(["has not begun", "have not begun"]),
        State::Idle => return verb(["is idle", "are idle"]),
        State::InHandler => return verb(["is in a handler that waits", "are in handlers that wait"]),
        State::Finished => return verb(["has ended", "have ended"]),
        State::Stopped => {}
    }
    let waits = verb(["waits", "wait"]);
    let object = strand.object;
    match strand.waits_for.as_deref().unwrap_or("unknown") {
        "park" => verb(["is parked", "are parked"]),
        "sleep" => verb(["sleeps", "sleep"]),
        "mutex" if count == 1 => format!("{waits} for the mutex {object:#x}"),
        "mutex" => format!("{waits} for a mutex"),
        "rwlock_read" if count == 1 => format!("{waits} to read the lock {object:#x}"),
        "rwlock_read" => format!("{waits} to read a lock"),
        "rwlock_write" if count == 1 => format!("{waits} to write the lock {object:#x}"),
        "rwlock_write" => format!("{waits} to write a lock"),
        "channel_send" => format!("{waits} for room in a channel"),
        "channel_receive" => format!("{waits} for a message of a channel"),
        "join_fibre" => format!("{waits} for the end of a fibre"),
        "join_task" => format!("{waits} for the end of a task"),
        "scope" => format!("{waits} for the end of a scope"),
        "block_on" => format!("{waits} for a future"),
        "blocking" => format!("{waits} for a call on the pool for blocking calls"),
        "read" if count == 1 => format!("{waits} to read descriptor {object}"),
        "read" => format!("{waits} to read a descriptor"),
        "write" if count == 1 => format!("{waits} to write descriptor {object}"),
        "write" => format!("{waits} to write a descriptor"),
        "ring" => format!("{waits} for an operation in the kernel"),
        "room" => format!("{waits} for room in a ring"),
        "ask" => format!("{waits} for the answer of an actor"),
        "mail_room" => format!("{waits} for room in a mailbox"),
        "event" => format!("{waits} for the turn of a colour"),
        "drain" => format!("{waits} for the end of a runtime"),
        "batch" => format!("{waits} for a call of the kernel"),
        "duplex" => format!("{waits} for the other side of a connection"),
        "unknown" => format!("{waits} in a way of {} own", ["its", "their"][number]),
        other => format!("{waits} ({})", other.replace('_', " ")),
    }
}

/// Returns the words between a wait and the strand that it is for.
fn held(strand: &StrandReport) -> &'static str {
    match strand.waits_for.as_deref() {
        Some("mutex" | "rwlock_read" | "rwlock_write") => "held by",
        Some("ask" | "mail_room") => "which runs on",
        _ => "which is",
    }
}

/// A strand, as a reader would call it.
struct Who<'a>(&'a StrandReport);

impl Display for Who<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let strand = self.0;
        match (strand.what, &strand.type_name) {
            (What::Fibre, Some(name)) => write!(f, "fibre {} that carries `{name}`", label(strand)),
            (What::Fibre, None) => write!(f, "fibre {}", label(strand)),
            (what, Some(name)) => write!(f, "{} {:#x} `{name}`", noun(what, 1), strand.address),
            (what, None) => write!(f, "{} {:#x}", noun(what, 1), strand.address),
        }
    }
}

struct Spawned<'a>(&'a StrandReport);

impl Display for Spawned<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.spawned_at.as_ref().map_or(Ok(()), |site| write!(f, " (spawned at {site})"))
    }
}

struct For<'a>(&'a StrandReport);

impl Display for For<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.for_ms.map_or(Ok(()), |ms| write!(f, " for {}", Time(ms)))
    }
}

struct Holder<'a>(&'a OwnerReport);

impl Display for Holder<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let owner = self.0;
        match owner.what {
            Some(What::Fibre) => write!(f, "fibre {}", owner.id)?,
            Some(what) => write!(f, "{} {:#x}", noun(what, 1), owner.id)?,
            None => write!(f, "kernel thread {}", owner.id)?,
        }
        owner.name.as_ref().map_or(Ok(()), |name| write!(f, " \"{}\"", name.escape_debug()))
    }
}

/// Says how many of a number are not shown.
struct More(usize, usize);

impl Display for More {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.saturating_sub(self.1) {
            0 => Ok(()),
            more => write!(f, " and {} more", Number(more)),
        }
    }
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{} {}", Number(count), if count == 1 { one } else { many })
}

/// A number with a comma between thousands.
struct Number(usize);

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                f.write_char(',')?;
            }
            f.write_char(digit)?;
        }
        Ok(())
    }
}

/// Milliseconds in the unit that suits them.
struct Time(f64);

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            ms if ms < 1000.0 => write!(f, "{ms:.0} ms"),
            ms if ms < 120_000.0 => write!(f, "{:.1} s", ms / 1000.0),
            ms if ms < 7_200_000.0 => write!(f, "{:.0} min", ms / 60_000.0),
            ms => write!(f, "{:.1} h", ms / 3_600_000.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_easy_to_read() {
        let numbers = [0, 999, 1000, 38112, 1_000_000].map(|number| Number(number).to_string());
        assert_eq!(numbers, ["0", "999", "1,000", "38,112", "1,000,000"]);
        let times = [0.4, 999.4, 1500.0, 180_000.0, 7_300_000.0].map(|ms| Time(ms).to_string());
        assert_eq!(times, ["0 ms", "999 ms", "1.5 s", "3 min", "2.0 h"]);
    }

    #[test]
    fn paths_of_libraries_are_short() {
        assert_eq!(short_path("/home/x/.cargo/registry/src/index/serde-1.0.0/src/lib.rs"), "serde-1.0.0/src/lib.rs");
        assert_eq!(short_path("/rustc/abcdef/library/core/src/ops.rs"), "library/core/src/ops.rs");
        assert_eq!(short_path("src/main.rs"), "src/main.rs");
    }
}
