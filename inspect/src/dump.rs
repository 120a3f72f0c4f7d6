//! Everything that a reader finds in a process at one time.

use crate::census::{Census, Class, Post, Strand};
use crate::error::Error;
use crate::offsets::{Names, Offsets};
use crate::stacks::{self, Seen, Stacks};
use crate::symbols::{Frame, Symbols, own_frames, type_of_function};
use crate::target::Target;
use crate::unwind::{StackCopy, Walker};
use crate::waits::{Owner, Reasons, Step, Waits, reason_and_object};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

/// The contents that a dump is to have.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether stacks are read. A dump without them takes a tenth of the time.
    pub has_backtraces: bool,
    /// Whether frames of the runtime are kept that lie around those of the program.
    pub has_all_frames: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { has_backtraces: true, has_all_frames: false }
    }
}

/// The strands, processors, locks and deadlocks of a process.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Dump {
    /// The number of the process.
    pub pid: u32,
    /// The program.
    pub program: String,
    /// Whether the process lived, and went on, while it was read.
    pub is_live: bool,
    /// How long reading took.
    pub took_ms: f64,
    /// Strands that wait for each other in a circle.
    pub deadlocks: Vec<Deadlock>,
    /// Processors, in the order of clusters.
    pub processors: Vec<Processor>,
    /// Locks that strands wait for; those with most waiters first.
    pub locks: Vec<Lock>,
    /// Fibres, grouped by what they do; in the order in which they are shown.
    pub fibres: Vec<Group>,
    /// Tasks, grouped by future, wait and place.
    pub tasks: Vec<Group>,
    /// Actors and colours, grouped by type.
    pub mailboxes: Vec<Group>,
    /// The stacks that groups refer to.
    pub stacks: Vec<Stack>,
    /// All strands.
    pub strands: Vec<StrandReport>,
    /// Remarks: parts that could not be read.
    pub remarks: Vec<String>,
}

/// The sort of a strand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum What {
    /// A fibre.
    Fibre,
    /// A task.
    Task,
    /// An actor or a colour.
    Mailbox,
}

/// The state of a strand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum State {
    /// It runs on a processor.
    Running,
    /// It could run, and waits for a processor.
    Ready,
    /// It has not begun, and waits for a processor.
    New,
    /// It waits for something.
    Stopped,
    /// It is a mailbox without letters.
    Idle,
    /// It is a mailbox whose handler waits for something.
    InHandler,
    /// It has ended, and a handle to it is left.
    Finished,
}

/// A strand.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StrandReport {
    /// Its sort.
    pub what: What,
    /// The number of a fibre; 0 for other strands.
    pub id: u64,
    /// Where it lies in memory.
    pub address: u64,
    /// The name that a fibre was given.
    pub name: Option<Arc<str>>,
    /// The type of a task's future, of an actor, of a colour, or of the actor or colour that a fibre carries.
    pub type_name: Option<Arc<str>>,
    /// Its state.
    pub state: State,
    /// The reason of the description for which it waits, if it has stopped.
    pub waits_for: Option<Arc<str>>,
    /// The address of the lock, strand or other thing that it waits for, or the number of a descriptor.
    pub object: u64,
    /// For how long it has waited, or has been ready.
    pub for_ms: Option<f64>,
    /// The holder of the lock that it waits for.
    pub owner: Option<Box<OwnerReport>>,
    /// Where the program spawned it.
    pub spawned_at: Option<Arc<str>>,
    /// The name of its cluster.
    pub cluster: Arc<str>,
    /// The processor that it runs on, or may not leave.
    pub processor: Option<u64>,
    /// The name of its priority.
    pub priority: Option<Arc<str>>,
    /// Whether it was cancelled or interrupted.
    pub is_cancelled: bool,
    /// Whether its waits end at a deadline that it carries.
    pub has_deadline: bool,
    /// Whether its wait has a time limit of its own, as in `lock_timeout`. It is not known, and false, for a fibre that
    /// carries a deadline.
    pub has_time_limit: bool,
    /// The mailbox that a fibre carries; 0 if it carries none.
    pub carries: u64,
    /// Its stack, as a number of [`Dump::stacks`].
    pub stack: Option<usize>,
}

/// The holder of a lock.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct OwnerReport {
    /// A fibre, a task, or `None` for a kernel thread.
    pub what: Option<What>,
    /// The number of the fibre or of the kernel thread; the address of a task.
    pub id: u64,
    /// The name of the fibre.
    pub name: Option<Arc<str>>,
}

/// A processor.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Processor {
    /// The name of its cluster.
    pub cluster: Arc<str>,
    /// Its number in the cluster.
    pub index: u64,
    /// The number of its kernel thread; 0 if there is none.
    pub thread: u32,
    /// Why it is held up: `computing`, `blocked`, or nothing.
    pub hold: Option<&'static str>,
    /// The strand that it runs, as a number of [`Dump::strands`].
    pub runs: Option<usize>,
    /// The time since it looked at its clock. It does so for every strand that it runs.
    pub pulse_ms: Option<f64>,
}

/// A lock that strands wait for.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Lock {
    /// Where it lies.
    pub address: u64,
    /// `mutex` or `rwlock`.
    pub what: &'static str,
    /// The holder, if it is known.
    pub owner: Option<OwnerReport>,
    /// The number of strands that wait for it.
    pub waiters: usize,
    /// For how long the first of them has waited.
    pub longest_ms: Option<f64>,
}

/// Strands that wait for each other in a circle: each for what the next one has.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Deadlock {
    /// The strands, as numbers of [`Dump::strands`]. The last one waits for the first.
    pub strands: Vec<usize>,
    /// Whether it stays for certain. A task may wait for other things as well, and a wait with a deadline
    /// or a time limit ends.
    pub is_certain: bool,
}

/// Strands that do the same.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Group {
    /// The strands, as numbers of [`Dump::strands`]; those that have waited longest first.
    pub strands: Vec<usize>,
    /// The state that all of them are in.
    pub state: State,
    /// The reason for which they wait.
    pub waits_for: Option<Arc<str>>,
    /// The type of the futures, actors or colours.
    pub type_name: Option<Arc<str>>,
    /// The stack that all have, as a number of [`Dump::stacks`].
    pub stack: Option<usize>,
}

/// A stack that one or more fibres have.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stack {
    /// The innermost first.
    pub frames: Vec<Frame>,
    /// Whether all frames were found, out to the function that fibres begin with.
    pub is_complete: bool,
}

impl Dump {
    /// Reads a process.
    ///
    /// # Errors
    /// The description lacks an entry, or what it points to cannot be read.
    pub fn take(target: &Target, options: Options) -> Result<Dump, Error> {
        let began = Instant::now();
        let offsets = Offsets::of(target.layout())?;
        let mut census = Census::take(target, &offsets)?;
        let running: HashMap<u64, usize> =
            census.posts.iter().enumerate().filter_map(|(place, post)| Some((post.running?, place))).collect();
        // A carrier without work is part of the pool.
        census.strands.retain(|strand| {
            let is_resting = usize::from(strand.after) == offsets.after_resting && strand.kind.class == Class::Fibre;
            !is_resting || running.contains_key(&strand.address)
        });
        let (stacks, seen) = backtraces(target, &offsets, &mut census, &running, options);
        let carrying = census.strands.iter().filter(|strand| strand.carried != 0);
        let carriers = carrying.map(|strand| (strand.carried, strand.address));
        let carried: HashSet<u64> = census.strands.iter().map(|strand| strand.carried).collect();
        let mailboxes = census.strands.iter().filter(|strand| carried.contains(&strand.address));
        let mailboxes = mailboxes.map(|strand| (strand.address, strand.kind.symbol));
        let mut maker = Maker {
            target,
            offsets: &offsets,
            census: &census,
            running,
            seen,
            carriers: carriers.collect(),
            mailboxes: mailboxes.collect(),
            reasons: Names::of(target.layout(), "reason."),
            priorities: Names::of(target.layout(), "priority."),
            symbols: Symbols::new(),
            types: HashMap::new(),
        };
        let mut dump = maker.dump(&stacks, options);
        dump.took_ms = began.elapsed().as_secs_f64() * 1000.0;
        Ok(dump)
    }
}

/// Reads the stacks of all fibres that do not run, and, from a core file, of those that ran.
fn backtraces(
    target: &Target,
    offsets: &Offsets,
    census: &mut Census,
    running: &HashMap<u64, usize>,
    options: Options,
) -> (Stacks, Vec<Seen>) {
    if !options.has_backtraces {
        return (Stacks::default(), vec![Seen::Nothing; census.strands.len()]);
    }
    let mut walker = Walker::new(target.modules());
    let has_stack = |strand: &Strand| {
        strand.kind.class == Class::Fibre
            && strand.own != 0
            && strand.state as usize & offsets.finished == 0
            && !running.contains_key(&strand.address)
    };
    let wanted: Vec<usize> = (0..census.strands.len()).filter(|&place| has_stack(&census.strands[place])).collect();
    let memory = target.memory();
    let (mut stacks, mut seen) = stacks::read(memory, offsets, &mut walker, &mut census.strands, &wanted);
    for (place, strand) in census.strands.iter().enumerate() {
        let post = running.get(&strand.address).map(|&post| &census.posts[post]);
        let registers = post.and_then(|post| target.registers(post.thread));
        if let Some(registers) = registers.filter(|_| strand.kind.class == Class::Fibre)
            && let Some(length) = strand.own.checked_sub(registers.stack).filter(|&length| length <= 1 << 20)
        {
            let mut bytes = vec![0; length as usize];
            if memory.read(registers.stack, &mut bytes).is_ok() {
                let mut frames = Vec::new();
                let copy = StackCopy { address: registers.stack, bytes: &bytes, top: strand.own };
                let is_complete = walker.walk(registers, copy, &mut frames);
                seen[place] = Seen::Stack(stacks.number(&frames, is_complete));
            }
        }
    }
    (stacks, seen)
}

struct Maker<'a> {
    target: &'a Target,
    offsets: &'a Offsets,
    census: &'a Census,
    /// The posts that run strands, by the strand's address.
    running: HashMap<u64, usize>,
    seen: Vec<Seen>,
    /// The fibres that carry mailboxes, by the mailbox's address.
    carriers: HashMap<u64, u64>,
    /// The functions that tell the types of mailboxes that are carried.
    mailboxes: HashMap<u64, u64>,
    reasons: Names,
    priorities: Names,
    symbols: Symbols,
    /// The names of types, by the address of a function that tells them.
    types: HashMap<u64, Arc<str>>,
}

impl Maker<'_> {
    fn dump(&mut self, stacks: &Stacks, options: Options) -> Dump {
        let mut addresses: Vec<u64> = stacks.all.iter().flat_map(|stack| stack.frames.iter().copied()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let functions: HashSet<u64> = self.census.strands.iter().map(|strand| strand.kind.symbol).collect();
        let functions: Vec<u64> = functions.into_iter().filter(|&function| function != 0).collect();
        self.symbols.learn(self.target.modules(), &addresses, &functions);
        let type_of = |&function: &u64| Some((function, type_of_function(self.symbols.function(function)?).into()));
        self.types = functions.iter().filter_map(type_of).collect();

        let census = self.census;
        let r = |name: &str| self.target.layout().get(&format!("reason.{name}"));
        let reasons = Reasons {
            mutex: r("mutex"),
            read: r("rwlock_read"),
            write: r("rwlock_write"),
            join_fibre: r("join_fibre"),
            join_task: r("join_task"),
            scope: r("scope"),
            ask: r("ask"),
            mail_room: r("mail_room"),
        };
        let waits = Waits::read(self.target.memory(), self.offsets, reasons, &census.strands);
        let owners = waits.owners_of_waiting();
        let circles = waits.circles();
        let deadlock = |circle: &Vec<Step>| Deadlock {
            strands: circle.iter().map(|step| step.strand).collect(),
            is_certain: waits.is_certain(circle),
        };
        let deadlocks = circles.iter().map(deadlock).collect();
        let owner_report = |owner: &Owner| self.owner(&waits, *owner);
        let owners: HashMap<usize, OwnerReport> =
            owners.iter().map(|(&place, owner)| (place, owner_report(owner))).collect();

        let clusters: HashMap<u64, Arc<str>> =
            census.clusters.iter().map(|cluster| (cluster.address, cluster.name.as_str().into())).collect();
        let posts: HashMap<u64, u64> = census.posts.iter().map(|post| (post.address, post.index)).collect();
        let mut strands = Vec::with_capacity(census.strands.len());
        for (place, strand) in census.strands.iter().enumerate() {
            let mut report = self.strand(place, strand, &clusters, &posts);
            report.owner = owners.get(&place).cloned().map(Box::new);
            strands.push(report);
        }
        let processors = self.processors(&clusters);
        let locks = locks(&strands);
        let of = |what: What| groups(&strands, what);
        let (mut fibres, tasks, mailboxes) = (of(What::Fibre), of(What::Task), of(What::Mailbox));
        fibres.sort_by_cached_key(|group| order(group, &strands));
        let program = self.target.modules().iter().find(|module| module.description.is_some());
        Dump {
            pid: self.target.pid(),
            program: program.map(|module| module.path.clone()).unwrap_or_default(),
            is_live: self.target.memory().is_live(),
            took_ms: 0.0,
            deadlocks,
            processors,
            locks,
            fibres,
            tasks,
            mailboxes,
            stacks: stacks.all.iter().map(|stack| self.stack(stack, options)).collect(),
            strands,
            remarks: self.remarks(),
        }
    }

    fn owner(&self, waits: &Waits<'_>, owner: Owner) -> OwnerReport {
        let name = waits.place_of(owner).and_then(|place| self.census.strands[place].name.clone());
        match owner {
            Owner::Fibre(id) => OwnerReport { what: Some(What::Fibre), id, name },
            Owner::Task(id) => OwnerReport { what: Some(What::Task), id, name },
            Owner::Thread(id) => OwnerReport { what: None, id, name },
        }
    }

    fn state(&self, place: usize, strand: &Strand) -> State {
        let o = self.offsets;
        let after = usize::from(strand.after);
        if self.running.contains_key(&strand.address) {
            State::Running
        } else if strand.state as usize & o.finished != 0 {
            State::Finished
        } else if strand.kind.class == Class::Mailbox {
            match self.carriers.get(&strand.address) {
                _ if strand.own & o.mail_active as u64 == 0 => State::Idle,
                Some(carrier) if self.running.contains_key(carrier) => State::Running,
                Some(_) => State::InHandler,
                None => State::Ready,
            }
        } else if self.seen[place] == Seen::Moving {
            State::Running
        } else if o.is_stopped(strand.state) {
            State::Stopped
        } else if after == o.after_declined {
            State::New
        } else {
            State::Ready
        }
    }

    fn strand(
        &self,
        place: usize,
        strand: &Strand,
        clusters: &HashMap<u64, Arc<str>>,
        posts: &HashMap<u64, u64>,
    ) -> StrandReport {
        let o = self.offsets;
        let state = self.state(place, strand);
        let is_stopped = state == State::Stopped;
        let (reason, object) = reason_and_object(strand.wait);
        let named = |reason: u64| self.reasons.get(reason).unwrap_or_else(|| format!("reason {reason}").into());
        let waits_for = is_stopped.then(|| named(reason));
        let is_timed = is_stopped || matches!(state, State::Ready | State::New);
        let has_time_limit = usize::from(strand.carries) == o.carries_timed;
        let is_bound = usize::from(strand.bound) & (o.bound_started | o.bound_pinned) != 0;
        let runs_on = self.running.get(&strand.address).map(|&post| self.census.posts[post].index);
        StrandReport {
            what: match strand.kind.class {
                Class::Fibre => What::Fibre,
                Class::Task => What::Task,
                Class::Mailbox => What::Mailbox,
            },
            id: strand.id,
            address: strand.address,
            name: strand.name.clone(),
            type_name: self.types.get(self.mailboxes.get(&strand.carried).unwrap_or(&strand.kind.symbol)).cloned(),
            state,
            waits_for,
            object: if is_stopped { object } else { 0 },
            for_ms: self
                .census
                .clock
                .ms_since(strand.stamp)
                .filter(|_| is_timed && strand.kind.class != Class::Mailbox),
            owner: None,
            // The runtime spawns carriers.
            spawned_at: self.census.sites.get(&strand.spawned_at).filter(|_| strand.carried == 0).cloned(),
            cluster: clusters.get(&strand.cluster).cloned().unwrap_or_default(),
            processor: runs_on.or_else(|| posts.get(&strand.post).copied().filter(|_| is_bound)),
            priority: self.priorities.get(u64::from(strand.priority)),
            is_cancelled: strand.cancel != 0,
            has_deadline: strand.carries != 0 && !has_time_limit,
            has_time_limit: has_time_limit && is_stopped,
            carries: strand.carried,
            stack: match self.seen[place] {
                Seen::Stack(number) => Some(number),
                Seen::Moving | Seen::Nothing => None,
            },
        }
    }

    fn processors(&self, clusters: &HashMap<u64, Arc<str>>) -> Vec<Processor> {
        let places: HashMap<u64, usize> = self
            .census
            .strands
            .iter()
            .enumerate()
            .filter(|(_, strand)| self.running.contains_key(&strand.address))
            .map(|(place, strand)| (strand.address, place))
            .collect();
        let processor = |post: &Post| Processor {
            cluster: clusters.get(&post.cluster).cloned().unwrap_or_default(),
            index: post.index,
            thread: post.thread,
            hold: match post.hold {
                0 => None,
                1 => Some("computing"),
                _ => Some("blocked"),
            },
            runs: post.running.and_then(|strand| places.get(&strand).copied()),
            pulse_ms: self.census.clock.ms_since(post.pulse),
        };
        // A post stays when its processor has ended.
        let serving = self.census.posts.iter().filter(|post| post.thread != 0);
        let mut processors: Vec<Processor> = serving.map(processor).collect();
        processors.sort_by(|one, other| (&one.cluster, one.index).cmp(&(&other.cluster, other.index)));
        processors
    }

    fn stack(&self, stack: &stacks::Stack, options: Options) -> Stack {
        let frames: Vec<Arc<[Frame]>> = stack.frames.iter().map(|&address| self.symbols.frames(address)).collect();
        let frames: Vec<&Frame> = frames.iter().flat_map(|frames| frames.iter()).collect();
        let shown = if options.has_all_frames { &frames[..] } else { own_frames(&frames) };
        Stack { frames: shown.iter().map(|&frame| frame.clone()).collect(), is_complete: stack.is_complete }
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.target.memory().is_live() {
            remarks.push("times count up to the last reading of a clock that the core file has".to_owned());
        }
        for module in self.target.modules().iter().filter(|module| !module.is_same) {
            remarks.push(format!("{}: the file is missing or another one: no frames and names of it", module.path));
        }
        let moving = self.seen.iter().filter(|seen| **seen == Seen::Moving).count();
        if moving > 0 {
            remarks.push(format!("{moving} fibres ran while their stacks were read: they are shown as running"));
        }
        remarks
    }
}

/// Groups strands of one sort that do the same. Strands that have finished are in no group.
fn groups(strands: &[StrandReport], what: What) -> Vec<Group> {
    type Key<'a> = (State, Option<&'a Arc<str>>, Option<&'a Arc<str>>, Option<usize>, Option<&'a Arc<str>>);
    let mut found: BTreeMap<Key<'_>, Vec<usize>> = BTreeMap::new();
    for (place, strand) in strands.iter().enumerate() {
        if strand.what != what || strand.state == State::Finished {
            continue;
        }
        // Where there is no stack, the place where they were spawned tells strands apart.
        let site = strand.spawned_at.as_ref().filter(|_| strand.stack.is_none());
        let key = (strand.state, strand.waits_for.as_ref(), strand.type_name.as_ref(), strand.stack, site);
        found.entry(key).or_default().push(place);
    }
    let group = |((state, waits_for, type_name, stack, _), mut members): (Key<'_>, Vec<usize>)| {
        let age = |place: &usize| strands[*place].for_ms.unwrap_or(0.0);
        members.sort_by(|one, other| age(other).total_cmp(&age(one)));
        Group { strands: members, state, waits_for: waits_for.cloned(), type_name: type_name.cloned(), stack }
    };
    let mut groups: Vec<Group> = found.into_iter().map(group).collect();
    groups.sort_by_key(|group| group.strands.len());
    groups
}

/// Returns where a group of fibres comes. First those that run, then those that could: they may be why
/// nothing goes on. Then those that wait for another strand. Then the others, the rarest first: ten
/// thousand idle sessions hide nothing at the end.
fn order(group: &Group, strands: &[StrandReport]) -> (u8, u64) {
    let oldest = group.strands.first().and_then(|&place| strands[place].for_ms).unwrap_or(0.0);
    match group.state {
        State::Running => (0, group.strands.len() as u64),
        State::Ready => (1, group.strands.len() as u64),
        _ if group.waits_for.as_deref().is_some_and(is_for_a_strand) => (2, u64::MAX - oldest as u64),
        State::New => (4, group.strands.len() as u64),
        _ => (3, group.strands.len() as u64),
    }
}

/// Says whether strands with this reason wait for another strand to go on.
fn is_for_a_strand(reason: &str) -> bool {
    matches!(
        reason,
        "mutex" | "rwlock_read" | "rwlock_write" | "join_fibre" | "join_task" | "scope" | "ask" | "mail_room"
    )
}

fn locks(strands: &[StrandReport]) -> Vec<Lock> {
    let mut locks: BTreeMap<u64, Lock> = BTreeMap::new();
    for strand in strands {
        let what = match strand.waits_for.as_deref() {
            Some("mutex") => "mutex",
            Some("rwlock_read" | "rwlock_write") => "rwlock",
            _ => continue,
        };
        let new = Lock { address: strand.object, what, owner: None, waiters: 0, longest_ms: None };
        let lock = locks.entry(strand.object).or_insert(new);
        lock.waiters += 1;
        lock.owner = lock.owner.take().or_else(|| strand.owner.as_deref().cloned());
        lock.longest_ms = match (lock.longest_ms, strand.for_ms) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
    }
    let mut locks: Vec<Lock> = locks.into_values().collect();
    locks.sort_by_key(|lock| usize::MAX - lock.waiters);
    locks
}
