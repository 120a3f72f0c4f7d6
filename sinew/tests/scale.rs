//! A large number of fibres: their cost while they wait, and that they leave nothing behind. Each
//! test measures a process of its own.

#[macro_use]
mod fixture;

use fixture::rerun::Rerun;
use fixture::{kernel_bytes, process_bytes};
use sinew::{JoinHandle, Runtime};
use std::collections::VecDeque;
use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Returns the resident memory of the process that belongs to no file, in bytes.
fn resident() -> usize {
    process_bytes("RssAnon")
}

/// Returns the size of the process's page tables in bytes. The kernel does not count them as
/// resident.
fn page_tables() -> usize {
    process_bytes("VmPTE")
}

fn mappings() -> usize {
    fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// Returns the memory that the system has left.
fn available() -> usize {
    kernel_bytes("/proc/meminfo", "MemAvailable")
}

/// Spawns fibres that run `first` and then wait to be unparked. Returns when all of them have begun
/// to wait.
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
fn a_million_parked_fibres_cost_a_page_each_and_few_mappings() {
    const FIBRES: usize = 1_000_000;
    let most_each = if cfg!(debug_assertions) { 9 * KIB } else { 46 * KIB / 10 };
    if available() < FIBRES * most_each * 5 / 4 {
        println!("the machine has too little memory for this test");
        return;
    }
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
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
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        let after_round: Vec<_> = (0..ROUNDS)
            .map(|_| {
                runtime.run(|| unpark_and_join(spawn_parked(FIBRES, || ())));
                (resident(), mappings())
            })
            .collect();
        println!("{after_round:?}");
        // After some rounds the allocator and the pools have reached their size.
        let early = after_round[..4].iter().copied().reduce(|a, b| (a.0.max(b.0), a.1.max(b.1))).unwrap();
        let last = after_round[ROUNDS - 1];
        assert!(last.0 <= early.0 + 4 * MIB, "{} KiB more than at first", (last.0 - early.0) / KIB);
        assert!(last.1 <= early.1 + 2, "{} mappings more than at first", last.1 - early.1);
        drop(runtime);
        assert_eq!(sinew::memory::usage().promised_stacks, 0, "stacks are still promised");
        println!("no memory is left over");
    });
    outcome.assert_success("no memory is left over");
}

#[test]
fn the_pages_of_grown_stacks_are_given_back() {
    const FIBRES: usize = 2_000;
    const GROWTH: usize = 40 * KIB;
    #[inline(never)]
    fn grow() {
        let mut room = [1u8; GROWTH];
        black_box(&mut room);
    }
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        runtime.run(|| {
            let before = resident();
            let handles = spawn_parked(FIBRES, grow);
            let grown = resident() - before;
            assert!(grown > FIBRES * GROWTH, "{} KiB for all stacks: they did not grow", grown / KIB);
            unpark_and_join(handles);
            let left = resident().saturating_sub(before);
            println!("{} KiB at most, {} KiB afterwards", grown / KIB, left / KIB);
            // Each stack may keep a page. Each processor may keep 4 MiB of grown stacks for the
            // next fibres.
            let most = FIBRES * 4 * KIB + 2 * 4 * MIB;
            assert!(left < most, "{} KiB of {} KiB are left", left / KIB, grown / KIB);
        });
        println!("given back");
    });
    outcome.assert_success("given back");
}

#[test]
fn trimmed_stacks_cost_nothing_and_can_be_used_again() {
    const FIBRES: usize = 5_000;
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        runtime.run(|| {
            for _ in 0..3 {
                unpark_and_join(spawn_parked(FIBRES, || ()));
                let before = resident();
                let given_back = sinew::memory::trim();
                let fallen = before.saturating_sub(resident());
                println!("{} KiB given back, {} KiB less resident", given_back / KIB, fallen / KIB);
                // Processors keep some stacks.
                assert!(given_back > (FIBRES - 500) * 4 * KIB, "{given_back} bytes given back");
                assert!(fallen > given_back * 9 / 10, "{fallen} bytes less resident, {given_back} given back");
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
fn fibres_may_come_and_go_while_stacks_are_trimmed() {
    const FIBRES: usize = 3_000;
    const BATCH: usize = 256;
    const ROUNDS: usize = 100;
    let outcome = in_child!(Rerun::new(), || {
        static DONE: AtomicUsize = AtomicUsize::new(0);
        static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        let trim = || {
            while DONE.load(Ordering::Relaxed) == 0 {
                GIVEN_BACK.fetch_add(sinew::memory::trim(), Ordering::Relaxed);
            }
        };
        let trimmers = [trim; 4].map(std::thread::spawn);
        runtime.run(|| {
            unpark_and_join(spawn_parked(FIBRES, || ()));
            // There are always as many fibres as stacks: one begins for each that ends.
            let memory = sinew::memory::usage();
            let spare = memory.carved_stacks - memory.promised_stacks - BATCH;
            let mut parked: VecDeque<_> = (0..spare).map(|_| sinew::spawn(sinew::park)).collect();
            let mut rounds = 0;
            // The threads that trim must get their turn.
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
fn a_scope_keeps_no_memory_for_fibres_that_have_ended() {
    const FIBRES: usize = 20_000;
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
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
        println!("the scope forgot its fibres");
    });
    outcome.assert_success("the scope forgot its fibres");
}

#[test]
fn a_large_stack_costs_only_the_pages_that_are_used() {
    const FIBRES: usize = 1_000;
    let outcome = in_child!(Rerun::new(), || {
        let runtime =
            Runtime::builder().spares(0).stall_limit(None).processors(1).stack_size(16 * MIB).build().unwrap();
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
