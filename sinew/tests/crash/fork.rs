//! A forked child has no processors. It may exec or exit; if it uses the runtime, it ends with a
//! message. Its parent does not notice the child.
#![allow(unsafe_code)]

use crate::fixture::rerun::{Rerun, SIGABRT};
use sinew::net::UnixStream;
use sinew::{JoinHandle, Runtime};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A child that hangs ends after this time, by a signal that no test expects.
const LONGEST_SECONDS: u32 = 20;

/// A sleep that lasts longer than the test, however busy the machine is.
const LONG: Duration = Duration::from_secs(1000);

const SAID: &str = "sinew: fatal: a forked child cannot use the runtime of its parent";

/// Forks. Returns `None` in the child, whose time is limited.
fn fork() -> Option<libc::pid_t> {
    // SAFETY: the children of these tests do what a child must not do; the tests check the outcome.
    match unsafe { libc::fork() } {
        -1 => panic!("fork failed: {}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: no memory is involved.
            unsafe { libc::alarm(LONGEST_SECONDS) };
            None
        }
        child => Some(child),
    }
}

/// Forks a child that calls `action` and then exits with 0. Returns how the child ended.
fn in_forked_child(action: impl FnOnce()) -> ExitStatus {
    if let Some(child) = fork() {
        return wait_for(child);
    }
    action();
    // SAFETY: no memory is involved.
    unsafe { libc::_exit(0) };
}

fn wait_for(child: libc::pid_t) -> ExitStatus {
    let mut status = 0;
    // SAFETY: the status is valid for writing.
    while unsafe { libc::waitpid(child, &mut status, 0) } != child {
        assert_eq!(std::io::Error::last_os_error().kind(), std::io::ErrorKind::Interrupted);
    }
    ExitStatus::from_raw(status)
}

fn runtime() -> Runtime {
    Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap()
}

/// Each action runs in a forked child of a fibre.
const FORBIDDEN_IN_A_FIBRE: [(&str, fn()); 7] = [
    ("yield", sinew::yield_now),
    ("park", sinew::park),
    ("sleep", || sinew::sleep(LONG)),
    ("join", || sinew::spawn(|| ()).join().unwrap()),
    ("block", || sinew::blocking(|| ())),
    ("read", || {
        let (mut one, _other) = UnixStream::pair().unwrap();
        let _ = one.read(&mut [0]);
    }),
    ("build", || drop(runtime())),
];

#[test]
fn a_forked_child_of_a_fibre_that_uses_the_runtime_aborts_with_a_message() {
    for (name, action) in FORBIDDEN_IN_A_FIBRE {
        let body = || println!("{:?}", runtime().run(|| in_forked_child(action)).signal());
        let Some(outcome) = Rerun::new().run(name_of_test!(), name, body) else { continue };
        outcome.assert_success(&format!("Some({SIGABRT})"));
        assert!(outcome.stderr.contains(SAID), "{name}: {outcome:#?}");
    }
}

#[test]
fn a_forked_child_whose_fibre_ends_aborts_with_a_message() {
    let outcome = in_child!(Rerun::new(), || {
        let runtime = runtime();
        let child = runtime.spawn(fork).join().unwrap();
        println!("{:?}", wait_for(child.unwrap()).signal());
    });
    outcome.assert_success(&format!("Some({SIGABRT})"));
    assert!(outcome.stderr.contains(SAID), "{outcome:#?}");
}

#[test]
fn a_forked_child_of_a_task_that_yields_aborts_with_a_message() {
    let outcome = in_child!(Rerun::new(), || {
        let status = runtime().run(|| {
            let child = sinew::task::spawn(async { fork() }).join().unwrap();
            wait_for(child.unwrap())
        });
        println!("{:?}", status.signal());
    });
    outcome.assert_success(&format!("Some({SIGABRT})"));
    assert!(outcome.stderr.contains(SAID), "{outcome:#?}");
}

#[test]
fn a_forked_child_of_a_kernel_thread_that_uses_the_runtime_aborts_with_a_message() {
    type Action = fn(Runtime);
    const FORBIDDEN: [(&str, Action); 4] = [
        ("spawn", |runtime| drop(runtime.spawn(|| ()))),
        ("run", |runtime| runtime.run(|| ())),
        ("drop", drop),
        ("build", |first| drop((runtime(), first))),
    ];
    for (name, action) in FORBIDDEN {
        let body = || {
            let shared = runtime();
            shared.run(sinew::yield_now);
            let mut copy = Some(shared);
            let status = in_forked_child(|| action(copy.take().unwrap()));
            println!("{:?}", status.signal());
        };
        let Some(outcome) = Rerun::new().run(name_of_test!(), name, body) else { continue };
        outcome.assert_success(&format!("Some({SIGABRT})"));
        assert!(outcome.stderr.contains(SAID), "{name}: {outcome:#?}");
    }
}

#[test]
fn a_forked_child_may_exec_or_exit() {
    let outcome = in_child!(Rerun::new(), || {
        let statuses = runtime().run(|| {
            sinew::sleep(Duration::from_millis(1));
            let exec = || drop(Command::new("true").exec());
            let mut with_fork = Command::new("true");
            // SAFETY: the closure does nothing. It only keeps std from starting the program without
            // a fork.
            unsafe { with_fork.pre_exec(|| Ok(())) };
            [
                in_forked_child(exec),
                in_forked_child(|| ()),
                Command::new("true").status().unwrap(),
                with_fork.status().unwrap(),
            ]
        });
        println!("all well: {}", statuses.iter().all(ExitStatus::success));
    });
    outcome.assert_success("all well: true");
    assert!(!outcome.stderr.contains("fatal"), "{outcome:#?}");
}

#[test]
fn the_parent_does_not_notice_its_forked_children() {
    const PAIRS: usize = 50;
    const ROUNDS: usize = 200;
    const CHILDREN: usize = 20;
    static DONE: AtomicUsize = AtomicUsize::new(0);

    /// Exchanges single bytes with the other end.
    fn talk(mut stream: UnixStream, first: bool) {
        let mut byte = [0];
        for _ in 0..ROUNDS {
            if first {
                stream.write_all(&byte).unwrap();
            }
            stream.read_exact(&mut byte).unwrap();
            if !first {
                stream.write_all(&byte).unwrap();
            }
        }
        DONE.fetch_add(1, Ordering::Relaxed);
    }

    let outcome = in_child!(Rerun::new(), || {
        runtime().run(|| {
            let talking: Vec<JoinHandle<()>> = (0..PAIRS)
                .flat_map(|_| {
                    let (one, other) = UnixStream::pair().unwrap();
                    [sinew::spawn(|| talk(one, true)), sinew::spawn(|| talk(other, false))]
                })
                .collect();
            for child in 0..CHILDREN {
                let action = if child % 2 == 0 { sinew::park } else { || sinew::sleep(LONG) };
                let status = in_forked_child(action);
                assert_eq!(status.signal(), Some(SIGABRT), "{status}");
                sinew::yield_now();
            }
            talking.into_iter().for_each(|fibre| fibre.join().unwrap());
        });
        println!("{} have ended", DONE.load(Ordering::Relaxed));
    });
    outcome.assert_success(&format!("{} have ended", 2 * PAIRS));
    assert_eq!(outcome.stderr.matches(SAID).count(), CHILDREN, "{outcome:#?}");
}
