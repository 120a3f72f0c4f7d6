//! Processors that are held up by a strand that computes, or waits in the kernel.

mod fixture;

use fixture::wait_until;
use sinew::{Cluster, HeldUp, Runtime};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

fn runtime(processors: usize, spares: usize) -> Runtime {
    Runtime::builder().processors(processors).spares(spares).build().unwrap()
}

/// A fibre that waits in the kernel until this is dropped.
struct Blocked {
    end: UnixStream,
    fibre: sinew::JoinHandle<()>,
}

impl Blocked {
    /// Returns when the fibre is about to wait.
    fn begin(cluster: &Cluster) -> Blocked {
        let (end, mut its_end) = UnixStream::pair().unwrap();
        let (begins, has_begun) = mpsc::channel();
        let fibre = cluster.spawn(move || {
            begins.send(()).unwrap();
            its_end.read_exact(&mut [0]).unwrap();
        });
        has_begun.recv().unwrap();
        Blocked { end, fibre }
    }

    fn end(mut self) {
        self.end.write_all(&[0]).unwrap();
        self.fibre.join().unwrap();
    }
}

fn wait_until_held_up(cluster: &Cluster, is_it: impl Fn(&HeldUp) -> bool) {
    wait_until(|| cluster.held_up().iter().any(&is_it));
}

#[test]
fn a_spare_processor_takes_the_place_of_one_that_waits_in_the_kernel() {
    let runtime = runtime(1, 1);
    let cluster = runtime.main_cluster();
    let blocked = Blocked::begin(cluster);
    // The only processor waits. A spare runs this fibre.
    assert_eq!(runtime.spawn(|| 7).join().unwrap(), 7);
    wait_until(|| (cluster.spares(), cluster.processors()) == (1, 1));
    wait_until_held_up(cluster, |held_up| held_up.is_blocked && held_up.residents == 1);
    blocked.end();
    wait_until(|| cluster.held_up().is_empty());
    wait_until(|| cluster.spares() == 0);
}

#[test]
fn spares_have_a_bound() {
    let runtime = runtime(1, 1);
    let cluster = runtime.main_cluster();
    let first = Blocked::begin(cluster);
    let second = Blocked::begin(cluster);
    let ran = Arc::new(AtomicBool::new(false));
    let third = runtime.spawn({
        let ran = Arc::clone(&ran);
        move || ran.store(true, Ordering::Relaxed)
    });
    wait_until(|| cluster.held_up().iter().filter(|held_up| held_up.is_blocked).count() == 2);
    assert!(!ran.load(Ordering::Relaxed));
    first.end();
    third.join().unwrap();
    second.end();
}

#[test]
fn new_fibres_and_tasks_avoid_a_processor_that_is_held_up() {
    let runtime = runtime(2, 0);
    let cluster = runtime.main_cluster();
    let stop = Arc::new(AtomicBool::new(false));
    let computing = runtime.spawn({
        let stop = Arc::clone(&stop);
        move || {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            thread::current().id()
        }
    });
    wait_until_held_up(cluster, |held_up| !held_up.is_blocked);
    let ran = Arc::new(AtomicUsize::new(0));
    runtime.run(|| {
        for _ in 0..100 {
            let (fibres, tasks) = (Arc::clone(&ran), Arc::clone(&ran));
            sinew::spawn(move || fibres.fetch_add(1, Ordering::Relaxed)).join().unwrap();
            sinew::task::spawn(async move { tasks.fetch_add(1, Ordering::Relaxed) }).join().unwrap();
        }
    });
    assert_eq!(ran.load(Ordering::Relaxed), 200);
    stop.store(true, Ordering::Relaxed);
    computing.join().unwrap();
}

#[test]
fn a_processor_that_sleeps_is_not_held_up() {
    let runtime = runtime(2, 2);
    let cluster = runtime.main_cluster();
    runtime.run(|| sinew::sleep(std::time::Duration::from_millis(100)));
    assert!(cluster.held_up().is_empty() || cluster.held_up().iter().all(|held_up| !held_up.is_blocked));
    assert_eq!(cluster.spares(), 0);
}
