//! std's, for kernel threads. std has no semaphore: this one is a number, its
//! lock and a condition variable.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use super::Blocking;
use crate::support::peers::kernel::KernelThreads;

#[derive(Default)]
pub struct Semaphore {
    permits: Mutex<usize>,
    posted: Condvar,
}

impl Blocking for KernelThreads {
    type Lock = Mutex<()>;
    type Semaphore = Semaphore;
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;

    fn lock(_: &str) -> Mutex<()> {
        Mutex::new(())
    }

    fn locked(lock: &Mutex<()>, f: impl FnOnce()) {
        let _guard = lock.lock().expect("no poison");
        f();
    }

    fn semaphore() -> Semaphore {
        Semaphore::default()
    }

    fn post(semaphore: &Semaphore, permits: usize) {
        *semaphore.permits.lock().expect("no poison") += permits;
        match permits {
            1 => semaphore.posted.notify_one(),
            _ => semaphore.posted.notify_all(),
        }
    }

    fn wait(semaphore: &Semaphore) {
        let permits = semaphore.permits.lock().expect("no poison");
        let mut permits = semaphore.posted.wait_while(permits, |permits| *permits == 0).expect("no poison");
        *permits -= 1;
    }

    fn try_wait(semaphore: &Semaphore) -> bool {
        let mut permits = semaphore.permits.lock().expect("no poison");
        let any = *permits > 0;
        *permits -= usize::from(any);
        any
    }

    fn channel() -> (Sender<u64>, Receiver<u64>) {
        channel()
    }

    fn send(sender: &Sender<u64>, message: u64) {
        sender.send(message).expect("a receiver");
    }

    fn receive(receiver: &Receiver<u64>) -> Option<u64> {
        receiver.recv().ok()
    }

    fn try_receive(receiver: &Receiver<u64>) -> Option<u64> {
        receiver.try_recv().ok()
    }

    fn sleep(duration: Duration) {
        thread::sleep(duration);
    }
}
