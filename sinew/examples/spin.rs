#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]
use std::sync::atomic::*;
use std::time::*;
fn main() {
    let procs: usize = std::env::args().nth(1).map_or(2, |a| a.parse().unwrap());
    let n: usize = std::env::args().nth(2).map_or(100, |a| a.parse().unwrap());
    let rt = unsafe { sinew::Runtime::builder().processors(procs).migrating() }.build().unwrap();
    static STOP: AtomicBool = AtomicBool::new(false);
    let hs: Vec<_> = (0..procs * n).map(|_| rt.spawn(|| { let mut c = 0u64; while !STOP.load(Ordering::Relaxed) { sinew::yield_now(); c += 1; } c })).collect();
    std::thread::sleep(Duration::from_millis(1000));
    STOP.store(true, Ordering::Relaxed);
    let counts: Vec<u64> = hs.into_iter().map(|h| h.join().unwrap()).collect();
    println!("{:.1} M/s max/min {:.2}", counts.iter().sum::<u64>() as f64 / 1e6, *counts.iter().max().unwrap() as f64 / *counts.iter().min().unwrap() as f64);
}
