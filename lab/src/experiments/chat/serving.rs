//! A run: makes the actors, lets messages travel, and finds out what became of them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::members::{Directory, Group, Log, Message, Posted, Report, Session, Store, World};
use super::population::Population;
use super::tally::{self, Tally};
use super::{LONGEST, OPEN, PERIOD, SHORT_OPEN, SHORT_TIMED, TIMED, flight};
use crate::case::{Case, Outcome, Reading};
use crate::experiments::actors::Random;
use crate::measure::procfs::resident_bytes;
use crate::peers::Peer;
use crate::peers::actors::{Benchmark, System};

/// The shortest sleep of the clients whose messages come at a fixed rate.
const LEAST_SLEEP: Duration = Duration::from_micros(100);
/// The time between two looks at whether all messages have arrived.
const LOOK: Duration = Duration::from_millis(1);
/// The actors that are asked for their counts at once.
const PART: usize = 10_000;

/// Ends the timers of sessions.
static IS_OVER: AtomicBool = AtomicBool::new(false);

pub struct Serving;

impl Benchmark for Serving {
    async fn root<S: System>(case: Case) -> Outcome {
        let before = resident_bytes();
        let world = populate::<S>(case.threads);
        // Now all have started.
        ask_all(world).await;
        let growth = resident_bytes().saturating_sub(before);

        let mut earlier = Tally::default();
        let phase = match case.variant.as_str() {
            TIMED | SHORT_TIMED => timed(world, case.window()).await,
            OPEN | SHORT_OPEN => {
                let peak = closed(world, &case).await;
                let rate = peak.sent_per_s() / 2.0;
                earlier = peak.tally;
                open(world, case.window(), rate).await
            }
            _ => closed(world, &case).await,
        };
        let sent = earlier.sent + phase.tally.sent;
        let delivered = earlier.latency.count() + phase.tally.latency.count();
        if let Err(wrong) = audit(&world.report, sent, delivered) {
            return Outcome::Failed(wrong);
        }
        let mut reading = Reading::of([
            ("deliveries_per_s", phase.delivered as f64 / phase.elapsed.as_secs_f64()),
            ("sent_per_s", phase.sent_per_s()),
            ("resident_bytes", growth as f64 / case.threads as f64),
        ]);
        phase.tally.latency.read_into(&mut reading);
        phase.tally.latency.read_letters_into(&mut reading);
        Outcome::Measured(reading)
    }
}

/// A time in which messages travelled.
struct Phase {
    /// All messages, also those that arrived after the window.
    tally: Tally,
    /// The messages within the window.
    sent: u64,
    delivered: u64,
    elapsed: Duration,
}

impl Phase {
    fn sent_per_s(&self) -> f64 {
        self.sent as f64 / self.elapsed.as_secs_f64()
    }
}

/// Makes all actors. They live as long as the process.
fn populate<S: System>(sessions: usize) -> &'static World<S> {
    let Population { numbers, profiles, sizes } = Population::of(sessions);
    let mut random = Random::of(0);
    let world: &'static World<S> = Box::leak(Box::new(World {
        epoch: Instant::now(),
        numbers,
        directory: OnceLock::new(),
        pool: [(); LONGEST].map(|()| random.below(256) as u8),
        sessions,
        goes_on: AtomicBool::new(false),
        is_over: &IS_OVER,
        retired: AtomicU64::new(0),
        report: Report::default(),
    }));
    let mut subscribers: Vec<Vec<_>> = sizes.iter().map(|&size| Vec::with_capacity(size as usize)).collect();
    let sessions = profiles.iter().enumerate().map(|(number, profile)| {
        let session = S::spawn(Session::new(world, number, profile));
        world.groups_of(profile).iter().for_each(|&group| subscribers[group as usize].push(session.clone()));
        session
    });
    let sessions = sessions.collect();
    let groups = subscribers
        .into_iter()
        .map(|subscribers| S::spawn(Group { world, subscribers: subscribers.into_boxed_slice(), messages: 0 }));
    let groups = groups.collect();
    let store = S::spawn(Store { world, messages: 0, bytes: 0, newest: 0 });
    assert!(world.directory.set(Directory { sessions, groups, store }).is_ok(), "filled once");
    world
}

/// Keeps a fixed number of messages in flight.
async fn closed<S: System>(world: &'static World<S>, case: &Case) -> Phase {
    let tokens = flight(case) * case.processors;
    world.goes_on.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    (0..tokens).for_each(|token| world.send(Random::of(token).state(), None));
    S::Strands::sleep(case.window()).await;
    let ((sent, delivered), elapsed) = (tally::counts(), begun.elapsed());
    world.goes_on.store(false, Ordering::Relaxed);
    arrived(world, tokens as u64).await;
    Phase { tally: tally::take(), sent, delivered, elapsed }
}

/// Sends messages at a fixed rate, whatever becomes of them. The root stands for the clients. If it is late, that
/// counts: a message's time begins when it is due.
async fn open<S: System>(world: &'static World<S>, window: Duration, rate: f64) -> Phase {
    let interval = Duration::from_secs_f64(1.0 / rate.max(1.0));
    let begun_ns = world.now_ns();
    let since = || Duration::from_nanos(world.now_ns() - begun_ns);
    let (mut issued, mut due) = (0, Duration::ZERO);
    while since() < window {
        while due <= since() {
            world.send(Random::of(issued).state(), Some(begun_ns + due.as_nanos() as u64));
            issued += 1;
            due = interval.mul_f64(issued as f64);
        }
        S::Strands::sleep(due.saturating_sub(since()).max(LEAST_SLEEP)).await;
    }
    let ((sent, delivered), elapsed) = (tally::counts(), since());
    arrived(world, issued as u64).await;
    Phase { tally: tally::take(), sent, delivered, elapsed }
}

/// Lets each session send a message in each period, by a timer of its own.
async fn timed<S: System>(world: &'static World<S>, window: Duration) -> Phase {
    let sessions = &world.directory().sessions;
    let begun = Instant::now();
    for (number, session) in sessions.iter().enumerate() {
        let first = PERIOD.mul_f64(number as f64 / sessions.len() as f64);
        S::every(session, first, PERIOD, || Message::Tick, &IS_OVER);
    }
    S::Strands::sleep(window).await;
    let ((sent, delivered), elapsed) = (tally::counts(), begun.elapsed());
    IS_OVER.store(true, Ordering::Relaxed);
    // No session sends after its answer.
    ask_all(world).await;
    arrived(world, world.report.sent.load(Ordering::Relaxed)).await;
    Phase { tally: tally::take(), sent, delivered, elapsed }
}

/// Waits until all receivers of these messages have them, and asks all actors for their counts.
async fn arrived<S: System>(world: &'static World<S>, messages: u64) {
    while world.retired.load(Ordering::Relaxed) != messages {
        S::Strands::sleep(LOOK).await;
    }
    world.retired.store(0, Ordering::Relaxed);
    // The last subscribers of all groups have their messages. The others have theirs at least in their mailboxes, before
    // the question.
    ask_all(world).await;
}

/// Asks all actors for their counts, and waits for the sums.
async fn ask_all<S: System>(world: &'static World<S>) {
    let Directory { sessions, groups, store } = world.directory();
    world.report.clear();
    let mut asked = 0;
    let answers = async |asked: usize| {
        while world.report.answers.load(Ordering::Acquire) != asked as u64 {
            S::Strands::sleep(LOOK).await;
        }
    };
    for part in groups.chunks(PART) {
        part.iter().for_each(|group| S::tell(group, Posted::Report));
        asked += part.len();
        answers(asked).await;
    }
    for part in sessions.chunks(PART) {
        part.iter().for_each(|session| S::tell(session, Message::Report));
        asked += part.len();
        answers(asked).await;
    }
    S::tell(store, Log::Report);
    answers(asked + 1).await;
}

/// Checks that no message was lost or came twice. `sent` and `delivered` were counted by kernel threads, the rest by
/// the actors.
fn audit(report: &Report, sent: u64, delivered: u64) -> Result<(), String> {
    let of = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
    let to_friends = of(&report.sent) - of(&report.to_groups);
    let claims = [
        ("messages that were counted", sent, of(&report.sent)),
        ("messages in the store", of(&report.logged), of(&report.sent)),
        ("messages to groups", of(&report.posted), of(&report.to_groups)),
        (
            "messages delivered or blocked",
            of(&report.delivered) + of(&report.blocked),
            to_friends + of(&report.fanned_out),
        ),
        ("latencies", delivered, of(&report.delivered)),
    ];
    match claims.into_iter().find(|(_, found, right)| found != right) {
        None => Ok(()),
        Some((what, found, right)) => Err(format!("{what}: {found} in place of {right}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two messages to friends, one of them blocked, and one to a group of three.
    fn report() -> Report {
        Report {
            sent: 3.into(),
            to_groups: 1.into(),
            delivered: 4.into(),
            blocked: 1.into(),
            logged: 3.into(),
            posted: 1.into(),
            fanned_out: 3.into(),
            ..Report::default()
        }
    }

    #[test]
    fn every_message_is_delivered_or_blocked() {
        assert_eq!(audit(&report(), 3, 4), Ok(()));
    }

    #[test]
    fn a_message_that_is_lost_or_comes_twice_is_a_failure() {
        for delivered in [3, 5] {
            let wrong = audit(&Report { delivered: delivered.into(), ..report() }, 3, delivered);
            assert!(wrong.is_err_and(|wrong| wrong.contains("delivered or blocked")));
        }
        assert!(audit(&Report { logged: 2.into(), ..report() }, 3, 4).is_err());
        assert!(audit(&Report { posted: 2.into(), ..report() }, 3, 4).is_err());
        assert!(audit(&report(), 2, 4).is_err());
        assert!(audit(&report(), 3, 5).is_err());
    }
}
