//! `cdict`: actors that share a dictionary. Each of 20 workers sends 10,000 requests to the actor
//! that has the hash table, and waits for each answer. A tenth of the requests are writes of one
//! word. In the variants that are numbers a fifth are writes, and each value is a vector of that
//! number of words: a worker makes one for every write, and the dictionary copies one for every read.

use std::collections::HashMap;

use super::requests::{self, Plan, Structure, WORKERS};
use super::{NINE, Random, one_size, scaled};
use crate::case::{Case, Outcome};
use crate::experiments::{Depth, Experiment, Plot, Variant};
use crate::peers::actors::{self, Benchmark, System};

/// Of each worker.
const REQUESTS: u64 = 10_000;

const KEYS: u64 = 512;

/// The words of a value in the variants that are numbers.
const WORDS: [usize; 7] = [1, 4, 16, 64, 256, 1024, 4096];

pub static CDICT: Experiment = Experiment {
    name: "cdict",
    source: "Barghi's thesis, 5.4.1 and 5.4.2",
    measures: "20 actors send 10,000 requests each to an actor with a hash table, and wait for each answer. A tenth are writes of one word; in the variants that are numbers a fifth are writes of that number of words.",
    good: "Faster than every other actor system. Workers should stay near the dictionary.",
    plots: &[Plot::Normalised { metric: "run_ms" }, Plot::Lines { metric: "run_ms" }],
    unit: "words of a value",
    variants: |depth, _, _| {
        let mut variants = one_size(depth, WORKERS + 1);
        if depth == Depth::Full {
            variants.extend(WORDS.iter().map(|words| Variant::new(words, WORKERS + 1)));
        }
        variants
    },
    measure: actors::measure::<Dictionaries>,
    ..NINE
};

struct Dictionaries;

/// A value of the dictionary.
trait Value: Clone + Send + Unpin + 'static {
    fn new(word: u64, words: usize) -> Self;
}

impl Value for u64 {
    fn new(word: u64, _: usize) -> u64 {
        word
    }
}

impl Value for Vec<u64> {
    fn new(word: u64, words: usize) -> Vec<u64> {
        vec![word; words]
    }
}

enum Request<V> {
    Read(u64),
    Write(u64, V),
}

enum Answer<V> {
    Written,
    Found(V),
    Absent,
}

struct Dictionary<V> {
    table: HashMap<u64, V>,
    writes: u64,
}

impl<V: Value> Structure for Dictionary<V> {
    type Request = Request<V>;
    type Answer = Answer<V>;

    fn serve(&mut self, request: Request<V>) -> Answer<V> {
        match request {
            Request::Read(key) => self.table.get(&key).map_or(Answer::Absent, |value| Answer::Found(value.clone())),
            Request::Write(key, value) => {
                self.writes += 1;
                self.table.insert(key, value);
                Answer::Written
            }
        }
    }

    fn counted(&self) -> u64 {
        self.writes
    }
}

#[derive(Clone)]
struct Mix {
    /// Of a hundred requests.
    writes: u64,
    /// Of a value.
    words: usize,
}

impl<V: Value> Plan<Dictionary<V>> for Mix {
    fn request(&self, random: &mut Random) -> Request<V> {
        let is_write = random.below(100) < self.writes;
        let key = random.below(KEYS);
        if is_write { Request::Write(key, V::new(key, self.words)) } else { Request::Read(key) }
    }

    fn noted(answer: &Answer<V>) -> u64 {
        match answer {
            Answer::Written => 1,
            Answer::Found(value) => {
                std::hint::black_box(value);
                0
            }
            Answer::Absent => 0,
        }
    }
}

impl Benchmark for Dictionaries {
    async fn root<S: System>(case: Case) -> Outcome {
        let requests = scaled(&case, REQUESTS);
        match case.variant.parse() {
            Ok(words) => {
                let dictionary = Dictionary::<Vec<u64>> { table: HashMap::new(), writes: 0 };
                requests::run::<S, _, _>(dictionary, Mix { writes: 20, words }, requests).await
            }
            Err(_) => {
                let dictionary = Dictionary::<u64> { table: HashMap::new(), writes: 0 };
                requests::run::<S, _, _>(dictionary, Mix { writes: 10, words: 1 }, requests).await
            }
        }
    }
}
