//! Counting what many strands do during one window of time.
//!
//! A kernel thread of its own opens the window when all strands have started and warmed
//! up. It sleeps except for the few moments at which it turns the phase. The strands count
//! in a local variable and look at the phase once per operation. So counting costs every
//! peer the same: one load of a line that is not written.
//!
//! After the window an [`Audit`] can follow, which finds the share of *void*
//! operations: those that were meant to let other strands run, and did not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::case::Reading;
use crate::kernel::{cpu_time, thread_number};

const LONGEST_WARM_UP: Duration = Duration::from_millis(50);
const LONGEST_AUDIT: Duration = Duration::from_millis(30);
/// On a machine with fifty times more work than CPUs, one window of 0.1 s in a hundred passed
/// before any strand ran. Such a window says nothing. So a window in which the process had
/// less than a hundredth of a CPU stays open for longer, but no longer than this.
const LONGEST_EXTENSION: Duration = Duration::from_secs(5);

/// The phase only grows.
const WARMING: u8 = 0;
const OPEN: u8 = 1;
const AUDITING: u8 = 2;
const OVER: u8 = 3;

/// No phase: a [`Tally`] that holds it takes the slow path each time.
const NEVER: u8 = u8::MAX;

/// How void operations are found. That happens after the window, so that it costs nothing
/// inside of it.
#[derive(Clone, Copy)]
pub enum Audit {
    None,
    /// Each strand notes on its kernel thread that it ran last. A strand that returns from
    /// a yield and finds its own note has let no other strand run.
    Turns,
    /// Each strand tries before it waits: see [`Tally::probe`].
    Probes,
    /// Each strand knows its void operations, and notes them: see [`Tally::was_void`].
    Counted,
    /// The kernel counts the switches of each strand, in the window itself.
    Kernel(fn() -> Option<u64>),
}

pub struct Window {
    audit: Audit,
    /// Written by the timekeeper only.
    phase: AtomicU8,
    /// Strands that have made their tally.
    started: AtomicUsize,
    audited: AtomicU64,
    void: AtomicU64,
}

/// The thread that opens and closes the window.
pub struct Timekeeper(thread::JoinHandle<Span>);

/// How long a window was open, and the CPU time that all threads used in it.
pub struct Span {
    pub elapsed: Duration,
    pub cpu: Duration,
}

impl Timekeeper {
    pub fn span(self) -> Span {
        self.0.join().expect("the timekeeper")
    }

    pub fn elapsed(self) -> Duration {
        self.span().elapsed
    }
}

impl Window {
    /// Opens for `length` as soon as `strands` tallies exist.
    pub fn open(strands: usize, length: Duration, audit: Audit) -> (Arc<Window>, Timekeeper) {
        let window = Arc::new(Window::new(audit));
        let timekeeper = thread::spawn({
            let window = window.clone();
            move || window.keep_time(strands, length, cpu_time)
        });
        (window, Timekeeper(timekeeper))
    }

    fn new(audit: Audit) -> Window {
        Window {
            audit,
            phase: AtomicU8::new(WARMING),
            started: AtomicUsize::new(0),
            audited: AtomicU64::new(0),
            void: AtomicU64::new(0),
        }
    }

    fn keep_time(&self, strands: usize, length: Duration, cpu_time: impl Fn() -> Duration) -> Span {
        while self.started.load(Relaxed) < strands {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(LONGEST_WARM_UP.min(length / 2));
        let (begun, used) = (Instant::now(), cpu_time());
        self.phase.store(OPEN, Relaxed);
        thread::sleep(length);
        while cpu_time() - used < length / 100 && begun.elapsed() < length + LONGEST_EXTENSION {
            thread::sleep(length);
        }
        let span = Span { elapsed: begun.elapsed(), cpu: cpu_time() - used };
        if matches!(self.audit, Audit::Turns | Audit::Probes) {
            self.phase.store(AUDITING, Relaxed);
            thread::sleep(LONGEST_AUDIT.min(length / 4));
        }
        self.phase.store(OVER, Relaxed);
        span
    }

    pub fn is_open(&self) -> bool {
        self.phase.load(Relaxed) == OPEN
    }

    pub fn is_over(&self) -> bool {
        self.phase.load(Relaxed) == OVER
    }

    /// Returns the share of audited operations that were void, if there was an audit.
    pub fn void_share(&self) -> Option<f64> {
        let audited = self.audited.load(Relaxed);
        (audited > 0).then(|| self.void.load(Relaxed) as f64 / audited as f64)
    }

    /// Returns `ops_per_s` of the operations that were not void, `void_per_s` if there was
    /// an audit, and `cpu_ns_per_op` of both. Other work on the machine disturbs the last
    /// one least.
    pub fn reading(&self, counts: &[u64], span: Span) -> Reading {
        let count = counts.iter().sum::<u64>() as f64;
        let rate = count / span.elapsed.as_secs_f64();
        let void = self.void_share();
        let mut reading = Reading::of([
            ("ops_per_s", rate * (1.0 - void.unwrap_or(0.0))),
            ("cpu_ns_per_op", span.cpu.as_nanos() as f64 / count),
        ]);
        if let Some(void) = void {
            reading.set("void_per_s", rate * void);
        }
        reading
    }
}

/// One strand's count.
pub struct Tally {
    window: Arc<Window>,
    strand: usize,
    count: u64,
    /// The phase in which the fast path suffices, or `NEVER`.
    phase: u8,
    counted: u64,
    audited: u64,
    void: u64,
    /// The kernel's count when the window opened.
    switches: u64,
}

impl Tally {
    /// Returns the tally of a strand. The strand itself calls this, once it runs.
    pub fn new(window: &Arc<Window>, strand: usize) -> Tally {
        window.started.fetch_add(1, Relaxed);
        let window = window.clone();
        Tally { window, strand, count: 0, phase: WARMING, counted: 0, audited: 0, void: 0, switches: 0 }
    }

    /// Counts one operation. Returns whether the strand goes on.
    #[inline(always)]
    pub fn tick(&mut self) -> bool {
        self.count += 1;
        let phase = self.window.phase.load(Relaxed);
        phase == self.phase || self.turn_slow(phase)
    }

    /// Returns whether the window goes on, for a strand whose operations do not count.
    #[inline(always)]
    pub fn goes_on(&mut self) -> bool {
        !self.window.is_over()
    }

    #[cold]
    fn turn_slow(&mut self, phase: u8) -> bool {
        match phase {
            OPEN => {
                self.count = 0;
                self.void = 0;
                if let Audit::Kernel(switches) = self.window.audit {
                    self.switches = switches().unwrap_or(0);
                }
            }
            AUDITING | OVER if self.phase == OPEN => {
                self.counted = self.count;
                // A strand that ran before the audit left no note.
                ran_last(self.strand);
                if matches!(self.window.audit, Audit::Counted) {
                    self.audited = self.count;
                    self.void = self.void.min(self.count);
                }
                if let Audit::Kernel(switches) = self.window.audit {
                    let switched = switches().unwrap_or(0) - self.switches;
                    self.audited = self.count;
                    self.void = self.count.saturating_sub(switched);
                }
            }
            AUDITING if matches!(self.window.audit, Audit::Turns) => {
                self.note(ran_last(self.strand) == Some(self.strand));
            }
            // It did not run while the window was open: what it noted before does not count.
            _ if self.phase == WARMING => self.void = 0,
            _ => {}
        }
        self.phase = if phase == OPEN { OPEN } else { NEVER };
        phase != OVER
    }

    /// Called before a wait, with the attempt that can spare it. Makes the attempt only in
    /// an audit. Returns whether it succeeded: then there is nothing to wait for, and the
    /// operation was void.
    #[inline(always)]
    pub fn probe(&mut self, attempt: impl FnOnce() -> bool) -> bool {
        self.phase == NEVER && self.note(attempt())
    }

    /// Notes that the operation that is counted next was void.
    #[inline(always)]
    pub fn was_void(&mut self) {
        if self.phase != NEVER {
            self.void += 1;
        }
    }

    fn note(&mut self, void: bool) -> bool {
        self.audited += 1;
        self.void += u64::from(void);
        void
    }

    /// Returns the number of operations inside the window.
    pub fn close(mut self) -> u64 {
        if self.phase == OPEN {
            // The last operation came before the end was seen.
            self.turn_slow(OVER);
        }
        self.window.audited.fetch_add(self.audited, Relaxed);
        self.window.void.fetch_add(self.void, Relaxed);
        self.counted
    }
}

/// Returns the strand that called this last on the calling kernel thread.
///
/// Not by a thread-local variable: that may be the strand's own. Kernel threads of a run have numbers that follow each
/// other, so each has a place of its own here.
fn ran_last(strand: usize) -> Option<usize> {
    static LAST: [AtomicUsize; 4096] = [const { AtomicUsize::new(usize::MAX) }; 4096];
    let last = LAST[thread_number() % LAST.len()].swap(strand, Relaxed);
    (last != usize::MAX).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_stays_open_until_a_strand_ran() {
        let length = Duration::from_millis(1);
        let window = Window::new(Audit::None);
        let used_ms = AtomicU64::new(0);
        let span = thread::scope(|scope| {
            let timekeeper =
                scope.spawn(|| window.keep_time(0, length, || Duration::from_millis(used_ms.load(Relaxed))));
            while !window.is_open() {
                assert!(!timekeeper.is_finished(), "no strand ran");
                thread::yield_now();
            }
            let seen = Instant::now();
            while seen.elapsed() < length * 20 {
                assert!(!timekeeper.is_finished(), "no strand ran");
                thread::yield_now();
            }
            used_ms.store(7, Relaxed);
            timekeeper.join().expect("the timekeeper")
        });
        assert!(window.is_over());
        assert_eq!(span.cpu, Duration::from_millis(7));
    }

    #[test]
    fn a_strand_that_misses_the_window_has_no_void_operations() {
        let window = Arc::new(Window::new(Audit::Counted));
        let (mut early, mut late) = (Tally::new(&window, 0), Tally::new(&window, 1));
        let operate = |tally: &mut Tally| {
            tally.was_void();
            tally.tick()
        };
        assert!(operate(&mut early) && operate(&mut late));
        window.phase.store(OPEN, Relaxed);
        assert!(operate(&mut early) && operate(&mut early));
        window.phase.store(OVER, Relaxed);
        assert!(!operate(&mut early) && !operate(&mut late));
        let counts = [early.close(), late.close()];
        assert_eq!(counts[1], 0);
        assert!(window.void_share().unwrap() <= 1.0, "{:?}", window.void_share());
    }
}
