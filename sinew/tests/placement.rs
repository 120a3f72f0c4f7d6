//! Where fibres begin that stay on their processor.

#[macro_use]
mod fixture;

use fixture::one_of;
use sinew::net::{TcpListener, TcpStream};
use sinew::sync::{Barrier, mpsc};
use sinew::{JoinHandle, Runtime};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

const FIBRES: usize = 100;

fn runtime(processors: usize) -> Runtime {
    Runtime::builder().spares(0).stall_limit(None).processors(processors).build().unwrap()
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

/// Checks that the residents by processor, which `count` returns for a number of processors, are even
/// enough. The kernel may take the CPU of a processor away, and then the fibres go elsewhere. So one of
/// ten attempts has to be even.
fn check_even(count: impl Fn(usize) -> Vec<usize>) {
    for processors in [2, 4] {
        one_of(10, || {
            let counts = count(processors);
            let (most, fewest) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
            let is_even = if processors == 2 { most * 100 <= FIBRES * 60 } else { *most <= fewest * 2 };
            if is_even && counts.len() == processors { Ok(()) } else { Err(counts) }
        });
    }
}

#[test]
fn fibres_that_come_one_by_one_are_spread() {
    check_even(|processors| {
        runtime(processors).run(|| {
            let mut residents = Residents::new();
            for _ in 0..FIBRES {
                residents.spawn();
                sinew::sleep(Duration::from_millis(2));
            }
            residents.counts()
        })
    });
}

#[test]
fn a_burst_is_spread() {
    check_even(|processors| {
        runtime(processors).run(|| {
            let mut residents = Residents::new();
            (0..FIBRES).for_each(|_| residents.spawn());
            residents.counts()
        })
    });
}

#[test]
fn a_burst_by_a_fibre_that_yields_is_spread() {
    check_even(|processors| {
        runtime(processors).run(|| {
            let mut residents = Residents::new();
            for _ in 0..FIBRES {
                residents.spawn();
                sinew::yield_now();
            }
            residents.counts()
        })
    });
}

#[test]
fn fibres_from_a_kernel_thread_are_spread() {
    check_even(|processors| {
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
        Residents { handles, all_there: Arc::clone(&all_there) }.counts()
    });
}

#[test]
fn accepted_connections_are_spread() {
    check_even(|processors| {
        runtime(processors).run(|| {
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
        })
    });
}
