//! A bank of actors: accounts that pay each other, and a clerk that fails now and then and is restarted.
//!
//! Compare `accounts`, which does the same with coloured events.

use sinew::actor::{self, Actor, Address, AskError, Context, Handle, Restart};
use std::time::Duration;

const ACCOUNTS: usize = 100;
const TRANSFERS: usize = 100_000;

/// An account. Nobody else can reach its balance.
struct Account {
    balance: u64,
}

impl Actor for Account {
    // Its handlers never block, so a question to it is a call if it is idle.
    const BLOCKS: bool = false;
}

/// Pays another account, if there is enough.
struct Pay {
    to: Address<Account>,
    amount: u64,
}

impl Handle<Pay> for Account {
    type Reply = bool;

    fn handle(&mut self, pay: Pay, _: &mut Context<'_, Self>) -> bool {
        if self.balance < pay.amount {
            return false;
        }
        self.balance -= pay.amount;
        // If the other account is closed, the message comes back, and the money with it.
        if let Err(error) = pay.to.tell(Receive(pay.amount)) {
            self.balance += error.into_message().0;
            return false;
        }
        true
    }
}

struct Receive(u64);

impl Handle<Receive> for Account {
    type Reply = ();

    fn handle(&mut self, receive: Receive, _: &mut Context<'_, Self>) {
        self.balance += receive.0;
    }
}

struct Balance;

impl Handle<Balance> for Account {
    type Reply = u64;

    fn handle(&mut self, _: Balance, _: &mut Context<'_, Self>) -> u64 {
        self.balance
    }
}

/// Writes transfers down. It panics at each ten thousandth.
#[derive(Default)]
struct Clerk {
    written: usize,
}

impl Actor for Clerk {}

struct Write(usize);

impl Handle<Write> for Clerk {
    type Reply = usize;

    fn handle(&mut self, write: Write, _: &mut Context<'_, Self>) -> usize {
        assert!(!write.0.is_multiple_of(10_000), "the clerk has spilled its ink at transfer {}", write.0);
        self.written += 1;
        self.written
    }
}

fn main() {
    // The clerk's panics are part of the play.
    std::panic::set_hook(Box::new(|_| ()));
    sinew::run(|| {
        let accounts: Vec<_> = (0..ACCOUNTS).map(|_| actor::spawn(Account { balance: 1_000 })).collect();
        let clerk = actor::supervised(Restart::limit(100, Duration::from_secs(60)), Clerk::default);
        let mut failures = 0;
        for number in 0..TRANSFERS {
            let (from, to) = (number * 7 % ACCOUNTS, number * 13 % ACCOUNTS);
            accounts[from].tell(Pay { to: accounts[to].clone(), amount: 1 }).expect("an open account");
            failures += usize::from(clerk.ask(Write(number)) == Err(AskError::Panicked));
        }
        let total = loop {
            let total: u64 = accounts.iter().map(|account| account.ask(Balance).expect("an open account")).sum();
            // Money that is on its way is in no account.
            if total == 1_000 * ACCOUNTS as u64 {
                break total;
            }
        };
        println!("{TRANSFERS} transfers, {total} in all accounts, the clerk failed {failures} times");
        assert_eq!(failures, TRANSFERS / 10_000);
    });
}
