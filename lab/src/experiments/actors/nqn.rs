//! `nqn`: 12 queens by divide and conquer. A master hands boards to 20 workers in turn. A worker
//! that gets a board with fewer than four queens sends every board with one queen more back to the
//! master; otherwise it counts all solutions of the board.

use std::sync::Arc;

use super::{NINE, Stopwatch, Table, checked, one_size, parameters};
use crate::case::{Case, Outcome};
use crate::experiments::Experiment;
use crate::peers::actors::{self, Behaviour, Benchmark, Flow, Promise, System};

const WHOLE: Size = Size { queens: 12, solutions: 14_200 };
const SHORT: Size = Size { queens: 8, solutions: 92 };

const WORKERS: usize = 20;

/// Boards with this number of queens are not divided any more.
const THRESHOLD: usize = 4;

pub static NQN: Experiment = Experiment {
    name: "nqn",
    measures: "All 14,200 ways to place 12 queens: a master hands boards to 20 workers in turn, which divide them until they have 4 queens, and then count.",
    good: "Faster than every other actor system.",
    variants: |depth, _, _| one_size(depth, WORKERS + 1),
    measure: actors::measure::<Queens>,
    ..NINE
};

struct Queens;

#[derive(Clone, Copy)]
struct Size {
    queens: usize,
    solutions: u64,
}

/// The columns of the queens in the first rows.
#[derive(Clone, Copy, Default)]
struct Board {
    columns: [u8; 12],
    queens: u8,
}

impl Board {
    /// Returns the board with one queen more, unless another one attacks it.
    #[inline]
    fn with(&self, column: u8) -> Option<Board> {
        let row = usize::from(self.queens);
        let attacks = |(other, &of): (usize, &u8)| of == column || usize::from(of.abs_diff(column)) == row - other;
        if self.columns[..row].iter().enumerate().any(attacks) {
            return None;
        }
        let mut board = *self;
        board.columns[row] = column;
        board.queens += 1;
        Some(board)
    }

    fn solutions(&self, size: Size) -> u64 {
        if usize::from(self.queens) == size.queens {
            return 1;
        }
        (0..size.queens as u8).filter_map(|column| self.with(column)).map(|board| board.solutions(size)).sum()
    }
}

enum Message {
    Work(Board),
    /// A board is done, and has that number of solutions.
    Done(u64),
}

struct Master<S: System> {
    workers: Table<S::Address<Worker<S>>>,
    next: usize,
    outstanding: u64,
    solutions: u64,
    promise: Arc<Promise<S, u64>>,
}

impl<S: System> Behaviour<S> for Master<S> {
    type Message = Message;
    const IS_HUB: bool = true;

    fn receive(&mut self, message: Message) -> Flow {
        match message {
            Message::Work(board) => {
                self.outstanding += 1;
                S::tell(&self.workers[self.next], board);
                self.next = if self.next + 1 == WORKERS { 0 } else { self.next + 1 };
            }
            Message::Done(solutions) => {
                self.solutions += solutions;
                self.outstanding -= 1;
                if self.outstanding == 0 {
                    self.promise.keep(self.solutions);
                }
            }
        }
        Flow::GoOn
    }
}

struct Worker<S: System> {
    size: Size,
    master: S::Address<Master<S>>,
}

impl<S: System> Behaviour<S> for Worker<S> {
    type Message = Board;

    fn receive(&mut self, board: Board) -> Flow {
        let mut solutions = 0;
        if usize::from(board.queens) < THRESHOLD {
            for board in (0..self.size.queens as u8).filter_map(|column| board.with(column)) {
                S::tell(&self.master, Message::Work(board));
            }
        } else {
            solutions = board.solutions(self.size);
        }
        S::tell(&self.master, Message::Done(solutions));
        Flow::GoOn
    }
}

impl Benchmark for Queens {
    async fn root<S: System>(case: Case) -> Outcome {
        let size = parameters(&case, WHOLE, SHORT);
        let promise = Promise::<S, _>::new();
        let watch = Stopwatch::start();
        let workers = Table::default();
        let master = S::spawn(Master::<S> {
            workers: workers.clone(),
            next: 0,
            outstanding: 0,
            solutions: 0,
            promise: Arc::clone(&promise),
        });
        workers.fill((0..WORKERS).map(|_| S::spawn(Worker::<S> { size, master: master.clone() })));
        S::tell(&master, Message::Work(Board::default()));
        let solutions = promise.kept().await;
        checked(solutions, size.solutions, watch.stop())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_queens_have_92_solutions() {
        assert_eq!(Board::default().solutions(SHORT), SHORT.solutions);
    }
}
