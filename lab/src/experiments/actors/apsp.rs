//! `apsp`: all shortest paths of a graph of 300 nodes, by blocks. Each of 36 actors has a block of
//! the matrix of distances. In each of 300 steps it sends its block to the ten others of its row
//! and column, waits for theirs, and computes.

use std::sync::Arc;

use super::{NINE, Random, Sink, Stopwatch, Table, checked, one_size, parameters};
use crate::case::{Case, Outcome};
use crate::experiments::{Depth, Experiment};
use crate::peers::actors::{self, Behaviour, Benchmark, Flow, Promise, System};

const WHOLE: Size = Size { nodes: 300 };
const SHORT: Size = Size { nodes: 100 };

/// The length of a block.
const LENGTH: usize = 50;

pub static APSP: Experiment = Experiment {
    name: "apsp",
    measures: "All shortest paths among 300 nodes by Floyd and Warshall: 36 actors with a block of 50 x 50 each, which they show to their row and column in every step.",
    good: "Faster than every other actor system. Blocks should stay near the caches that have them.",
    variants: |depth, _, _| one_size(depth, if depth == Depth::Tour { SHORT.actors() } else { WHOLE.actors() }),
    measure: actors::measure::<ShortestPaths>,
    ..NINE
};

struct ShortestPaths;

#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
}

impl Size {
    /// Returns the number of blocks in a row or column.
    const fn side(self) -> usize {
        self.nodes / LENGTH
    }

    const fn actors(self) -> usize {
        self.side() * self.side()
    }

    /// Returns the length of an edge.
    fn weight(self, from: usize, to: usize) -> u32 {
        if from == to { 0 } else { Random::of(from * WHOLE.nodes + to).below(100) as u32 + 1 }
    }
}

/// The distances of a block, row by row.
type Block = Arc<Vec<u32>>;

/// A block of another actor.
#[derive(Clone)]
struct Shown {
    step: u32,
    /// The actor's number.
    from: u32,
    block: Block,
}

enum Message {
    Begin,
    Shown(Shown),
}

struct Worker<S: System> {
    size: Size,
    row: usize,
    column: usize,
    step: usize,
    block: Block,
    /// The blocks for this step and for the next one, by the step's last bit. Nobody is further
    /// ahead, because everybody needs this block.
    shown: [Vec<Shown>; 2],
    has_begun: bool,
    all: Table<S::Address<Worker<S>>>,
    sink: S::Address<Sink<S, u64>>,
}

impl<S: System> Worker<S> {
    fn new(size: Size, number: usize, all: Table<S::Address<Worker<S>>>, sink: S::Address<Sink<S, u64>>) -> Worker<S> {
        let (row, column) = (number / size.side(), number % size.side());
        let cell = |place: usize| size.weight(row * LENGTH + place / LENGTH, column * LENGTH + place % LENGTH);
        let block = Arc::new((0..LENGTH * LENGTH).map(cell).collect());
        Worker { size, row, column, step: 0, block, shown: [Vec::new(), Vec::new()], has_begun: false, all, sink }
    }

    fn number(&self, row: usize, column: usize) -> usize {
        row * self.size.side() + column
    }

    fn show(&self) {
        let own = self.number(self.row, self.column);
        let shown = Shown { step: self.step as u32, from: own as u32, block: Arc::clone(&self.block) };
        let side = self.size.side();
        let row = (0..side).map(|column| self.number(self.row, column));
        let column = (0..side).map(|row| self.number(row, self.column));
        for other in row.chain(column).filter(|&other| other != own) {
            S::tell(&self.all[other], Message::Shown(shown.clone()));
        }
    }

    /// Makes all steps for which all blocks are there.
    fn go_on(&mut self) {
        let others = 2 * (self.size.side() - 1);
        while self.has_begun && self.step < self.size.nodes && self.shown[self.step % 2].len() == others {
            self.compute();
            self.step += 1;
            match self.step == self.size.nodes {
                true => {
                    let sum = self.block.iter().map(|&distance| u64::from(distance)).sum();
                    S::tell(&self.sink, (self.number(self.row, self.column), sum));
                }
                false => self.show(),
            }
        }
    }

    fn compute(&mut self) {
        let (through, within) = (self.step / LENGTH, self.step % LENGTH);
        let shown = std::mem::take(&mut self.shown[self.step % 2]);
        let block_of = |row: usize, column: usize| -> &Block {
            let number = self.number(row, column);
            let other = shown.iter().find(|shown| shown.from as usize == number);
            other.map_or(&self.block, |other| &other.block)
        };
        let (left, above) = (block_of(self.row, through), block_of(through, self.column));
        let from_above = &above[within * LENGTH..(within + 1) * LENGTH];
        let mut block = Vec::with_capacity(LENGTH * LENGTH);
        for (row, own) in self.block.chunks_exact(LENGTH).enumerate() {
            let to = left[row * LENGTH + within];
            block.extend(own.iter().zip(from_above).map(|(&own, &from)| own.min(to + from)));
        }
        self.block = Arc::new(block);
    }
}

impl<S: System> Behaviour<S> for Worker<S> {
    type Message = Message;

    fn receive(&mut self, message: Message) -> Flow {
        match message {
            Message::Begin => {
                self.has_begun = true;
                self.show();
            }
            Message::Shown(shown) => {
                let step = shown.step as usize;
                assert!(step == self.step || step == self.step + 1, "step {step} in step {}", self.step);
                self.shown[step % 2].push(shown);
            }
        }
        self.go_on();
        Flow::GoOn
    }
}

/// Returns the sum of all distances.
fn sequential(size: Size) -> u64 {
    let nodes = size.nodes;
    let mut all: Vec<u32> = (0..nodes * nodes).map(|place| size.weight(place / nodes, place % nodes)).collect();
    for step in 0..nodes {
        let from_step = all[step * nodes..(step + 1) * nodes].to_vec();
        for row in all.chunks_exact_mut(nodes) {
            let to_step = row[step];
            row.iter_mut().zip(&from_step).for_each(|(own, from)| *own = (*own).min(to_step + from));
        }
    }
    all.into_iter().map(u64::from).sum()
}

impl Benchmark for ShortestPaths {
    async fn root<S: System>(case: Case) -> Outcome {
        let size = parameters(&case, WHOLE, SHORT);
        let promise = Promise::<S, _>::new();
        let watch = Stopwatch::start();
        let sink = S::spawn(Sink::new(size.actors(), &promise));
        let all = Table::default();
        all.fill((0..size.actors()).map(|number| S::spawn(Worker::<S>::new(size, number, all.clone(), sink.clone()))));
        all.iter().for_each(|worker| S::tell(worker, Message::Begin));
        let sum: u64 = promise.kept().await.iter().sum();
        let reading = watch.stop();
        checked(sum, sequential(size), reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_is_longer_than_its_edge() {
        let edges: u64 = (0..10_000).map(|place| u64::from(SHORT.weight(place / 100, place % 100))).sum();
        let paths = sequential(SHORT);
        assert!(paths < edges && paths >= 100 * 99, "{paths} of {edges}");
    }
}
