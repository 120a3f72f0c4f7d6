//! A clock for tests: time passes only while all strands wait.

use super::Timers;
use crate::base::Deadline;
use crate::base::clock::{self, cycles};
use crate::processor::cluster::ClusterShared;
use crate::processor::with_current;
use crate::stack::current_stack;
use crate::wait::{self, Limit};
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The sentinel looks again after this time if timers wait for something that is no strand: for
/// another processor, or for a blocking call. Unmeasured.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A clock for tests, by which a whole runtime goes. Its time passes only while all fibres and
/// tasks of the runtime wait. Then it jumps to the next timer. So a test of hours takes
/// milliseconds, and the order of events does not depend on the speed of the machine.
///
/// A retry with a back-off of an hour:
///
/// ```
/// use sinew::Runtime;
/// use sinew::time::{self, TestClock};
/// use std::time::{Duration, Instant};
///
/// fn fetch(attempt: u32) -> Result<&'static str, &'static str> {
///     if attempt < 3 { Err("try later") } else { Ok("there it is") }
/// }
///
/// fn fetch_patiently() -> &'static str {
///     let mut attempt = 0;
///     loop {
///         match fetch(attempt) {
///             Ok(answer) => return answer,
///             Err(_) => sinew::sleep(Duration::from_secs(3600)),
///         }
///         attempt += 1;
///     }
/// }
///
/// let began = Instant::now();
/// let runtime = Runtime::builder().test_clock(&TestClock::new()).build()?;
/// runtime.run(|| {
///     let began = time::now();
///     assert_eq!(fetch_patiently(), "there it is");
///     assert_eq!(time::now() - began, Duration::from_secs(3 * 3600));
/// });
/// assert!(began.elapsed() < Duration::from_secs(60));
/// # Ok::<_, sinew::BuildError>(())
/// ```
///
/// All of the runtime goes by the clock: sleeps, timeouts, deadlines, intervals, the timeouts of
/// sockets, and [`time::now`](crate::time::now). The program that is tested has to ask
/// `time::now()`, because `Instant::now()` goes by the machine's clock.
///
/// Time stands still while a fibre or a task runs, while a descriptor is ready that somebody waits
/// for, and during a call of [`blocking`](crate::blocking()). The clock does not know of other
/// kernel threads and other processes. If a fibre waits for one of these, use a
/// [stopped](TestClock::stopped) clock. With [`Polling::Thread`](crate::io::Polling::Thread) it does not
/// know of descriptors either.
///
/// A `TestClock` is a handle: its clones are the same clock. Several runtimes may go by one clock.
#[derive(Clone)]
pub struct TestClock {
    shared: Arc<Shared>,
}

struct Shared {
    now_ns: AtomicU64,
    /// Time passes up to here; `u64::MAX` is without end.
    end_ns: AtomicU64,
    /// The number of calls, outside of strands, that time stands still for.
    holds: AtomicUsize,
    /// The number of clusters that go by this clock.
    built: AtomicUsize,
    /// Those of them whose sentinel has slept.
    clusters: Mutex<Vec<Weak<ClusterShared>>>,
    passed: Condvar,
}

impl TestClock {
    /// Returns a clock that starts now, and jumps to the next timer when all strands wait.
    pub fn new() -> TestClock {
        TestClock::ending_at(u64::MAX)
    }

    /// Returns a clock that starts now, and stands still except in
    /// [`advance`](TestClock::advance).
    ///
    /// ```
    /// use sinew::Runtime;
    /// use sinew::time::{self, TestClock};
    /// use std::time::Duration;
    ///
    /// let clock = TestClock::stopped();
    /// let runtime = Runtime::builder().test_clock(&clock).build()?;
    /// runtime.run(|| {
    ///     let alarm = sinew::spawn(|| sinew::sleep(Duration::from_secs(60)));
    ///     clock.advance(Duration::from_secs(59));
    ///     assert!(!alarm.is_finished());
    ///     clock.advance(Duration::from_secs(2));
    ///     assert!(alarm.is_finished());
    /// });
    /// # Ok::<_, sinew::BuildError>(())
    /// ```
    pub fn stopped() -> TestClock {
        TestClock::ending_at(clock::real_ns())
    }

    fn ending_at(end_ns: u64) -> TestClock {
        let (clusters, passed) = (Mutex::default(), Condvar::new());
        let now_ns = AtomicU64::new(clock::real_ns().min(end_ns));
        let (end_ns, holds, built) = (AtomicU64::new(end_ns), AtomicUsize::new(0), AtomicUsize::new(0));
        TestClock { shared: Arc::new(Shared { now_ns, end_ns, holds, built, clusters, passed }) }
    }

    /// Returns the time of this clock.
    pub fn now(&self) -> Instant {
        clock::instant_at(self.now_ns())
    }

    /// Lets `duration` pass, and returns then. Timers that are due meanwhile fire in their order.
    /// What they wake runs until it waits again before more time passes.
    ///
    /// The caller may be a fibre of the runtime, or a kernel thread. With a clock that is not
    /// stopped this is a sleep.
    ///
    /// # Panics
    /// In a task: see [`advance_async`](TestClock::advance_async).
    pub fn advance(&self, duration: Duration) {
        let end = self.move_end(duration);
        if current_stack().is_some() {
            let _ = wait::sleep(Limit::until(end));
            return;
        }
        wait::refuse_tasks();
        let mut clusters = self.clusters();
        while self.now_ns() < end.ns() && self.shared.built.load(Relaxed) > 0 {
            clusters = self.shared.passed.wait(clusters).unwrap_or_else(PoisonError::into_inner);
        }
        self.shared.now_ns.fetch_max(end.ns(), Relaxed);
    }

    /// Lets `duration` pass from now, and returns when it will have passed.
    pub(crate) fn move_end(&self, duration: Duration) -> Deadline {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let end_ns = self.now_ns().saturating_add(ns).min(u64::MAX - 1);
        self.shared.end_ns.fetch_max(end_ns, Relaxed);
        self.clusters().iter().filter_map(Weak::upgrade).for_each(|cluster| cluster.idle().wake_sentinel());
        Deadline::at_ns(end_ns)
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.shared.now_ns.load(Relaxed)
    }

    fn clusters(&self) -> MutexGuard<'_, Vec<Weak<ClusterShared>>> {
        self.shared.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a cluster goes by this clock.
    pub(super) fn build(&self) {
        clock::follow(now_ns_here);
        self.shared.built.fetch_add(1, Relaxed);
    }

    /// Notes that a cluster has ended.
    pub(super) fn abandon(&self) {
        let _clusters = self.clusters();
        self.shared.built.fetch_sub(1, Relaxed);
        self.shared.passed.notify_all();
    }

    /// Lets time pass, if all strands wait. Returns how long the sentinel may sleep. By the
    /// sentinel, which is about to sleep.
    pub(super) fn pass(&self) -> Option<Duration> {
        with_current(|processor| {
            let processor = processor.expect("a processor sleeps");
            let cluster = processor.cluster();
            let mut clusters = self.clusters();
            let goes_on = |other: &Arc<ClusterShared>| !other.timers().has_ended.load(Relaxed);
            clusters.retain(|other| other.upgrade().is_some_and(|other| goes_on(&other)));
            if !clusters.iter().any(|other| std::ptr::eq(other.as_ptr(), cluster)) {
                clusters.push(Arc::downgrade(&cluster.to_arc()));
            }
            let all: Vec<_> = clusters.iter().filter_map(Weak::upgrade).collect();
            drop(clusters);

            let now_ns = self.now_ns();
            let (next_ns, end_ns) = (next_ns(&all), self.shared.end_ns.load(Relaxed));
            if next_ns <= now_ns {
                return Some(Duration::ZERO);
            }
            if end_ns <= now_ns || (next_ns == u64::MAX && end_ns == u64::MAX) {
                return None;
            }
            let is_asleep = |cluster: &Arc<ClusterShared>| cluster.idle().sleeping() >= cluster.serving();
            let all_wait = all.len() >= self.shared.built.load(Relaxed) && all.iter().all(is_asleep);
            if !all_wait || self.shared.holds.load(Relaxed) > 0 {
                return Some(LOOK_AGAIN);
            }
            if !cluster.drivers().look(processor.post().id(), cycles()) {
                self.jump(next_ns.min(end_ns), cluster, &all);
            }
            Some(Duration::ZERO)
        })
    }

    fn jump(&self, to_ns: u64, own: &ClusterShared, all: &[Arc<ClusterShared>]) {
        let clusters = self.clusters();
        self.shared.now_ns.fetch_max(to_ns, Relaxed);
        self.shared.passed.notify_all();
        drop(clusters);
        all.iter().filter(|other| !std::ptr::eq(&***other, own)).for_each(|other| other.idle().wake_sentinel());
    }
}

fn next_ns(clusters: &[Arc<ClusterShared>]) -> u64 {
    clusters.iter().map(|cluster| cluster.timers().next().ns()).min().unwrap_or(u64::MAX)
}

/// Returns the time of the clock by which the caller's cluster goes; `None` if that is the machine's.
fn now_ns_here() -> Option<u64> {
    with_current(|processor| processor?.cluster().timers().clock().map(TestClock::now_ns))
}

/// Time stands still while there is one of these.
pub(crate) struct Hold(Option<TestClock>);

impl Hold {
    /// Stops the clock of the caller's cluster.
    pub(crate) fn begin() -> Hold {
        let clock = with_current(|processor| processor?.cluster().timers().clock().cloned());
        if let Some(clock) = &clock {
            clock.shared.holds.fetch_add(1, Relaxed);
        }
        Hold(clock)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(clock) = &self.0 {
            clock.shared.holds.fetch_sub(1, Relaxed);
        }
    }
}

impl Default for TestClock {
    fn default() -> TestClock {
        TestClock::new()
    }
}

impl fmt::Debug for TestClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestClock").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl Timers {
    /// Returns the clock for tests, if these timers go by one.
    pub(crate) fn clock(&self) -> Option<&TestClock> {
        self.clock.as_ref()
    }
}
