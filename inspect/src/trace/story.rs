//! Puts the histories of all processors together: which strand ran where, what it waited for, and who woke it.

use super::history::{By, Codes, History};
use super::names::Names;
use super::perfetto::{Event, Kind, Track, Type, Value, Writer};
use crate::memory::Memory;
use std::collections::HashMap;

const PROCESS: u64 = 1;
const FIRST_PROCESSOR: u64 = 1 << 16;
const FIRST_STRAND: u64 = 1 << 32;

/// The bits of a word for a wait that say which object.
const OBJECT_BITS: u32 = 56;

/// A processor, and what it did.
pub(super) struct Processor {
    pub(super) name: String,
    /// The number of its kernel thread; 0 if it has ended.
    pub(super) thread: u32,
    pub(super) history: History,
}

/// All that a trace is made of.
pub(super) struct Story<'a> {
    pub(super) memory: &'a dyn Memory,
    pub(super) pid: u32,
    pub(super) program: String,
    pub(super) codes: Codes,
    /// The names of the reasons for which strands wait.
    pub(super) reasons: HashMap<u64, String>,
    pub(super) cycles_per_ms: u64,
    pub(super) names: Names,
    pub(super) processors: Vec<Processor>,
    /// When the trace ends, in cycles.
    pub(super) end: u64,
}

/// A run: the number of its processor, and its number there.
type RunNumber = (usize, usize);

/// One strand, from its start to its end.
struct Strand {
    address: u64,
    /// The fibre's id and where it was spawned, if it began here.
    began: Option<(u64, u64)>,
    /// Whether it is the first strand that was seen at its address.
    is_first: bool,
    is_finished: bool,
    runs: Vec<RunNumber>,
    label: String,
}

impl Story<'_> {
    /// Writes the trace.
    pub(super) fn write(mut self) -> Vec<u8> {
        let mut strands = self.strands();
        for strand in &mut strands {
            let (id, spawned_at) = strand.began.unzip();
            let id = (id, spawned_at.unwrap_or(0));
            strand.label = self.names.label(self.memory, strand.address, id, strand.is_first);
        }
        let mut of_run: Vec<Vec<usize>> = Vec::new();
        of_run.extend(self.processors.iter().map(|processor| vec![usize::MAX; processor.history.runs.len()]));
        for (number, strand) in strands.iter().enumerate() {
            strand.runs.iter().for_each(|&(processor, run)| of_run[processor][run] = number);
        }
        let mut events = Vec::new();
        let flows = self.tell_processors(&strands, &of_run, &mut events);
        for (number, strand) in strands.iter().enumerate() {
            self.tell_strand(FIRST_STRAND + number as u64, strand, &flows, &mut events);
        }
        // Stable: what happened on one track at one moment stays in order.
        events.sort_by_key(|event| event.ns);
        let mut writer = Writer::new(self.pid, PROCESS);
        writer.track(&Track { number: PROCESS, name: &self.program, kind: Kind::Process });
        for (number, processor) in self.processors.iter().enumerate() {
            let kind = if processor.thread == 0 { Kind::Own } else { Kind::Thread(processor.thread) };
            writer.track(&Track { number: FIRST_PROCESSOR + number as u64, name: &processor.name, kind });
        }
        for (number, strand) in strands.iter().enumerate() {
            writer.track(&Track { number: FIRST_STRAND + number as u64, name: &strand.label, kind: Kind::Own });
        }
        events.iter().for_each(|event| writer.event(event));
        writer.finish()
    }

    /// Tells strands apart that had the same address one after the other: another one begins after the one before has
    /// finished, and when a fibre begins. That one was spawned does not tell: the clocks of two processors differ by more
    /// than the time between a spawn and the begin.
    fn strands(&self) -> Vec<Strand> {
        let mut runs: HashMap<u64, Vec<RunNumber>> = HashMap::new();
        for (number, processor) in self.processors.iter().enumerate() {
            for (run, told) in processor.history.runs.iter().enumerate() {
                runs.entry(told.strand).or_default().push((number, run));
            }
        }
        let mut strands: Vec<Strand> = Vec::new();
        for (address, mut own) in runs {
            own.sort_by_key(|run| self.run(*run).begin);
            let mut current: Option<Strand> = None;
            let mut is_first = true;
            for number in own {
                let run = self.run(number);
                let is_other = |strand: &Strand| strand.is_finished || run.began.is_some();
                if current.as_ref().is_none_or(is_other) {
                    strands.extend(current.take());
                    let is_first = std::mem::take(&mut is_first);
                    let (runs, label) = (Vec::new(), String::new());
                    current = Some(Strand { address, began: run.began, is_first, is_finished: false, runs, label });
                }
                if let Some(strand) = &mut current {
                    strand.is_finished = run.code == self.codes.finished;
                    strand.runs.push(number);
                }
            }
            strands.extend(current);
        }
        strands.sort_by_key(|strand| (strand.runs.first().map(|run| self.run(*run).begin), strand.address));
        strands
    }

    fn run(&self, (processor, run): RunNumber) -> &super::history::Run {
        &self.processors[processor].history.runs[run]
    }

    fn ns(&self, cycles: u64) -> u64 {
        (u128::from(cycles) * 1_000_000 / u128::from(self.cycles_per_ms.max(1))) as u64
    }

    fn event(&self, at: u64, track: u64, kind: Type, name: &str) -> Event {
        let (ns, name) = (self.ns(at), name.to_owned());
        Event { ns, track, kind, name, values: Vec::new(), flow: None, ended_flow: None }
    }

    fn slice(&self, events: &mut Vec<Event>, (begin, end): (u64, u64), event: Event) {
        let track = event.track;
        events.push(Event { ns: self.ns(begin), ..event });
        events.push(self.event(end, track, Type::End, ""));
    }

    /// Returns the name of what a strand waits for, and the values to show.
    fn reason(&self, word: u64) -> (&str, Vec<(&'static str, Value)>) {
        let (number, object) = (word >> OBJECT_BITS, word & ((1 << OBJECT_BITS) - 1));
        let name = self.reasons.get(&number).map_or("unknown", String::as_str);
        let mut values = vec![("reason", Value::Text(name.to_owned()))];
        match name {
            "unknown" => {}
            "read" | "write" => values.push(("descriptor", Value::Number(object))),
            _ if object != 0 => values.push(("object", Value::Address(object))),
            _ => {}
        }
        (name, values)
    }

    /// Says how a dispatch ended.
    fn ending(&self, code: u64) -> &'static str {
        let codes = &self.codes;
        let names = [
            (codes.yielded, "yielded"),
            (codes.parked, "parked"),
            (codes.waited, "waits"),
            (codes.moved, "moved to another cluster"),
            (codes.finished, "finished"),
            (codes.left, "waits on its carrier"),
            (codes.rested, "rests"),
            (0, "runs"),
        ];
        names.iter().find(|(number, _)| *number == code).map_or("has no letters", |(_, name)| name)
    }

    /// Tells what processors did. Returns the arrows that end at runs.
    fn tell_processors(
        &self,
        strands: &[Strand],
        of_run: &[Vec<usize>],
        events: &mut Vec<Event>,
    ) -> HashMap<RunNumber, u64> {
        let mut flows = HashMap::new();
        // For each address, the runs that an arrow may end at, in order.
        let mut begins: HashMap<u64, Vec<(u64, RunNumber)>> = HashMap::new();
        for strand in strands {
            let runs = strand.runs.iter().map(|&run| (self.run(run).begin, run));
            begins.entry(strand.address).or_default().extend(runs);
        }
        begins.values_mut().for_each(|runs| runs.sort_unstable());
        let mut next_flow = 1;
        for (number, processor) in self.processors.iter().enumerate() {
            let (track, history) = (FIRST_PROCESSOR + number as u64, &processor.history);
            let mut own = Vec::new();
            for (run, told) in
                history.runs.iter().enumerate().filter(|(_, told)| told.begin < told.end || told.code == 0)
            {
                let label = strands.get(of_run[number][run]).map_or("strand", |strand| &strand.label);
                let mut event = self.event(told.begin, track, Type::Begin, label);
                event.values = if told.argument != 0 { self.reason(told.argument).1 } else { Vec::new() };
                event.values.push(("then", Value::Text(self.ending(told.code).to_owned())));
                own.push((told.begin, Some(told.end), event));
            }
            for &(begin, end) in &history.sleeps {
                own.push((begin, Some(end.min(self.end)), self.event(begin, track, Type::Begin, "asleep")));
            }
            for &(at, lost) in &history.lost {
                let mut event = self.event(at, track, Type::Instant, "entries lost");
                event.values.push(("entries", Value::Number(lost)));
                own.push((at, None, event));
            }
            for note in &history.notes {
                let is_spawn = note.code == self.codes.spawned;
                if let Some((name, value)) = self.instant(note.code, note.argument) {
                    let mut event = self.event(note.at, track, Type::Instant, name);
                    event.values.extend(value);
                    if note.strand != 0 {
                        event.values.push(("strand", Value::Address(note.strand)));
                    }
                    own.push((note.at, None, event));
                } else if is_spawn || note.code == self.codes.readied {
                    // The first run after it.
                    let runs = begins.get(&note.strand).map_or(&[][..], Vec::as_slice);
                    let target = runs.get(runs.partition_point(|(begin, _)| *begin < note.at)).map(|(_, run)| *run);
                    let label = target.and_then(|(processor, run)| strands.get(of_run[processor][run]));
                    let label = label.map_or_else(|| format!("{:#x}", note.strand), |strand| strand.label.clone());
                    let verb = if is_spawn { "spawns" } else { "wakes" };
                    let source = match note.by {
                        By::Run(run) => of_run[number].get(run).filter(|strand| **strand != usize::MAX),
                        By::Processor => None,
                    };
                    let place = source.map_or(track, |strand| FIRST_STRAND + *strand as u64);
                    let mut event = self.event(note.at, place, Type::Instant, &format!("{verb} {label}"));
                    if let Some(target) = target {
                        let flow = *flows.entry(target).or_insert_with(|| {
                            next_flow += 1;
                            next_flow
                        });
                        event.flow = Some(flow);
                    }
                    match source {
                        Some(_) => events.push(event),
                        None => own.push((note.at, None, event)),
                    }
                }
            }
            own.sort_by_key(|(begin, ..)| *begin);
            let mut done = 0;
            for (begin, end, event) in own {
                match end {
                    Some(end) => {
                        let begin = begin.max(done);
                        done = end.max(begin);
                        self.slice(events, (begin, done), event);
                    }
                    None => events.push(event),
                }
            }
        }
        flows
    }

    /// Returns the name and the value of something that a processor did, if it is shown as such.
    fn instant(&self, code: u64, argument: u64) -> Option<(&'static str, Option<(&'static str, Value)>)> {
        let codes = &self.codes;
        match code {
            code if code == codes.stole => Some(("steals", None)),
            code if code == codes.stalled => {
                let why = if argument == 2 { "blocked in the kernel" } else { "computes" };
                Some(("held up", Some(("why", Value::Text(why.to_owned())))))
            }
            code if code == codes.polled => Some(("I/O events", Some(("events", Value::Number(argument))))),
            code if code == codes.called => Some(("batch of calls", Some(("calls", Value::Number(argument))))),
            _ => None,
        }
    }

    /// Tells what a strand did: it runs, it waits, it is ready.
    fn tell_strand(&self, track: u64, strand: &Strand, flows: &HashMap<RunNumber, u64>, events: &mut Vec<Event>) {
        let mut done = 0;
        let mut before: Option<&super::history::Run> = None;
        for &at in &strand.runs {
            let run = self.run(at);
            // Clocks of processors differ a little, and are read seldom.
            let begin = run.begin.max(done);
            let ready = if run.ready == 0 { begin } else { run.ready.clamp(done, begin) };
            match before {
                Some(before) => self.tell_gap(track, before, (done, ready, begin), events),
                None if run.ready != 0 && ready < begin => {
                    self.slice(events, (ready, begin), self.event(ready, track, Type::Begin, "ready"));
                }
                None => {}
            }
            let end = run.end.max(begin);
            let mut event = self.event(begin, track, Type::Begin, "runs");
            event.values.push(("processor", Value::Text(self.processors[at.0].name.clone())));
            event.ended_flow = flows.get(&at).copied();
            self.slice(events, (begin, end), event);
            (done, before) = (end, Some(run));
        }
        if let Some(before) = before
            && done < self.end
        {
            self.tell_gap(track, before, (done, self.end, self.end), events);
        }
    }

    /// Tells what a strand did between two runs, from `done` to `begin`, of which it was ready since `ready`.
    fn tell_gap(
        &self,
        track: u64,
        before: &super::history::Run,
        (done, ready, begin): (u64, u64, u64),
        events: &mut Vec<Event>,
    ) {
        let codes = &self.codes;
        let is_stopped = before.code == codes.parked || before.code == codes.waited;
        let is_ready = before.code == codes.yielded || before.code == codes.moved;
        if is_stopped && done < ready {
            let (name, values) = self.reason(before.argument);
            let event = self.event(done, track, Type::Begin, &format!("waits: {name}"));
            self.slice(events, (done, ready), Event { values, ..event });
        }
        let since = if is_ready { done } else { ready };
        if (is_stopped || is_ready) && since < begin {
            self.slice(events, (since, begin), self.event(since, track, Type::Begin, "ready"));
        }
    }
}
