//! A great many fibres: what they cost while they wait, and that nothing of them
//! is left afterwards. Each test measures a process of its own.

#[path = "rerun/mod.rs"]
#[macro_use]
mod rerun;

use rerun::Rerun;
use sinew::{JoinHandle, Runtime};
use std::collections::VecDeque;
use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The process's resident memory in bytes.
fn resident() -> usize {
    status("VmRSS:")
}

/// What the kernel's tables of the process's pages take, in bytes: it does not count as resident.
fn page_tables() -> usize {
    status("VmPTE:")
}

fn status(what: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<usize>().unwrap() * KIB
}

fn mappings() -> usize {
    fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// What the system has left to give.
fn available() -> usize {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<usize>().unwrap() * KIB
}

/// Spawns fibres that each run `first`, then wait to be unparked; returns when
/// all of them have begun to wait.
fn spawn_parked(count: usize, first: fn()) -> Vec<JoinHandle<usize>> {
    static PARKED: AtomicUsize = AtomicUsize::new(0);
    PARKED.store(0, Ordering::Relaxed);
    let park = move |number| {
        first();
        PARKED.fetch_add(1, Ordering::Relaxed);
        sinew::park();
        number
    };
    let handles = (0..count).map(|number| sinew::spawn(move || park(number))).collect();
    while PARKED.load(Ordering::Relaxed) < count {
        sinew::yield_now();
    }
    handles
}

fn unpark_and_join(handles: Vec<JoinHandle<usize>>) {
    let count = handles.len();
    for handle in &handles {
        handle.fibre().unpark();
    }
    assert!(handles.into_iter().map(|handle| handle.join().unwrap()).eq(0..count));
}

#[test]
fn a_million_parked_fibres_cost_a_page_each_and_hardly_a_mapping() {
    const FIBRES: usize = 1_000_000;
    let most_each = if cfg!(debug_assertions) { 9 * KIB } else { 46 * KIB / 10 };
    if available() < FIBRES * most_each * 5 / 4 {
        println!("the machine has too little memory for this test");
        return;
    }
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().processors(2).build().unwrap();
        runtime.run(|| {
            let before = resident() + page_tables();
            let handles = spawn_parked(FIBRES, || ());
            let each = (resident() + page_tables() - before) / FIBRES;
            let mappings = mappings();
            println!("{each} bytes each, {mappings} mappings");
            assert!(each <= most_each, "{each} bytes each");
            assert!(mappings < 1_000, "{mappings} mappings");
            unpark_and_join(handles);
        });
        println!("all have ended");
    });
    outcome.assert_success("all have ended");
    println!("{}", outcome.stdout);
}

#[test]
fn rounds_of_spawning_and_joining_leave_nothing_behind() {
    const FIBRES: usize = 100_000;
    const ROUNDS: usize = 10;
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().processors(2).build().unwrap();
        let after_round: Vec<_> = (0..ROUNDS)
            .map(|_| {
                runtime.run(|| unpark_and_join(spawn_parked(FIBRES, || ())));
                (resident(), mappings())
            })
            .collect();
        println!("{after_round:?}");
        // The allocator and the pools have what they want after some rounds.
        let early = after_round[..4].iter().copied().reduce(|a, b| (a.0.max(b.0), a.1.max(b.1))).unwrap();
        let last = after_round[ROUNDS - 1];
        assert!(last.0 <= early.0 + 4 * MIB, "{} KiB more than at first", (last.0 - early.0) / KIB);
        assert!(last.1 <= early.1 + 2, "{} mappings more than at first", last.1 - early.1);
        drop(runtime);
        assert_eq!(sinew::memory::usage().promised_stacks, 0, "stacks are still promised");
        println!("nothing is left");
    });
    outcome.assert_success("nothing is left");
}

#[test]
fn stacks_that_have_grown_are_given_back() {
    const FIBRES: usize = 2_000;
    const GROWTH: usize = 40 * KIB;
    #[inline(never)]
    fn grow() {
        let mut room = [1u8; GROWTH];
        black_box(&mut room);
    }
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().processors(2).build().unwrap();
        runtime.run(|| {
            let before = resident();
            let handles = spawn_parked(FIBRES, grow);
            let grown = resident() - before;
            assert!(grown > FIBRES * GROWTH, "{} KiB for all: they did not grow", grown / KIB);
            unpark_and_join(handles);
            let left = resident().saturating_sub(before);
            println!("{} KiB at the height of it, {} KiB afterwards", grown / KIB, left / KIB);
            // A page of each may stay, and on each processor 4 MiB of grown ones for those who
            // come.
            let most = FIBRES * 4 * KIB + 2 * 4 * MIB;
            assert!(left < most, "{} KiB are left of {} KiB", left / KIB, grown / KIB);
        });
        println!("given back");
    });
    outcome.assert_success("given back");
}

#[test]
fn trimmed_stacks_cost_nothing_and_serve_again() {
    const FIBRES: usize = 5_000;
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().processors(2).build().unwrap();
        runtime.run(|| {
            for _ in 0..3 {
                unpark_and_join(spawn_parked(FIBRES, || ()));
                let before = resident();
                let given_back = sinew::memory::trim();
                let fallen = before.saturating_sub(resident());
                println!("{} KiB given back, {} KiB fallen", given_back / KIB, fallen / KIB);
                // Processors keep some.
                assert!(given_back > (FIBRES - 500) * 4 * KIB, "{given_back} bytes given back");
                assert!(fallen > given_back * 9 / 10, "{fallen} bytes less of {given_back}");
            }
            assert_eq!(sinew::memory::trim(), 0, "again and again");
        });
        drop(runtime);
        assert_eq!(sinew::memory::usage().promised_stacks, 0, "stacks are still promised");
        println!("trimmed");
    });
    outcome.assert_success("trimmed");
}

#[test]
fn fibres_come_and_go_while_stacks_are_trimmed() {
    const FIBRES: usize = 3_000;
    const BATCH: usize = 256;
    const ROUNDS: usize = 100;
    let outcome = in_child!(Rerun::new(), || {
        static DONE: AtomicUsize = AtomicUsize::new(0);
        static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);
        let runtime = Runtime::builder().processors(2).build().unwrap();
        let trim = || {
            while DONE.load(Ordering::Relaxed) == 0 {
                GIVEN_BACK.fetch_add(sinew::memory::trim(), Ordering::Relaxed);
            }
        };
        let trimmers = [trim; 4].map(std::thread::spawn);
        runtime.run(|| {
            unpark_and_join(spawn_parked(FIBRES, || ()));
            // As many as there are stacks, always; some end while as many begin.
            let memory = sinew::memory::usage();
            let spare = memory.carved_stacks - memory.promised_stacks - BATCH;
            let mut parked: VecDeque<_> = (0..spare).map(|_| sinew::spawn(sinew::park)).collect();
            let mut rounds = 0;
            // Those who trim have to get their turn.
            while rounds < ROUNDS || GIVEN_BACK.load(Ordering::Relaxed) <= FIBRES * 4 * KIB {
                rounds += 1;
                let ending: Vec<_> = parked.drain(..BATCH).collect();
                ending.iter().for_each(|fibre| fibre.fibre().unpark());
                parked.extend((0..BATCH).map(|_| sinew::spawn(sinew::park)));
                ending.into_iter().for_each(|fibre| fibre.join().unwrap());
            }
            parked.iter().for_each(|fibre| fibre.fibre().unpark());
            parked.into_iter().for_each(|fibre| fibre.join().unwrap());
        });
        DONE.store(1, Ordering::Relaxed);
        trimmers.into_iter().for_each(|trimmer| trimmer.join().unwrap());
        drop(runtime);
        assert_eq!(sinew::memory::usage().promised_stacks, 0, "stacks are still promised");
        println!("all were served");
    });
    outcome.assert_success("all were served");
}

#[test]
fn a_scope_does_not_remember_those_who_have_ended() {
    const FIBRES: usize = 20_000;
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().processors(1).build().unwrap();
        runtime.run(|| {
            sinew::scope(|scope| {
                let parked: Vec<_> = (0..FIBRES).map(|_| scope.spawn(sinew::park)).collect();
                sinew::yield_now();
                parked.iter().for_each(|fibre| fibre.fibre().unpark());
                parked.into_iter().for_each(|fibre| fibre.join().unwrap());
                let before = resident();
                for _ in 0..FIBRES {
                    scope.spawn(|| ()).join().unwrap();
                }
                let grown = resident().saturating_sub(before);
                println!("{} KiB more", grown / KIB);
                assert!(grown < MIB, "{} KiB more", grown / KIB);
            });
        });
        println!("forgotten");
    });
    outcome.assert_success("forgotten");
}

#[test]
fn a_large_stack_costs_only_what_is_used_of_it() {
    const FIBRES: usize = 1_000;
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().processors(1).stack_size(16 * MIB).build().unwrap();
        runtime.run(|| {
            let before = resident();
            let handles = spawn_parked(FIBRES, || ());
            let each = (resident() - before) / FIBRES;
            assert!(each < 12 * KIB, "{each} bytes each");
            unpark_and_join(handles);
        });
        println!("cheap");
    });
    outcome.assert_success("cheap");
}
