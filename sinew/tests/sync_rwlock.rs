//! `RwLock`: readers and writers.

mod fixture;

use fixture::{Random, alone, everywhere, wait_until, wherever};
use sinew::sync::{RwLock, RwLockWriteGuard, TryLockError};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// A value that two writers at once, or a writer beside a reader, would spoil.
#[derive(Default)]
struct Ledger {
    debit: u64,
    credit: u64,
}

impl Ledger {
    fn book(&mut self) {
        self.debit += 1;
        // Other fibres get a chance to see the change half done.
        sinew::yield_now();
        self.credit += 1;
    }

    fn check(&self) -> u64 {
        let debit = self.debit;
        sinew::yield_now();
        assert_eq!(debit, self.credit);
        debit
    }
}

#[test]
fn readers_and_writers_see_only_complete_changes() {
    everywhere(|rt, setup| {
        let ledger = Arc::new(RwLock::new(Ledger::default()));
        let written = Arc::new(AtomicU32::new(0));
        let visit = |ledger: &RwLock<Ledger>, written: &AtomicU32, random: &mut Random| match random.below(8) {
            0 => {
                ledger.write().unwrap().book();
                written.fetch_add(1, Ordering::Relaxed);
            }
            1 => {
                if let Ok(mut ledger) = ledger.write_timeout(Duration::from_micros(random.below(100))) {
                    ledger.book();
                    written.fetch_add(1, Ordering::Relaxed);
                }
            }
            2 => drop(ledger.read_timeout(Duration::from_micros(random.below(100))).map(|ledger| ledger.check())),
            3 => drop(ledger.try_read().map(|ledger| ledger.check())),
            4 => {
                let mut guard = ledger.write().unwrap();
                guard.book();
                written.fetch_add(1, Ordering::Relaxed);
                let before = guard.debit;
                // No other writer comes between.
                assert_eq!(RwLockWriteGuard::downgrade(guard).check(), before);
            }
            _ => drop(ledger.read().unwrap().check()),
        };
        let fibres: Vec<_> = (0..40u64)
            .map(|n| {
                let (ledger, written) = (Arc::clone(&ledger), Arc::clone(&written));
                let mut random = Random::new(0x5eed_0051 + 97 * n + setup.processors as u64);
                rt.spawn(move || (0..60).for_each(|_| visit(&ledger, &written, &mut random)))
            })
            .collect();
        thread::scope(|scope| {
            for n in 0..2 {
                let mut random = Random::new(0x5eed_0052 + n);
                let (ledger, written) = (&ledger, &written);
                scope.spawn(move || (0..60).for_each(|_| visit(ledger, written, &mut random)));
            }
        });
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
        assert_eq!(ledger.read().unwrap().check(), u64::from(written.load(Ordering::Relaxed)));
        assert!(ledger.try_write().is_ok(), "the lock is not free in the end");
    });
}

#[test]
fn readers_read_together() {
    everywhere(|rt, _| {
        let lock = Arc::new(RwLock::new(()));
        let inside = Arc::new(AtomicU32::new(0));
        let readers: Vec<_> = (0..10)
            .map(|_| {
                let (lock, inside) = (Arc::clone(&lock), Arc::clone(&inside));
                rt.spawn(move || {
                    let _guard = lock.read().unwrap();
                    inside.fetch_add(1, Ordering::Relaxed);
                    wait_until(|| inside.load(Ordering::Relaxed) == 10);
                })
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

/// Starts `body` and waits until it has begun. On one processor, it waits by then.
fn start(body: impl FnOnce() + Send + 'static) -> sinew::JoinHandle<()> {
    let begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&begun);
    let fibre = sinew::spawn(move || {
        begins.store(true, Ordering::Relaxed);
        body();
    });
    wait_until(|| begun.load(Ordering::Relaxed));
    fibre
}

#[test]
fn waiters_are_served_in_order_and_neighbouring_readers_together() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                let lock = Arc::new(RwLock::new(Vec::new()));
                let log = Arc::new(Mutex::new(String::new()));
                let visit = |letter: char| {
                    let (lock, log) = (Arc::clone(&lock), Arc::clone(&log));
                    start(move || {
                        if letter.is_uppercase() {
                            lock.write().unwrap().push(letter);
                        } else {
                            let _guard = lock.read().unwrap();
                            log.lock().unwrap().push(letter);
                            // The other readers of this group get in before this one leaves.
                            (0..10).for_each(|_| sinew::yield_now());
                            log.lock().unwrap().push('.');
                            return;
                        }
                        log.lock().unwrap().push(letter);
                    })
                };
                let guard = lock.read().unwrap();
                let fibres: Vec<_> = "AbcDeFg".chars().map(visit).collect();
                assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)), "a reader passed a waiting writer");
                drop(guard);
                fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
                assert_eq!(*log.lock().unwrap(), "Abc..De.Fg.");
            });
        },
    );
}

#[test]
fn a_writer_that_times_out_lets_the_readers_behind_it_in() {
    everywhere(|rt, _| {
        for _ in 0..10 {
            let lock = Arc::new(RwLock::new(0));
            let guard = lock.read().unwrap();
            let writes = Arc::clone(&lock);
            let writer = rt.spawn(move || writes.write_timeout(MS).is_err());
            let reads = Arc::clone(&lock);
            // Reads while the caller still reads, whether it came before the writer or after it.
            let reader = rt.spawn(move || *reads.read().unwrap());
            assert_eq!(reader.join().unwrap(), 0);
            assert!(writer.join().unwrap());
            drop(guard);
            assert!(lock.try_write().is_ok());
        }
    });
}

#[test]
fn only_a_writer_that_panics_poisons() {
    everywhere(|rt, _| {
        let lock = Arc::new(RwLock::new(5));
        let reads = Arc::clone(&lock);
        let reader = rt.spawn(move || {
            let _guard = reads.read().unwrap();
            resume_unwind(Box::new(()));
        });
        reader.join().unwrap_err();
        assert!(!lock.is_poisoned());
        let writes = Arc::clone(&lock);
        let writer = rt.spawn(move || {
            let _guard = writes.write().unwrap();
            resume_unwind(Box::new(()));
        });
        writer.join().unwrap_err();
        assert!(lock.is_poisoned());
        assert_eq!(**lock.read().unwrap_err().get_ref(), 5);
        assert!(matches!(lock.try_write(), Err(TryLockError::Poisoned(_))));
        assert!(matches!(lock.read_timeout(MS), Err(TryLockError::Poisoned(_))));
        lock.clear_poison();
        *lock.write().unwrap() += 1;
        let mut lock = Arc::into_inner(lock).unwrap();
        assert_eq!((*lock.get_mut().unwrap(), lock.into_inner().unwrap()), (6, 6));
    });
}

#[test]
fn a_limit_of_zero_and_a_limit_without_end_work() {
    everywhere(|rt, _| {
        let check = || {
            let lock = RwLock::new(());
            assert!(lock.write_timeout(Duration::ZERO).is_ok());
            assert!(lock.read_timeout(Duration::MAX).is_ok());
            let reading = lock.read_deadline(Instant::now()).unwrap();
            assert!(matches!(lock.write_timeout(Duration::ZERO), Err(TryLockError::WouldBlock)));
            assert!(matches!(lock.write_deadline(Instant::now() + MS), Err(TryLockError::WouldBlock)));
            assert!(lock.try_read().is_ok(), "a writer that timed out still waits");
            drop(reading);
            let writing = lock.write_timeout(Duration::MAX).unwrap();
            assert!(matches!(lock.read_timeout(MS), Err(TryLockError::WouldBlock)));
            drop(writing);
            assert!(lock.try_write().is_ok());
        };
        rt.run(check);
        check();
    });
}

#[test]
fn a_static_lock_prints_its_value() {
    static LOCK: RwLock<u32> = RwLock::new(3);
    alone(|| {
        assert_eq!(format!("{LOCK:?}"), "RwLock { data: 3, poisoned: false, .. }");
        let guard = LOCK.write().unwrap();
        assert_eq!(format!("{LOCK:?} {guard:?} {guard}"), "RwLock { data: <locked>, poisoned: false, .. } 3 3");
    });
}
