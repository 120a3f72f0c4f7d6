//! `sinew::thread`: std's functions for threads, called in fibres and outside of them.

#[macro_use]
mod fixture;

use fixture::loopback::listener;
use fixture::rerun::{Rerun, SIGABRT};
use fixture::{everywhere, kernel_thread, message, wait_until};
use sinew::fibre_local as thread_local;
use sinew::net::TcpStream;
use sinew::sync::{Arc, Barrier, Mutex, mpsc};
use sinew::{Cluster, thread};
use std::cell::Cell;
use std::collections::HashSet;
use std::hint::black_box;
use std::io::{ErrorKind, Read, Write};
use std::panic::catch_unwind;
use std::time::Duration;

/// Runs the body in a process of its own, because the process's runtime lasts as long as the
/// process.
macro_rules! alone {
    ($body:expr) => {
        let outcome = in_child!(Rerun::new(), || {
            $body();
            println!("reached the end");
        });
        outcome.assert_success("reached the end");
    };
}

fn is_fibre() -> bool {
    !thread::current().is_kernel_thread()
}

#[test]
fn main_can_spawn_fibres_and_join_them() {
    alone!(|| {
        assert!(!is_fibre());
        let handle = thread::spawn(|| (is_fibre(), thread::current().id()));
        let id = handle.thread().id();
        assert_eq!(handle.join().unwrap(), (true, id));
        assert_ne!(id, thread::current().id());
        let payload = thread::spawn(|| panic!("number {}", 17)).join().unwrap_err();
        assert_eq!(message(&*payload), "number 17");
    });
}

#[test]
fn all_kernel_threads_share_one_runtime() {
    const THREADS: usize = 8;
    const FIBRES: usize = 50;
    alone!(|| {
        let together = std::sync::Barrier::new(THREADS);
        let (clusters, processors) = (Mutex::new(HashSet::new()), Mutex::new(HashSet::new()));
        std::thread::scope(|outside| {
            for _ in 0..THREADS {
                outside.spawn(|| {
                    together.wait();
                    thread::scope(|scope| {
                        for _ in 0..FIBRES {
                            scope.spawn(|| {
                                let cluster = Cluster::current().unwrap();
                                clusters.lock().unwrap().insert((cluster.name().to_owned(), cluster.processors()));
                                processors.lock().unwrap().insert(kernel_thread());
                            });
                        }
                    });
                });
            }
        });
        let cpus = thread::available_parallelism().unwrap().get();
        assert_eq!(clusters.into_inner().unwrap(), HashSet::from([("sinew".to_owned(), cpus)]));
        let processors = processors.into_inner().unwrap().len();
        assert!((1..=cpus).contains(&processors), "{processors} kernel threads ran fibres on {cpus} CPUs");
    });
}

#[test]
fn a_fibre_spawns_on_its_own_cluster() {
    everywhere(|rt, _| {
        let of = || Cluster::current().unwrap().name().to_owned();
        let named = rt.cluster(Cluster::builder().name("named").processors(1)).unwrap();
        let (spawned, built, scoped) = named
            .spawn(move || {
                let built = thread::Builder::new().spawn(of).unwrap().join().unwrap();
                (thread::spawn(of).join().unwrap(), built, thread::scope(|scope| scope.spawn(of).join().unwrap()))
            })
            .join()
            .unwrap();
        assert_eq!([spawned, built, scoped], ["named"; 3]);
    });
}

#[test]
fn a_scope_on_a_kernel_thread_lends_and_waits() {
    alone!(|| {
        let mut numbers = [1u32, 2, 3, 4];
        let sum = thread::scope(|scope| {
            let (left, right) = numbers.split_at_mut(2);
            // Spawns from here, from a fibre of the scope, and from another kernel thread.
            let left = scope.spawn(move || {
                scope.spawn(move || left[0] *= 10).join().unwrap();
                is_fibre()
            });
            let right = std::thread::scope(|outside| {
                let other = outside.spawn(|| scope.spawn(move || right[1] *= 100).join().is_ok());
                other.join().unwrap()
            });
            assert!(left.join().unwrap() && right);
            let named = thread::Builder::new().name("summer".to_owned());
            named.spawn_scoped(scope, || thread::current().name().map(str::len)).unwrap().join().unwrap()
        });
        assert_eq!((numbers, sum), ([10, 2, 3, 400], Some(6)));
        let panicked = catch_unwind(|| {
            thread::scope(|scope| {
                scope.spawn(|| panic!("unseen"));
            });
        });
        assert_eq!(message(&*panicked.unwrap_err()), "a scoped fibre panicked");
    });
}

#[test]
fn functions_at_the_root_of_the_crate_still_need_a_runtime() {
    alone!(|| {
        thread::spawn(|| ()).join().unwrap();
        let payload = catch_unwind(|| drop(sinew::spawn(|| ()))).unwrap_err();
        assert!(message(&*payload).contains("there is no runtime here"), "{}", message(&*payload));
        let payload = catch_unwind(|| sinew::scope(|scope| drop(scope.spawn(|| ())))).unwrap_err();
        assert!(message(&*payload).contains("there is no runtime here"), "{}", message(&*payload));
    });
}

#[test]
fn main_can_wait_for_sockets_channels_locks_and_tokens_of_its_fibres() {
    alone!(|| {
        let (listener, address) = listener();
        let client = thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            let mut question = [0; 4];
            stream.read_exact(&mut question).unwrap();
            stream.write_all(&question.map(|byte| byte + 1)).unwrap();
        });
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        stream.set_read_timeout(None).unwrap();
        stream.write_all(b"IBM.").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "JCN/");
        client.join().unwrap();

        let (sender, receiver) = mpsc::sync_channel(0);
        let sum = Arc::new(Mutex::new(0));
        let (main, total, barrier) = (thread::current(), Arc::clone(&sum), Arc::new(Barrier::new(2)));
        let met = Arc::clone(&barrier);
        let fibre = thread::spawn(move || {
            for number in receiver {
                *total.lock().unwrap() += number;
            }
            met.wait();
            thread::park();
            main.unpark();
        });
        (1..=100).for_each(|number| sender.send(number).unwrap());
        drop(sender);
        barrier.wait();
        assert_eq!(*sum.lock().unwrap(), 5050);
        fibre.thread().unpark();
        while !fibre.is_finished() {
            thread::park_timeout(Duration::from_millis(1));
        }
        fibre.join().unwrap();
    });
}

/// Uses about `kilobytes` of stack.
#[inline(never)]
fn dig(kilobytes: usize) -> usize {
    let block = black_box([1u8; 1024]);
    if kilobytes <= 1 { block.len() } else { black_box(dig(kilobytes - 1)) + block[kilobytes % 1024] as usize }
}

#[test]
fn stacks_spawned_outside_of_fibres_are_as_large_as_those_of_threads() {
    alone!(|| assert_eq!(thread::spawn(|| dig(500)).join().unwrap(), 1024 + 499));
}

#[test]
fn an_environment_variable_sets_the_size_of_stacks() {
    let outcome = in_child!(Rerun::new().variable("RUST_MIN_STACK", "65536"), || {
        let _ = thread::spawn(|| dig(500)).join();
    });
    outcome.assert_killed(SIGABRT, &["has overflowed its stack of 64 KiB"]);
}

#[test]
fn builders_return_errors_as_in_std() {
    alone!(|| {
        let error = thread::Builder::new().name("a\0b".to_owned()).spawn(|| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let error = thread::Builder::default().stack_size(usize::MAX).spawn(|| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        let size = 8 * 1024 * 1024;
        let deep = thread::Builder::new().stack_size(size).spawn(|| dig(2500)).unwrap();
        assert_eq!(deep.join().unwrap(), 1024 + 2499);
    });
}

thread_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

#[test]
fn fibre_local_replaces_thread_local() {
    alone!(|| {
        let count = || CALLS.with(|calls| calls.replace(calls.get() + 1));
        assert_eq!([count(), count()], [0, 1]);
        let fibres: Vec<_> = (0..20).map(|_| thread::spawn(move || [count(), count()])).collect();
        for fibre in fibres {
            assert_eq!(fibre.join().unwrap(), [0, 1]);
        }
    });
}

#[test]
fn panicking_is_about_the_caller_even_if_another_fibre_unwinds_on_its_processor() {
    struct Asks(mpsc::Sender<bool>, mpsc::Receiver<()>);
    impl Drop for Asks {
        fn drop(&mut self) {
            self.0.send(thread::panicking()).unwrap();
            self.1.recv().unwrap_err();
        }
    }
    alone!(|| {
        let (answer, answers) = mpsc::channel();
        let (go_on, wait) = mpsc::channel();
        let wild = thread::spawn(move || {
            let _asks = Asks(answer, wait);
            panic!("on purpose");
        });
        assert!(answers.recv().unwrap());
        let calm: Vec<_> = (0..100).map(|_| thread::spawn(thread::panicking)).collect();
        assert!(calm.into_iter().all(|calm| !calm.join().unwrap()));
        drop(go_on);
        wild.join().unwrap_err();
    });
}

#[test]
fn main_may_return_while_its_fibres_wait_or_run() {
    alone!(|| {
        let busy = Arc::new(Mutex::new(false));
        let seen = Arc::clone(&busy);
        drop(thread::spawn(thread::park));
        drop(thread::spawn(|| thread::sleep(Duration::from_secs(1000))));
        drop(thread::spawn(move || {
            *busy.lock().unwrap() = true;
            loop {
                std::hint::spin_loop();
            }
        }));
        wait_until(|| *seen.lock().unwrap());
    });
}

#[test]
fn a_runtime_that_cannot_be_built_is_an_error_of_the_builder() {
    let outcome = in_child!(Rerun::new().limit("-v 400000"), || {
        let error = thread::Builder::new().spawn(|| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("the process's own runtime cannot be built"), "{error}");
        println!("refused");
    });
    outcome.assert_success("refused");
}
