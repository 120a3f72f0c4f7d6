//! Calls that wait on their kernel thread: they hold up their processor, and can deadlock it. Each
//! beside what to use instead.

mod beside;
#[macro_use]
#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

use beside::{Other, assert_blocks_its_fibre, assert_blocks_its_processor, end_if_held_up, single};
use fixture::rerun::Rerun;
use fixture::wait_until;
use sinew::block_on;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn a_channel_of_std_holds_up_its_processor() {
    let (sender, receiver) = std::sync::mpsc::channel();
    assert_blocks_its_processor(move || receiver.recv().unwrap(), move || sender.send(()).unwrap());
    let (sender, receiver) = std::sync::mpsc::channel();
    let recv = move || receiver.recv().unwrap();
    assert_blocks_its_fibre(move || sinew::blocking(recv), move || sender.send(()).unwrap());
    let (sender, receiver) = sinew::sync::mpsc::channel();
    assert_blocks_its_fibre(move || receiver.recv().unwrap(), move || sender.send(()).unwrap());
}

#[test]
fn a_channel_of_crossbeam_holds_up_its_processor() {
    let (sender, receiver) = crossbeam_channel::unbounded();
    assert_blocks_its_processor(move || receiver.recv().unwrap(), move || sender.send(()).unwrap());
    let (sender, receiver) = sinew::sync::mpmc::channel();
    assert_blocks_its_fibre(move || receiver.recv().unwrap(), move || sender.send(()).unwrap());
}

#[test]
fn a_channel_of_flume_holds_up_its_processor_unless_by_its_form_for_tasks() {
    let (sender, receiver) = flume::unbounded();
    assert_blocks_its_processor(move || receiver.recv().unwrap(), move || sender.send(()).unwrap());
    let (sender, receiver) = flume::unbounded();
    let recv = move || block_on(receiver.recv_async()).unwrap();
    assert_blocks_its_fibre(recv, move || sender.send(()).unwrap());
}

/// A manager whose connections are numbers.
struct Numbers;

impl r2d2::ManageConnection for Numbers {
    type Connection = u32;
    type Error = std::convert::Infallible;

    fn connect(&self) -> Result<u32, Self::Error> {
        Ok(7)
    }

    fn is_valid(&self, _number: &mut u32) -> Result<(), Self::Error> {
        Ok(())
    }

    fn has_broken(&self, _number: &mut u32) -> bool {
        false
    }
}

#[test]
fn a_pool_of_r2d2_holds_up_its_processor() {
    let pool = r2d2::Pool::builder().max_size(1).connection_timeout(Duration::from_secs(600)).build(Numbers).unwrap();
    let get = |pool: &r2d2::Pool<Numbers>| assert_eq!(*pool.get().unwrap(), 7);
    let (held, other) = (pool.get().unwrap(), pool.clone());
    assert_blocks_its_processor(move || get(&other), || drop(held));
    let (held, other) = (pool.get().unwrap(), pool.clone());
    assert_blocks_its_fibre(move || sinew::blocking(|| get(&other)), || drop(held));
}

/// One fibre waits while it holds `lock`, and another one asks for it, on the same processor.
macro_rules! deadlock {
    ($lock:expr, $locked:ident => $guard:expr) => {
        || {
            let rt = single();
            let other = Other::begin(&rt);
            let $locked = Arc::new($lock);
            let (is_locked, is_asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            rt.spawn({
                let ($locked, is_locked) = (Arc::clone(&$locked), Arc::clone(&is_locked));
                move || {
                    let _guard = $guard;
                    is_locked.store(true, Ordering::Relaxed);
                    sinew::park();
                }
            });
            wait_until(|| is_locked.load(Ordering::Relaxed));
            rt.spawn({
                let is_asked = Arc::clone(&is_asked);
                move || {
                    is_asked.store(true, Ordering::Relaxed);
                    let _guard = $guard;
                }
            });
            wait_until(|| is_asked.load(Ordering::Relaxed));
            end_if_held_up(&other);
        }
    };
}

#[test]
fn a_mutex_of_std_that_is_held_over_a_wait_deadlocks_its_processor() {
    let outcome = in_child!(Rerun::new(), deadlock!(std::sync::Mutex::new(()), lock => lock.lock().unwrap()));
    outcome.assert_success("held up for ever");
}

#[test]
fn a_mutex_of_parking_lot_that_is_held_over_a_wait_deadlocks_its_processor() {
    let outcome = in_child!(Rerun::new(), deadlock!(parking_lot::Mutex::new(()), lock => lock.lock()));
    outcome.assert_success("held up for ever");
}

#[test]
fn a_read_write_lock_of_std_that_is_held_over_a_wait_deadlocks_its_processor() {
    let outcome = in_child!(Rerun::new(), deadlock!(std::sync::RwLock::new(()), lock => lock.write().unwrap()));
    outcome.assert_success("held up for ever");
}

#[test]
fn a_mutex_of_sinew_may_be_held_over_a_wait() {
    let lock = Arc::new(sinew::sync::Mutex::new(()));
    let guard = lock.lock().unwrap();
    let other = Arc::clone(&lock);
    assert_blocks_its_fibre(move || drop(other.lock().unwrap()), || drop(guard));
}

/// Locks of others are fine if nothing waits while they are held.
#[test]
fn locks_of_std_and_parking_lot_work_if_they_are_held_for_a_moment() {
    const FIBRES: usize = 20;
    let (std, parking_lot) = (std::sync::Mutex::new(0), parking_lot::Mutex::new(0));
    fixture::wherever(
        |setup| !setup.migrating,
        |rt, _| {
            rt.run(|| {
                sinew::scope(|scope| {
                    for _ in 0..FIBRES {
                        scope.spawn(|| {
                            for _ in 0..100 {
                                *std.lock().unwrap() += 1;
                                *parking_lot.lock() += 1;
                                sinew::yield_now();
                            }
                        });
                    }
                });
            });
            assert_eq!(std::mem::take(&mut *std.lock().unwrap()), FIBRES * 100);
            assert_eq!(std::mem::take(&mut *parking_lot.lock()), FIBRES * 100);
        },
    );
}
