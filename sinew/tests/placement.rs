//! Where fibres begin that stay on their processor.

#[macro_use]
mod fixture;

use sinew::net::{TcpListener, TcpStream};
use sinew::sync::{Barrier, mpsc};
use sinew::{JoinHandle, Runtime};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

const FIBRES: usize = 100;

fn runtime(processors: usize) -> Runtime {
    Runtime::builder().processors(processors).build().unwrap()
}

/// Fibres that live until all of them are there. Each tells the kernel thread that it lives on.
struct Residents {
    handles: Vec<JoinHandle<ThreadId>>,
    all_there: Arc<Barrier>,
}

impl Residents {
    fn new() -> Residents {
        Residents { handles: Vec::new(), all_there: Arc::new(Barrier::new(FIBRES)) }
    }

    fn spawn(&mut self) {
        let all_there = Arc::clone(&self.all_there);
        self.handles.push(sinew::spawn(move || {
            all_there.wait();
            thread::current().id()
        }));
    }

    /// Returns the number of residents of each processor that has any.
    fn counts(self) -> Vec<usize> {
        let mut counts = HashMap::new();
        for handle in self.handles {
            *counts.entry(handle.join().unwrap()).or_insert(0) += 1;
        }
        counts.into_values().collect()
    }
}

/// Asserts that `counts` are even enough on this number of processors.
fn assert_even(processors: usize, counts: &[usize]) {
    let (most, fewest) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
    assert_eq!(counts.len(), processors, "residents by processor: {counts:?}");
    let is_even = if processors == 2 { most * 100 <= FIBRES * 60 } else { *most <= fewest * 2 };
    assert!(is_even, "residents by processor: {counts:?}");
}

#[test]
fn fibres_that_come_one_by_one_are_spread() {
    for processors in [2, 4] {
        let counts = runtime(processors).run(|| {
            let mut residents = Residents::new();
            for _ in 0..FIBRES {
                residents.spawn();
                sinew::sleep(Duration::from_millis(2));
            }
            residents.counts()
        });
        assert_even(processors, &counts);
    }
}

#[test]
fn a_burst_is_spread() {
    for processors in [2, 4] {
        let counts = runtime(processors).run(|| {
            let mut residents = Residents::new();
            (0..FIBRES).for_each(|_| residents.spawn());
            residents.counts()
        });
        assert_even(processors, &counts);
    }
}

#[test]
fn a_burst_by_a_fibre_that_yields_is_spread() {
    for processors in [2, 4] {
        let counts = runtime(processors).run(|| {
            let mut residents = Residents::new();
            for _ in 0..FIBRES {
                residents.spawn();
                sinew::yield_now();
            }
            residents.counts()
        });
        assert_even(processors, &counts);
    }
}

#[test]
fn fibres_from_a_kernel_thread_are_spread() {
    for processors in [2, 4] {
        let runtime = runtime(processors);
        let all_there = Arc::new(Barrier::new(FIBRES));
        let spawn = |_| {
            let all_there = Arc::clone(&all_there);
            runtime.spawn(move || {
                all_there.wait();
                thread::current().id()
            })
        };
        let handles = (0..FIBRES).map(spawn).collect();
        let counts = Residents { handles, all_there: Arc::clone(&all_there) }.counts();
        assert_even(processors, &counts);
    }
}

#[test]
fn accepted_connections_are_spread() {
    for processors in [2, 4] {
        let counts = runtime(processors).run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let (accepted, is_accepted) = mpsc::channel();
            let server = sinew::spawn(move || {
                let mut residents = Residents::new();
                for _ in 0..FIBRES {
                    let (stream, _) = listener.accept().unwrap();
                    residents.spawn();
                    accepted.send(stream).unwrap();
                }
                residents.counts()
            });
            let clients: Vec<_> = (0..FIBRES).map(|_| TcpStream::connect(address).unwrap()).collect();
            let counts = server.join().unwrap();
            drop((clients, is_accepted));
            counts
        });
        assert_even(processors, &counts);
    }
}
