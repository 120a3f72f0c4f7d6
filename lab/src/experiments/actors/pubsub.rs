//! `pubsub`: groups that publish to sessions. 100,000 sessions are in one to four of 1,000 groups
//! each. Every 100 ms the publisher of each group sends a post to all sessions of the group, 20
//! times. A session notes the time since the post was due, so a round that is late is in the
//! figures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{NINE, Random, Sink, one_size, parameters, scaled};
use crate::case::{Case, Outcome, Reading};
use crate::experiments::{Experiment, Metric, Plot};
use crate::peers::Peer;
use crate::peers::actors::{self, Behaviour, Benchmark, Flow, Promise, System};

const SESSIONS: u64 = 100_000;
const GROUPS: usize = 1000;
const ROUNDS: u32 = 20;
const SHORT_ROUNDS: u32 = 3;
const PERIOD: Duration = Duration::from_millis(100);

/// A session is in at most this number of groups.
const MOST_GROUPS: u64 = 4;

pub static PUBSUB: Experiment = Experiment {
    name: "pubsub",
    measures: "The time from when a post is due until a subscriber has it: every 100 ms, 1,000 groups publish to their sessions, of which there are 100,000, each in one to four groups.",
    good: "A shorter mean than every other actor system's, and a p99 below the period.",
    metrics: &[
        Metric::lower("latency_ms", "ms, mean", 1.0),
        Metric::lower("p99_ms", "ms, p99", 1.0),
        Metric::higher("deliveries_per_s", "million deliveries/s", 1e6),
    ],
    plots: &[Plot::Normalised { metric: "latency_ms" }, Plot::Bars { metric: "p99_ms" }],
    variants: |depth, _, _| one_size(depth, SESSIONS as usize + GROUPS),
    measure: actors::measure::<Publishing>,
    ..NINE
};

struct Publishing;

/// Returns the groups of a session, each once.
fn groups_of(session: usize) -> Vec<usize> {
    let mut random = Random::of(session);
    let mut groups = Vec::new();
    for _ in 0..1 + random.below(MOST_GROUPS) {
        let group = random.below(GROUPS as u64) as usize;
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

/// A message of a group, which all receivers share.
struct Post {
    due: Instant,
}

/// The times of a session.
type Times = Vec<u32>;

struct Session<S: System> {
    number: usize,
    /// Microseconds from when a post was due. There is room for all.
    times: Times,
    expected: usize,
    sink: S::Address<Sink<S, Times>>,
}

impl<S: System> Behaviour<S> for Session<S> {
    type Message = Arc<Post>;

    fn receive(&mut self, post: Arc<Post>) -> Flow {
        self.times.push(post.due.elapsed().as_micros() as u32);
        if self.times.len() == self.expected {
            S::tell(&self.sink, (self.number, std::mem::take(&mut self.times)));
        }
        Flow::GoOn
    }
}

struct Publisher<S: System> {
    subscribers: Vec<S::Address<Session<S>>>,
}

/// Tells a publisher that a post is due.
struct Due(Instant);

impl<S: System> Behaviour<S> for Publisher<S> {
    type Message = Due;
    const IS_HUB: bool = true;

    fn receive(&mut self, Due(due): Due) -> Flow {
        let post = Arc::new(Post { due });
        for subscriber in &self.subscribers {
            S::tell(subscriber, Arc::clone(&post));
        }
        Flow::GoOn
    }
}

impl Benchmark for Publishing {
    async fn root<S: System>(case: Case) -> Outcome {
        let sessions = scaled(&case, SESSIONS) as usize;
        let rounds = parameters(&case, ROUNDS, SHORT_ROUNDS);
        let promise = Promise::<S, _>::new();
        let sink = S::spawn(Sink::new(sessions, &promise));
        let mut groups: Vec<Vec<_>> = (0..GROUPS).map(|_| Vec::new()).collect();
        let mut memberships = 0;
        for number in 0..sessions {
            let own = groups_of(number);
            memberships += own.len();
            let expected = own.len() * rounds as usize;
            let times = Vec::with_capacity(expected);
            let session = S::spawn(Session::<S> { number, times, expected, sink: sink.clone() });
            own.into_iter().for_each(|group| groups[group].push(session.clone()));
        }
        let publishers: Vec<_> =
            groups.into_iter().map(|subscribers| S::spawn(Publisher::<S> { subscribers })).collect();
        let begun = Instant::now() + PERIOD;
        for round in 0..rounds {
            let due = begun + round * PERIOD;
            let left = due.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                S::Strands::sleep(left).await;
            }
            publishers.iter().for_each(|publisher| S::tell(publisher, Due(due)));
        }
        let times = promise.kept().await;
        let elapsed = begun.elapsed();
        outcome(times.into_iter().flatten().collect(), memberships * rounds as usize, elapsed)
    }
}

fn outcome(mut times: Times, expected: usize, elapsed: Duration) -> Outcome {
    if times.len() != expected {
        return Outcome::Failed(format!("{} deliveries in place of {expected}", times.len()));
    }
    let sum: u64 = times.iter().map(|&time| u64::from(time)).sum();
    let (_, p99, _) = times.select_nth_unstable(expected * 99 / 100);
    let p99 = f64::from(*p99);
    Outcome::Measured(Reading::of([
        ("latency_ms", sum as f64 / expected as f64 / 1e3),
        ("p99_ms", p99 / 1e3),
        ("deliveries_per_s", expected as f64 / elapsed.as_secs_f64()),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_in_one_to_four_groups_each_once() {
        for session in 0..1000 {
            let mut groups = groups_of(session);
            assert!((1..=4).contains(&groups.len()));
            groups.sort();
            groups.dedup();
            assert_eq!(groups.len(), groups.iter().filter(|&&group| group < GROUPS).count());
        }
    }

    #[test]
    fn a_delivery_that_is_missing_is_a_failure() {
        let elapsed = Duration::from_secs(1);
        assert!(matches!(outcome(vec![1000; 9], 10, elapsed), Outcome::Failed(_)));
        let Outcome::Measured(reading) = outcome(vec![1000; 10], 10, elapsed) else { panic!("ten deliveries") };
        assert_eq!([reading.get("latency_ms"), reading.get("p99_ms")], [Some(1.0), Some(1.0)]);
    }
}
