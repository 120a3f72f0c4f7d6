//! may's.

use std::time::Duration;

use may::sync::mpsc::{Receiver, Sender, channel};
use may::sync::{Mutex, Semphore};

use super::Blocking;
use crate::support::peers::coroutines::Coroutines;

impl Blocking for Coroutines {
    type Lock = Mutex<()>;
    type Semaphore = Semphore;
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;

    fn lock(_: &str) -> Mutex<()> {
        Mutex::new(())
    }

    fn locked(lock: &Mutex<()>, f: impl FnOnce()) {
        let _guard = lock.lock().expect("no poison");
        f();
    }

    fn semaphore() -> Semphore {
        Semphore::new(0)
    }

    fn post(semaphore: &Semphore, permits: usize) {
        for _ in 0..permits {
            semaphore.post();
        }
    }

    fn wait(semaphore: &Semphore) {
        semaphore.wait();
    }

    fn try_wait(semaphore: &Semphore) -> bool {
        semaphore.try_wait()
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
        may::coroutine::sleep(duration);
    }
}
