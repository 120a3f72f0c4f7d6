//! A hundred thousand fibres, each with a stack of its own.

use std::time::{Duration, Instant};

fn main() {
    let began = Instant::now();
    let total: u64 = sinew::run(|| {
        let sessions: Vec<_> = (0..100_000u64)
            .map(|number| {
                sinew::spawn(move || {
                    sinew::sleep(Duration::from_millis(number % 50));
                    number
                })
            })
            .collect();
        sessions.into_iter().map(|session| session.join().unwrap()).sum()
    });
    assert_eq!(total, 4_999_950_000);
    println!("100,000 fibres slept, woke and were joined in {:?}", began.elapsed());
}
