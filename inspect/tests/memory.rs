//! The memory that the reader takes in the process that it looks into.

use sinew_inspect::{Registers, backtrace_of};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The anonymous bytes that one backtrace may take for a moment. Measured in a debug build: 4.9 MB for a program
/// of 23 MB. With a copy of the program it was 29 MB.
const MOST: u64 = 12 << 20;

/// Returns the resident bytes of this process that belong to no file.
fn anonymous() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn names_are_read_without_a_copy_of_the_program() {
    let begun = AtomicBool::new(false);
    let done = AtomicBool::new(false);
    let before = anonymous();
    let (peak, frames) = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut peak = 0;
            while !done.load(Ordering::Relaxed) {
                peak = peak.max(anonymous());
                begun.store(true, Ordering::Relaxed);
            }
            peak
        });
        while !begun.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let instruction = anonymous as fn() -> u64 as usize as u64;
        let frames = backtrace_of(Registers { instruction, stack: 0, frame: 0, link: 0 }, 0, &[]);
        done.store(true, Ordering::Relaxed);
        (watch.join().unwrap(), frames)
    });
    assert!(frames[0].function.contains("anonymous"), "{frames:?}");
    let program = fs::metadata("/proc/self/exe").unwrap().len();
    let [peak, kept] = [peak, anonymous()].map(|bytes| bytes.saturating_sub(before));
    println!("program: {} KiB, peak: {} KiB, kept: {} KiB", program >> 10, peak >> 10, kept >> 10);
    assert!(peak < MOST, "{peak} bytes at the peak, for a program of {program}");
}
