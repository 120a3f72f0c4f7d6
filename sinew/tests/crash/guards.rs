//! Every stack has a guard below it: from the first stack on, and whatever the kernel refuses. The
//! guard is wider than any frame of ordinary C code.
#![allow(unsafe_code)]

use crate::fixture::refused::{Call, Threads, refuse};
use crate::fixture::rerun::{Outcome, Rerun, SIGABRT, need};
use crate::overflow::overflow;
use sinew::{FibreBuilder, JoinHandle, Runtime};
use std::hint::black_box;
use std::io;
use std::sync::mpsc::{self, TryRecvError};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const PAGE: usize = 4 * KIB;

/// Shorter than [`JUMP`], so that a jump from the top of a stack ends below it.
const STACK: usize = 64 * KIB;

/// The longest step down that a guard must catch.
const JUMP: usize = 128 * KIB;

/// Returns an address in the caller's frame.
#[inline(always)]
fn here() -> usize {
    let local = 0u8;
    black_box(&raw const local).addr()
}

/// Writes `distance` bytes further down and touches nothing in between, as a C function with an
/// array of that size does.
fn jump(distance: usize) {
    let far = std::ptr::with_exposed_provenance_mut::<u8>(here() - distance);
    // SAFETY: none; the write is meant to kill the process.
    unsafe { black_box(far).write_volatile(1) };
}

/// Returns whether the kernel can read a byte at `address`.
fn is_accessible(address: usize) -> bool {
    let mut ends = [0; 2];
    // SAFETY: the call writes two descriptors into the array.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: the kernel reports an error if it cannot read the byte.
    let written = unsafe { libc::write(ends[1], std::ptr::with_exposed_provenance(address), 1) };
    let error = io::Error::last_os_error();
    // SAFETY: both descriptors are ours.
    ends.into_iter().for_each(|end| assert_eq!(unsafe { libc::close(end) }, 0));
    assert!(written == 1 || error.raw_os_error() == Some(libc::EFAULT), "{error}");
    written == 1
}

/// Spawns fibres that probe the addresses below their stacks and then wait. Returns their handles
/// and the number of accessible pages that they found.
fn look_below(fibres: usize) -> (Vec<JoinHandle<()>>, usize) {
    let (found, heard) = mpsc::channel();
    let look = || {
        let found = found.clone();
        move || {
            let guard = (here() - JUMP..here() - STACK).step_by(PAGE);
            found.send(guard.filter(|address| is_accessible(*address)).count()).unwrap();
            sinew::park();
        }
    };
    let waiting: Vec<_> = (0..fibres).map(|_| sinew::spawn(look())).collect();
    drop(found);
    let mut accessible = 0;
    for _ in 0..fibres {
        accessible += loop {
            match heard.try_recv() {
                Ok(pages) => break pages,
                Err(TryRecvError::Empty) => sinew::yield_now(),
                Err(TryRecvError::Disconnected) => panic!("a fibre could not probe"),
            }
        };
    }
    (waiting, accessible)
}

/// Probes below many stacks, then overflows one of the first.
fn check(prepare: impl FnOnce() + Send) {
    let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).stack_size(STACK).build().unwrap();
    runtime.run(|| {
        let first = FibreBuilder::new().name("first").spawn(sinew::park).unwrap();
        let second = FibreBuilder::new().name("second").spawn(|| {
            sinew::park();
            jump(JUMP);
        });
        sinew::yield_now();
        prepare();
        let (waiting, accessible) = look_below(500);
        println!("accessible pages: <{accessible}>");
        second.as_ref().unwrap().fibre().unpark();
        let _ = second.unwrap().join();
        println!("a step across the guard went unnoticed");
        drop((first, waiting));
    });
}

#[track_caller]
fn assert_guarded(outcome: &Outcome) {
    assert!(outcome.stdout.contains("accessible pages: <0>"), "{outcome:#?}");
    outcome.assert_killed(SIGABRT, &["fibre 'second' has overflowed its stack of 64 KiB"]);
}

/// Makes the kernel answer like one before 6.13, which has no guards.
fn forget_guards() {
    const GUARD_INSTALL: u32 = 102;
    let calls =
        [Call::with(libc::SYS_madvise, 2, GUARD_INSTALL), Call::with(libc::SYS_process_madvise, 3, GUARD_INSTALL)];
    refuse(&calls, libc::EINVAL, Threads::This);
}

#[test]
fn every_stack_has_a_guard() {
    let outcome = in_child!(Rerun::new(), || check(|| ()));
    assert_guarded(&outcome);
}

#[test]
fn every_stack_has_a_guard_when_kernel_guards_are_switched_off() {
    let outcome = in_child!(Rerun::new().without("madvise-guards"), || check(|| ()));
    assert_guarded(&outcome);
}

#[test]
fn every_stack_has_a_guard_on_a_kernel_without_guards() {
    let outcome = in_child!(Rerun::new(), || {
        forget_guards();
        check(|| ());
    });
    if outcome.was_allowed() {
        assert_guarded(&outcome);
    }
}

#[test]
fn every_stack_has_a_guard_in_locked_memory() {
    let outcome = in_child!(Rerun::new(), || {
        // SAFETY: no memory is involved.
        need(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) } == 0, "locked memory");
        check(|| ());
    });
    if outcome.was_allowed() {
        assert_guarded(&outcome);
    }
}

#[test]
fn every_stack_has_a_guard_after_memory_was_locked() {
    let outcome = in_child!(Rerun::new(), || {
        check(|| {
            // SAFETY: no memory is involved.
            need(unsafe { libc::mlockall(libc::MCL_CURRENT) } == 0, "locked memory");
        });
    });
    if outcome.was_allowed() {
        assert_guarded(&outcome);
    }
}

#[test]
fn every_stack_has_a_guard_where_the_kernel_refuses_part_of_a_batch() {
    let outcome = in_child!(Rerun::new(), || {
        check(|| {
            // Some slots in the middle of those that come next.
            let page = (here() + 48 * MIB) & !(PAGE - 1);
            let to_come = std::ptr::with_exposed_provenance(page);
            // SAFETY: stacks will lie at these addresses; they hold nothing yet.
            unsafe { libc::mlock(to_come, 2 * MIB) };
            // The call locks the range even if it reports that there is no memory yet.
            let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&format!("{page:x}-")));
            let flags = lines.find(|line| line.starts_with("VmFlags:")).unwrap_or_default();
            need(flags.contains(" lo"), "some locked memory");
        });
    });
    if outcome.was_allowed() {
        assert_guarded(&outcome);
    }
}

#[test]
fn a_long_step_down_is_an_overflow_from_any_depth_of_the_stack() {
    #[inline(never)]
    fn jump_from_below(depth: usize, distance: usize) {
        let mut room = [0u8; 4 * KIB];
        black_box(&mut room);
        match depth {
            0 => jump(distance),
            _ => jump_from_below(depth - 1, distance),
        }
        black_box(&mut room);
    }
    // The last step ends in the guard of the stack below.
    for (depth, distance) in [(0, JUMP), (6, JUMP), (12, JUMP), (0, 300 * KIB)] {
        let body = || {
            Runtime::builder().spares(0).stall_limit(None).stack_size(STACK).run(|| {
                let neighbours: Vec<_> = (0..8).map(|_| sinew::spawn(sinew::park)).collect();
                sinew::yield_now();
                let jumper = FibreBuilder::new().name("jumper").spawn(move || jump_from_below(depth, distance));
                let _ = jumper.unwrap().join();
                drop(neighbours);
            });
        };
        let variant = format!("{depth} {distance}");
        let Some(outcome) = Rerun::new().run(name_of_test!(), &variant, body) else { continue };
        outcome.assert_killed(SIGABRT, &["fibre 'jumper' has overflowed its stack of 64 KiB"]);
    }
}

#[test]
fn small_steps_down_are_an_overflow_on_a_kernel_without_guards() {
    let outcome = in_child!(Rerun::new().without("madvise-guards"), || {
        Runtime::builder().spares(0).stall_limit(None).stack_size(STACK).run(|| {
            let neighbours: Vec<_> = (0..8).map(|_| sinew::spawn(sinew::park)).collect();
            sinew::yield_now();
            overflow(FibreBuilder::new().name("digger"));
            drop(neighbours);
        });
    });
    outcome.assert_killed(SIGABRT, &["fibre 'digger' has overflowed its stack of 64 KiB"]);
}
