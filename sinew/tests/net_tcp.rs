//! TCP over the loopback interface.

#[macro_use]
mod fixture;

use fixture::loopback::{bytes, echo, listener, pair};
use fixture::rerun::Rerun;
use fixture::{Random, alone, assert_same_error, everywhere, let_others_wait, one_of, wait_until, wherever};
use sinew::cancel::{self, Cancelled};
use sinew::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use sinew::{Runtime, time};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// Sends these bytes and checks that they come back.
fn check_echo(stream: &TcpStream, sent: &[u8]) {
    sinew::scope(|scope| {
        scope.spawn(|| {
            (&mut &*stream).write_all(sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        (&mut &*stream).read_to_end(&mut received).unwrap();
        assert!(received == sent, "{} of {} bytes came back", received.len(), sent.len());
    });
}

#[test]
fn many_sessions_get_back_the_bytes_that_they_send() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (listener, address) = listener();
            sinew::scope(|scope| {
                for client in 0..20 {
                    scope.spawn(move || {
                        let stream = TcpStream::connect(address).unwrap();
                        check_echo(&stream, &bytes(client, 1000 * client as usize + 1));
                    });
                }
                for stream in listener.incoming().take(20) {
                    scope.spawn(move || echo(&stream.unwrap()).unwrap());
                }
            });
        });
    });
}

#[test]
fn one_session_makes_many_round_trips() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (mut here, there) = pair();
            sinew::scope(|scope| {
                scope.spawn(move || echo(there).unwrap());
                for round in 0..200u8 {
                    here.write_all(&[round; 10]).unwrap();
                    let mut answer = [0; 10];
                    here.read_exact(&mut answer).unwrap();
                    assert_eq!(answer, [round; 10]);
                }
                here.shutdown(Shutdown::Both).unwrap();
            });
        });
    });
}

#[test]
fn readers_of_one_socket_share_its_bytes_and_lose_none() {
    const BYTES: usize = 20_000;
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, mut there) = pair();
            let counts: [AtomicUsize; 256] = [const { AtomicUsize::new(0) }; 256];
            sinew::scope(|scope| {
                for reader in 1..=3 {
                    let (mut here, counts) = (here.try_clone().unwrap(), &counts);
                    scope.spawn(move || {
                        let mut buffer = vec![0; 100 * reader];
                        while let count @ 1.. = here.read(&mut buffer).unwrap() {
                            for byte in &buffer[..count] {
                                counts[*byte as usize].fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    });
                }
                for (index, chunk) in bytes(7, BYTES).chunks(333).enumerate() {
                    there.write_all(chunk).unwrap();
                    if index % 3 == 0 {
                        sinew::yield_now();
                    }
                }
                there.shutdown(Shutdown::Write).unwrap();
            });
            let mut sent = [0; 256];
            bytes(7, BYTES).iter().for_each(|byte| sent[*byte as usize] += 1);
            assert_eq!(counts.map(AtomicUsize::into_inner), sent);
        });
    });
}

/// The writer sends more than all buffers hold, so it has to wait for room. Its socket was
/// accepted, and only its reading side was waited for before.
#[test]
fn a_reader_and_a_writer_use_a_socket_at_once() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (there, here) = pair();
            let sent = bytes(3, 6_000_000);
            let reading = AtomicBool::new(false);
            sinew::scope(|scope| {
                scope.spawn(|| {
                    wait_until(|| reading.load(Ordering::Relaxed));
                    (0..5).for_each(|_| sinew::yield_now());
                    (&here).write_all(&sent).unwrap();
                    here.shutdown(Shutdown::Write).unwrap();
                });
                scope.spawn(move || echo(there).unwrap());
                reading.store(true, Ordering::Relaxed);
                let mut received = Vec::new();
                (&here).read_to_end(&mut received).unwrap();
                assert!(received == sent);
            });
        });
    });
}

#[test]
fn timeouts_of_a_socket_behave_as_in_std() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (mut here, there) = pair();
            here.set_read_timeout(Some(5 * MS)).unwrap();
            here.set_write_timeout(Some(5 * MS)).unwrap();
            let copy = here.try_clone().unwrap();
            assert_eq!((copy.read_timeout().unwrap(), copy.write_timeout().unwrap()), (Some(5 * MS), Some(5 * MS)));
            for _ in 0..2 {
                let began = Instant::now();
                assert_eq!(here.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
                assert!(began.elapsed() >= 5 * MS);
            }
            let chunk = vec![0; 100_000];
            let error = loop {
                if let Err(error) = here.write(&chunk) {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            for timeout in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
                assert_eq!(timeout(&here, Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
            }
            here.set_read_timeout(None).unwrap();
            assert_eq!(here.read_timeout().unwrap(), None);
            drop(there);
        });
    });
}

#[test]
fn a_limit_of_the_call_gives_timed_out() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, mut there) = pair();
            let began = Instant::now();
            assert_eq!(here.read_deadline(&mut [0], began + 3 * MS).unwrap_err().kind(), ErrorKind::TimedOut);
            assert!(began.elapsed() >= 3 * MS);
            there.write_all(&[1, 2]).unwrap();
            assert_eq!(here.read_deadline(&mut [0; 8], began).unwrap(), 2);

            let (listener, address) = listener();
            let began = Instant::now();
            assert_eq!(listener.accept_timeout(3 * MS).unwrap_err().kind(), ErrorKind::TimedOut);
            assert_eq!(listener.accept_deadline(began).unwrap_err().kind(), ErrorKind::TimedOut);
            assert!(began.elapsed() >= 3 * MS);
            let connected = TcpStream::connect_deadline(&address, Instant::now() + 1000 * MS).unwrap();
            let (accepted, from) = listener.accept_timeout(Duration::MAX).unwrap();
            assert_eq!(from, connected.local_addr().unwrap());
            assert_eq!(accepted.peer_addr().unwrap(), from);

            let error = TcpStream::connect_timeout(&address, Duration::ZERO).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            // Not the socket's own limit, but that of an enclosing `timeout`.
            let error = time::timeout(3 * MS, || (&here).read(&mut [0])).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert_eq!(cancelled(&error), Some(Cancelled::Overdue));
        });
    });
}

fn cancelled(error: &io::Error) -> Option<Cancelled> {
    error.get_ref().and_then(|source| source.downcast_ref::<Cancelled>()).copied()
}

#[test]
fn a_timeout_that_races_with_data_loses_no_byte() {
    everywhere(|rt, setup| {
        rt.run(|| {
            let (mut here, mut there) = pair();
            let sent = bytes(11, 3000);
            let received = sinew::scope(|scope| {
                let reader = scope.spawn(move || {
                    here.set_read_timeout(Some(Duration::from_micros(30))).unwrap();
                    let (mut received, mut buffer) = (Vec::new(), [0; 64]);
                    loop {
                        match here.read(&mut buffer) {
                            Ok(0) => return received,
                            Ok(count) => received.extend_from_slice(&buffer[..count]),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                        }
                    }
                });
                let mut random = Random::new(0x5eed_0071 + setup.processors as u64);
                for chunk in sent.chunks(20) {
                    there.write_all(chunk).unwrap();
                    sinew::sleep(Duration::from_micros(random.below(60)));
                }
                drop(there);
                reader.join().unwrap()
            });
            assert!(received == sent, "{} of {} bytes arrived", received.len(), sent.len());
        });
    });
}

#[test]
fn a_reset_ends_a_blocked_read_and_a_blocked_write() {
    everywhere(|rt, _| {
        rt.run(|| {
            for writes in [false, true] {
                let (here, there) = pair();
                let begun = AtomicBool::new(false);
                sinew::scope(|scope| {
                    let blocked = scope.spawn(|| {
                        // A close with unread bytes becomes a reset.
                        (&here).write_all(b"unread").unwrap();
                        begun.store(true, Ordering::Relaxed);
                        let chunk = vec![0; 100_000];
                        loop {
                            let done = if writes { (&here).write(&chunk) } else { (&here).read(&mut [0]) };
                            if let Err(error) = done {
                                return error.kind();
                            }
                        }
                    });
                    wait_until(|| begun.load(Ordering::Relaxed));
                    let_others_wait();
                    drop(there);
                    let kind = blocked.join().unwrap();
                    let expected = kind == ErrorKind::ConnectionReset || writes && kind == ErrorKind::BrokenPipe;
                    assert!(expected, "{kind:?}");
                });
            }
        });
    });
}

#[test]
fn a_half_closed_connection_still_carries_the_other_half() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (mut here, mut there) = pair();
            sinew::scope(|scope| {
                scope.spawn(|| {
                    let mut question = String::new();
                    there.read_to_string(&mut question).unwrap();
                    there.write_all(question.to_uppercase().as_bytes()).unwrap();
                    there.shutdown(Shutdown::Write).unwrap();
                });
                here.write_all(b"question").unwrap();
                here.shutdown(Shutdown::Write).unwrap();
                assert_eq!(here.write(b"more").unwrap_err().kind(), ErrorKind::BrokenPipe);
                let mut answer = String::new();
                here.read_to_string(&mut answer).unwrap();
                assert_eq!(answer, "QUESTION");
            });
        });
    });
}

#[test]
fn shutdown_ends_a_read_that_is_blocked_on_the_same_socket() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, _there) = pair();
            sinew::scope(|scope| {
                let reader = scope.spawn(|| (&here).read(&mut [0]).unwrap());
                let_others_wait();
                here.shutdown(Shutdown::Read).unwrap();
                assert_eq!(reader.join().unwrap(), 0);
            });
        });
    });
}

/// The kernel reports both at once, and the read that takes the bytes is a short one.
#[test]
fn the_end_of_a_stream_is_seen_after_its_last_bytes() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (listener, address) = listener();
            for _ in 0..50 {
                let mut here = TcpStream::connect(address).unwrap();
                let mut there = listener.accept().unwrap().0;
                sinew::scope(|scope| {
                    scope.spawn(move || {
                        let mut buffer = [0; 64];
                        assert_eq!(there.read(&mut buffer).unwrap(), 5);
                        there.write_all(b"last").unwrap();
                    });
                    // Registers the socket with the poller.
                    here.set_read_timeout(Some(Duration::from_micros(1))).unwrap();
                    assert_eq!(here.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
                    here.set_read_timeout(None).unwrap();
                    here.write_all(b"first").unwrap();
                    let mut buffer = [0; 64];
                    assert_eq!(here.read(&mut buffer).unwrap(), 4);
                    assert_eq!(here.read(&mut buffer).unwrap(), 0);
                });
            }
        });
    });
}

#[test]
fn cancelling_a_blocked_read_loses_no_byte() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (mut here, mut there) = pair();
            let [begun, noticed] = [const { AtomicBool::new(false) }; 2];
            sinew::scope(|scope| {
                let reader = scope.spawn(|| {
                    begun.store(true, Ordering::Relaxed);
                    let mut buffer = [0; 16];
                    let error = here.read(&mut buffer).unwrap_err();
                    assert_eq!(cancelled(&error), Some(Cancelled::Requested));
                    assert_eq!(cancelled(&here.read(&mut buffer).unwrap_err()), Some(Cancelled::Requested));
                    noticed.store(true, Ordering::Relaxed);
                    let count = cancel::shield(|| here.read(&mut buffer).unwrap());
                    buffer[..count].to_vec()
                });
                wait_until(|| begun.load(Ordering::Relaxed));
                reader.fibre().cancel();
                wait_until(|| noticed.load(Ordering::Relaxed));
                there.write_all(b"still there").unwrap();
                assert_eq!(reader.join().unwrap(), b"still there");
            });
        });
    });
}

#[test]
fn cancelling_ends_accept_and_connect() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (listener, _) = listener();
            sinew::scope(|scope| {
                let accepting = scope.spawn(|| listener.incoming().next().unwrap().unwrap_err());
                // No host ever answers from this address.
                let connecting = scope.spawn(|| TcpStream::connect("192.0.2.1:9").unwrap_err());
                let_others_wait();
                accepting.fibre().cancel();
                connecting.fibre().cancel();
                assert_eq!(cancelled(&accepting.join().unwrap()), Some(Cancelled::Requested));
                let error = connecting.join().unwrap();
                let unreachable = error.raw_os_error().is_some();
                assert!(unreachable || cancelled(&error) == Some(Cancelled::Requested), "{error:?}");
            });
        });
    });
}

#[test]
fn kernel_threads_use_the_same_sockets() {
    everywhere(|rt, _| {
        let (listener, address) = listener();
        let server = rt.spawn(move || {
            let stream = listener.accept().unwrap().0;
            echo(&stream).unwrap();
        });
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(5 * MS)).unwrap();
        assert_eq!((&stream).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        stream.set_read_timeout(None).unwrap();
        let sent = bytes(5, 300_000);
        // A kernel thread writes to the same socket that a fibre reads from.
        let (copy, expected) = (stream.try_clone().unwrap(), sent.clone());
        let reader = rt.spawn(move || {
            let mut received = Vec::new();
            (&copy).read_to_end(&mut received).unwrap();
            assert!(received == expected);
        });
        (&stream).write_all(&sent).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        reader.join().unwrap();
        server.join().unwrap();
    });
    alone(|| {
        let (listener, address) = listener();
        let server = thread::spawn(move || echo(&listener.accept().unwrap().0).unwrap());
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"threads").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "threads");
        server.join().unwrap();
    });
}

/// Descriptors, slots and ports are reused at once. The test would notice a byte or an event of an
/// earlier connection.
#[test]
fn a_reused_descriptor_carries_no_bytes_of_an_earlier_connection() {
    const ROUNDS: usize = 100;
    everywhere(|rt, setup| {
        rt.run(|| {
            let (listener, address) = listener();
            sinew::scope(|scope| {
                let server = scope.spawn(move || {
                    sinew::scope(|sessions| {
                        while let Ok((stream, _)) = listener.accept() {
                            // A client that leaves early is no failure.
                            sessions.spawn(move || drop(echo(&stream)));
                        }
                    });
                });
                let clients: Vec<_> = (0..8u64)
                    .map(|client| {
                        scope.spawn(move || {
                            let mut random = Random::new(0x5eed_0072 + 100 * setup.processors as u64 + client);
                            for _ in 0..ROUNDS {
                                let mut stream = TcpStream::connect(address).unwrap();
                                let sent = bytes(random.below(1 << 40), 1 + random.below(3000) as usize);
                                stream.write_all(&sent).unwrap();
                                if random.below(4) == 0 {
                                    continue;
                                }
                                let mut received = vec![0; sent.len()];
                                stream.read_exact(&mut received).unwrap();
                                assert!(received == sent, "these bytes belong to another connection");
                            }
                        })
                    })
                    .collect();
                clients.into_iter().for_each(|client| client.join().unwrap());
                server.fibre().cancel();
            });
        });
    });
}

#[test]
fn a_non_blocking_socket_does_not_wait() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, mut there) = pair();
            let mut copy = here.try_clone().unwrap();
            here.set_nonblocking(true).unwrap();
            assert_eq!(copy.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            there.write_all(b"x").unwrap();
            // The byte has arrived and is read, even if no poller knows of it yet.
            assert_eq!(copy.read(&mut [0]).unwrap(), 1);
            sinew::scope(|scope| {
                scope.spawn(|| there.write_all(b"y").unwrap());
                // The writer gets its turn even on one processor.
                wait_until_read(&mut copy);
            });
            let (listener, address) = listener();
            listener.set_nonblocking(true).unwrap();
            assert_eq!(listener.incoming().next().unwrap().unwrap_err().kind(), ErrorKind::WouldBlock);
            let _connected = TcpStream::connect(address).unwrap();
            // Accepted sockets are not affected.
            let mut accepted = listener.accept().unwrap().0;
            accepted.set_read_timeout(Some(MS)).unwrap();
            let began = Instant::now();
            assert_eq!(accepted.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(began.elapsed() >= MS);
        });
    });
}

/// Reads until a byte comes, without yielding by itself.
fn wait_until_read(stream: &mut TcpStream) {
    loop {
        match stream.read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            done => return assert_eq!(done.unwrap(), 1),
        }
    }
}

#[test]
fn peeked_bytes_stay_in_the_socket() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (mut here, mut there) = pair();
            sinew::scope(|scope| {
                scope.spawn(|| there.write_all(b"twice").unwrap());
                let mut buffer = [0; 3];
                for _ in 0..3 {
                    assert_eq!(here.peek(&mut buffer).unwrap(), 3);
                    assert_eq!(&buffer, b"twi");
                }
                let mut whole = [0; 5];
                here.read_exact(&mut whole).unwrap();
                assert_eq!(&whole, b"twice");
            });
        });
    });
}

#[test]
fn vectored_writes_gather_and_vectored_reads_scatter() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (mut here, mut there) = pair();
            let slices: Vec<_> = (0..2000).map(|_| IoSlice::new(b"ab")).collect();
            assert_eq!(here.write_vectored(&slices).unwrap(), 2048);
            let (mut first, mut second) = ([0; 1001], [0; 2000]);
            let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
            assert_eq!(there.read_vectored(&mut buffers).unwrap(), 2048);
            assert_eq!((&first[999..], &second[..3], second[1047]), (&b"ba"[..], &b"bab"[..], 0));
        });
    });
}

#[test]
fn socket_options_are_kept() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, _there) = pair();
            for nodelay in [true, false] {
                here.set_nodelay(nodelay).unwrap();
                assert_eq!(here.nodelay().unwrap(), nodelay);
            }
            let (listener, address) = listener();
            here.set_ttl(17).unwrap();
            listener.set_ttl(18).unwrap();
            assert_eq!((here.ttl().unwrap(), listener.ttl().unwrap()), (17, 18));
            assert!(here.take_error().unwrap().is_none() && listener.take_error().unwrap().is_none());
            assert!(format!("{listener:?}").contains(&address.to_string()));
            assert!(format!("{here:?}").contains(&here.peer_addr().unwrap().to_string()));
        });
    });
}

#[test]
fn a_builder_sets_port_sharing_and_ip_version() {
    alone(|| {
        let builder = TcpListener::builder().reuse_port(true).backlog(1);
        let first = builder.bind("127.0.0.1:0").unwrap();
        let address = first.local_addr().unwrap();
        let second = builder.bind(address).unwrap();
        assert_eq!(second.local_addr().unwrap(), address);
        assert_eq!(TcpListener::bind(address).unwrap_err().kind(), ErrorKind::AddrInUse);

        // Not every machine has IPv6.
        if std::net::TcpListener::bind("[::1]:0").is_err() {
            return;
        }
        let six = TcpListener::builder().only_v6(true).bind("[::]:0").unwrap();
        let port = six.local_addr().unwrap().port();
        TcpListener::bind(("0.0.0.0", port)).unwrap();
        let both = TcpListener::builder().only_v6(false).bind("[::]:0").unwrap();
        let port = both.local_addr().unwrap().port();
        let connected = TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert_eq!(both.accept().unwrap().1.port(), connected.local_addr().unwrap().port());
        assert_eq!(TcpListener::bind(("0.0.0.0", port)).unwrap_err().kind(), ErrorKind::AddrInUse);
    });
}

#[test]
fn a_deferring_listener_accepts_a_silent_client_later() {
    const DEFER: Duration = Duration::from_millis(300);
    alone(|| {
        sinew::run(|| {
            // An attempt does not count if it took so long that the silent client was accepted first.
            one_of(5, || {
                let listener = TcpListener::builder().defer(DEFER).bind("127.0.0.1:0").unwrap();
                let address = listener.local_addr().unwrap();
                let began = Instant::now();
                let silent = TcpStream::connect(address).unwrap();
                let early = listener.accept_timeout(20 * MS);
                let mut client = TcpStream::connect(address).unwrap();
                client.write_all(b"first").unwrap();
                let (stream, from) = listener.accept().unwrap();
                if began.elapsed() >= DEFER {
                    return Err(began.elapsed());
                }
                assert_eq!(early.unwrap_err().kind(), ErrorKind::TimedOut);
                assert_eq!(from, client.local_addr().unwrap());
                stream.set_nonblocking(true).unwrap();
                assert_eq!(stream.peek(&mut [0; 8]).unwrap(), 5);
                // The silent client has not lost its place.
                let (_, from) = listener.accept().unwrap();
                assert_eq!(from, silent.local_addr().unwrap());
                Ok(())
            });
        });
    });
}

#[test]
fn a_socket_goes_to_std_and_back() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, mut there) = pair();
            here.set_read_timeout(Some(7 * MS)).unwrap();
            assert_eq!((&here).read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            let number = here.as_raw_fd();
            let mut std = std::net::TcpStream::from(here);
            assert_eq!(std.as_raw_fd(), number);
            // The kernel rounds the timeout up.
            assert!(std.read_timeout().unwrap().unwrap() >= 7 * MS);
            // The std socket blocks for that time.
            let began = Instant::now();
            assert_eq!(std.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(began.elapsed() >= 6 * MS);
            std.set_read_timeout(None).unwrap();
            there.write_all(b"a").unwrap();
            assert_eq!(std.read(&mut [0; 2]).unwrap(), 1);

            std.set_nonblocking(true).unwrap();
            let mut here = TcpStream::from(std);
            // The Sinew socket waits all the same.
            sinew::scope(|scope| {
                scope.spawn(|| there.write_all(b"b").unwrap());
                assert_eq!(here.read(&mut [0; 2]).unwrap(), 1);
            });
            here.set_nonblocking(true).unwrap();
            let mut std = std::net::TcpStream::from(here);
            assert_eq!(std.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        });
    });
}

/// The copy shares the socket in the kernel, and is blocking.
#[test]
fn a_handle_does_not_block_its_processor_after_a_copy_went_to_std() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                let (mut here, mut there) = pair();
                let copy = std::net::TcpStream::from(here.clone());
                assert_ne!(copy.as_raw_fd(), here.as_raw_fd());
                let (listener, address) = listener();
                let _copy_of_listener = OwnedFd::from(listener.clone());
                sinew::scope(|scope| {
                    scope.spawn(|| {
                        there.write_all(b"c").unwrap();
                        TcpStream::connect(address).unwrap();
                    });
                    assert_eq!(here.read(&mut [0]).unwrap(), 1);
                    listener.accept().unwrap();
                });
            });
        },
    );
}

#[test]
fn errors_are_those_of_std() {
    everywhere(|rt, setup| {
        rt.run(|| {
            let (listening, address) = listener();
            let closed = listener().1;
            for target in ["127.0.0.1", "127.0.0.1:x", ":", "", "[::1:80", "127.0.0.1:70000"] {
                assert_same_error(
                    &format!("connect {target:?}"),
                    TcpStream::connect(target),
                    std::net::TcpStream::connect(target),
                );
            }
            let none: &[SocketAddr] = &[];
            assert_same_error("connect to no address", TcpStream::connect(none), std::net::TcpStream::connect(none));
            assert_same_error("a port in use", TcpListener::bind(address), std::net::TcpListener::bind(address));
            assert_same_error("refused", TcpStream::connect(closed), std::net::TcpStream::connect(closed));
            let foreign = "192.0.2.1:0";
            assert_same_error("a foreign address", TcpListener::bind(foreign), std::net::TcpListener::bind(foreign));
            // The first of the two addresses refuses, the second one answers.
            let both = [closed, address];
            assert_eq!(TcpStream::connect(&both[..]).unwrap().peer_addr().unwrap(), address);
            assert_eq!(TcpStream::connect(closed).unwrap_err().kind(), ErrorKind::ConnectionRefused);
            assert_eq!(TcpListener::bind(address).unwrap_err().kind(), ErrorKind::AddrInUse);
            drop(listening);

            // A descriptor that is no socket, no TCP socket, or not connected.
            let file = || OwnedFd::from(File::open("/dev/null").unwrap());
            let mut ours = TcpStream::from(file());
            assert_same_error("read of a file", ours.read(&mut [0]), std::net::TcpStream::from(file()).read(&mut [0]));
            assert_same_error("address of a file", ours.local_addr(), std::net::TcpStream::from(file()).local_addr());
            let unix = || OwnedFd::from(std::os::unix::net::UnixStream::pair().unwrap().0);
            assert_same_error(
                "wrong family",
                TcpStream::from(unix()).local_addr(),
                std::net::TcpStream::from(unix()).local_addr(),
            );
            let udp = || OwnedFd::from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
            assert_same_error(
                "accept of UDP",
                TcpListener::from(udp()).accept(),
                std::net::TcpListener::from(udp()).accept(),
            );
            if setup.processors == 1 {
                let name = "invalid.:80";
                assert_same_error("an invalid name", TcpStream::connect(name), std::net::TcpStream::connect(name));
                assert!(TcpStream::connect("localhost:1").is_err());
            }
        });
    });
}

/// Returns the CPU time that the process has used.
#[allow(unsafe_code)]
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is valid for writing.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn without_descriptors_accept_fails_and_incoming_waits() {
    let outcome = in_child!(Rerun::new().limit("-n 100"), || {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        runtime.run(|| {
            let (listener, address) = listener();
            listener.accept_timeout(MS).unwrap_err();
            let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
            let fillers: Vec<_> = (0..).map_while(|_| File::open("/dev/null").ok()).collect();
            assert!(fillers.len() > 10);
            for _ in 0..3 {
                assert_eq!(listener.accept().unwrap_err().raw_os_error(), Some(libc::EMFILE));
            }
            // A copy needs a descriptor. Another handle does not.
            assert!(listener.as_fd().try_clone_to_owned().is_err());
            listener.try_clone().unwrap();
            let (began, used) = (Instant::now(), cpu_time());
            sinew::scope(|scope| {
                scope.spawn(|| {
                    sinew::sleep(300 * MS);
                    drop(fillers);
                });
                let mut accepted: Vec<_> =
                    listener.incoming().take(3).map(|stream| stream.unwrap().peer_addr().unwrap()).collect();
                assert!(began.elapsed() >= 300 * MS);
                let used = cpu_time() - used;
                assert!(used < 150 * MS, "{used:?} of CPU time");
                let mut expected: Vec<_> = clients.iter().map(|client| client.local_addr().unwrap()).collect();
                accepted.sort();
                expected.sort();
                assert_eq!(accepted, expected);
            });
        });
        println!("all accepted");
    });
    outcome.assert_success("all accepted");
}
