//! Sinew's own.

use std::time::Duration;

use sinew::sync::mpsc::{Receiver, Sender, channel};
use sinew::sync::{Mutex, Policy, Semaphore};

use super::Blocking;
use crate::support::peers::fibres::Fibres;

/// What a policy is called on a command line.
pub fn policy(name: &str) -> Policy {
    match name {
        "barge" => Policy::Barge,
        "spin" => Policy::Spin,
        "hand-over" => Policy::HandOver,
        _ => panic!("no policy: {name}"),
    }
}

impl Blocking for Fibres {
    type Lock = Mutex<()>;
    type Semaphore = Semaphore;
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;

    fn lock(name: &str) -> Mutex<()> {
        Mutex::with_policy((), policy(name))
    }

    #[inline(always)]
    fn locked(lock: &Mutex<()>, f: impl FnOnce()) {
        let _guard = lock.lock().expect("no poison");
        f();
    }

    fn semaphore() -> Semaphore {
        Semaphore::new(0)
    }

    #[inline(always)]
    fn post(semaphore: &Semaphore, permits: usize) {
        semaphore.post(permits);
    }

    #[inline(always)]
    fn wait(semaphore: &Semaphore) {
        semaphore.wait();
    }

    fn try_wait(semaphore: &Semaphore) -> bool {
        semaphore.try_wait()
    }

    fn channel() -> (Sender<u64>, Receiver<u64>) {
        channel()
    }

    #[inline(always)]
    fn send(sender: &Sender<u64>, message: u64) {
        sender.send(message).expect("a receiver");
    }

    #[inline(always)]
    fn receive(receiver: &Receiver<u64>) -> Option<u64> {
        receiver.recv().ok()
    }

    fn try_receive(receiver: &Receiver<u64>) -> Option<u64> {
        receiver.try_recv().ok()
    }

    fn sleep(duration: Duration) {
        sinew::sleep(duration);
    }
}
