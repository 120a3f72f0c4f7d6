//! Workers that send requests to one actor with a data structure, each of them one at a time: the
//! part that `cdict` and `csll` share.

use super::{Random, Sink, Stopwatch, Table, checked};
use crate::case::Outcome;
use crate::peers::actors::{Behaviour, Flow, Promise, System};

pub const WORKERS: usize = 20;

/// The data structure.
pub trait Structure: Send + Unpin + 'static {
    type Request: Send + 'static;
    type Answer: Send + 'static;

    fn serve(&mut self, request: Self::Request) -> Self::Answer;

    /// Returns a number that has to be the sum of the workers' [`Plan::noted`].
    fn counted(&self) -> u64;
}

/// A question of a worker.
pub trait Plan<T: Structure>: Clone + Send + Unpin + 'static {
    fn request(&self, random: &mut Random) -> T::Request;

    /// Returns what the answer adds to the worker's number.
    fn noted(answer: &T::Answer) -> u64;
}

/// The actor with the data structure.
struct Keeper<S: System, T: Structure, P: Plan<T>> {
    structure: T,
    /// Requests that are still to come.
    left: u64,
    workers: Table<S::Address<Worker<S, T, P>>>,
    sink: S::Address<Sink<S, (u64, u64)>>,
    served: u64,
}

impl<S: System, T: Structure, P: Plan<T>> Behaviour<S> for Keeper<S, T, P> {
    /// The worker's number and its request.
    type Message = (u32, T::Request);
    const IS_HUB: bool = true;

    fn receive(&mut self, (worker, request): (u32, T::Request)) -> Flow {
        let answer = self.structure.serve(request);
        S::tell(&self.workers[worker as usize], Some(answer));
        self.served += 1;
        self.left -= 1;
        if self.left == 0 {
            S::tell(&self.sink, (self.workers.len(), (self.served, self.structure.counted())));
        }
        Flow::GoOn
    }
}

struct Worker<S: System, T: Structure, P: Plan<T>> {
    number: usize,
    plan: P,
    random: Random,
    /// Requests that are not sent.
    left: u64,
    answers: u64,
    noted: u64,
    keeper: S::Address<Keeper<S, T, P>>,
    sink: S::Address<Sink<S, (u64, u64)>>,
}

impl<S: System, T: Structure, P: Plan<T>> Behaviour<S> for Worker<S, T, P> {
    /// An answer; none at the beginning.
    type Message = Option<T::Answer>;

    fn receive(&mut self, answer: Option<T::Answer>) -> Flow {
        if let Some(answer) = answer {
            self.answers += 1;
            self.noted += P::noted(&answer);
        }
        match self.left {
            0 => S::tell(&self.sink, (self.number, (self.answers, self.noted))),
            _ => {
                self.left -= 1;
                let request = self.plan.request(&mut self.random);
                S::tell(&self.keeper, (self.number as u32, request));
            }
        }
        Flow::GoOn
    }
}

/// Runs the workers, with a number of requests for each. The result is the number of answers, and both sums.
pub async fn run<S: System, T: Structure, P: Plan<T>>(structure: T, plan: P, requests: u64) -> Outcome {
    let promise = Promise::<S, _>::new();
    let watch = Stopwatch::start();
    let sink = S::spawn(Sink::new(WORKERS + 1, &promise));
    let all = Table::default();
    let left = WORKERS as u64 * requests;
    let keeper = S::spawn(Keeper::<S, T, P> { structure, left, workers: all.clone(), sink: sink.clone(), served: 0 });
    let worker = |number| {
        let (plan, random, keeper, sink) = (plan.clone(), Random::of(number), keeper.clone(), sink.clone());
        S::spawn(Worker::<S, T, P> { number, plan, random, left: requests, answers: 0, noted: 0, keeper, sink })
    };
    all.fill((0..WORKERS).map(worker));
    all.iter().for_each(|worker| S::tell(worker, None));
    let mut reports = promise.kept().await;
    let reading = watch.stop();
    let (served, counted) = reports.pop().expect("the keeper's report");
    let answers: u64 = reports.iter().map(|report| report.0).sum();
    let noted: u64 = reports.iter().map(|report| report.1).sum();
    checked((served, answers, noted), (left, left, counted), reading)
}
