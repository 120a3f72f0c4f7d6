//! A program to look at with `sinew dump`. It brings fibres, tasks and actors into known states, prints a line, and
//! stays so until its standard input ends.
//!
//! ```sh
//! cargo run -p sinew-servers --example inspected -- mixed
//! ```

use sinew::actor::{self, Actor, Context, Handle};
use sinew::sync::{Barrier, Mutex, RwLock, mpsc};
use sinew::{Cluster, Fibre, FibreBuilder, Runtime};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(100_000);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    let count = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1000);
    run(&mode, count);
}

/// Does what a mode asks for. A test runs this, too.
pub fn run(mode: &str, count: u64) {
    match mode {
        "mixed" => mixed(),
        "many" => many(count),
        "busy" => busy(count),
        _ => eprintln!("mixed, many COUNT or busy COUNT"),
    }
}

/// Says that all is as it should be, waits for the end of standard input, and ends the process: many fibres here
/// never end.
fn show() -> ! {
    println!("ready");
    let _ = io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

/// Spawns a fibre with a name.
#[track_caller]
fn named(name: &str, f: impl FnOnce() + Send + 'static) -> Fibre {
    let spawned = FibreBuilder::new().name(name).spawn(f).expect("a fibre");
    spawned.fibre().clone()
}

/// Waits until a condition holds.
fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Takes its own lock, waits for the others, and takes the lock of the next one.
#[inline(never)]
fn dine(own: &Mutex<()>, next: &Mutex<()>, all: &Barrier) {
    let _own = own.lock();
    all.wait();
    let _next = next.lock();
}

#[inline(never)]
fn take_twice(lock: &Mutex<()>) {
    let _once = lock.lock();
    let _twice = lock.lock();
}

#[inline(never)]
fn take_twice_in_time(lock: &Mutex<()>) {
    let _once = lock.lock();
    let _twice = lock.lock_timeout(LONG);
}

fn mixed() {
    let runtime = Runtime::builder().processors(2).spares(0).name("main").build().expect("a runtime");
    let stuck = Cluster::builder().processors(1).spares(0).name("stuck");
    let stuck = runtime.cluster(stuck).expect("a cluster");
    let begun: &'static AtomicU64 = Box::leak(Box::default());
    runtime.spawn(move || {
        let begin = |name: &str, f: fn()| {
            named(name, move || {
                begun.fetch_add(1, Relaxed);
                f();
            })
        };
        for number in 0..5 {
            begin(&format!("parked-{number}"), sinew::park);
        }
        for number in 0..3 {
            begin(&format!("sleeper-{number}"), || sinew::thread::sleep(LONG));
        }
        philosophers(begun);
        joiners(begun);
        locks(begun);
        channels(begun);
        tasks(begun);
        actors();
    });
    // One processor that computes, and fibres that cannot begin.
    static COMPUTES: AtomicBool = AtomicBool::new(false);
    let spawn = |name: &str, f: fn()| {
        FibreBuilder::new().name(name).cluster(&stuck).spawn(f).expect("a fibre");
    };
    spawn("computing", || {
        COMPUTES.store(true, Relaxed);
        loop {
            std::hint::spin_loop();
        }
    });
    until(|| COMPUTES.load(Relaxed));
    for number in 0..4 {
        spawn(&format!("unbegun-{number}"), || unreachable!("the processor computes"));
    }
    until(|| begun.load(Relaxed) == BEGUN);
    // The last of them have to stop yet: the test asks again until they have.
    show();
}

/// The strands of `mixed` that count themselves when they begin.
const BEGUN: u64 = 5 + 3 + 5 + 2 + 7 + 2 + 4;

/// Three fibres that dine and never finish, one that waits for itself, and one that does so for some time.
fn philosophers(begun: &'static AtomicU64) {
    let forks: [Arc<Mutex<()>>; 3] = std::array::from_fn(|_| Arc::default());
    let all = Arc::new(Barrier::new(3));
    for (number, name) in ["plato", "kant", "hume"].into_iter().enumerate() {
        let (own, next, all) = (forks[number].clone(), forks[(number + 1) % 3].clone(), all.clone());
        named(name, move || {
            begun.fetch_add(1, Relaxed);
            dine(&own, &next, &all);
        });
    }
    named("narcissus", || {
        begun.fetch_add(1, Relaxed);
        take_twice(&Mutex::new(()));
    });
    named("echo", || {
        begun.fetch_add(1, Relaxed);
        take_twice_in_time(&Mutex::new(()));
    });
}

/// Two who wait for each other's end.
fn joiners(begun: &'static AtomicU64) {
    type Slot = Arc<OnceLock<Mutex<Option<sinew::JoinHandle<()>>>>>;
    let slots: [Slot; 2] = std::array::from_fn(|_| Arc::default());
    for number in 0..2 {
        let other = slots[1 - number].clone();
        let handle = FibreBuilder::new().name(format!("joiner-{number}")).spawn(move || {
            begun.fetch_add(1, Relaxed);
            while other.get().is_none() {
                sinew::yield_now();
            }
            let handle = other.get().and_then(|slot| slot.lock().ok()?.take());
            let _ = handle.expect("the other's handle").join();
        });
        let _ = slots[number].set(Mutex::new(Some(handle.expect("a fibre"))));
    }
}

/// One holder of a mutex with four waiters, and a writer with one reader.
fn locks(begun: &'static AtomicU64) {
    let lock = Arc::new(Mutex::new(()));
    let taken = Arc::new(AtomicBool::new(false));
    let (held, tells) = (lock.clone(), taken.clone());
    named("holder", move || {
        begun.fetch_add(1, Relaxed);
        let _held = held.lock();
        tells.store(true, Relaxed);
        sinew::park();
    });
    while !taken.load(Relaxed) {
        sinew::yield_now();
    }
    for number in 0..4 {
        let lock = lock.clone();
        named(&format!("waiter-{number}"), move || {
            begun.fetch_add(1, Relaxed);
            let _held = lock.lock();
        });
    }
    let lock = Arc::new(RwLock::new(()));
    let written = lock.clone();
    let taken = Arc::new(AtomicBool::new(false));
    let tells = taken.clone();
    named("writer", move || {
        begun.fetch_add(1, Relaxed);
        let _held = written.write();
        tells.store(true, Relaxed);
        sinew::park();
    });
    while !taken.load(Relaxed) {
        sinew::yield_now();
    }
    named("reader", move || {
        begun.fetch_add(1, Relaxed);
        let _held = lock.read();
    });
}

fn channels(begun: &'static AtomicU64) {
    let (sender, receiver) = mpsc::channel::<u8>();
    named("receiver", move || {
        begun.fetch_add(1, Relaxed);
        let _ = receiver.recv();
    });
    let (full, kept) = mpsc::sync_channel(1);
    named("sender", move || {
        begun.fetch_add(1, Relaxed);
        let _ = full.send(1);
        let _ = full.send(2);
    });
    std::mem::forget((sender, kept));
}

async fn doze(begun: &'static AtomicU64) {
    begun.fetch_add(1, Relaxed);
    sinew::time::sleep_async(LONG).await;
}

fn tasks(begun: &'static AtomicU64) {
    for _ in 0..3 {
        drop(sinew::task::spawn(doze(begun)));
    }
    drop(sinew::task::spawn(async move {
        begun.fetch_add(1, Relaxed);
        std::future::pending::<()>().await;
    }));
}

/// An actor whose handler takes a lock.
struct Clerk {
    lock: Arc<Mutex<()>>,
}

impl Actor for Clerk {}

struct Question;

impl Handle<Question> for Clerk {
    type Reply = ();

    fn handle(&mut self, _: Question, _: &mut Context<'_, Self>) {
        let _held = self.lock.lock();
    }
}

/// A client who asks an actor for an answer, and holds the lock that the actor waits for.
fn actors() {
    let lock: Arc<Mutex<()>> = Arc::default();
    let clerk = actor::spawn(Clerk { lock: lock.clone() });
    named("client", move || {
        let _held = lock.lock();
        let _ = clerk.ask(Question);
    });
    let idle = actor::spawn(Clerk { lock: Arc::default() });
    std::mem::forget(idle);
}

/// Keeps `count` fibres parked, at several places and depths of their stacks.
fn many(count: u64) {
    let runtime = Runtime::builder().processors(2).spares(0).name("main").build().expect("a runtime");
    static PARKED: AtomicU64 = AtomicU64::new(0);
    runtime.spawn(move || {
        for number in 0..count {
            sinew::spawn(move || {
                PARKED.fetch_add(1, Relaxed);
                descend(number % 8);
            });
            // As servers do: the fibres begin while others come.
            if number % 64 == 0 {
                sinew::yield_now();
            }
        }
    });
    until(|| PARKED.load(Relaxed) == count);
    show();
}

#[inline(never)]
fn descend(depth: u64) -> u64 {
    if depth == 0 {
        sinew::park();
        return 0;
    }
    let local = [depth; 8];
    std::hint::black_box(&local);
    1 + descend(depth - 1)
}

/// Lets fibres fight for locks, in families: the fibres of a family share one lock that nobody else uses.
fn busy(count: u64) {
    let runtime = Runtime::builder().processors(2).spares(0).name("main").build().expect("a runtime");
    runtime.spawn(move || {
        for family in 0..count {
            let lock = Arc::new(Mutex::new(0_u64));
            let other = Arc::new(RwLock::new(0_u64));
            for member in 0..4 {
                let (lock, other) = (lock.clone(), other.clone());
                named(&format!("family-{family}-{member}"), move || {
                    loop {
                        if let Ok(mut held) = lock.lock() {
                            *held += 1;
                            sinew::yield_now();
                        }
                        if let Ok(mut held) = other.write() {
                            *held += 1;
                            sinew::yield_now();
                        }
                        if member == 0 {
                            // Others come and go.
                            let short = sinew::spawn(sinew::yield_now);
                            let _ = short.join();
                        }
                    }
                });
            }
        }
    });
    show();
}
