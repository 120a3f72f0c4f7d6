//! UDP over the loopback interface.

mod fixture;

use fixture::{alone, assert_same_error, everywhere};
use sinew::cancel::Cancelled;
use sinew::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::io::ErrorKind;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

fn socket() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[test]
fn an_answer_reaches_the_sender_of_a_datagram() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (server, address) = socket();
            sinew::scope(|scope| {
                for client in 0..10u8 {
                    scope.spawn(move || {
                        let (socket, _) = socket();
                        for round in 0..20 {
                            socket.send_to(&[client, round], address).unwrap();
                            let mut answer = [0; 8];
                            let (count, from) = socket.recv_from(&mut answer).unwrap();
                            assert_eq!((&answer[..count], from), (&[client, round][..], address));
                        }
                    });
                }
                let mut buffer = [0; 8];
                for _ in 0..200 {
                    let (count, from) = server.recv_from(&mut buffer).unwrap();
                    server.send_to(&buffer[..count], from).unwrap();
                }
            });
        });
    });
}

/// A datagram that is shorter than the buffer says nothing about the next one.
#[test]
fn every_datagram_of_a_burst_is_received_once() {
    const BURST: usize = 60;
    everywhere(|rt, _| {
        rt.run(|| {
            let (receiver, address) = socket();
            let (sender, _) = socket();
            let received = Mutex::new(Vec::new());
            sinew::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        let mut buffer = [0; 64];
                        loop {
                            let count = receiver.recv(&mut buffer).unwrap();
                            if count == 0 {
                                return;
                            }
                            received.lock().unwrap().push(buffer[..count].to_vec());
                        }
                    });
                }
                for burst in 0..3 {
                    for index in 0..BURST {
                        sender.send_to(&[burst, index as u8, 7], address).unwrap();
                    }
                    let expected = BURST * (burst as usize + 1);
                    fixture::wait_until(|| received.lock().unwrap().len() == expected);
                }
                (0..2).for_each(|_| assert_eq!(sender.send_to(&[], address).unwrap(), 0));
            });
            let mut received = received.into_inner().unwrap();
            received.sort();
            let sent: Vec<_> =
                (0..3).flat_map(|burst| (0..BURST).map(move |index| vec![burst, index as u8, 7])).collect();
            assert_eq!(received, sent);
        });
    });
}

#[test]
fn a_connected_socket_receives_from_its_peer_only() {
    everywhere(|rt, _| {
        rt.run(|| {
            let ((here, at_here), (there, at_there), (other, _)) = (socket(), socket(), socket());
            assert_eq!(here.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
            here.connect(at_there).unwrap();
            assert_eq!(here.peer_addr().unwrap(), at_there);
            other.send_to(b"other", at_here).unwrap();
            there.send_to(b"peer", at_here).unwrap();
            let mut buffer = [0; 8];
            assert_eq!(here.recv(&mut buffer).unwrap(), 4);
            assert_eq!(here.send(b"answer").unwrap(), 6);
            // The part that does not fit is lost.
            assert_eq!(there.recv_from(&mut buffer[..3]).unwrap(), (3, at_here));
            assert_eq!(&buffer[..3], b"ans");
            there.set_read_timeout(Some(MS)).unwrap();
            assert_eq!(there.recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        });
    });
}

#[test]
fn a_peeked_datagram_stays_in_the_socket() {
    everywhere(|rt, _| {
        rt.run(|| {
            let ((here, at_here), (there, at_there)) = (socket(), socket());
            sinew::scope(|scope| {
                scope.spawn(|| there.send_to(b"twice", at_here).unwrap());
                let mut buffer = [0; 8];
                assert_eq!(here.peek_from(&mut buffer).unwrap(), (5, at_there));
                assert_eq!(here.peek(&mut buffer).unwrap(), 5);
                assert_eq!(here.recv(&mut buffer).unwrap(), 5);
                assert_eq!(&buffer[..5], b"twice");
            });
        });
    });
}

#[test]
fn limits_end_a_wait() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (socket, address) = socket();
            let mut buffer = [0; 8];
            let began = Instant::now();
            socket.set_read_timeout(Some(2 * MS)).unwrap();
            assert_eq!(socket.recv_from(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert_eq!(socket.peek(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert!(began.elapsed() >= 4 * MS);
            assert_eq!(socket.recv_deadline(&mut buffer, began).unwrap_err().kind(), ErrorKind::TimedOut);
            assert_eq!(socket.recv_from_deadline(&mut buffer, began).unwrap_err().kind(), ErrorKind::TimedOut);
            socket.send_to(b"x", address).unwrap();
            assert_eq!(socket.recv_from_deadline(&mut buffer, began).unwrap(), (1, address));
            socket.set_nonblocking(true).unwrap();
            assert_eq!(socket.recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
            socket.set_nonblocking(false).unwrap();
            socket.set_read_timeout(None).unwrap();
            sinew::scope(|scope| {
                let receiver = scope.spawn(|| socket.recv(&mut [0]).unwrap_err());
                receiver.fibre().cancel();
                let error = receiver.join().unwrap();
                assert_eq!(error.get_ref().unwrap().downcast_ref(), Some(&Cancelled::Requested));
            });
        });
    });
}

#[test]
fn kernel_threads_and_fibres_share_a_socket() {
    everywhere(|rt, _| {
        let (receiver, address) = socket();
        let on_fibre = receiver.try_clone().unwrap();
        let fibre = rt.spawn(move || on_fibre.recv(&mut [0; 8]).unwrap());
        let on_thread = thread::spawn(move || receiver.recv(&mut [0; 8]).unwrap());
        let (sender, _) = socket();
        sender.send_to(b"one", address).unwrap();
        sender.send_to(b"two", address).unwrap();
        assert_eq!((fibre.join().unwrap(), on_thread.join().unwrap()), (3, 3));
    });
}

/// Returns whether the machine has IPv6.
fn has_ipv6() -> bool {
    std::net::UdpSocket::bind("[::1]:0").is_ok()
}

/// Returns whether the machine lets a socket join a group on the loopback interface and send to it.
fn has_multicast(group: Ipv4Addr) -> bool {
    let joins = |socket: &std::net::UdpSocket| socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).is_ok();
    let sends =
        |port| std::net::UdpSocket::bind("127.0.0.1:0").is_ok_and(|from| from.send_to(b"x", (group, port)).is_ok());
    std::net::UdpSocket::bind((group, 0)).is_ok_and(|socket| {
        let hears = |socket: &std::net::UdpSocket| {
            socket.set_read_timeout(Some(100 * MS)).unwrap();
            socket.recv(&mut [0; 8]).is_ok()
        };
        joins(&socket) && sends(socket.local_addr().unwrap().port()) && hears(&socket)
    })
}

#[test]
fn socket_options_are_kept() {
    alone(|| {
        let (socket, _) = socket();
        for on in [true, false] {
            socket.set_broadcast(on).unwrap();
            socket.set_multicast_loop_v4(on).unwrap();
            assert_eq!((socket.broadcast().unwrap(), socket.multicast_loop_v4().unwrap()), (on, on));
        }
        socket.set_ttl(9).unwrap();
        socket.set_multicast_ttl_v4(3).unwrap();
        assert_eq!((socket.ttl().unwrap(), socket.multicast_ttl_v4().unwrap()), (9, 3));
        socket.set_write_timeout(Some(MS)).unwrap();
        assert_eq!((socket.write_timeout().unwrap(), socket.read_timeout().unwrap()), (Some(MS), None));
        assert!(socket.take_error().unwrap().is_none());
        if !has_ipv6() {
            return;
        }
        let six = UdpSocket::bind("[::1]:0").unwrap();
        for on in [true, false] {
            six.set_multicast_loop_v6(on).unwrap();
            assert_eq!(six.multicast_loop_v6().unwrap(), on);
        }
    });
}

#[test]
fn a_group_is_received_after_joining_and_not_after_leaving() {
    let group = Ipv4Addr::new(239, 77, 12, 5);
    if !has_multicast(group) {
        return;
    }
    everywhere(|rt, _| {
        rt.run(|| {
            let receiver = UdpSocket::bind((group, 0)).unwrap();
            let port = receiver.local_addr().unwrap().port();
            receiver.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
            let again = receiver.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap_err();
            assert_eq!(again.kind(), ErrorKind::AddrInUse);
            // A socket bound to a loopback address sends from there.
            let (sender, from) = socket();
            sender.send_to(b"all", (group, port)).unwrap();
            receiver.set_read_timeout(Some(1000 * MS)).unwrap();
            assert_eq!(receiver.recv_from(&mut [0; 8]).unwrap(), (3, from));
            receiver.leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
            sender.send_to(b"all", (group, port)).unwrap();
            receiver.set_read_timeout(Some(2 * MS)).unwrap();
            assert_eq!(receiver.recv_from(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);

            if !has_ipv6() {
                return;
            }
            let six = UdpSocket::bind("[::]:0").unwrap();
            let group: Ipv6Addr = "ff01::7712".parse().unwrap();
            six.join_multicast_v6(&group, 1).unwrap();
            six.leave_multicast_v6(&group, 1).unwrap();
            assert_eq!(six.leave_multicast_v6(&group, 1).unwrap_err().kind(), ErrorKind::AddrNotAvailable);
        });
    });
}

#[test]
fn errors_are_those_of_std() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (ours, address) = socket();
            let theirs = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let closed = socket().1;
            assert_same_error("a port in use", UdpSocket::bind(address), std::net::UdpSocket::bind(address));
            assert_same_error("send of an unconnected socket", ours.send(b"x"), theirs.send(b"x"));
            let none: &[SocketAddr] = &[];
            assert_same_error("no address", ours.send_to(b"x", none), theirs.send_to(b"x", none));
            let large = vec![0; 70_000];
            assert_same_error("too large", ours.send_to(&large, address), theirs.send_to(&large, address));
            assert_same_error("wrong family", ours.send_to(b"x", "[::1]:9"), theirs.send_to(b"x", "[::1]:9"));
            assert_same_error(
                "broadcast",
                ours.send_to(b"x", "255.255.255.255:9"),
                theirs.send_to(b"x", "255.255.255.255:9"),
            );
            ours.connect(closed).unwrap();
            theirs.connect(closed).unwrap();
            ours.send(b"x").unwrap();
            theirs.send(b"x").unwrap();
            assert_same_error("refused", ours.recv(&mut [0]), theirs.recv(&mut [0]));
        });
    });
}

#[test]
fn a_socket_goes_to_std_and_back() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (socket, address) = socket();
            socket.set_read_timeout(Some(3 * MS)).unwrap();
            let std = std::net::UdpSocket::from(socket);
            assert_eq!(std.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            let socket = UdpSocket::from(std);
            assert!(socket.read_timeout().unwrap() >= Some(3 * MS));
            assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
            assert_eq!(socket.local_addr().unwrap(), address);
        });
    });
}
