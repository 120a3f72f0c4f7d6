//! A scheduler written by an application: of all ready strands, the one with the earliest deadline
//! runs first.
//!
//! The priority of a strand decides how long it may wait, and so its deadline. The strand may be a
//! fibre or a task. A scheduler sees no difference.

use sinew::sched::{Claim, Effort, Local, Placement, Priority, Ready, Scheduler, Wake};
use sinew::task::TaskBuilder;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The ready strands, sorted by deadline and order of arrival.
#[derive(Default)]
struct Queue {
    strands: BTreeMap<(u64, u64), Ready>,
    arrivals: u64,
}

#[derive(Clone, Default)]
struct EarliestDeadline(Arc<Mutex<Queue>>);

impl EarliestDeadline {
    fn put(&self, strand: Ready) {
        // In cycles of the scheduler's clock, each well below a microsecond.
        let patience = match strand.priority() {
            Priority::High => 10_000,
            Priority::Normal => 1_000_000,
            _ => 100_000_000,
        };
        let mut queue = self.0.lock().unwrap();
        queue.arrivals += 1;
        let key = (strand.ready_at() + patience, queue.arrivals);
        queue.strands.insert(key, strand);
    }

    fn take(&self) -> Option<Ready> {
        self.0.lock().unwrap().strands.pop_first().map(|(_, strand)| strand)
    }
}

impl Scheduler for EarliestDeadline {
    fn name(&self) -> &'static str {
        "earliest deadline"
    }

    fn attach(&self, _place: Placement) -> Box<dyn Local> {
        Box::new(self.clone())
    }

    fn inject(&self, strand: Ready, _now: u64) -> Wake {
        self.put(strand);
        Wake::Backlog
    }
}

impl Local for EarliestDeadline {
    fn push(&self, strand: Ready, _now: u64) -> Wake {
        self.put(strand);
        Wake::Backlog
    }

    fn next(&self, _now: u64) -> Option<Ready> {
        self.take()
    }

    fn claim(&self) -> Option<Claim> {
        self.0.lock().unwrap().strands.first_key_value().map(|(_, strand)| Claim::of(strand))
    }

    fn search(&self, _now: u64, _effort: Effort) -> Option<Ready> {
        self.take()
    }

    fn drain(&self) -> Option<Ready> {
        None
    }
}

fn main() {
    let runtime = sinew::Runtime::builder().processors(1).scheduler(EarliestDeadline::default()).build().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    runtime.run(|| {
        let note = |what: &'static str| {
            let order = Arc::clone(&order);
            move || order.lock().unwrap().push(what)
        };
        let (patient, usual, urgent) = (note("a patient task"), note("a fibre"), note("an urgent task"));
        let task = |priority, what: Box<dyn FnOnce() + Send>| {
            TaskBuilder::new().priority(priority).spawn(async move { what() }).unwrap()
        };
        let patient = task(Priority::Low, Box::new(patient));
        let usual = sinew::spawn(usual);
        let urgent = task(Priority::High, Box::new(urgent));
        patient.join().unwrap();
        usual.join().unwrap();
        urgent.join().unwrap();
    });
    println!("{}", order.lock().unwrap().join(", then "));
    assert_eq!(*order.lock().unwrap(), ["an urgent task", "a fibre", "a patient task"]);
}
