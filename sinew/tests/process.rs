//! Child processes: what std's do, and that only the fibre waits.

#[macro_use]
mod fixture;

use fixture::loopback::bytes;
use fixture::rerun::{self, Rerun};
use fixture::{LONG, SOON, Scratch, Setup, alone, everywhere, happens_within, let_others_wait, wherever};
use rustix::process::{Pid, test_kill_process};
use sinew::cancel::Cancelled;
use sinew::fs::File;
use sinew::io::EventScope;
use sinew::process::{Child, ChildStdout, Command, Stdio};
use sinew::{Cluster, Runtime, task, time};
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// More than a pipe holds.
const LARGE: usize = 300_000;

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// A child that runs until it is killed.
fn sleeper() -> Command {
    let mut command = Command::new("sleep");
    command.arg("1000");
    command
}

/// Returns whether the process is there, be it as a zombie.
fn exists(id: u32) -> bool {
    test_kill_process(Pid::from_raw(id.cast_signed()).unwrap()).is_ok()
}

#[track_caller]
fn assert_gone(id: u32) {
    assert!(happens_within(SOON, || !exists(id)), "process {id} is still there");
}

/// Ends a child that a test leaves running.
fn end(mut child: Child) {
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
}

/// The set-ups for tests that start many children.
fn of_two_processors(setup: &Setup) -> bool {
    setup.processors == 2
}

#[test]
fn statuses_and_outputs_are_those_of_std() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            assert_eq!(sh("exit 3").status().unwrap().code(), Some(3));
            assert_eq!(sh("kill -9 $$").status().unwrap().signal(), Some(libc::SIGKILL));
            let output = sh("echo out; echo err >&2; exit 1").output().unwrap();
            assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
            assert_eq!(output.status.code(), Some(1));
            assert_eq!(Command::new("/nowhere/at/all").spawn().unwrap_err().kind(), ErrorKind::NotFound);
        });
    });
}

#[test]
fn others_run_while_a_fibre_waits_for_a_child() {
    wherever(
        |setup| setup.processors == 1,
        |runtime, _| {
            runtime.run(|| {
                // The child ends when another fibre of the same processor ends its input.
                let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
                let input = child.stdin.take().unwrap();
                let waiter = sinew::spawn(move || child.wait());
                let_others_wait();
                assert!(!waiter.is_finished());
                drop(input);
                assert!(waiter.join().unwrap().unwrap().success());
            });
        },
    );
}

#[test]
fn bytes_pass_through_a_child_both_ways_at_once() {
    let sent = bytes(0xca7, 4 * LARGE);
    everywhere(|runtime, _| {
        runtime.run(|| {
            let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (mut input, mut output) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
            let mut received = Vec::new();
            sinew::scope(|scope| {
                scope.spawn(|| {
                    let (first, rest) = sent.split_at(1000);
                    let count = input.write_vectored(&[IoSlice::new(first), IoSlice::new(&rest[..1000])]).unwrap();
                    input.write_all(&sent[count..]).unwrap();
                    drop(input);
                });
                output.read_to_end(&mut received).unwrap();
            });
            assert!(received == sent, "{} of {} bytes, or others", received.len(), sent.len());
            assert!(cat.wait().unwrap().success());
        });
    });
}

/// A parent that reads one output after the other would wait for ever.
#[test]
fn both_outputs_are_read_at_once() {
    // Writes to both outputs in turns, more than a pipe holds.
    let script = format!("head -c {LARGE} /dev/zero >&2; head -c {LARGE} /dev/zero; head -c {LARGE} /dev/zero >&2");
    let check = |output: io::Result<sinew::process::Output>| {
        let output = output.unwrap();
        assert!(output.status.success());
        assert_eq!((output.stdout.len(), output.stderr.len()), (LARGE, 2 * LARGE));
    };
    everywhere(|runtime, _| {
        runtime.run(|| {
            check(sh(&script).output());
            let mut command = sh(&script);
            check(task::spawn(async move { command.output_async().await }).join().unwrap());
        });
    });
    alone(|| check(sh(&script).output()));
}

#[test]
fn streams_that_were_set_stay_and_a_command_can_be_used_again() {
    alone(|| {
        sinew::run(|| {
            let scratch = Scratch::new();
            let mut command = sh("cat; echo out; echo err >&2");
            command.stderr(File::create(scratch.at("errors")).unwrap());
            for _ in 0..2 {
                // Without an input of its own, the child has none.
                let output = command.output().unwrap();
                assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"out\n"[..], &b""[..]));
            }
            assert_eq!(std::fs::read(scratch.at("errors")).unwrap(), b"err\nerr\n");
            std::fs::write(scratch.at("input"), "in ").unwrap();
            command.stdin(File::open(scratch.at("input")).unwrap());
            assert_eq!(command.output().unwrap().stdout, b"in out\n");
            // After `output`, the outputs are the caller's again.
            let mut child = sh("exit 0").spawn().unwrap();
            assert!(child.stdin.is_none() && child.stdout.is_none() && child.stderr.is_none());
            child.wait().unwrap();
        });
    });
}

/// Environment variable: tells the test that it is the child.
const WITH_INPUT: &str = "SINEW_TEST_WITH_INPUT";

#[test]
fn a_child_whose_output_is_captured_has_no_input() {
    if std::env::var(WITH_INPUT).is_ok() {
        let output = sinew::run(|| Command::new("cat").output()).unwrap();
        println!("captured {:?}", output.stdout);
        return;
    }
    let mut again = rerun::command(name_of_test!(), WITH_INPUT, "");
    alone(|| {
        let mut again = again.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        again.stdin.take().unwrap().write_all(b"input").unwrap();
        let output = String::from_utf8(again.wait_with_output().unwrap().stdout).unwrap();
        assert!(output.contains("captured []"), "{output}");
    });
}

#[test]
fn the_builder_sets_what_std_s_does() {
    alone(|| {
        sinew::run(|| {
            let mut command = sh("echo $0 $ONE ${TWO-none} $(pwd)");
            command.arg("zero").env("ONE", "1").envs([("TWO", "2")]).env_remove("TWO").current_dir("/");
            assert_eq!(command.output().unwrap().stdout, b"zero 1 none /\n");
            assert_eq!(command.get_program(), "sh");
            assert_eq!(command.get_args().count(), 3);
            assert_eq!(command.get_envs().count(), 2);
            assert_eq!(command.get_current_dir().unwrap(), "/");
            assert!(format!("{command:?}").contains("zero"));
            let mut bare = Command::new("/usr/bin/env");
            assert_eq!(bare.env_clear().env("A", "b").output().unwrap().stdout, b"A=b\n");
            let mut named = Command::new("/bin/sh");
            named.arg0("another").args(["-c", "echo $0"]);
            assert_eq!(named.output().unwrap().stdout, b"another\n");
            let mut leader = sh("cut -d ' ' -f 5 /proc/$$/stat; echo $$");
            let output = String::from_utf8(leader.process_group(0).output().unwrap().stdout).unwrap();
            let numbers: Vec<_> = output.split_whitespace().collect();
            assert_eq!(numbers[0], numbers[1]);
            let theirs = Command::from(std::process::Command::new("true")).into_std().status().unwrap();
            assert!(theirs.success());
        });
    });
}

#[test]
fn a_pipe_of_one_child_is_the_input_of_another() {
    alone(|| {
        sinew::run(|| {
            let mut first = sh("echo b; echo a").stdout(Stdio::piped()).spawn().unwrap();
            let sorted = Command::new("sort").stdin(first.stdout.take().unwrap()).output().unwrap();
            assert_eq!(sorted.stdout, b"a\nb\n");
            assert!(first.wait().unwrap().success());
        });
    });
}

#[test]
fn a_wait_ends_by_its_limit_and_leaves_the_child_alone() {
    wherever(of_two_processors, |runtime, _| {
        runtime.run(|| {
            let mut child = sleeper().spawn().unwrap();
            assert_eq!(child.try_wait().unwrap(), None);
            assert_eq!(child.wait_timeout(Duration::from_millis(1)).unwrap(), None);
            assert_eq!(child.wait_deadline(Instant::now()).unwrap(), None);
            let overdue = time::timeout(Duration::from_millis(1), || child.wait()).unwrap_err();
            assert_eq!(overdue.get_ref().unwrap().downcast_ref(), Some(&Cancelled::Overdue));
            let waiter = sinew::spawn(move || (child.wait(), child));
            let_others_wait();
            waiter.fibre().cancel();
            let (outcome, mut child) = waiter.join().unwrap();
            let cancelled = outcome.unwrap_err();
            assert_eq!(cancelled.get_ref().unwrap().downcast_ref(), Some(&Cancelled::Requested));
            child.kill().unwrap();
            let status = child.wait_timeout(LONG).unwrap().unwrap();
            assert_eq!(status.signal(), Some(libc::SIGKILL));
            // The status stays, and a child that has ended may be killed.
            assert_eq!((child.wait().unwrap(), child.try_wait().unwrap()), (status, Some(status)));
            child.kill().unwrap();
        });
    });
}

#[test]
fn kernel_threads_wait_as_well() {
    alone(|| {
        let mut child = sleeper().spawn().unwrap();
        assert_eq!(child.wait_timeout(Duration::from_millis(1)).unwrap(), None);
        assert!(time::timeout(Duration::from_millis(1), || child.wait()).is_err());
        end(child);
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        cat.stdin.take().unwrap().write_all(b"through").unwrap();
        assert_eq!(cat.wait_with_output().unwrap().stdout, b"through");
    });
}

#[test]
fn signals_are_sent_to_children_that_have_not_been_waited_for() {
    alone(|| {
        sinew::run(|| {
            let mut child = sleeper().spawn().unwrap();
            assert_eq!(child.send_signal(-1).unwrap_err().kind(), ErrorKind::InvalidInput);
            child.send_signal(libc::SIGTERM).unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
            assert_eq!(child.send_signal(libc::SIGTERM).unwrap_err().kind(), ErrorKind::InvalidInput);
        });
    });
}

#[test]
fn a_dropped_child_is_reaped_when_it_ends() {
    wherever(of_two_processors, |runtime, _| {
        runtime.run(|| {
            // It has ended.
            let child = sh("exit 0").spawn().unwrap();
            let id = child.id();
            drop(child);
            assert_gone(id);
            // It runs on.
            let mut children: Vec<_> = (0..5)
                .map(|_| Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
                .collect();
            let inputs: Vec<_> = children.iter_mut().map(|child| child.stdin.take().unwrap()).collect();
            let ids: Vec<_> = children.iter().map(Child::id).collect();
            drop(children);
            assert!(ids.iter().all(|id| exists(*id)));
            for (id, input) in ids.into_iter().zip(inputs).rev() {
                drop(input);
                assert_gone(id);
            }
        });
    });
}

#[test]
fn a_child_is_killed_on_drop_if_its_command_says_so() {
    wherever(of_two_processors, |runtime, _| {
        runtime.run(|| {
            let child = sleeper().kill_on_drop(true).spawn().unwrap();
            let id = child.id();
            drop(child);
            assert_gone(id);
        });
    });
}

/// A child that tells its number first, and then runs until it is killed.
fn announced() -> (Command, ChildStdout, Child) {
    // The other child keeps the pipe open for the announcement.
    let mut relay = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut command = sh("echo $$ >&2; exec sleep 1000");
    command.kill_on_drop(true).stderr(relay.stdin.take().unwrap());
    let announcements = relay.stdout.take().unwrap();
    (command, announcements, relay)
}

fn announcement(mut announcements: &ChildStdout) -> u32 {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        announcements.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap().trim().parse().unwrap()
}

#[test]
fn an_output_that_is_cancelled_or_overdue_or_dropped_kills_its_child() {
    wherever(of_two_processors, |runtime, _| {
        runtime.run(|| {
            let (mut command, announcements, mut relay) = announced();
            // By cancellation.
            let fibre = sinew::spawn(move || (command.output(), command));
            let id = announcement(&announcements);
            fibre.fibre().cancel();
            let (outcome, mut command) = fibre.join().unwrap();
            assert!(outcome.is_err());
            assert_gone(id);
            // By a limit. The child may be killed before it has told its number.
            let outcome = time::timeout(Duration::from_millis(50), || command.output());
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::TimedOut);
            // The same, while only the second output is open.
            let mut half_closed = sh("exec sleep 1000 >&-");
            let outcome = time::timeout(Duration::from_millis(50), || half_closed.kill_on_drop(true).output());
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::TimedOut);
            // By the end of a task.
            let (mut other, announcements, mut other_relay) = announced();
            let task = task::spawn(async move { other.output_async().await });
            let id = announcement(&announcements);
            task.abort();
            assert!(task.join().is_err());
            assert_gone(id);
            drop(command);
            assert!(relay.wait().unwrap().success() && other_relay.wait().unwrap().success());
        });
    });
}

#[test]
fn tasks_spawn_write_read_and_wait() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let task = task::spawn(async {
                let mut command = Command::new("cat");
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
                for _ in 0..2 {
                    let mut cat = command.spawn_async().await.unwrap();
                    let (input, output) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
                    assert_eq!(input.write_async(b"words").await.unwrap(), 5);
                    let mut buffer = [0; 100];
                    assert_eq!(output.read_async(&mut buffer).await.unwrap(), 5);
                    let mut rest = pin!(output.read_async(&mut buffer));
                    let is_pending = poll_fn(|context| Poll::Ready(rest.as_mut().poll(context).is_pending())).await;
                    assert!(is_pending, "nothing else was written");
                    drop(input);
                    assert_eq!(rest.await.unwrap(), 0);
                    assert!(cat.wait_async().await.unwrap().success());
                }
                sh("exit 4").status_async().await.unwrap().code()
            });
            assert_eq!(task.join().unwrap(), Some(4));
        });
    });
}

#[test]
fn a_command_whose_future_was_dropped_is_lost_and_says_so() {
    alone(|| {
        sinew::run(|| {
            let mut command = sh("exit 0");
            let first_poll = sinew::block_on(async {
                let mut spawning = pin!(command.spawn_async());
                poll_fn(|context| Poll::Ready(spawning.as_mut().poll(context).is_pending())).await
            });
            if first_poll {
                let error = command.spawn().unwrap_err();
                assert!(error.to_string().contains("lost"), "{error}");
                assert_eq!(command.get_program(), "sh");
            }
        });
    });
}

#[test]
fn a_write_to_a_child_that_has_ended_fails() {
    alone(|| {
        sinew::run(|| {
            let mut command = sh("exec <&-; echo closed");
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = [0; 7];
            child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
            assert_eq!(child.stdin.as_mut().unwrap().write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
            assert!(child.wait().unwrap().success());
        });
    });
}

#[test]
fn a_child_is_waited_for_without_pidfd_as_well() {
    let outcome = in_child!(Rerun::new().without("pidfd"), || {
        sinew::run(|| {
            let mut child = sleeper().spawn().unwrap();
            assert_eq!(child.wait_timeout(Duration::from_millis(1)).unwrap(), None);
            child.kill().unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
            let output = sh("echo out; exec 1>&- 2>&-; sleep 0.01").output().unwrap();
            assert_eq!(output.stdout, b"out\n");
            let task = task::spawn(async { sh("sleep 0.01").status_async().await });
            assert!(task.join().unwrap().unwrap().success());
        });
        println!("threads waited");
    });
    outcome.assert_success("threads waited");
}

#[test]
fn children_are_waited_for_in_any_event_scope_and_pipes_used_in_their_own() {
    let outcome = in_child!(Rerun::new(), || {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        #[allow(unsafe_code)]
        // SAFETY: only children of `sinew::process` are moved between the event scopes.
        let scope = unsafe { EventScope::new() }.unwrap();
        let cluster = runtime.cluster(Cluster::builder().processors(1).event_scope(&scope)).unwrap();
        let (child, mut pipe) = cluster
            .spawn(|| {
                let mut child = sleeper().stdout(Stdio::piped()).spawn().unwrap();
                // The descriptor to wait for is of this event scope.
                assert_eq!(child.wait_timeout(Duration::ZERO).unwrap(), None);
                let pipe = child.stdout.take().unwrap();
                (child, pipe)
            })
            .join()
            .unwrap();
        runtime.run(move || {
            let error = pipe.read(&mut [0]).unwrap_err();
            assert!(error.get_ref().unwrap().is::<sinew::io::OtherScope>());
            let mut child = child;
            assert_eq!(child.wait_timeout(Duration::from_millis(1)).unwrap(), None);
            end(child);
        });
        let output = cluster.spawn(|| sh("echo there; echo err >&2").output().unwrap()).join().unwrap();
        assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"there\n"[..], &b"err\n"[..]));
        let orphan = cluster.spawn(|| sleeper().kill_on_drop(true).spawn().unwrap()).join().unwrap();
        let id = orphan.id();
        drop(orphan);
        assert_gone(id);
        println!("all were waited for");
    });
    outcome.assert_success("all were waited for");
}

#[test]
fn a_pipe_that_becomes_std_s_blocks() {
    alone(|| {
        sinew::run(|| {
            let mut child = sh("echo one; sleep 0.01; echo two").stdout(Stdio::piped()).spawn().unwrap();
            let ours = child.stdout.take().unwrap();
            let is_nonblocking =
                |fd: &dyn AsFd| rustix::fs::fcntl_getfl(fd.as_fd()).unwrap().contains(rustix::fs::OFlags::NONBLOCK);
            assert!(is_nonblocking(&ours));
            let theirs = std::process::ChildStdout::from(ours);
            assert!(!is_nonblocking(&theirs));
            drop(theirs);
            child.wait().unwrap();
        });
    });
}
