//! Permits and guards that hold their semaphore or lock.

mod fixture;

use fixture::{LONG, alone, everywhere, on_fibres_and_threads};
use sinew::block_on;
use sinew::sync::{
    AcquireError, Mutex, OwnedMutexGuard, OwnedPermit, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, Semaphore,
    TryLockError,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// Each form of a call that takes an `Arc` gets one of its own.
fn own<T: ?Sized>(shared: &Arc<T>) -> Arc<T> {
    Arc::clone(shared)
}

fn would_block<G>(tried: Result<G, TryLockError<G>>) -> bool {
    matches!(tried, Err(TryLockError::WouldBlock))
}

#[test]
fn every_form_of_an_owned_permit_takes_permits_and_gives_them_back() {
    everywhere(|rt, _| {
        let check = || {
            let semaphore = Arc::new(Semaphore::new(3));
            let later = Instant::now() + LONG;
            let forms: [(usize, OwnedPermit); 7] = [
                (1, own(&semaphore).acquire_owned().unwrap()),
                (1, own(&semaphore).acquire_owned_timeout(LONG).unwrap()),
                (1, own(&semaphore).acquire_owned_deadline(later).unwrap()),
                (0, own(&semaphore).acquire_many_owned(0).unwrap()),
                (0, own(&semaphore).try_acquire_many_owned(0).unwrap()),
                (0, own(&semaphore).acquire_many_owned_timeout(0, LONG).unwrap()),
                (0, own(&semaphore).acquire_many_owned_deadline(0, later).unwrap()),
            ];
            assert_eq!(semaphore.available(), 0);
            assert!(own(&semaphore).try_acquire_owned().is_none());
            assert!(own(&semaphore).try_acquire_many_owned(2).is_none());
            let timed_out = |acquired: Result<OwnedPermit, _>| acquired.err() == Some(AcquireError::TimedOut);
            assert!(timed_out(own(&semaphore).acquire_owned_timeout(MS)));
            assert!(timed_out(own(&semaphore).acquire_owned_deadline(Instant::now() + MS)));
            assert!(timed_out(own(&semaphore).acquire_many_owned_timeout(2, MS)));
            assert!(timed_out(own(&semaphore).acquire_many_owned_deadline(2, Instant::now() + MS)));
            assert_eq!(Arc::strong_count(&semaphore), 1 + forms.len(), "a call that failed keeps the semaphore");
            for (count, permit) in forms {
                assert_eq!(permit.count(), count);
                assert!(Arc::ptr_eq(permit.semaphore(), &semaphore));
            }
            assert_eq!((semaphore.available(), Arc::strong_count(&semaphore)), (3, 1));
            block_on(async {
                let one = own(&semaphore).acquire_owned_async().await;
                let two = own(&semaphore).acquire_many_owned_async(2).await;
                assert_eq!((one.count(), two.count(), semaphore.available()), (1, 2, 0));
            });
            own(&semaphore).try_acquire_many_owned(2).unwrap().forget();
            assert_eq!((semaphore.available(), Arc::strong_count(&semaphore)), (1, 1), "forgotten permits come back");
        };
        rt.run(check);
        check();
    });
}

#[test]
fn owned_permits_go_to_other_fibres_and_bound_their_number() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (semaphore, inside) = (Arc::new(Semaphore::new(3)), Arc::new(AtomicUsize::new(0)));
            let sessions: Vec<_> = (0..100)
                .map(|_| {
                    let permit = own(&semaphore).acquire_owned().unwrap();
                    let inside = Arc::clone(&inside);
                    sinew::spawn(move || {
                        let now = inside.fetch_add(1, Ordering::Relaxed) + 1;
                        sinew::yield_now();
                        inside.fetch_sub(1, Ordering::Relaxed);
                        drop(permit);
                        now
                    })
                })
                .collect();
            assert!(sessions.into_iter().all(|session| session.join().unwrap() <= 3));
            assert_eq!(semaphore.available(), 3);
        });
    });
}

#[test]
fn one_holder_of_an_owned_guard_at_a_time() {
    everywhere(|rt, _| {
        let (mutex, rwlock) = (Arc::new(Mutex::new(0)), Arc::new(RwLock::new(0)));
        on_fibres_and_threads(rt, 8, 2, |number| {
            for round in 0..40 {
                let mut total = match (number + round) % 4 {
                    0 => own(&mutex).lock_owned_timeout(LONG).unwrap(),
                    1 => own(&mutex).lock_owned_deadline(Instant::now() + LONG).unwrap(),
                    2 => own(&mutex).lock_owned_cancellable().unwrap(),
                    _ => own(&mutex).lock_owned().unwrap(),
                };
                let before = *total;
                sinew::yield_now();
                *total = before + 1;
                drop(total);
                let mut total = match (number + round) % 4 {
                    0 => own(&rwlock).write_owned_timeout(LONG).unwrap(),
                    1 => own(&rwlock).write_owned_deadline(Instant::now() + LONG).unwrap(),
                    2 => own(&rwlock).write_owned_cancellable().unwrap(),
                    _ => own(&rwlock).write_owned().unwrap(),
                };
                let before = *total;
                sinew::yield_now();
                *total = before + 1;
                let total = OwnedRwLockWriteGuard::downgrade(total);
                sinew::yield_now();
                assert_eq!(*total, before + 1, "a writer came while the guard became a reader's");
                drop(total);
                let total = match (number + round) % 4 {
                    0 => own(&rwlock).read_owned_timeout(LONG).unwrap(),
                    1 => own(&rwlock).read_owned_deadline(Instant::now() + LONG).unwrap(),
                    2 => own(&rwlock).read_owned_cancellable().unwrap(),
                    _ => own(&rwlock).read_owned().unwrap(),
                };
                let before = *total;
                sinew::yield_now();
                assert_eq!(*total, before, "a writer came while the lock was read");
            }
        });
        assert_eq!((*mutex.lock().unwrap(), *rwlock.read().unwrap()), (400, 400));
        assert_eq!((Arc::strong_count(&mutex), Arc::strong_count(&rwlock)), (1, 1));
    });
}

#[test]
fn an_owned_guard_keeps_others_out_until_it_is_dropped() {
    alone(|| {
        let mutex = Arc::new(Mutex::new(1));
        let guard = block_on(own(&mutex).lock_owned_async()).unwrap();
        assert!(Arc::ptr_eq(OwnedMutexGuard::mutex(&guard), &mutex));
        assert!(would_block(own(&mutex).try_lock_owned()));
        assert!(would_block(own(&mutex).lock_owned_timeout(MS)));
        assert!(would_block(own(&mutex).lock_owned_deadline(Instant::now() + MS)));
        assert_eq!((format!("{guard:?}"), format!("{guard}")), ("1".to_owned(), "1".to_owned()));
        drop(guard);
        assert_eq!(*own(&mutex).try_lock_owned().unwrap(), 1);

        let rwlock = Arc::new(RwLock::new(2));
        let guard = block_on(own(&rwlock).write_owned_async()).unwrap();
        assert!(Arc::ptr_eq(OwnedRwLockWriteGuard::rwlock(&guard), &rwlock));
        assert!(would_block(own(&rwlock).try_read_owned()) && would_block(own(&rwlock).try_write_owned()));
        assert!(would_block(own(&rwlock).read_owned_timeout(MS)));
        assert_eq!((format!("{guard:?}"), format!("{guard}")), ("2".to_owned(), "2".to_owned()));
        drop(guard);
        let readers = [block_on(own(&rwlock).read_owned_async()).unwrap(), own(&rwlock).try_read_owned().unwrap()];
        assert!(Arc::ptr_eq(OwnedRwLockReadGuard::rwlock(&readers[0]), &rwlock));
        assert!(would_block(own(&rwlock).try_write_owned()) && would_block(own(&rwlock).write_owned_timeout(MS)));
        assert!(would_block(own(&rwlock).write_owned_deadline(Instant::now() + MS)));
        assert_eq!(format!("{readers:?} {}", readers[0]), "[2, 2] 2");
        drop(readers);
        assert_eq!(*own(&rwlock).try_write_owned().unwrap(), 2);
    });
}

#[test]
fn an_owned_guard_poisons_as_a_borrowed_one_does() {
    everywhere(|rt, _| {
        let (mutex, rwlock) = (Arc::new(Mutex::new(1)), Arc::new(RwLock::new(2)));
        let panics = |f: Box<dyn FnOnce() + Send>| assert!(rt.spawn(f).join().is_err());
        let reader = own(&rwlock);
        panics(Box::new(move || {
            let _guard = reader.read_owned().unwrap();
            panic!("expected: a reader");
        }));
        assert!(!rwlock.is_poisoned(), "a reader poisons nothing");
        let (locker, writer) = (own(&mutex), own(&rwlock));
        panics(Box::new(move || {
            let _guards = (locker.lock_owned().unwrap(), writer.write_owned().unwrap());
            panic!("expected: a writer");
        }));
        assert!(mutex.is_poisoned() && rwlock.is_poisoned());
        assert_eq!(*own(&mutex).lock_owned().unwrap_err().into_inner(), 1);
        assert!(matches!(own(&mutex).try_lock_owned(), Err(TryLockError::Poisoned(_))));
        assert!(matches!(own(&rwlock).read_owned_timeout(LONG), Err(TryLockError::Poisoned(_))));
        assert_eq!(*block_on(own(&rwlock).write_owned_async()).unwrap_err().into_inner(), 2);
        mutex.clear_poison();
        rwlock.clear_poison();
        // A guard that is taken while its holder unwinds poisons nothing.
        struct LocksInDrop(Arc<Mutex<i32>>);
        impl Drop for LocksInDrop {
            fn drop(&mut self) {
                *own(&self.0).lock_owned().unwrap() += 1;
            }
        }
        let unwinding = own(&mutex);
        panics(Box::new(move || {
            let _locks = LocksInDrop(unwinding);
            panic!("expected: it locks while it unwinds");
        }));
        assert_eq!(*mutex.lock().unwrap(), 2);
        assert!(own(&mutex).lock_owned().is_ok() && own(&rwlock).write_owned().is_ok());
    });
}

#[test]
fn the_last_owner_of_a_lock_may_be_its_guard() {
    alone(|| {
        let dropped = Arc::new(());
        let guard = Arc::new(Mutex::new(Arc::clone(&dropped))).lock_owned().unwrap();
        assert_eq!(Arc::strong_count(&guard), 2);
        drop(guard);
        let guard = Arc::new(RwLock::new(Arc::clone(&dropped))).write_owned().unwrap();
        drop(OwnedRwLockWriteGuard::downgrade(guard));
        let unsized_value: Arc<Mutex<[u8]>> = Arc::new(Mutex::new([1, 2, 3]));
        assert_eq!(unsized_value.lock_owned().unwrap().len(), 3);
        assert_eq!(Arc::strong_count(&dropped), 1);
    });
}

#[test]
fn a_refused_number_of_owned_permits_panics() {
    alone(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let too_many = Semaphore::MAX_PERMITS + 1;
        let refused = |f: &dyn Fn()| assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
        refused(&|| drop(own(&semaphore).acquire_many_owned(too_many)));
        refused(&|| drop(own(&semaphore).try_acquire_many_owned(too_many)));
        assert_eq!((semaphore.available(), Arc::strong_count(&semaphore)), (1, 1));
    });
}
