//! Descriptors of all kinds in a `Pollable`, and copying between them.
#![allow(unsafe_code)]

#[macro_use]
mod fixture;

use fixture::loopback::{bytes, pair};
use fixture::{Scratch, alone, everywhere, rerun, wherever};
use sinew::fs;
use sinew::io::{self, Pollable};
use sinew::net;
use std::fs::File;
use std::io::{ErrorKind, IoSlice, IoSliceMut, PipeReader, PipeWriter, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// More than a pipe or the buffer of a socket holds.
const LARGE: usize = 1 << 20;

fn pipe() -> (Pollable<PipeReader>, Pollable<PipeWriter>) {
    let (reader, writer) = std::io::pipe().unwrap();
    (Pollable::new(reader).unwrap(), Pollable::new(writer).unwrap())
}

fn owned(descriptor: RawFd) -> File {
    assert!(descriptor >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: nothing else owns the descriptor.
    unsafe { File::from_raw_fd(descriptor) }
}

fn eventfd() -> Pollable<File> {
    // SAFETY: no memory is involved.
    Pollable::new(owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })).unwrap()
}

fn is_nonblocking(descriptor: impl AsFd) -> bool {
    // SAFETY: no memory is involved.
    let flags = unsafe { libc::fcntl(descriptor.as_fd().as_raw_fd(), libc::F_GETFL) };
    assert_ne!(flags, -1);
    flags & libc::O_NONBLOCK != 0
}

/// Asserts that both are equal, and names the first difference. Two megabytes are not worth
/// printing.
#[track_caller]
fn assert_same(left: &[u8], right: &[u8]) {
    assert_eq!(left.len(), right.len());
    assert_eq!(left.iter().zip(right).position(|(left, right)| left != right), None);
}

#[test]
fn a_reader_waits_for_a_pipe_while_others_run() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let (mut reader, mut writer) = pipe();
            let reading = sinew::spawn(move || {
                let mut text = String::new();
                reader.read_to_string(&mut text).map(|_| text)
            });
            for word in ["one ", "two ", "three"] {
                sinew::yield_now();
                writer.write_all(word.as_bytes()).unwrap();
            }
            drop(writer);
            assert_eq!(reading.join().unwrap().unwrap(), "one two three");
        });
    });
}

#[test]
fn a_writer_waits_for_room_in_a_pipe() {
    let bytes = bytes(0x91be, LARGE);
    everywhere(|runtime, _| {
        runtime.run(|| {
            let (reader, writer) = pipe();
            sinew::scope(|scope| {
                scope.spawn(|| {
                    let writer = writer;
                    (&writer).write_all(&bytes).unwrap();
                });
                let mut read = Vec::new();
                (&reader).read_to_end(&mut read).unwrap();
                assert_same(&read, &bytes);
            });
        });
    });
}

#[test]
fn vectored_reads_and_writes_work() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let (mut reader, mut writer) = pipe();
            assert_eq!(writer.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"cd")]).unwrap(), 4);
            writer.flush().unwrap();
            let (mut first, mut second) = ([0; 3], [0; 3]);
            let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
            assert_eq!(reader.read_vectored(&mut buffers).unwrap(), 4);
            assert_eq!((&first, second[0]), (b"abc", b'd'));
        });
    });
}

#[test]
fn a_waiting_writer_gets_an_error_when_the_reader_goes() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let (reader, mut writer) = pipe();
            let writing = sinew::spawn(move || writer.write_all(&vec![0; LARGE]));
            // When there is something to read, the writer has filled the pipe.
            reader.readable().unwrap();
            drop(reader);
            assert_eq!(writing.join().unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
        });
    });
}

#[test]
fn fibres_count_with_an_eventfd() {
    const ROUNDS: u64 = 200;
    everywhere(|runtime, _| {
        runtime.run(|| {
            let (ping, pong) = (eventfd(), eventfd());
            let number = |event: &Pollable<File>| {
                let mut bytes = [0; 8];
                event.read_with(|mut file| file.read(&mut bytes)).unwrap();
                u64::from_ne_bytes(bytes)
            };
            let add = |event: &Pollable<File>, count: u64| {
                event.write_with(|mut file| file.write(&count.to_ne_bytes())).unwrap();
            };
            sinew::scope(|scope| {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        assert_eq!(number(&ping), round);
                        add(&pong, 2 * round);
                    }
                });
                for round in 1..=ROUNDS {
                    add(&ping, round);
                    assert_eq!(number(&pong), 2 * round);
                }
            });
        });
    });
}

#[test]
fn a_writer_waits_for_a_full_eventfd() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let event = eventfd();
            (&event).write_all(&(u64::MAX - 1).to_ne_bytes()).unwrap();
            event.readable().unwrap();
            assert_eq!(event.writable_timeout(Duration::ZERO).unwrap_err().kind(), ErrorKind::TimedOut);
            sinew::scope(|scope| {
                let writing = scope.spawn(|| {
                    event.writable().unwrap();
                    (&event).write_all(&5u64.to_ne_bytes())
                });
                sinew::yield_now();
                let mut bytes = [0; 8];
                (&event).read_exact(&mut bytes).unwrap();
                assert_eq!(u64::from_ne_bytes(bytes), u64::MAX - 1);
                writing.join().unwrap().unwrap();
                (&event).read_exact(&mut bytes).unwrap();
                assert_eq!(u64::from_ne_bytes(bytes), 5);
            });
        });
    });
}

#[test]
fn a_reader_waits_for_a_timerfd() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            // SAFETY: no memory is involved.
            let timer = owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) });
            let begun = Instant::now();
            let period = libc::timespec { tv_sec: 0, tv_nsec: 3_000_000 };
            let times = libc::itimerspec { it_interval: period, it_value: period };
            // SAFETY: the times are valid for reading.
            let set = unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &times, std::ptr::null_mut()) };
            assert_eq!(set, 0);
            let mut timer = Pollable::new(timer).unwrap();
            let mut expired = 0;
            while expired < 3 {
                let mut bytes = [0; 8];
                timer.read_exact(&mut bytes).unwrap();
                assert_ne!(u64::from_ne_bytes(bytes), 0);
                expired += u64::from_ne_bytes(bytes);
            }
            assert!(begun.elapsed() >= Duration::from_millis(9));
        });
    });
}

#[test]
fn a_limit_ends_each_kind_of_wait() {
    const SHORT: Duration = Duration::from_millis(2);
    everywhere(|runtime, _| {
        runtime.run(|| {
            let (reader, writer) = pipe();
            let begun = Instant::now();
            let soon = || Instant::now() + SHORT;
            assert_eq!(reader.readable_timeout(SHORT).unwrap_err().kind(), ErrorKind::TimedOut);
            assert_eq!(reader.readable_deadline(soon()).unwrap_err().kind(), ErrorKind::TimedOut);
            let read = |mut pipe: &PipeReader| pipe.read(&mut [0; 1]);
            assert_eq!(reader.read_with_timeout(SHORT, read).unwrap_err().kind(), ErrorKind::TimedOut);
            assert_eq!(reader.read_with_deadline(soon(), read).unwrap_err().kind(), ErrorKind::TimedOut);
            writer.writable_timeout(SHORT).unwrap();
            writer.writable_deadline(soon()).unwrap();
            let write = |mut pipe: &PipeWriter| pipe.write(&[7; 65536]);
            assert_eq!(writer.write_with_timeout(SHORT, write).unwrap(), 65536);
            assert_eq!(writer.write_with_timeout(SHORT, write).unwrap_err().kind(), ErrorKind::TimedOut);
            assert_eq!(writer.write_with_deadline(soon(), write).unwrap_err().kind(), ErrorKind::TimedOut);
            assert!(begun.elapsed() >= 6 * SHORT);
            assert_eq!(reader.read_with_timeout(SHORT, read).unwrap(), 1);
        });
    });
}

/// Three fibres wait for a byte each, and three bytes come at once. The first fibre that is
/// signalled calls `first` before it reads.
#[track_caller]
fn three_bytes_for_three(first: impl Fn(&Pollable<PipeReader>) + Send + Sync + Copy, readers: usize) {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let (reader, mut writer) = pipe();
            let (begun, is_written, is_told) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
            let (reader, begun, is_written, is_told) = (&reader, &begun, &is_written, &is_told);
            sinew::scope(|scope| {
                let reading: Vec<_> = (0..3)
                    .map(|_| {
                        scope.spawn(move || {
                            begun.fetch_add(1, SeqCst);
                            reader.read_with(|mut pipe| {
                                if is_written.load(SeqCst) && !is_told.swap(true, SeqCst) {
                                    first(reader);
                                }
                                pipe.read(&mut [0; 1])
                            })
                        })
                    })
                    .collect();
                fixture::wait_until(|| begun.load(SeqCst) == 3);
                is_written.store(true, SeqCst);
                writer.write_all(b"abc").unwrap();
                let read = reading.into_iter().filter_map(|reading| reading.join().ok());
                assert_eq!(read.map(|count| count.unwrap()).sum::<usize>(), readers);
            });
        });
    });
}

#[test]
fn an_operation_that_panics_leaves_its_turn_to_the_next() {
    three_bytes_for_three(|_| panic!("this panic is part of the test"), 2);
}

#[test]
fn operations_may_nest() {
    let again =
        |reader: &Pollable<PipeReader>| assert_eq!(reader.read_with(|mut pipe| pipe.read(&mut [0; 0])).unwrap(), 0);
    three_bytes_for_three(again, 3);
}

#[test]
fn an_operation_that_cancels_its_own_fibre_leaves_its_turn_to_the_next() {
    three_bytes_for_three(|_| sinew::current().cancel(), 3);
}

#[test]
fn a_cancellation_ends_a_wait() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let (reader, _writer) = pipe();
            let waiting = sinew::spawn(move || reader.readable());
            sinew::yield_now();
            waiting.fibre().cancel();
            let error = waiting.join().unwrap().unwrap_err();
            assert!(error.get_ref().unwrap().is::<sinew::cancel::Cancelled>(), "{error:?}");
        });
    });
}

#[test]
fn into_inner_returns_the_value_in_its_former_mode() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let (reader, writer) = std::io::pipe().unwrap();
            let pollable = Pollable::new(reader).unwrap();
            assert!(is_nonblocking(pollable.get_ref()));
            assert_eq!(pollable.as_raw_fd(), pollable.get_ref().as_raw_fd());
            // The poller knows the descriptor.
            assert_eq!(pollable.readable_timeout(Duration::ZERO).unwrap_err().kind(), ErrorKind::TimedOut);
            let mut reader = pollable.into_inner();
            assert!(!is_nonblocking(&reader));
            (&writer).write_all(b"x").unwrap();
            reader.read_exact(&mut [0; 1]).unwrap();
            let pollable = Pollable::new(UnixStream::pair().unwrap().0).unwrap().into_inner();
            assert!(!is_nonblocking(&pollable));
            pollable.set_nonblocking(true).unwrap();
            assert!(is_nonblocking(Pollable::new(pollable).unwrap().into_inner()));
        });
    });
}

/// A registration that outlives its `Pollable` would be reported again and again.
#[test]
fn a_borrowed_descriptor_can_be_polled_again_and_again() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let (reader, mut writer) = std::io::pipe().unwrap();
            let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
            for round in 0..100u8 {
                let pollable = Pollable::new(&reader).unwrap();
                assert_eq!(pollable.readable_timeout(Duration::ZERO).unwrap_err().kind(), ErrorKind::TimedOut);
                writer.write_all(&[round]).unwrap();
                pollable.readable().unwrap();
                let mut byte = [0];
                pollable.read_with(|&(mut pipe)| pipe.read(&mut byte)).unwrap();
                assert_eq!(byte, [round]);
            }
            // The poller may be new, and have two descriptors of its own.
            assert!(std::fs::read_dir("/proc/self/fd").unwrap().count() <= before + 2);
        });
    });
}

#[test]
fn regular_files_and_directories_are_refused() {
    alone(|| {
        for path in ["/proc/self/exe", "/"] {
            let refused = Pollable::new(File::open(path).unwrap()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        }
        Pollable::new(File::open("/dev/null").unwrap()).unwrap();
    });
}

#[test]
fn a_kernel_thread_may_wait_for_a_pollable() {
    alone(|| {
        let (mut reader, mut writer) = pipe();
        assert_eq!(reader.readable_timeout(Duration::from_millis(1)).unwrap_err().kind(), ErrorKind::TimedOut);
        let bytes = bytes(0x7472, LARGE);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                writer.write_all(&bytes).unwrap();
                drop(writer);
            });
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            assert_same(&read, &bytes);
        });
    });
}

#[test]
fn many_fibres_use_one_pipe() {
    const FIBRES: usize = 16;
    const MESSAGES: usize = 200;
    everywhere(|runtime, _| {
        runtime.run(|| {
            let (reader, writer) = pipe();
            let read = AtomicUsize::new(0);
            sinew::scope(|scope| {
                for _ in 0..FIBRES {
                    scope.spawn(|| {
                        for _ in 0..MESSAGES {
                            // A message is shorter than the size that a pipe writes in one piece.
                            assert_eq!((&writer).write(&[1; 1024]).unwrap(), 1024);
                        }
                    });
                    scope.spawn(|| {
                        for _ in 0..MESSAGES {
                            (&reader).read_exact(&mut [0; 1024]).unwrap();
                            read.fetch_add(1, SeqCst);
                        }
                    });
                }
            });
            assert_eq!(read.load(SeqCst), FIBRES * MESSAGES);
        });
    });
}

#[test]
fn a_large_copy_arrives_whole() {
    let bytes = bytes(0xc0b1, 2 * LARGE + 13);
    everywhere(|runtime, _| {
        runtime.run(|| {
            let (reader, mut writer) = pipe();
            let (first, second) = UnixStream::pair().unwrap();
            let (mut first, mut second) = (Pollable::new(first).unwrap(), Pollable::new(second).unwrap());
            sinew::scope(|scope| {
                scope.spawn(|| {
                    io::copy(&mut bytes.as_slice(), &mut writer).unwrap();
                    drop(writer);
                });
                scope.spawn(move || {
                    let mut reader = reader;
                    assert_eq!(io::copy(&mut reader, &mut first).unwrap(), bytes_len());
                });
                let mut copied = Vec::new();
                assert_eq!(io::copy(&mut second, &mut copied).unwrap(), bytes_len());
                assert_same(&copied, &bytes);
            });
        });
    });

    fn bytes_len() -> u64 {
        (2 * LARGE + 13) as u64
    }
}

#[test]
fn copy_repeats_after_an_interruption_and_passes_on_errors() {
    alone(|| {
        struct Reluctant(Vec<ErrorKind>);
        impl Read for Reluctant {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                match self.0.pop() {
                    Some(kind) => Err(kind.into()),
                    None => (&mut &b"text"[..]).read(buffer),
                }
            }
        }
        let mut limited = Reluctant(vec![ErrorKind::Interrupted; 3]).take(4);
        let mut text = Vec::new();
        assert_eq!(io::copy(&mut limited, &mut text).unwrap(), 4);
        assert_eq!(text, b"text");
        let error = io::copy(&mut Reluctant(vec![ErrorKind::NotFound]), &mut text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = io::copy(&mut &b"text"[..], &mut &mut [0; 2][..]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WriteZero);
    });
}

/// Returns a file that is already removed from its directory.
fn temporary(contents: &[u8]) -> fs::File {
    let mut file = fs::File::create_new(Scratch::new().at("file")).unwrap();
    file.write_all(contents).unwrap();
    file
}

#[test]
fn sendfile_sends_more_than_the_socket_holds() {
    const FILE: usize = 12 << 20;
    let bytes = bytes(0x5e4d, FILE);
    wherever(
        |setup| setup.processors != 4 && !setup.migrating,
        |runtime, _| {
            runtime.run(|| {
                let mut file = temporary(&bytes);
                let (sender, mut receiver) = pair();
                let has_sent = AtomicBool::new(false);
                sinew::scope(|scope| {
                    let sending = scope.spawn(|| {
                        let sender = sender;
                        let sent = net::sendfile(&file, &sender, 5, (FILE - 10) as u64);
                        has_sent.store(true, SeqCst);
                        sent
                    });
                    let mut first = [0; 1];
                    receiver.read_exact(&mut first).unwrap();
                    assert!(!has_sent.load(SeqCst), "the socket holds all of it");
                    let mut rest = Vec::new();
                    receiver.read_to_end(&mut rest).unwrap();
                    assert_eq!(sending.join().unwrap().unwrap(), (FILE - 10) as u64);
                    assert_eq!(first[0], bytes[5]);
                    assert_same(&rest, &bytes[6..FILE - 5]);
                });
                assert_eq!(file.stream_position().unwrap(), FILE as u64);
            });
        },
    );
}

/// A blocking call would hold up the only processor, and the receiver would never run.
#[test]
fn sendfile_to_a_socket_that_was_made_blocking_holds_up_no_processor() {
    const FILE: usize = 12 << 20;
    let bytes = bytes(0xb10c, FILE);
    wherever(
        |setup| setup.processors == 1 && !setup.migrating,
        |runtime, _| {
            runtime.run(|| {
                let file = temporary(&bytes);
                let (sender, mut receiver) = pair();
                let blocking = std::net::TcpStream::from(sender.try_clone().unwrap());
                assert!(!is_nonblocking(&blocking));
                sinew::scope(|scope| {
                    let sending = scope.spawn(|| {
                        let (sender, _blocking) = (sender, blocking);
                        net::sendfile(&file, &sender, 5, u64::MAX)
                    });
                    let mut read = Vec::new();
                    receiver.read_to_end(&mut read).unwrap();
                    assert_eq!(sending.join().unwrap().unwrap(), (FILE - 5) as u64);
                    assert_same(&read, &bytes[5..]);
                });
            });
        },
    );
}

#[test]
fn sendfile_ends_at_the_end_of_the_file() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let file = temporary(b"0123456789");
            let (sender, mut receiver) = pair();
            assert_eq!(net::sendfile(&file, &sender, 7, u64::MAX).unwrap(), 3);
            assert_eq!(net::sendfile(&file, &sender, 100, 5).unwrap(), 0);
            assert_eq!(net::sendfile(&file, &sender, 0, 0).unwrap(), 0);
            assert_eq!(net::sendfile(&file, &sender, u64::MAX, 1).unwrap_err().kind(), ErrorKind::InvalidInput);
            // The socket still works.
            (&sender).write_all(b"!").unwrap();
            drop(sender);
            let mut text = String::new();
            receiver.read_to_string(&mut text).unwrap();
            assert_eq!(text, "789!");
        });
    });
}

#[test]
fn sendfile_to_a_peer_that_is_gone_is_an_error() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let file = temporary(&[1; 100_000]);
            let (sender, receiver) = pair();
            drop(receiver);
            let error = loop {
                if let Err(error) = net::sendfile(&file, &sender, 0, 100_000) {
                    break error;
                }
            };
            assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
        });
    });
}

/// Environment variable: the process is to copy its input to its error output.
const ECHO: &str = "SINEW_TEST_ECHO";

/// The body of that process.
fn echo() -> ! {
    let runtime = sinew::Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
    let others_ran = AtomicBool::new(false);
    runtime.run(|| {
        sinew::scope(|scope| {
            scope.spawn(|| others_ran.store(true, SeqCst));
            let mut byte = [0];
            io::stdin().read_exact(&mut byte).unwrap();
            assert!(others_ran.load(SeqCst), "a read that waits lets others run");
            io::stderr().write_all(&byte).unwrap();
            io::copy(&mut io::stdin(), &mut io::stderr()).unwrap();
            io::stdout().write_all(b"copied\n").unwrap();
        });
    });
    assert!(!is_nonblocking(io::stdin()) && !is_nonblocking(io::stdout()) && !is_nonblocking(io::stderr()));
    std::process::exit(42);
}

#[test]
fn standard_handles_work_for_pipes_sockets_and_files() {
    if std::env::var_os(ECHO).is_some() {
        echo();
    }
    let bytes = bytes(0x57d0, LARGE);
    let test = name_of_test!();
    let echo = || {
        let mut command = rerun::command(test, ECHO, "");
        command.stdout(Stdio::piped());
        command
    };
    alone(|| {
        // Pipes.
        let mut child = echo().stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            scope.spawn(|| {
                // Sends small pieces, so that the child has to wait.
                for piece in bytes[..100].chunks(10) {
                    input.write_all(piece).unwrap();
                }
                input.write_all(&bytes[100..]).unwrap();
                drop(input);
            });
            child.wait_with_output().unwrap()
        });
        assert_same(&output.stderr, &bytes);
        assert_eq!(output.status.code(), Some(42));
        assert!(output.stdout.ends_with(b"copied\n"));
        // Files.
        let (mut from, mut to) = (std::fs::File::from(temporary(&bytes)), std::fs::File::from(temporary(b"")));
        from.rewind().unwrap();
        let output = echo().stdin(from).stderr(to.try_clone().unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(42));
        let mut written = Vec::new();
        to.rewind().unwrap();
        to.read_to_end(&mut written).unwrap();
        assert_same(&written, &bytes);
        // Sockets.
        let (ours, theirs) = UnixStream::pair().unwrap();
        let end = || std::os::fd::OwnedFd::from(theirs.try_clone().unwrap());
        let mut child = echo().stdin(end()).stderr(end()).spawn().unwrap();
        drop(theirs);
        let mut read = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (&ours).write_all(&bytes).unwrap();
                ours.shutdown(std::net::Shutdown::Write).unwrap();
            });
            (&ours).read_to_end(&mut read).unwrap();
        });
        assert_same(&read, &bytes);
        assert_eq!(child.wait().unwrap().code(), Some(42));
    });
}
