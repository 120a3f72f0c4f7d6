//! Watches a process: samples between two pictures, and the differences of counters.

use super::cpu::Times;
use super::picture::{LockRow, Picture, ProcessorRow, RATES, SiteRow, SocketRow, WaitRow};
use super::sockets::Sockets;
use sinew_inspect::{Dump, Error, Meters, Options, OwnerReport, Processor, Sampler, State, StrandReport, Target, What};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// The number of rows of each list but the processors.
const ROWS: usize = 12;

pub struct Watch<'a> {
    target: &'a Target,
    sampler: Sampler<'a>,
    /// The samples since the last picture, by spawn site.
    samples: HashMap<Option<Arc<str>>, u64>,
    before: Option<Before>,
}

/// The state of the counters at the last picture.
struct Before {
    at: Instant,
    meters: HashMap<u32, Meters>,
    times: Times,
}

impl<'a> Watch<'a> {
    pub fn new(target: &'a Target) -> Result<Watch<'a>, Error> {
        Ok(Watch { target, sampler: Sampler::new(target)?, samples: HashMap::new(), before: None })
    }

    /// Notes the counters, from which the first picture counts.
    pub fn begin(&mut self) {
        self.before = self.counters().ok();
    }

    fn counters(&self) -> Result<Before, Error> {
        let meters = self.sampler.meters()?;
        let times = Times::read(self.target.pid(), meters.keys().copied());
        Ok(Before { at: Instant::now(), meters, times })
    }

    /// Notes what runs at this moment.
    pub fn sample(&mut self) {
        for site in self.sampler.running() {
            *self.samples.entry(site).or_default() += 1;
        }
    }

    /// Returns a picture of the time since the last one.
    pub fn picture(&mut self) -> Result<Picture, Error> {
        let now = self.counters()?;
        let options = Options { has_backtraces: false, ..Options::default() };
        let dump = Dump::take(self.target, options)?;
        let samples = std::mem::take(&mut self.samples);
        let picture = Picture {
            process: dump.pid,
            program: dump.program.clone(),
            counts: counts(&dump),
            took_ms: dump.took_ms,
            is_paused: false,
            deadlocks: deadlocks(&dump),
            processors: processors(&dump, self.before.as_ref(), &now),
            sites: sites(&dump, &samples),
            waits: waits(&dump),
            locks: locks(&dump),
            sockets: sockets(&dump),
        };
        self.before = Some(now);
        Ok(picture)
    }
}

fn is_waiting(strand: &StrandReport) -> bool {
    strand.state == State::Stopped
}

fn counts(dump: &Dump) -> Vec<String> {
    let sorts = [(What::Fibre, "fibres"), (What::Task, "tasks"), (What::Mailbox, "actors and colours")];
    let count = |(what, name): (What, &str)| {
        let of = |state: fn(&StrandReport) -> bool| dump.strands.iter().filter(|s| s.what == what && state(s)).count();
        let (all, running) = (of(|_| true), of(|strand| strand.state == State::Running));
        let ready = of(|strand| matches!(strand.state, State::Ready | State::New));
        (all > 0).then(|| format!("{} {name}: {running} running, {ready} ready", grouped(all as f64)))
    };
    sorts.into_iter().filter_map(count).collect()
}

fn deadlocks(dump: &Dump) -> Vec<String> {
    let name = |place: &usize| dump.strands.get(*place).map_or(String::new(), short_name);
    let line = |strands: &[usize]| {
        let names: Vec<String> = strands.iter().map(name).collect();
        format!("{} wait for each other", names.join(", "))
    };
    dump.deadlocks.iter().take(ROWS).map(|deadlock| line(&deadlock.strands)).collect()
}

fn processors(dump: &Dump, before: Option<&Before>, now: &Before) -> Vec<ProcessorRow> {
    let row = |processor: &Processor| {
        let thread = processor.thread;
        let rate = |(meter, _): (&str, &str)| {
            let before = before?;
            let counted = now.meters.get(&thread)?.get(meter)?.checked_sub(*before.meters.get(&thread)?.get(meter)?)?;
            let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
            (seconds > 0.0).then(|| counted as f64 / seconds)
        };
        let runs = processor.runs.and_then(|place| dump.strands.get(place)).map(short_name);
        ProcessorRow {
            name: format!("{}-{}", processor.cluster, processor.index),
            thread,
            runs: match (runs, processor.hold) {
                (Some(runs), Some(hold)) => format!("{runs}, {hold}"),
                (Some(runs), None) => runs,
                (None, _) => "-".to_owned(),
            },
            cpu: before.and_then(|before| now.times.share_since(&before.times, thread)),
            rates: RATES.into_iter().map(rate).collect(),
        }
    };
    dump.processors.iter().map(row).collect()
}

fn sites(dump: &Dump, samples: &HashMap<Option<Arc<str>>, u64>) -> Vec<SiteRow> {
    let all: u64 = samples.values().sum();
    let mut rows: HashMap<Option<Arc<str>>, SiteRow> = HashMap::new();
    let new = |site: &Option<Arc<str>>| SiteRow {
        site: site.as_deref().unwrap_or("actors and colours").to_owned(),
        share: samples.get(site).map_or(0.0, |count| 100.0 * *count as f64 / all.max(1) as f64),
        live: 0,
        ready: 0,
    };
    for site in samples.keys() {
        rows.entry(site.clone()).or_insert_with(|| new(site));
    }
    for strand in &dump.strands {
        let row = rows.entry(strand.spawned_at.clone()).or_insert_with(|| new(&strand.spawned_at));
        row.live += 1;
        row.ready += usize::from(matches!(strand.state, State::Ready | State::New));
    }
    let mut rows: Vec<SiteRow> = rows.into_values().collect();
    rows.sort_by(|a, b| b.share.total_cmp(&a.share).then(b.live.cmp(&a.live)).then(a.site.cmp(&b.site)));
    rows.truncate(ROWS);
    rows
}

fn waits(dump: &Dump) -> Vec<WaitRow> {
    let mut waiting: Vec<&StrandReport> = dump.strands.iter().filter(|strand| is_waiting(strand)).collect();
    waiting.sort_by(|a, b| b.for_ms.unwrap_or(0.0).total_cmp(&a.for_ms.unwrap_or(0.0)));
    let row = |strand: &&StrandReport| WaitRow {
        strand: short_name(strand),
        waits_for: match (&strand.waits_for, &strand.owner) {
            (Some(what), Some(owner)) => format!("{}, held by {}", what.replace('_', " "), owner_name(owner)),
            (Some(what), None) => what.replace('_', " "),
            (None, _) => String::new(),
        },
        seconds: strand.for_ms.unwrap_or(0.0) / 1000.0,
        site: strand.spawned_at.as_deref().unwrap_or_default().to_owned(),
    };
    waiting.iter().take(ROWS).map(row).collect()
}

fn locks(dump: &Dump) -> Vec<LockRow> {
    let mut rows: Vec<LockRow> = dump
        .locks
        .iter()
        .map(|lock| LockRow {
            lock: format!("{} {:#x}", lock.what, lock.address),
            waiters: lock.waiters,
            owner: lock.owner.as_ref().map_or("-".to_owned(), owner_name),
            longest_s: lock.longest_ms.unwrap_or(0.0) / 1000.0,
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.waiters));
    rows.truncate(ROWS);
    rows
}

fn sockets(dump: &Dump) -> Vec<SocketRow> {
    let mut rows: HashMap<(u64, &'static str), SocketRow> = HashMap::new();
    for strand in dump.strands.iter().filter(|strand| is_waiting(strand)) {
        let waits_to = match strand.waits_for.as_deref() {
            Some("read") => "read",
            Some("write") => "write",
            _ => continue,
        };
        let row = rows.entry((strand.object, waits_to)).or_insert(SocketRow {
            descriptor: strand.object,
            name: String::new(),
            waits_to,
            strands: 0,
            longest_s: 0.0,
        });
        row.strands += 1;
        row.longest_s = row.longest_s.max(strand.for_ms.unwrap_or(0.0) / 1000.0);
    }
    let mut rows: Vec<SocketRow> = rows.into_values().collect();
    rows.sort_by(|a, b| b.strands.cmp(&a.strands).then(b.longest_s.total_cmp(&a.longest_s)));
    rows.truncate(ROWS);
    let sockets = if rows.is_empty() { Sockets::default() } else { Sockets::read(dump.pid) };
    for row in &mut rows {
        row.name = sockets.name(dump.pid, row.descriptor);
    }
    rows
}

/// Returns what a strand is called: its name or type, and its number.
fn short_name(strand: &StrandReport) -> String {
    let what = match strand.what {
        What::Fibre => "fibre",
        What::Task => "task",
        What::Mailbox => "actor",
    };
    match (&strand.name, &strand.type_name) {
        (Some(name), _) => format!("'{name}' {}", strand.id),
        (None, Some(type_name)) => format!("{what} {type_name}"),
        (None, None) => format!("{what} {}", strand.id),
    }
}

fn owner_name(owner: &OwnerReport) -> String {
    match (&owner.name, owner.what) {
        (Some(name), _) => format!("'{name}' {}", owner.id),
        (None, Some(What::Fibre)) => format!("fibre {}", owner.id),
        (None, Some(_)) => format!("task {:#x}", owner.id),
        (None, None) => format!("kernel thread {}", owner.id),
    }
}

/// Returns a number with its thousands apart.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(grouped(0.0), "0");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(grouped(1000.0), "1,000");
        assert_eq!(grouped(1_234_567.4), "1,234,567");
    }
}
