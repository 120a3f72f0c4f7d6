//! The history of a processor, from the entries of its ring.
//!
//! An entry of a dispatch says when it ended, by the last reading of the processor's clock. It began at the time of
//! the entry before. While dispatches are short, the processor reads its clock at every 16th only. The time between
//! two readings is then shared out evenly.

use super::rings::{Entry, Piece};

/// The numbers of events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codes {
    pub(super) yielded: u64,
    pub(super) parked: u64,
    pub(super) waited: u64,
    pub(super) moved: u64,
    pub(super) declined: u64,
    pub(super) finished: u64,
    pub(super) left: u64,
    pub(super) rested: u64,
    pub(super) spawned: u64,
    pub(super) began: u64,
    pub(super) readied: u64,
    pub(super) stole: u64,
    pub(super) stalled: u64,
    pub(super) slept: u64,
    pub(super) resumed: u64,
    pub(super) polled: u64,
    pub(super) called: u64,
    pub(super) looked: u64,
}

impl Codes {
    /// Says whether an entry stands for a dispatch.
    fn is_dispatch(&self, code: u64) -> bool {
        (1..=self.rested).contains(&code)
    }
}

/// One dispatch. Times are in cycles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) strand: u64,
    pub(super) begin: u64,
    pub(super) end: u64,
    /// When the strand had become ready; 0 if that is not known.
    pub(super) ready: u64,
    /// How it ended; 0 if it has not.
    pub(super) code: u64,
    pub(super) argument: u64,
    /// The id of the fibre and where it was spawned, if it began with this dispatch.
    pub(super) began: Option<(u64, u64)>,
}

/// The origin of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The strand of the dispatch of this number.
    Run(usize),
    /// The processor, between two dispatches.
    Processor,
}

/// Something that happened at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub(super) at: u64,
    pub(super) code: u64,
    pub(super) strand: u64,
    pub(super) argument: u64,
    /// As the event says.
    pub(super) word: u64,
    pub(super) by: By,
    /// The number of its slot.
    number: u64,
}

/// The history of a processor.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) runs: Vec<Run>,
    pub(super) notes: Vec<Note>,
    /// When the processor slept.
    pub(super) sleeps: Vec<(u64, u64)>,
    /// When slots were lost, and their number.
    pub(super) lost: Vec<(u64, u64)>,
    /// The last reading of the clock; 0 if there is none.
    pub(super) last: u64,
    /// Whether it sleeps at the end.
    pub(super) is_asleep: bool,
}

enum Item {
    /// A run, and the number of its slot.
    Run(usize, u64),
    /// A run of which no time is known: the first one, or the carrier of a mailbox that has just run.
    Stop(usize),
    Note(usize),
}

struct Teller<'a> {
    codes: &'a Codes,
    /// The longest time that a short dispatch is taken to last, if its end is not known.
    short: u64,
    told: History,
    /// The reading of the clock that the pending items have.
    now: u64,
    pending: Vec<Item>,
    /// The number of notes for which it is known who did it.
    settled: usize,
    asleep_since: Option<u64>,
    /// Whether it slept when the pending items began.
    was_asleep: bool,
    /// Whether the last entry was that of a mailbox that has left.
    has_left: bool,
    lost: u64,
    /// The dispatch that has held the processor up is the first one whose slot has this number, or a larger one.
    held: Option<u64>,
}

/// Makes the history of a processor whose clock has this number of cycles in a millisecond.
pub(super) fn tell(pieces: &[Piece], codes: &Codes, cycles_per_ms: u64) -> History {
    // Dispatches are short while 16 of them take less than 4 µs.
    let short = cycles_per_ms / 4000;
    let mut teller = Teller {
        codes,
        short,
        told: History::default(),
        now: 0,
        pending: Vec::new(),
        settled: 0,
        asleep_since: None,
        was_asleep: false,
        has_left: false,
        lost: 0,
        held: None,
    };
    for piece in pieces {
        match piece {
            Piece::Entry(entry) => teller.entry(entry),
            Piece::Lost(number) => teller.lose(*number),
        }
    }
    teller.flush(teller.now, false);
    teller.settle(By::Processor);
    let mut told = teller.told;
    if let Some(since) = teller.asleep_since {
        told.sleeps.push((since, u64::MAX));
        told.is_asleep = true;
    }
    told.last = teller.now;
    told
}

impl Teller<'_> {
    fn entry(&mut self, entry: &Entry) {
        let is_dispatch = self.codes.is_dispatch(entry.code);
        // When the dispatch of the first entry began is not known.
        let is_first = self.now == 0 || self.lost > 0;
        if self.lost > 0 {
            self.told.lost.push((entry.at, std::mem::take(&mut self.lost)));
        }
        if is_first {
            self.now = entry.at;
        }
        let at = entry.at.max(self.now);
        if is_dispatch {
            self.dispatch(entry, is_first);
        }
        if at > self.now {
            self.flush(at, is_dispatch);
        }
        if !is_dispatch {
            self.note(entry);
        }
    }

    fn dispatch(&mut self, entry: &Entry, is_first: bool) {
        let carries = std::mem::replace(&mut self.has_left, entry.code == self.codes.left);
        if entry.code == self.codes.declined {
            return self.settle(By::Processor);
        }
        let number = self.told.runs.len();
        let Entry { strand, word: ready, code, argument, .. } = *entry;
        let argument = if code == self.codes.parked || code == self.codes.waited { argument } else { 0 };
        let mut run = Run { strand, begin: self.now, end: self.now, ready, code, argument, began: None };
        for note in &self.told.notes[self.settled..] {
            if note.code == self.codes.began && note.strand == strand {
                run.began = Some((note.argument, note.word));
            }
        }
        self.told.runs.push(run);
        self.settle(By::Run(number));
        self.pending.push(if carries || is_first { Item::Stop(number) } else { Item::Run(number, entry.number) });
    }

    fn note(&mut self, entry: &Entry) {
        let codes = *self.codes;
        let (code, notes) = (entry.code, &mut self.told.notes);
        if code == codes.looked {
            // Those before them are of the dispatch that is about to end.
            let of_drivers = notes.iter_mut().rev().take_while(|note| note.number >= entry.word);
            of_drivers.for_each(|note| note.by = By::Processor);
        }
        if code == codes.stalled {
            self.held = Some(entry.word);
        }
        if code == codes.slept || code == codes.resumed {
            self.settle(By::Processor);
        }
        if code == codes.slept {
            self.asleep_since.get_or_insert(self.now);
        } else if code == codes.resumed
            && let Some(since) = self.asleep_since.take()
        {
            self.told.sleeps.push((since, self.now));
        }
        let runs = self.told.runs.len();
        let of_last = code == codes.readied && entry.argument == 1 && runs > 0;
        let by = if of_last { By::Run(runs - 1) } else { By::Run(usize::MAX) };
        self.pending.push(Item::Note(self.told.notes.len()));
        let Entry { strand, argument, word, number, .. } = *entry;
        self.told.notes.push(Note { at: self.now, code, strand, argument, word, by, number });
    }

    /// Says who did what nobody is known to have done.
    fn settle(&mut self, by: By) {
        for note in &mut self.told.notes[self.settled..] {
            if note.by == By::Run(usize::MAX) {
                note.by = by;
            }
        }
        self.settled = self.told.notes.len();
    }

    /// Shares the time until `now`, the next reading of the clock, out to the pending dispatches. `is_run` says that
    /// the last of them ended there.
    fn flush(&mut self, now: u64, is_run: bool) {
        let held = self.held.take().filter(|_| now > self.now);
        let is_run_item = |item: &&Item| matches!(item, Item::Run(..));
        let runs = self.pending.iter().filter(is_run_item).count() as u64;
        let passed = now - self.now;
        let all = if is_run { passed } else { passed.min(runs * self.short) };
        // The dispatch that has held the processor up took nearly all of the time.
        let is_held = |item: &Item| matches!((item, held), (Item::Run(_, entry), Some(held)) if *entry >= held);
        let held = self.pending.iter().position(is_held);
        let others = match held {
            Some(_) => all.min((runs - 1) * self.short),
            None => all,
        };
        let (mut at, mut done, mut is_asleep) = (self.now, 0, self.was_asleep);
        let sharers = if held.is_some() { runs - 1 } else { runs };
        for (place, item) in self.pending.drain(..).enumerate() {
            match item {
                Item::Run(number, _) => {
                    let begin = at;
                    if held == Some(place) {
                        at += all - others;
                    } else {
                        let share = |done| (u128::from(others) * done / u128::from(sharers)) as u64;
                        at += share(done + 1) - share(done);
                        done += 1;
                    }
                    let run = &mut self.told.runs[number];
                    (run.begin, run.end) = (begin, at);
                }
                Item::Stop(number) => {
                    let run = &mut self.told.runs[number];
                    (run.begin, run.end) = (at, at);
                }
                Item::Note(number) => {
                    let note = &mut self.told.notes[number];
                    // An entry behind a sleep was written when the sleep ended.
                    note.at = if is_asleep { now } else { at };
                    is_asleep |= note.code == self.codes.slept;
                }
            }
        }
        self.was_asleep = self.asleep_since.is_some();
        self.now = now;
    }

    fn lose(&mut self, number: u64) {
        self.flush(self.now, false);
        self.settle(By::Processor);
        if let Some(since) = self.asleep_since.take() {
            self.told.sleeps.push((since, self.now));
        }
        self.has_left = false;
        self.lost += number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODES: Codes = Codes {
        yielded: 1,
        parked: 2,
        waited: 3,
        moved: 4,
        declined: 5,
        finished: 6,
        left: 8,
        rested: 9,
        spawned: 16,
        began: 17,
        readied: 18,
        stole: 19,
        stalled: 20,
        slept: 21,
        resumed: 22,
        polled: 23,
        called: 24,
        looked: 27,
    };

    /// A millisecond has 4,000,000 cycles, so that a short dispatch takes up to 1,000.
    const PER_MS: u64 = 4_000_000;

    /// Makes the history of entries: code, strand, time, word and argument.
    fn told(entries: &[(u64, u64, u64, u64, u64)]) -> History {
        let entry = |(number, &(code, strand, at, word, argument)): (usize, _)| {
            Piece::Entry(Entry { number: number as u64, code, strand, at, word, argument })
        };
        tell(&entries.iter().enumerate().map(entry).collect::<Vec<_>>(), &CODES, PER_MS)
    }

    fn times(history: &History) -> Vec<(u64, u64)> {
        history.runs.iter().map(|run| (run.begin, run.end)).collect()
    }

    #[test]
    fn the_time_between_two_readings_is_shared_out() {
        let history = told(&[(22, 0, 1000, 0, 0), (1, 64, 1000, 0, 0), (1, 128, 1000, 0, 0), (1, 64, 1300, 0, 0)]);
        assert_eq!(times(&history), [(1000, 1100), (1100, 1200), (1200, 1300)]);
    }

    #[test]
    fn a_short_dispatch_before_an_idle_time_stays_short() {
        let entries = [(22, 0, 1000, 0, 0), (2, 64, 1000, 0, 0), (21, 0, 90_000, 0, 0), (22, 0, 500_000, 0, 0)];
        let history = told(&entries);
        assert_eq!(times(&history), [(1000, 2000)]);
        assert_eq!(history.sleeps, [(90_000, 500_000)]);
    }

    #[test]
    fn a_dispatch_that_held_the_processor_up_has_the_time() {
        let held = 50_000_000;
        let entries =
            [(22, 0, 1000, 0, 0), (1, 64, 1000, 0, 0), (1, 128, 1000, 0, 0), (20, 0, 1000, 2, 1), (1, 64, held, 0, 0)];
        let history = told(&entries);
        assert_eq!(times(&history), [(1000, 2000), (2000, held - 1000), (held - 1000, held)]);
    }

    #[test]
    fn what_drivers_did_is_not_told_of_the_strand_that_ran() {
        // The strand wakes one, drivers wake another at the beat, and the strand's end wakes the one that joined it.
        let entries = [
            (22, 0, 1000, 0, 0),
            (18, 128, 1000, 0, 0),
            (18, 192, 1000, 0, 0),
            (27, 0, 1000, 2, 0),
            (6, 64, 2000, 0, 0),
            (18, 256, 2000, 0, 1),
            (2, 128, 3000, 0, 0),
        ];
        let history = told(&entries);
        let by = |strand| history.notes.iter().find(|note| note.strand == strand).map(|note| note.by);
        assert_eq!(by(128), Some(By::Run(0)));
        assert_eq!(by(192), Some(By::Processor));
        assert_eq!(by(256), Some(By::Run(0)));
    }

    #[test]
    fn the_first_dispatch_after_a_gap_takes_no_time() {
        let entry = |at| Piece::Entry(Entry { number: 0, code: 1, strand: 64, at, word: 0, argument: 0 });
        let history = tell(&[entry(1000), entry(2000), Piece::Lost(7), entry(9000), entry(9500)], &CODES, PER_MS);
        assert_eq!(times(&history), [(1000, 1000), (1000, 2000), (9000, 9000), (9000, 9500)]);
        assert_eq!(history.lost, [(9000, 7)]);
    }
}
