//! A program in trouble, to try `sinew dump`, `sinew top` and gdb on.
//!
//! ```sh
//! cargo run --release -p sinew --example troubled -- deadlock
//! ```
//!
//! `deadlock`: three transfers lock two accounts each, in three orders. `stall`: a fibre computes and never gives way.
//! `leak`: a server forgets the sessions whose clients are silent. The program runs until it is killed.

use sinew::sync::{Barrier, Mutex, mpsc};
use std::sync::Arc;
use std::time::Duration;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("deadlock") => sinew::run(deadlock),
        Some("stall") => sinew::run(stall),
        Some("leak") => sinew::run(leak),
        _ => {
            eprintln!("usage: troubled deadlock | stall | leak");
            std::process::exit(2);
        }
    }
}

struct Account {
    balance: Mutex<i64>,
}

/// Moves money, and holds both accounts meanwhile.
fn transfer(from: &Account, to: &Account, all_have_one: &Barrier) {
    let mut from = from.balance.lock().unwrap();
    all_have_one.wait();
    let mut to = to.balance.lock().unwrap();
    *from -= 1;
    *to += 1;
}

fn deadlock() {
    let accounts: Arc<[Account]> = (0..3).map(|_| Account { balance: Mutex::new(100) }).collect();
    let barrier = Arc::new(Barrier::new(3));
    let transfers = ["ann to bob", "bob to cleo", "cleo to ann"].into_iter().enumerate().map(|(number, name)| {
        let (accounts, barrier) = (Arc::clone(&accounts), Arc::clone(&barrier));
        let transfer = move || transfer(&accounts[number], &accounts[(number + 1) % 3], &barrier);
        sinew::FibreBuilder::new().name(name).spawn(transfer).unwrap()
    });
    transfers.collect::<Vec<_>>().into_iter().for_each(|transfer| transfer.join().unwrap());
}

/// Counts the primes below a number, slowly.
fn count_primes(below: u64) -> usize {
    (2..below).filter(|n| (2..*n).all(|divisor| n % divisor != 0)).count()
}

fn stall() {
    let ticker = sinew::FibreBuilder::new().name("ticker").spawn(|| {
        loop {
            sinew::sleep(Duration::from_millis(100));
        }
    });
    sinew::sleep(Duration::from_millis(100));
    let report = || {
        loop {
            println!("{} primes", count_primes(60_000));
            sinew::sleep(Duration::from_millis(500));
        }
    };
    sinew::FibreBuilder::new().name("report").spawn(report).unwrap();
    ticker.unwrap().join().unwrap();
}

/// Serves a client. A silent one is waited for, for ever.
fn session(requests: mpsc::Receiver<String>) {
    while let Ok(request) = requests.recv() {
        assert!(!request.is_empty());
    }
}

fn leak() {
    let mut clients = Vec::new();
    loop {
        let (client, requests) = mpsc::channel();
        sinew::spawn(move || session(requests));
        client.send("hello".to_owned()).unwrap();
        // Here it is: nothing ever closes a client.
        clients.push(client);
        sinew::sleep(Duration::from_millis(1));
    }
}
