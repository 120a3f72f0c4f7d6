#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]
use std::sync::atomic::*;
use std::time::*;
fn cpu() -> f64 { std::fs::read_dir("/proc/self/task").unwrap().map(|t| std::fs::read_to_string(t.unwrap().path().join("schedstat")).unwrap().split(' ').next().unwrap().parse::<f64>().unwrap()).sum::<f64>() / 1e9 }
static STOP: AtomicBool = AtomicBool::new(false);
fn main() {
    let mode = std::env::args().nth(1).unwrap();
    let procs: usize = std::env::args().nth(2).map_or(2, |a| a.parse().unwrap());
    let n: usize = std::env::args().nth(3).map_or(100, |a| a.parse().unwrap());
    let rt = unsafe { sinew::Runtime::builder().processors(procs).migrating() }.build().unwrap();
    let (c0, t0) = (cpu(), Instant::now());
    let counts: Vec<u64> = match &*mode {
        "yield" => {
            let hs: Vec<_> = (0..procs * n).map(|_| rt.spawn(|| { let mut c = 0u64; while !STOP.load(Ordering::Relaxed) { sinew::yield_now(); c += 1; } c })).collect();
            std::thread::sleep(Duration::from_millis(1000));
            STOP.store(true, Ordering::Relaxed);
            hs.into_iter().map(|h| h.join().unwrap()).collect()
        }
        "cycle" => {
            let hs: Vec<Vec<_>> = (0..procs * n).map(|_| {
                let slots = std::sync::Arc::new((std::sync::OnceLock::<Vec<sinew::Fibre>>::new(), [const { AtomicU64::new(0) }; 5]));
                let hs: Vec<_> = (0..5).map(|i| { let s = slots.clone(); rt.spawn(move || {
                    while s.0.get().is_none() { sinew::yield_now(); }
                    let next = s.0.get().unwrap()[(i + 1) % 5].clone();
                    let mut c = 0u64;
                    loop { sinew::park(); next.unpark(); if STOP.load(Ordering::Relaxed) { break } c += 1; }
                    c })}).collect();
                slots.0.set(hs.iter().map(|h| h.fibre().clone()).collect()).unwrap();
                hs[0].fibre().unpark();
                hs
            }).collect();
            std::thread::sleep(Duration::from_millis(1000));
            STOP.store(true, Ordering::Relaxed);
            hs.into_iter().flatten().map(|h| h.join().unwrap()).collect()
        }
        "spawn" => {
            rt.run(|| { let t = Instant::now(); let mut c = 0; while t.elapsed() < Duration::from_secs(1) {
                if n == 1 { for _ in 0..64 { sinew::spawn(|| ()).join().unwrap(); c += 1; } } else { let hs: Vec<_> = (0..n).map(|_| sinew::spawn(|| ())).collect(); for h in hs { h.join().unwrap(); c += 1; } } } vec![c] })
        }
        _ => panic!(),
    };
    let (c, t) = (cpu() - c0, t0.elapsed().as_secs_f64());
    let sum = counts.iter().sum::<u64>() as f64;
    println!("{:.1} M/s; {:.2} ns cpu per op; max/min {:.2}", sum / 1e6 / t, c * 1e9 / sum, *counts.iter().max().unwrap() as f64 / *counts.iter().min().unwrap() as f64);
}
