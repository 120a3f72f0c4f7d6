//! Machines that forbid io_uring, in whole or in part. Sockets and files work all the same, and the
//! runtime says what was refused.

#[macro_use]
mod fixture;

use fixture::loopback::{bytes, narrow_pair};
use fixture::refused::{Call, Threads, refuse};
use fixture::rerun::{Outcome, Rerun};
use fixture::{Scratch, migrating, wait_until};
use sinew::fs::{self, File};
use sinew::io::{Engine, Means};
use sinew::net::TcpStream;
use sinew::{BuildError, Runtime, task};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

const SETUP: Call = Call::new(libc::SYS_io_uring_setup);
const ENTER: Call = Call::new(libc::SYS_io_uring_enter);
const REGISTER: Call = Call::new(libc::SYS_io_uring_register);

const SESSIONS: usize = 64;
const ROUNDS: usize = 30;
const REQUEST: usize = 64;

const FILES: usize = 8;
const PIECE: usize = 4096;
const PIECES: usize = 16;

/// The last word of a child in which everything worked.
const DONE: &str = "everything worked";

/// One way to build a runtime that would use rings.
#[derive(Clone, Copy, Debug)]
struct Kind {
    engine: Engine,
    processors: usize,
    migrating: bool,
}

impl Kind {
    fn all() -> impl Iterator<Item = Kind> {
        [Engine::Auto, Engine::Ring].into_iter().flat_map(|engine| {
            [(1, false), (2, false), (1, true), (2, true)].map(|(processors, migrating)| Kind {
                engine,
                processors,
                migrating,
            })
        })
    }

    fn build(self) -> Runtime {
        self.try_build().unwrap()
    }

    fn try_build(self) -> Result<Runtime, BuildError> {
        let builder = Runtime::builder().spares(0).stall_limit(None).processors(self.processors).io(self.engine);
        let builder = if self.migrating { migrating(builder) } else { builder };
        builder.build()
    }
}

/// Connections whose sessions answer all at once, and files.
struct Load {
    /// The client's end and the session's end of each connection.
    connections: Vec<(TcpStream, TcpStream)>,
    scratch: Scratch,
    files: Vec<Arc<File>>,
    /// The number of rounds that are over.
    rounds: AtomicUsize,
}

impl Load {
    /// Opens everything. A fibre calls this.
    fn open() -> Load {
        let (scratch, connections) = (Scratch::new(), (0..SESSIONS).map(|_| narrow_pair()).collect());
        let open = |number: usize| {
            let path = scratch.at(&number.to_string());
            fs::write(&path, content(number)).unwrap();
            Arc::new(File::open(&path).unwrap())
        };
        Load { connections, files: (0..FILES).map(open).collect(), scratch, rounds: AtomicUsize::new(0) }
    }

    /// Uses everything that is open.
    fn run(&self) {
        sinew::scope(|scope| {
            scope.spawn(|| self.talk(ROUNDS));
            scope.spawn(|| self.read());
        });
    }

    /// Has all sessions answer `rounds` bursts of requests.
    fn talk(&self, rounds: usize) {
        sinew::scope(|scope| {
            for (number, (_, stream)) in self.connections.iter().enumerate() {
                scope.spawn(move || session(stream, number, rounds));
            }
            for round in 0..rounds {
                for (number, (stream, _)) in self.connections.iter().enumerate() {
                    { stream }.write_all(&request(number, round)).unwrap();
                }
                for (number, (stream, _)) in self.connections.iter().enumerate() {
                    let expected = answer(number, round, rounds);
                    assert!(received(stream, expected.len()) == expected, "session {number}, round {round}");
                }
                self.rounds.fetch_add(1, Relaxed);
            }
        });
    }

    /// Reads all files, from the device if the file system has one, then from the kernel's memory.
    fn read(&self) {
        for is_cold in [true, false] {
            sinew::scope(|scope| {
                for (number, file) in self.files.iter().enumerate() {
                    if is_cold {
                        forget(file);
                    }
                    scope.spawn(move || read_pieces(file, number));
                }
            });
        }
        let tasks = self.files.iter().cloned().enumerate();
        let tasks: Vec<_> = tasks.map(|(number, file)| task::spawn(read_last_piece(file, number))).collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
    }

    /// Opens files by their paths.
    fn open_again(&self) {
        let path = self.scratch.at("0");
        assert_eq!(fs::read(&path).unwrap(), content(0));
        assert_eq!(fs::metadata(&path).unwrap().len(), (PIECES * PIECE) as u64);
        assert_eq!(fs::read(self.scratch.at("missing")).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

fn request(number: usize, round: usize) -> Vec<u8> {
    bytes((number << 16 | round) as u64, REQUEST)
}

/// Returns a small answer. Some answers of the last round do not fit into a socket.
fn answer(number: usize, round: usize, rounds: usize) -> Vec<u8> {
    let is_large = round + 1 == rounds && number.is_multiple_of(16);
    bytes((round << 16 | number) as u64, if is_large { 1 << 20 } else { 200 })
}

fn session(mut stream: &TcpStream, number: usize, rounds: usize) {
    for round in 0..rounds {
        assert_eq!(received(stream, REQUEST), request(number, round), "session {number}, round {round}");
        stream.write_all(&answer(number, round, rounds)).unwrap();
    }
}

fn received(mut stream: &TcpStream, count: usize) -> Vec<u8> {
    let mut buffer = vec![0; count];
    stream.read_exact(&mut buffer).unwrap();
    buffer
}

fn content(number: usize) -> Vec<u8> {
    bytes(1 + number as u64, PIECES * PIECE)
}

/// Reads a file in pieces, the last one first.
fn read_pieces(file: &File, number: usize) {
    let (content, mut buffer) = (content(number), vec![0; PIECE]);
    for offset in (0..PIECES * PIECE).step_by(PIECE).rev() {
        file.read_exact_at(&mut buffer, offset as u64).unwrap();
        assert!(buffer == content[offset..][..PIECE], "file {number} at {offset}");
    }
    assert_eq!(file.read_at(&mut buffer, content.len() as u64).unwrap(), 0);
    assert_eq!(file.metadata().unwrap().len(), content.len() as u64);
}

async fn read_last_piece(file: Arc<File>, number: usize) {
    let (content, mut buffer) = (content(number), vec![0; PIECE]);
    let offset = content.len() - PIECE;
    assert_eq!(file.read_at_async(&mut buffer, offset as u64).await.unwrap(), PIECE);
    assert!(buffer == content[offset..], "file {number}");
}

/// Makes the kernel forget the content of a file, so that a read has to wait for the device.
#[allow(unsafe_code)]
fn forget(file: &File) {
    file.sync_all().unwrap();
    // SAFETY: no memory is involved.
    let done = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(done, 0);
}

/// Runs the load in all kinds of runtime. `check` is given what each of them says about its I/O.
fn run_all(check: impl Fn(&Means)) {
    for kind in Kind::all() {
        let runtime = kind.build();
        let io = runtime.main_cluster().io();
        println!("{kind:?}: {io}");
        check(&io);
        runtime.run(|| {
            let load = Load::open();
            load.run();
            load.open_again();
        });
    }
    println!("{DONE}");
}

/// Checks that no ring is used, because of this error of the kernel.
fn assert_refused(io: &Means, error: i32) {
    assert!(!io.batches() && !io.files(), "{io:?}");
    let refusal = io.refusal().expect("a reason");
    assert_eq!(refusal.raw_os_error(), Some(error));
    assert_eq!(io.to_string(), format!("epoll (no io_uring: {refusal})"));
}

/// Checks that the kernel refuses to enter a ring, even before it looks for the ring.
#[allow(unsafe_code)]
fn assert_no_entry() {
    // SAFETY: there is no ring with this descriptor.
    let entered = unsafe { libc::syscall(libc::SYS_io_uring_enter, -1, 0, 0, 0, 0, 0) };
    assert_eq!((entered, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EPERM)));
}

#[track_caller]
fn assert_worked(outcome: &Outcome) {
    if outcome.was_allowed() {
        outcome.assert_success(DONE);
    }
}

#[test]
fn everything_works_if_io_uring_is_switched_off() {
    let outcome = in_child!(Rerun::new().without("io-uring"), || run_all(|io| assert_refused(io, libc::ENOSYS)));
    outcome.assert_success(DONE);
}

#[test]
fn everything_works_if_the_operator_wants_epoll() {
    let check = |io: &Means| {
        assert!(!io.batches() && !io.files() && io.refusal().is_none(), "{io:?}");
        assert_eq!((io.engine(), io.to_string()), (Engine::Epoll, "epoll".to_owned()));
    };
    let outcome = in_child!(Rerun::new().variable("SINEW_IO", "epoll"), || run_all(check));
    outcome.assert_success(DONE);
}

#[test]
fn everything_works_if_rings_are_not_permitted() {
    let outcome = in_child!(Rerun::new(), || {
        refuse(&[SETUP], libc::EPERM, Threads::This);
        run_all(|io| assert_refused(io, libc::EPERM));
    });
    assert_worked(&outcome);
}

#[test]
fn everything_works_if_rings_can_be_made_but_not_entered() {
    let outcome = in_child!(Rerun::new(), || {
        refuse(&[ENTER], libc::EPERM, Threads::This);
        assert_no_entry();
        run_all(|io| assert_refused(io, libc::EPERM));
    });
    assert_worked(&outcome);
}

#[test]
fn everything_works_if_the_operations_of_rings_cannot_be_asked_for() {
    let outcome = in_child!(Rerun::new(), || {
        refuse(&[REGISTER], libc::EPERM, Threads::This);
        run_all(|io| assert_refused(io, libc::EPERM));
    });
    assert_worked(&outcome);
}

#[test]
fn everything_works_on_a_kernel_without_io_uring() {
    let outcome = in_child!(Rerun::new(), || {
        refuse(&[SETUP, ENTER, REGISTER], libc::ENOSYS, Threads::This);
        run_all(|io| assert_refused(io, libc::ENOSYS));
    });
    assert_worked(&outcome);
}

/// Between two uses and in the middle of one.
#[test]
fn everything_works_if_rings_in_use_are_forbidden() {
    for kind in Kind::all() {
        for is_busy in [false, true] {
            let body = || forbid_in_use(kind, is_busy);
            let variant = format!("{kind:?} {is_busy}");
            let Some(outcome) = Rerun::new().run(name_of_test!(), &variant, body) else { continue };
            assert_worked(&outcome);
        }
    }
}

fn forbid_in_use(kind: Kind, is_busy: bool) {
    kind.build().run(|| {
        let load = Load::open();
        load.run();
        sinew::scope(|scope| {
            if is_busy {
                scope.spawn(|| (0..3).for_each(|_| load.run()));
                wait_until(|| load.rounds.load(Relaxed) > ROUNDS + ROUNDS / 2);
            }
            refuse(&[ENTER], libc::EPERM, Threads::All);
            assert_no_entry();
        });
        load.run();
        load.open_again();
    });
    println!("{DONE}");
}

#[test]
fn everything_works_without_locked_memory() {
    let outcome = in_child!(Rerun::new().limit("-l 0"), || run_all(|_| ()));
    outcome.assert_success(DONE);
}

/// Takes all descriptors that are left.
fn take_descriptors() -> Vec<std::fs::File> {
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

#[test]
fn open_sockets_and_files_work_without_descriptors_for_rings() {
    let outcome = in_child!(Rerun::new().limit("-n 256"), || {
        for kind in Kind::all() {
            let runtime = kind.build();
            let load = runtime.run(Load::open);
            let taken = take_descriptors();
            runtime.run(|| {
                let error = fs::read(load.scratch.at("0")).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
                load.run();
            });
            drop(taken);
            runtime.run(|| {
                load.run();
                load.open_again();
            });
            drop((load, runtime));
        }
        println!("{DONE}");
    });
    outcome.assert_success(DONE);
}

/// Descriptors are given back one by one until a runtime can be built.
#[test]
fn a_runtime_with_just_enough_descriptors_works() {
    for kind in Kind::all() {
        let body = || {
            let scratch = Scratch::new();
            std::fs::write(scratch.at("0"), content(0)).unwrap();
            let file = std::fs::File::open(scratch.at("0")).unwrap();
            let mut taken = take_descriptors();
            let runtime = loop {
                taken.pop().expect("a runtime needs few descriptors");
                if let Ok(runtime) = kind.try_build() {
                    break runtime;
                }
            };
            println!("{kind:?}: {}", runtime.main_cluster().io());
            runtime.run(|| {
                let file = File::from(file);
                forget(&file);
                let sleepers: Vec<_> =
                    (0..100).map(|_| sinew::spawn(|| sinew::sleep(Duration::from_millis(1)))).collect();
                read_pieces(&file, 0);
                sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
            });
            drop(taken);
            runtime.run(|| Load::open().run());
            println!("{DONE}");
        };
        let Some(outcome) = Rerun::new().limit("-n 256").run(name_of_test!(), &format!("{kind:?}"), body) else {
            continue;
        };
        outcome.assert_success(DONE);
    }
}
