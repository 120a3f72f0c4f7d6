//! Accounts without locks: the events of one account run one after the other, those of different accounts at the
//! same time.
//!
//! A transfer takes money from one account, then posts an event that adds it to the other one. Each balance is a
//! plain `Cell` in a type that only events of its colour touch.

use sinew::event::Colour;
use std::cell::Cell;
use std::sync::Arc;

const ACCOUNTS: u64 = 100;
const TRANSFERS: u64 = 100_000;

struct Account {
    colour: Colour,
    balance: Coloured<Cell<u64>>,
}

/// A value that only events of one colour use.
struct Coloured<T>(T);

#[allow(unsafe_code)]
// SAFETY: in this program each value is used by events of one colour only. They never run at the same time, and
// each sees what the one before it did.
unsafe impl<T: Send> Sync for Coloured<T> {}

fn transfer(from: &Arc<Account>, to: &Arc<Account>, amount: u64) {
    let (payer, payee) = (Arc::clone(from), Arc::clone(to));
    let pay = move || {
        let balance = payer.balance.0.get();
        if balance < amount {
            return;
        }
        payer.balance.0.set(balance - amount);
        let receive = {
            let payee = Arc::clone(&payee);
            move || payee.balance.0.set(payee.balance.0.get() + amount)
        };
        payee.colour.post(receive).expect("the runtime runs");
    };
    from.colour.post(pay).expect("the runtime runs");
}

fn main() {
    let accounts: Vec<_> = sinew::run(|| {
        let new = |_| Arc::new(Account { colour: Colour::new(), balance: Coloured(Cell::new(1_000)) });
        let accounts: Vec<_> = (0..ACCOUNTS).map(new).collect();
        for number in 0..TRANSFERS {
            let (from, to) = (number * 7 % ACCOUNTS, number * 13 % ACCOUNTS);
            transfer(&accounts[from as usize], &accounts[to as usize], number % 50);
        }
        accounts
    });
    // The runtime has ended, and so all events have run.
    let total: u64 = accounts.iter().map(|account| account.balance.0.get()).sum();
    println!("{TRANSFERS} transfers between {ACCOUNTS} accounts: {total} in all");
    assert_eq!(total, 1_000 * ACCOUNTS);
}
