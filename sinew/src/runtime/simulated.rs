//! A simulated kernel, plugged in as a driver: time passes only while the processor sleeps in it.
//!
//! It shows that a processor knows drivers by their trait alone.

use super::Builder;
use crate::fibre::{Fibre, current, park, spawn};
use crate::processor::cluster::Cluster;
use crate::processor::driver::{Bed, Bell, Driver};
use crate::sched::ProcessorId;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A clock in hours, and the fibres that wait for an hour.
#[derive(Default)]
struct Kernel {
    state: Mutex<State>,
    bell: Arc<Ring>,
    sleeps: AtomicUsize,
}

#[derive(Default)]
struct State {
    hour: u64,
    waiting: BTreeMap<Reverse<u64>, Fibre>,
}

#[derive(Default)]
struct Ring {
    has_rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell for Ring {
    fn ring(self: Arc<Self>) {
        *self.has_rung.lock().unwrap() = true;
        self.heard.notify_all();
    }
}

impl Kernel {
    /// Lets `hours` pass. By a fibre; no two fibres wait for the same hour.
    fn sleep(&self, hours: u64) -> u64 {
        let until = {
            let mut state = self.state.lock().unwrap();
            let until = state.hour + hours;
            assert!(state.waiting.insert(Reverse(until), current()).is_none());
            until
        };
        while self.state.lock().unwrap().hour < until {
            park();
        }
        until
    }
}

/// The cluster owns its driver, and the test looks at it too.
struct Simulated(Arc<Kernel>);

impl Driver for Simulated {
    fn bed(&self, _processor: ProcessorId, is_sentinel: bool) -> Option<&dyn Bed> {
        is_sentinel.then_some(&*self.0)
    }
}

impl Bed for Kernel {
    fn bell(&self) -> Arc<dyn Bell> {
        Arc::<Ring>::clone(&self.bell)
    }

    fn sleep(&self, timeout: Option<Duration>, woke: &dyn Fn()) -> usize {
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        let next = {
            let mut state = self.state.lock().unwrap();
            let next = state.waiting.pop_last();
            next.map(|(Reverse(hour), fibre)| {
                state.hour = hour;
                fibre
            })
        };
        if let Some(fibre) = next {
            woke();
            fibre.unpark();
            return 1;
        }
        let has_rung = self.bell.has_rung.lock().unwrap();
        let is_silent = |has_rung: &mut bool| !*has_rung;
        let mut has_rung = match timeout {
            Some(timeout) => self.bell.heard.wait_timeout_while(has_rung, timeout, is_silent).unwrap().0,
            None => self.bell.heard.wait_while(has_rung, is_silent).unwrap(),
        };
        *has_rung = false;
        drop(has_rung);
        woke();
        0
    }
}

#[test]
fn a_processor_sleeps_in_a_simulated_kernel_whose_events_make_strands_ready() {
    let kernel = Arc::new(Kernel::default());
    let builder = Builder::from(Cluster::builder().processors(1));
    let runtime = builder.build_with([Box::new(Simulated(Arc::clone(&kernel)))]).unwrap();
    let its = Arc::clone(&kernel);
    let log = runtime.run(move || {
        let log = Arc::new(Mutex::new(Vec::new()));
        let fibres = [700, 1_100, 1_300].map(|hours| {
            let (kernel, log) = (Arc::clone(&its), Arc::clone(&log));
            spawn(move || {
                for _ in 0..3 {
                    let now = kernel.sleep(hours);
                    log.lock().unwrap().push((now, hours));
                }
            })
        });
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        Arc::into_inner(log).unwrap().into_inner().unwrap()
    });
    let mut expected: Vec<_> = [700, 1_100, 1_300].iter().flat_map(|h| (1..=3).map(move |n| (n * h, *h))).collect();
    expected.sort();
    assert_eq!(log, expected, "fibres go on in the order of simulated time");
    assert_eq!(kernel.state.lock().unwrap().hour, 3_900);
    assert!(kernel.sleeps.load(Ordering::Relaxed) >= 9, "each event came while the processor slept");
}
