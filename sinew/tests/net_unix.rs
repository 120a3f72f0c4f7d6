//! Unix sockets.

mod fixture;

use fixture::loopback::echo;
use fixture::{Scratch, alone, everywhere, let_others_wait, wait_until, wherever};
use sinew::net::{Shutdown, UnixDatagram, UnixListener, UnixStream};
use std::io::{ErrorKind, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

fn name(name: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(format!("sinew-{}-{name}", std::process::id())).unwrap()
}

#[test]
fn sessions_get_back_the_bytes_that_they_send() {
    everywhere(|rt, _| {
        rt.run(|| {
            let scratch = Scratch::new();
            let path = scratch.at("socket");
            let listener = UnixListener::bind(&path).unwrap();
            assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(path.as_path()));
            sinew::scope(|scope| {
                for client in 0..10usize {
                    let path = &path;
                    scope.spawn(move || {
                        let stream = UnixStream::connect(path).unwrap();
                        assert_eq!(stream.peer_addr().unwrap().as_pathname(), Some(path.as_path()));
                        let sent: Vec<_> = (0..client * 50_000).map(|n| (n / 7 + client) as u8).collect();
                        sinew::scope(|halves| {
                            halves.spawn(|| {
                                (&stream).write_all(&sent).unwrap();
                                stream.shutdown(Shutdown::Write).unwrap();
                            });
                            let mut received = Vec::new();
                            (&stream).read_to_end(&mut received).unwrap();
                            assert!(received == sent, "{} of {}", received.len(), sent.len());
                        });
                    });
                }
                for stream in (&listener).into_iter().take(10) {
                    scope.spawn(|| echo(stream.unwrap()).unwrap());
                }
            });
            assert_eq!(UnixListener::bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
            drop(listener);
            assert_eq!(UnixStream::connect(&path).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        });
    });
}

#[test]
fn an_address_is_a_path_a_name_or_unnamed() {
    alone(|| {
        let address = name("addresses");
        let listener = UnixListener::bind_addr(&address).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_abstract_name(), address.as_abstract_name());
        let stream = UnixStream::connect_addr(&address).unwrap();
        assert_eq!(stream.peer_addr().unwrap().as_abstract_name(), address.as_abstract_name());
        let (accepted, from) = listener.accept().unwrap();
        assert!(from.is_unnamed() && stream.local_addr().unwrap().is_unnamed());
        assert_eq!(accepted.local_addr().unwrap().as_abstract_name(), address.as_abstract_name());
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(one.peer_addr().unwrap().is_unnamed());
        // The kernel chooses a name.
        let chosen = UnixDatagram::bind("").unwrap();
        assert_eq!(chosen.local_addr().unwrap().as_abstract_name().unwrap().len(), 5);
        assert!(UnixDatagram::unbound().unwrap().local_addr().unwrap().is_unnamed());
        let longest = "/".repeat(107);
        assert_eq!(UnixStream::connect(&longest).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        for bad in ["/".repeat(108), "a\0b".to_owned()] {
            assert_eq!(UnixStream::connect(&bad).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(UnixStream::connect("/no such path").unwrap_err().kind(), ErrorKind::NotFound);
        let tcp = OwnedFd::from(std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        assert_eq!(UnixListener::from(tcp).local_addr().unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_pair_talks_and_times_out() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (mut one, other) = UnixStream::pair().unwrap();
            sinew::scope(|scope| {
                scope.spawn(|| echo(other).unwrap());
                for round in 0..100u8 {
                    one.write_all(&[round; 3]).unwrap();
                    let (mut first, mut second) = ([0; 1], [0; 2]);
                    let count = one.read_vectored(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)]);
                    assert_eq!((count.unwrap(), first, second), (3, [round], [round; 2]));
                }
                one.set_read_timeout(Some(2 * MS)).unwrap();
                assert_eq!(one.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
                let error = one.read_deadline(&mut [0], Instant::now()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                one.set_read_timeout(None).unwrap();
                one.shutdown(Shutdown::Write).unwrap();
                assert_eq!(one.read(&mut [0]).unwrap(), 0);
            });
            one.set_read_timeout(Some(2 * MS)).unwrap();
            assert_eq!(one.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
            let std = std::os::unix::net::UnixStream::from(one);
            assert!(std.read_timeout().unwrap() >= Some(2 * MS));
        });
    });
}

#[test]
fn descriptors_can_be_passed_over_a_socket() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, there) = UnixStream::pair().unwrap();
            let pipes: Vec<_> = (0..3).map(|_| std::io::pipe().unwrap()).collect();
            sinew::scope(|scope| {
                let receiver = scope.spawn(|| {
                    let (count, received) = there.recv_with_fds(&mut [0; 16], 10).unwrap();
                    assert_eq!((count, received.len()), (4, 3));
                    for (index, writer) in received.into_iter().enumerate() {
                        assert!(is_closed_on_exec(&writer));
                        std::fs::File::from(writer).write_all(&[index as u8]).unwrap();
                    }
                });
                let writers: Vec<_> = pipes.iter().map(|(_, writer)| writer.as_fd()).collect();
                assert_eq!(here.send_with_fds(b"pipe", &writers).unwrap(), 4);
                receiver.join().unwrap();
            });
            for (index, (mut reader, writer)) in pipes.into_iter().enumerate() {
                drop(writer);
                let mut received = Vec::new();
                reader.read_to_end(&mut received).unwrap();
                assert_eq!(received, [index as u8]);
            }
        });
    });
}

/// The passed descriptor is in non-blocking mode. That does not make the receiver's handle
/// non-blocking.
#[test]
fn a_socket_that_was_passed_on_waits_like_any_other() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, there) = UnixStream::pair().unwrap();
            let (mut near, far) = UnixStream::pair().unwrap();
            here.send_with_fds(b"x", &[far.as_fd()]).unwrap();
            drop(far);
            let mut far = UnixStream::from(there.recv_with_fds(&mut [0], 1).unwrap().1.remove(0));
            sinew::scope(|scope| {
                let reader = scope.spawn(move || far.read(&mut [0]).unwrap());
                let_others_wait();
                near.write_all(b"y").unwrap();
                assert_eq!(reader.join().unwrap(), 1);
            });
        });
    });
}

fn is_closed_on_exec(descriptor: &OwnedFd) -> bool {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd())).unwrap();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
    u32::from_str_radix(flags.trim(), 8).unwrap() & libc::O_CLOEXEC as u32 != 0
}

#[test]
fn received_descriptors_beyond_the_maximum_are_closed() {
    alone(|| {
        for datagram in [false, true] {
            let (reader, writer) = std::io::pipe().unwrap();
            let fds = [writer.as_fd(), writer.as_fd(), writer.as_fd()];
            for max in 0..3 {
                let received = if datagram {
                    let (here, there) = UnixDatagram::pair().unwrap();
                    assert_eq!(here.send_with_fds(&[], &fds).unwrap(), 0);
                    there.recv_with_fds(&mut [0; 4], max).unwrap()
                } else {
                    let (here, there) = UnixStream::pair().unwrap();
                    assert_eq!(here.send_with_fds(&[1], &fds).unwrap(), 1);
                    let received = there.recv_with_fds(&mut [0; 4], max).unwrap();
                    assert_eq!(here.send_with_fds(&[1], &[]).unwrap(), 1);
                    assert!(there.recv_with_fds(&mut [0; 4], 5).unwrap().1.is_empty());
                    received
                };
                assert_eq!((received.0, received.1.len()), (usize::from(!datagram), max));
            }
            drop(writer);
            // If one were left open, this read would never return.
            assert_eq!((&reader).read(&mut [0]).unwrap(), 0);
        }
        let (here, _there) = UnixStream::pair().unwrap();
        let many = vec![here.as_fd(); 254];
        assert_eq!(here.send_with_fds(b"x", &many).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(here.send_with_fds(b"", &many[..1]).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(here.send_with_fds(b"x", &many[..253]).unwrap(), 1);
    });
}

/// The kernel ends a read where the descriptors change. So a short read is not the last one.
#[test]
fn bytes_after_passed_descriptors_are_read() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                let (here, mut there) = UnixStream::pair().unwrap();
                let begun = &AtomicBool::new(false);
                sinew::scope(|scope| {
                    let reader = scope.spawn(move || {
                        begun.store(true, Ordering::Relaxed);
                        let mut buffer = [0; 64];
                        let mut received = Vec::new();
                        while let count @ 1.. = there.read(&mut buffer).unwrap() {
                            received.extend_from_slice(&buffer[..count]);
                            if received.len() == 8 {
                                break;
                            }
                        }
                        received
                    });
                    // There is one processor, so the reader waits by now. All messages come at once.
                    wait_until(|| begun.load(Ordering::Relaxed));
                    for _ in 0..4 {
                        here.send_with_fds(b"ab", &[here.as_fd()]).unwrap();
                    }
                    assert_eq!(reader.join().unwrap(), b"abababab");
                });
            });
        },
    );
}

#[test]
fn datagrams_keep_their_bounds_and_their_senders() {
    everywhere(|rt, setup| {
        rt.run(|| {
            let at =
                |end: &str| name(&format!("{end}-{}-{:?}-{}", setup.processors, setup.scheduling, setup.migrating));
            let receiver = UnixDatagram::bind_addr(&at("receiver")).unwrap();
            let sender = UnixDatagram::bind_addr(&at("sender")).unwrap();
            sinew::scope(|scope| {
                scope.spawn(|| {
                    let address = receiver.local_addr().unwrap();
                    // More datagrams than the kernel queues from unconnected senders.
                    for index in 0..100u8 {
                        let sent = vec![index; index as usize + 1];
                        assert_eq!(sender.send_to_addr(&sent, &address).unwrap(), sent.len());
                    }
                    sender.connect_addr(&address).unwrap();
                    (0..100).for_each(|index| assert_eq!(sender.send(&[index]).unwrap(), 1));
                });
                let mut buffer = [0; 128];
                for index in 0..100u8 {
                    let (count, from) = receiver.recv_from(&mut buffer).unwrap();
                    assert_eq!(buffer[..count], vec![index; index as usize + 1]);
                    assert_eq!(from.as_abstract_name(), at("sender").as_abstract_name());
                }
                for index in 0..100u8 {
                    assert_eq!((receiver.recv(&mut buffer).unwrap(), buffer[0]), (1, index));
                }
            });
            assert_eq!(sender.peer_addr().unwrap().as_abstract_name(), at("receiver").as_abstract_name());
            let mut buffer = [0; 16];
            let (one, other) = UnixDatagram::pair().unwrap();
            other.set_read_timeout(Some(MS)).unwrap();
            assert_eq!(other.recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
            one.send(b"pair").unwrap();
            let (count, from) = other.recv_from(&mut buffer).unwrap();
            assert!(count == 4 && from.is_unnamed());
            one.shutdown(Shutdown::Write).unwrap();
            assert_eq!(one.send(b"more").unwrap_err().kind(), ErrorKind::BrokenPipe);
        });
    });
}

/// Another socket fills the queue. The kernel does not tell the waiting sender that a datagram was
/// taken.
#[test]
fn a_sender_waits_for_a_full_queue_until_its_timeout() {
    everywhere(|rt, _| {
        rt.run(|| {
            let scratch = Scratch::new();
            let path = scratch.at("socket");
            let receiver = UnixDatagram::bind(&path).unwrap();
            let (filler, sender) = (UnixDatagram::unbound().unwrap(), UnixDatagram::unbound().unwrap());
            filler.set_nonblocking(true).unwrap();
            let filled = (0..).take_while(|_| filler.send_to(b"filler", &path).is_ok()).count();
            assert!(filled > 0);
            assert_eq!(filler.send_to(b"x", &path).unwrap_err().kind(), ErrorKind::WouldBlock);
            sender.set_write_timeout(Some(2 * MS)).unwrap();
            let began = Instant::now();
            assert_eq!(sender.send_to(b"x", &path).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(began.elapsed() >= 2 * MS);
            sender.set_write_timeout(None).unwrap();
            sinew::scope(|scope| {
                let sent = scope.spawn(|| sender.send_to(b"last", &path).unwrap());
                let_others_wait();
                let mut buffer = [0; 16];
                (0..filled).for_each(|_| assert_eq!(receiver.recv(&mut buffer).unwrap(), 6));
                assert_eq!(receiver.recv(&mut buffer).unwrap(), 4);
                assert_eq!(sent.join().unwrap(), 4);
            });
        });
    });
}

#[test]
#[allow(unsafe_code)]
fn connecting_waits_while_the_backlog_is_full() {
    everywhere(|rt, _| {
        rt.run(|| {
            let scratch = Scratch::new();
            let path = scratch.at("socket");
            let listener = UnixListener::bind(&path).unwrap();
            // SAFETY: no memory is involved.
            assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
            let address = SocketAddr::from_pathname(&path).unwrap();
            let first = UnixStream::connect(&path).unwrap();
            let error = UnixStream::connect_deadline(&address, Instant::now() + 2 * MS).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            sinew::scope(|scope| {
                let second = scope.spawn(|| UnixStream::connect(&path).unwrap());
                let_others_wait();
                listener.accept().unwrap();
                listener.accept_timeout(Duration::MAX).unwrap();
                drop((first, second.join().unwrap()));
            });
            assert_eq!(listener.accept_timeout(MS).unwrap_err().kind(), ErrorKind::TimedOut);
        });
    });
}

#[test]
fn kernel_threads_use_the_same_sockets() {
    everywhere(|rt, _| {
        let (one, other) = UnixStream::pair().unwrap();
        let server = rt.spawn(move || echo(other).unwrap());
        let sent = vec![7; 400_000];
        let writer = {
            let (mut one, sent) = (one.try_clone().unwrap(), sent.clone());
            thread::spawn(move || {
                one.write_all(&sent).unwrap();
                one.shutdown(Shutdown::Write).unwrap();
            })
        };
        let mut received = Vec::new();
        (&one).read_to_end(&mut received).unwrap();
        assert!(received == sent);
        writer.join().unwrap();
        server.join().unwrap();
    });
}

#[test]
fn deadlines_of_datagrams_count_whatever_the_timeout() {
    everywhere(|rt, _| {
        rt.run(|| {
            let scratch = Scratch::new();
            let receiver = UnixDatagram::bind(scratch.at("socket")).unwrap();
            let address = SocketAddr::from_pathname(scratch.at("socket")).unwrap();
            receiver.set_read_timeout(Some(Duration::from_secs(1000))).unwrap();
            let soon = || Instant::now() + 2 * MS;
            let mut buffer = [0; 16];
            let (began, deadline) = (Instant::now(), soon());
            assert_eq!(receiver.recv_deadline(&mut buffer, deadline).unwrap_err().kind(), ErrorKind::TimedOut);
            assert!(Instant::now() >= deadline && began < deadline);
            assert_eq!(receiver.recv_from_deadline(&mut buffer, soon()).unwrap_err().kind(), ErrorKind::TimedOut);
            let sender = UnixDatagram::unbound().unwrap();
            sender.set_write_timeout(Some(Duration::from_secs(1000))).unwrap();
            let late = Instant::now() + Duration::from_secs(1000);
            while let Ok(count) = sender.send_to_addr_deadline(b"full", &address, soon()) {
                assert_eq!(count, 4);
            }
            let error = sender.send_to_addr_deadline(b"full", &address, soon()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            sender.connect_addr(&address).unwrap();
            assert_eq!(sender.send_deadline(b"full", soon()).unwrap_err().kind(), ErrorKind::TimedOut);
            assert_eq!(receiver.recv_deadline(&mut buffer, late).unwrap(), 4);
            assert_eq!(sender.send_deadline(b"last", late).unwrap(), 4);
            let (count, from) = receiver.recv_from_deadline(&mut buffer, late).unwrap();
            assert!(count == 4 && from.is_unnamed());
        });
    });
}

/// No zero ends such a path, and the kernel says that the address is longer than its type.
#[test]
fn a_sender_whose_path_fills_its_address_is_named() {
    alone(|| {
        let scratch = Scratch::new();
        let receiving = scratch.at("receiving");
        let receiver = UnixDatagram::bind(&receiving).unwrap();
        let sending = scratch.at(&"x".repeat(107 - scratch.path().as_os_str().len()));
        let sender = std::os::unix::net::UnixDatagram::unbound().unwrap();
        rustix::net::bind(&sender, &rustix::net::SocketAddrUnix::new(&sending).unwrap()).unwrap();
        sender.send_to(b"hello", &receiving).unwrap();
        let mut buffer = [0; 16];
        // std's addresses have no room for the last byte.
        match receiver.recv_from(&mut buffer) {
            Ok((count, from)) => assert_eq!((count, from.as_pathname()), (5, Some(&*sending))),
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidInput),
        }
    });
}
