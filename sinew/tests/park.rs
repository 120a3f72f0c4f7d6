//! Parking and unparking lose no token, from fibres and from kernel threads.

mod fixture;

use fixture::{LONG, alone, everywhere, wait_until};
use sinew::{Fibre, JoinHandle};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn unpark_before_park_is_not_lost() {
    everywhere(|rt, _| {
        // By the fibre itself.
        rt.run(|| {
            sinew::current().unpark();
            sinew::park();
        });
        // By another fibre, while this one is not parked.
        let (ready, given) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (is_ready, is_given) = (Arc::clone(&ready), Arc::clone(&given));
        let handle = rt.spawn(move || {
            is_ready.store(true, Ordering::Relaxed);
            wait_until(|| is_given.load(Ordering::Relaxed));
            sinew::park();
        });
        wait_until(|| ready.load(Ordering::Relaxed));
        handle.fibre().unpark();
        given.store(true, Ordering::Relaxed);
        handle.join().unwrap();
        // Before the fibre has begun.
        let handle = rt.spawn(sinew::park);
        handle.fibre().unpark();
        handle.join().unwrap();
    });
}

#[test]
fn waiting_for_another_fibre_takes_no_token() {
    everywhere(|rt, _| {
        rt.run(|| {
            sinew::current().unpark();
            sinew::spawn(sinew::yield_now).join().unwrap();
            assert!(sinew::spawn(sinew::yield_now).join_timeout(Duration::from_secs(600)).is_ok());
            sinew::scope(|scope| drop(scope.spawn(sinew::yield_now)));
            sinew::park();
        });
    });
}

#[test]
fn tokens_do_not_add_up() {
    const ROUNDS: usize = 40;
    const WAIT: Duration = Duration::from_millis(1);
    everywhere(|rt, _| {
        // A park may return without a reason, but not every time. If the second token were kept
        // beside the first, this park would always return early.
        let early = rt.run(|| {
            let round = || {
                (0..3).for_each(|_| sinew::current().unpark());
                sinew::park();
                let began = Instant::now();
                sinew::park_timeout(WAIT);
                began.elapsed() < WAIT
            };
            (0..ROUNDS).filter(|_| round()).count()
        });
        assert!(early < ROUNDS / 2, "{early} of {ROUNDS} parks returned early");
    });
}

/// A fibre that learns of the others after they are spawned.
#[derive(Default)]
struct Acquaintance(OnceLock<Fibre>);

impl Acquaintance {
    fn get(&self) -> &Fibre {
        wait_until(|| self.0.get().is_some());
        self.0.get().unwrap()
    }
}

#[test]
fn two_fibres_take_turns_ten_thousand_times() {
    const TURNS: u32 = 10_000;
    everywhere(|rt, _| {
        let turn = Arc::new(AtomicU32::new(0));
        let others: [Arc<Acquaintance>; 2] = Default::default();
        let player = |me: usize| {
            let (turn, other) = (Arc::clone(&turn), Arc::clone(&others[1 - me]));
            move || {
                for mine in (me as u32..2 * TURNS).step_by(2) {
                    while turn.load(Ordering::Acquire) != mine {
                        sinew::park();
                    }
                    turn.store(mine + 1, Ordering::Release);
                    other.get().unpark();
                }
            }
        };
        let players = [0, 1].map(|me| rt.spawn(player(me)));
        for (other, player) in others.iter().zip(&players) {
            other.0.set(player.fibre().clone()).unwrap();
        }
        players.into_iter().for_each(|player| player.join().unwrap());
        assert_eq!(turn.load(Ordering::Relaxed), 2 * TURNS);
    });
}

/// A fibre that answers each post until `total`, and parks whenever there is none.
struct Clerk {
    posted: AtomicU64,
    answered: AtomicU64,
}

impl Clerk {
    fn serve(&self, total: u64) {
        let mut answered = 0;
        while answered < total {
            let posted = self.posted.load(Ordering::Acquire);
            if posted == answered {
                sinew::park();
            } else {
                answered = posted;
                self.answered.store(answered, Ordering::Release);
            }
        }
    }

    /// Posts and waits for the answer, so that every single unpark counts.
    fn post(&self, fibre: &Fibre) {
        let number = self.posted.fetch_add(1, Ordering::AcqRel) + 1;
        fibre.unpark();
        wait_until(|| self.answered.load(Ordering::Acquire) >= number);
    }
}

#[test]
fn no_unpark_is_lost_among_fibres_and_kernel_threads() {
    const CLERKS: usize = 6;
    const POSTS: u64 = 300;
    everywhere(|rt, _| {
        let clerks: Vec<Arc<Clerk>> =
            (0..CLERKS).map(|_| Arc::new(Clerk { posted: AtomicU64::new(0), answered: AtomicU64::new(0) })).collect();
        let serving: Vec<JoinHandle<()>> = clerks
            .iter()
            .map(|clerk| {
                let clerk = Arc::clone(clerk);
                // Two fibres and two kernel threads post to each.
                rt.spawn(move || clerk.serve(4 * POSTS))
            })
            .collect();
        let post_to_all = &|poster: usize| {
            for n in 0..POSTS as usize * CLERKS {
                let which = (n + poster) % CLERKS;
                clerks[which].post(serving[which].fibre());
            }
        };
        thread::scope(|threads| {
            (0..2).for_each(|poster| drop(threads.spawn(move || post_to_all(poster))));
            rt.run(|| sinew::scope(|scope| (2..4).for_each(|poster| drop(scope.spawn(move || post_to_all(poster))))));
        });
        serving.into_iter().for_each(|clerk| clerk.join().unwrap());
        assert!(clerks.iter().all(|clerk| clerk.answered.load(Ordering::Relaxed) == 4 * POSTS));
    });
}

#[test]
fn unparking_a_finished_fibre_does_nothing() {
    everywhere(|rt, _| {
        let handle = rt.spawn(|| 5);
        let fibre = handle.fibre().clone();
        wait_until(|| handle.is_finished());
        fibre.unpark();
        assert_eq!(handle.join().unwrap(), 5);
        wait_until(|| rt.live_strands() == 0);
        (0..1000).for_each(|_| fibre.unpark());
        rt.run(|| (0..1000).for_each(|_| fibre.unpark()));
        assert_eq!(rt.run(|| 6), 6);
    });
}

#[test]
fn unparking_a_fibre_while_it_finishes_does_no_harm() {
    const FIBRES: usize = 50;
    const UNPARKS: usize = 500;
    const THREADS: usize = 4;
    everywhere(|rt, _| {
        let go = AtomicBool::new(false);
        let ended = Arc::new(AtomicUsize::new(0));
        let fibre = |yields: usize| {
            let ended = Arc::clone(&ended);
            move || {
                (0..yields).for_each(|_| sinew::yield_now());
                sinew::park();
                ended.fetch_add(1, Ordering::Relaxed);
            }
        };
        let handles: Vec<_> = (0..FIBRES).map(|n| rt.spawn(fibre(n * 7 % 40))).collect();
        let fibres: Vec<Fibre> = handles.iter().map(|handle| handle.fibre().clone()).collect();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    fixture::spin_until(|| go.load(Ordering::Relaxed));
                    fibres.iter().for_each(|fibre| (0..UNPARKS).for_each(|_| fibre.unpark()));
                });
            }
            go.store(true, Ordering::Relaxed);
        });
        handles.into_iter().for_each(|handle| handle.join().unwrap());
        assert_eq!(ended.load(Ordering::Relaxed), FIBRES);
    });
}

#[test]
fn a_kernel_thread_parks_and_is_unparked_like_a_fibre() {
    everywhere(|rt, _| {
        let me = sinew::current();
        assert!(me.is_kernel_thread());
        assert_eq!((me.id(), me.name()), (sinew::current().id(), thread::current().name()));
        me.unpark();
        sinew::park();
        // A fibre unparks the kernel thread a thousand times.
        let rounds = Arc::new(AtomicU32::new(0));
        let (its_rounds, kernel_thread) = (Arc::clone(&rounds), me.clone());
        let handle = rt.spawn(move || {
            for round in 0..1000 {
                wait_until(|| its_rounds.load(Ordering::Acquire) == 2 * round);
                its_rounds.store(2 * round + 1, Ordering::Release);
                kernel_thread.unpark();
            }
        });
        for round in 0..1000 {
            while rounds.load(Ordering::Acquire) != 2 * round + 1 {
                sinew::park();
            }
            rounds.store(2 * round + 2, Ordering::Release);
        }
        handle.join().unwrap();
        let other = thread::spawn(|| sinew::current().id()).join().unwrap();
        assert_ne!(me.id(), other);
    });
}

#[test]
fn a_kernel_thread_waits_and_sleeps_like_a_fibre() {
    alone(|| {
        sinew::yield_now();
        for wait in [Duration::ZERO, Duration::from_millis(2)] {
            let began = Instant::now();
            sinew::sleep(wait);
            assert!(began.elapsed() >= wait);
            sinew::sleep_until(began + wait);
            assert!(began.elapsed() >= wait);
            sinew::park_timeout(wait);
        }
        sinew::sleep_until(Instant::now() - Duration::from_millis(1));
        sinew::current().unpark();
        sinew::sleep(Duration::from_millis(1));
        let began = Instant::now();
        sinew::park_timeout(LONG);
        assert!(began.elapsed() < LONG, "the token is lost");
    });
}

#[test]
fn pinning_a_kernel_thread_changes_nothing() {
    alone(|| assert_eq!(sinew::pinned(|| 3), 3));
}
