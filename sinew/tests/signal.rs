//! Signals reach all listeners. Each test that changes what a signal does to the process runs
//! in a process of its own.
#![allow(unsafe_code)]

#[macro_use]
mod fixture;

use fixture::rerun::Rerun;
use fixture::{LONG, SOON, alone, everywhere, happens_within, let_others_wait, wait_until};
use rustix::process::{Signal as Raw, getpid, kill_process};
use sinew::cancel::Cancelled;
use sinew::io::EventScope;
use sinew::signal::{self, Signal, Signals};
use sinew::sync::{Select, mpsc};
use sinew::{Cluster, Runtime, task};
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Sends a signal to the calling thread. If it is caught, its handler has run when this returns.
fn raise(signal: Signal) {
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::raise(signal.number()) }, 0);
}

/// Raises SIGUSR1 and waits until this listener has it: what was raised before has been dispatched.
fn settle(listener: &Signals) {
    raise(Signal::USR1);
    wait_until(|| !listener.receiver().is_empty());
    assert_eq!(listener.try_recv(), Some(Signal::USR1));
}

#[test]
fn a_fibre_waits_for_a_signal_while_others_run() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let signals = Signals::new([Signal::USR2, Signal::HUP]).unwrap();
            let waiter = sinew::spawn(move || (signals.recv().unwrap(), signals.recv().unwrap()));
            let_others_wait();
            raise(Signal::HUP);
            let_others_wait();
            raise(Signal::USR2);
            let (one, other) = waiter.join().unwrap();
            assert_eq!((one, other), (Signal::HUP, Signal::USR2));
        });
    });
}

#[test]
fn all_listeners_of_a_signal_see_it_whatever_they_are() {
    alone(|| {
        let listen = || Signals::new([Signal::USR2]).unwrap();
        let runtimes = [1, 2]
            .map(|processors| Runtime::builder().spares(0).stall_limit(None).processors(processors).build().unwrap());
        let [on_thread, in_one, in_other, in_task] = [listen(), listen(), listen(), listen()];
        let thread = std::thread::spawn(move || on_thread.recv().unwrap());
        let one = runtimes[0].spawn(move || in_one.recv().unwrap());
        let other = runtimes[1].spawn(move || in_other.recv().unwrap());
        let task = runtimes[1].run(move || task::spawn(async move { in_task.recv_async().await }));
        let_others_wait();
        kill_process(getpid(), Raw::USR2).unwrap();
        assert_eq!(thread.join().unwrap(), Signal::USR2);
        assert_eq!((one.join().unwrap(), other.join().unwrap()), (Signal::USR2, Signal::USR2));
        assert_eq!(task.join().unwrap(), Signal::USR2);
    });
}

#[test]
fn a_signal_that_comes_often_before_it_is_received_is_received_once() {
    alone(|| {
        let (signals, marks) = (Signals::new([Signal::USR2]).unwrap(), Signals::new([Signal::USR1]).unwrap());
        for round in 0..20 {
            for _ in 0..5 {
                raise(Signal::USR2);
                settle(&marks);
            }
            assert_eq!(signals.try_recv(), Some(Signal::USR2), "round {round}");
            assert_eq!(signals.try_recv(), None, "round {round}");
        }
    });
}

#[test]
fn signals_that_wait_do_not_hide_others() {
    alone(|| {
        let signals = Signals::new([Signal::USR2, Signal::HUP, Signal::WINCH]).unwrap();
        let marks = Signals::new([Signal::USR1]).unwrap();
        for signal in [Signal::WINCH, Signal::USR2, Signal::WINCH, Signal::HUP, Signal::USR2] {
            raise(signal);
            settle(&marks);
        }
        let received: Vec<_> = std::iter::from_fn(|| signals.try_recv()).collect();
        assert_eq!(received, [Signal::WINCH, Signal::USR2, Signal::HUP]);
        // One that was received may come again, though another one still waits.
        raise(Signal::HUP);
        settle(&marks);
        raise(Signal::WINCH);
        settle(&marks);
        assert_eq!(signals.recv().unwrap(), Signal::HUP);
        raise(Signal::HUP);
        settle(&marks);
        let received: Vec<_> = std::iter::from_fn(|| signals.try_recv()).collect();
        assert_eq!(received, [Signal::WINCH, Signal::HUP]);
    });
}

#[test]
fn a_wait_ends_by_its_limit_or_by_cancellation() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let signals = Signals::new([Signal::USR2]).unwrap();
            let kind = |outcome: std::io::Result<Signal>| outcome.unwrap_err().kind();
            assert_eq!(kind(signals.recv_timeout(Duration::from_millis(1))), ErrorKind::TimedOut);
            assert_eq!(kind(signals.recv_deadline(Instant::now())), ErrorKind::TimedOut);
            let overdue = sinew::time::timeout(Duration::from_millis(1), || signals.recv()).unwrap_err();
            assert_eq!(overdue.get_ref().unwrap().downcast_ref(), Some(&Cancelled::Overdue));
            assert_eq!(
                kind(signal::ctrl_c_timeout(Duration::from_millis(1)).map(|()| Signal::INT)),
                ErrorKind::TimedOut
            );
            for limit in [None, Some(LONG)] {
                let waiter = sinew::scope(|scope| {
                    let waiter = scope.spawn(|| match limit {
                        None => signals.recv(),
                        Some(limit) => signals.recv_timeout(limit),
                    });
                    let_others_wait();
                    waiter.fibre().cancel();
                    waiter.join().unwrap()
                });
                let cancelled = waiter.unwrap_err();
                assert_eq!(cancelled.get_ref().unwrap().downcast_ref(), Some(&Cancelled::Requested));
            }
        });
    });
}

#[test]
fn an_iterator_and_a_select_receive_signals() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let signals = Signals::new([Signal::USR2]).unwrap();
            let (_jobs, some_jobs) = mpsc::channel::<()>();
            let selecting = sinew::spawn(move || {
                let first = Select::new().recv(&some_jobs, Err).recv(signals.receiver(), Ok).run();
                (first.unwrap().unwrap(), signals)
            });
            let_others_wait();
            raise(Signal::USR2);
            let (first, signals) = selecting.join().unwrap();
            assert_eq!(first, Signal::USR2);
            let counting = sinew::spawn(move || signals.into_iter().count());
            let_others_wait();
            counting.fibre().cancel();
            assert_eq!(counting.join().unwrap(), 0);
        });
    });
}

#[test]
fn signals_that_nobody_can_wait_for_are_refused() {
    alone(|| {
        let raw = |number| Signal::from_number(number).unwrap();
        let refused = [Signal::KILL, Signal::STOP, Signal::SEGV, Signal::BUS, Signal::FPE, Signal::ILL, raw(32)];
        for signal in refused.into_iter().chain([Signal::TRAP, Signal::SYS, raw(33)]) {
            let error = Signals::new([Signal::USR2, signal]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().starts_with(&signal.to_string()), "{error}");
        }
        assert_eq!(Signals::new([]).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(Signal::from_number(0).is_none() && Signal::from_number(65).is_none());
        // Real-time signals have no names.
        assert_eq!(raw(40).to_string(), "signal 40");
        assert!(Signals::new([raw(40)]).is_ok());
    });
}

#[test]
fn a_signal_without_a_listener_ends_the_process_again() {
    let outcome = in_child!(Rerun::new(), || {
        let one = Signals::new([Signal::TERM]).unwrap();
        let other = Signals::new([Signal::TERM, Signal::HUP]).unwrap();
        drop(one);
        raise(Signal::TERM);
        assert_eq!(other.recv().unwrap(), Signal::TERM);
        // The signal may be caught again.
        drop(other);
        let again = Signals::new([Signal::TERM]).unwrap();
        raise(Signal::TERM);
        assert_eq!(again.recv().unwrap(), Signal::TERM);
        drop(again);
        println!("caught twice");
        raise(Signal::TERM);
        std::thread::sleep(LONG);
    });
    assert_eq!(outcome.status.signal(), Some(libc::SIGTERM), "{outcome:#?}");
    assert!(outcome.stdout.contains("caught twice"), "{outcome:#?}");
}

#[test]
fn ctrl_c_is_caught_during_the_call_only() {
    let outcome = in_child!(Rerun::new(), || {
        sinew::run(|| {
            // A listener of our own keeps the process alive while the calls begin.
            let signals = Signals::new([Signal::INT]).unwrap();
            let fibre = sinew::spawn(signal::ctrl_c);
            let task = task::spawn(signal::ctrl_c_async());
            while !(fibre.is_finished() && task.is_finished()) {
                raise(Signal::INT);
                let_others_wait();
            }
            fibre.join().unwrap().unwrap();
            task.join().unwrap().unwrap();
            drop(signals);
            println!("caught");
            raise(Signal::INT);
            sinew::sleep(LONG);
        });
    });
    assert_eq!(outcome.status.signal(), Some(libc::SIGINT), "{outcome:#?}");
    assert!(outcome.stdout.contains("caught"), "{outcome:#?}");
}

static EARLIER: AtomicUsize = AtomicUsize::new(0);
static LATER: AtomicUsize = AtomicUsize::new(0);
static BENEATH: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_earlier(_: libc::c_int) {
    EARLIER.fetch_add(1, SeqCst);
}

/// Calls the handler that was installed before, as libraries for signals do.
extern "C" fn count_later(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    LATER.fetch_add(1, SeqCst);
    // SAFETY: the test has stored a handler of this type.
    let beneath: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
        unsafe { std::mem::transmute(BENEATH.load(SeqCst)) };
    beneath(signal, info, context);
}

/// Installs a handler. Returns the one before.
fn install(signal: Signal, handler: usize, flags: libc::c_int) -> usize {
    // SAFETY: an all-zero action is valid, and the handler is of the type that the flags announce.
    unsafe {
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (handler, flags);
        assert_eq!(libc::sigaction(signal.number(), &action, &mut before), 0);
        before.sa_sigaction
    }
}

#[test]
fn handlers_of_others_are_called_as_well() {
    let outcome = in_child!(Rerun::new(), || {
        install(Signal::USR2, count_earlier as *const () as usize, 0);
        let signals = Signals::new([Signal::USR2]).unwrap();
        raise(Signal::USR2);
        assert_eq!(signals.recv().unwrap(), Signal::USR2);
        assert_eq!(EARLIER.load(SeqCst), 1);

        let ours = install(Signal::USR2, count_later as *const () as usize, libc::SA_SIGINFO);
        BENEATH.store(ours, SeqCst);
        raise(Signal::USR2);
        assert_eq!(signals.recv().unwrap(), Signal::USR2);
        assert_eq!((EARLIER.load(SeqCst), LATER.load(SeqCst)), (2, 1));

        // The later handler stays, and calls ours also when nobody listens.
        drop(signals);
        raise(Signal::USR2);
        assert_eq!((EARLIER.load(SeqCst), LATER.load(SeqCst)), (3, 2));
        let signals = Signals::new([Signal::USR2]).unwrap();
        raise(Signal::USR2);
        assert_eq!(signals.recv().unwrap(), Signal::USR2);
        assert_eq!((EARLIER.load(SeqCst), LATER.load(SeqCst)), (4, 3));
        println!("all were called");
    });
    outcome.assert_success("all were called");
}

#[test]
fn a_signal_that_a_thread_of_another_event_scope_handles_is_not_missed() {
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        // SAFETY: no descriptors are moved between the event scopes.
        let scope = unsafe { EventScope::new() }.unwrap();
        let cluster = runtime.cluster(Cluster::builder().processors(1).event_scope(&scope)).unwrap();
        // The listener is made there: the dispatcher must outlive that event scope.
        let signals = cluster.spawn(|| Signals::new([Signal::USR2]).unwrap()).join().unwrap();
        for round in 0..100 {
            cluster.spawn(|| raise(Signal::USR2)).join().unwrap();
            assert_eq!(signals.recv().unwrap(), Signal::USR2, "round {round}");
        }
        let elsewhere = cluster.spawn(move || (signals.recv().unwrap(), signals));
        raise(Signal::USR2);
        let (signal, signals) = elsewhere.join().unwrap();
        assert_eq!(signal, Signal::USR2);
        drop((cluster, scope));
        raise(Signal::USR2);
        assert_eq!(signals.recv().unwrap(), Signal::USR2);
        println!("none was missed");
    });
    outcome.assert_success("none was missed");
}

#[test]
fn a_signal_to_a_forked_child_is_not_seen_by_the_parent() {
    let outcome = in_child!(Rerun::new(), || {
        let (signals, marks) = (Signals::new([Signal::USR2]).unwrap(), Signals::new([Signal::USR1]).unwrap());
        // SAFETY: the child makes two system calls.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no memory is involved.
            unsafe {
                libc::raise(libc::SIGUSR2);
                libc::_exit(7)
            }
        }
        let mut status = 0;
        // SAFETY: the status is valid for writing.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 7, "the signal did not end the child");
        settle(&marks);
        assert_eq!(signals.try_recv(), None);
        println!("nothing was seen");
    });
    outcome.assert_success("nothing was seen");
}

#[test]
fn listeners_that_come_and_go_while_signals_rain_miss_nothing() {
    alone(|| {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        // Keeps the signals from ending the process.
        let _guard = Signals::new([Signal::USR2, Signal::HUP]).unwrap();
        static RECEIVED: AtomicUsize = AtomicUsize::new(0);
        RECEIVED.store(0, SeqCst);
        let fibres: Vec<_> = (0..8)
            .map(|number| {
                runtime.spawn(move || {
                    for _ in 0..50 {
                        let wanted = if number % 2 == 0 { Signal::USR2 } else { Signal::HUP };
                        let signals = Signals::new([wanted]).unwrap();
                        assert_eq!(signals.recv().unwrap(), wanted);
                        RECEIVED.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        let all_received = || {
            raise(Signal::USR2);
            raise(Signal::HUP);
            RECEIVED.load(SeqCst) == 400
        };
        assert!(happens_within(SOON, all_received), "{} were received", RECEIVED.load(SeqCst));
        fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
    });
}
