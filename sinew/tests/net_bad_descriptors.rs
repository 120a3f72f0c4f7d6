//! Descriptors of the wrong kind, and addresses that do not fit. The errors are those that std
//! gives.

#![allow(unsafe_code)]

mod fixture;

use fixture::{assert_same_error, everywhere};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net as std_unix;
use std::path::Path;

/// Asserts that Sinew's and std's streams refuse this descriptor with the same errors.
#[track_caller]
fn same_as_a_stream(what: &str, descriptor: impl Fn() -> OwnedFd) {
    let (mut ours, mut theirs) = (sinew::net::TcpStream::from(descriptor()), std::net::TcpStream::from(descriptor()));
    assert_same_error(&format!("read of {what}"), ours.read(&mut [0]), theirs.read(&mut [0]));
    assert_same_error(&format!("write to {what}"), ours.write(b"x"), theirs.write(b"x"));
    assert_same_error(&format!("peer of {what}"), ours.peer_addr(), theirs.peer_addr());
    let (mut ours, mut theirs) = (sinew::net::UnixStream::from(descriptor()), std_unix::UnixStream::from(descriptor()));
    assert_same_error(&format!("read of {what}"), ours.read(&mut [0]), theirs.read(&mut [0]));
    assert_same_error(&format!("write to {what}"), ours.write(b"x"), theirs.write(b"x"));
}

#[test]
fn descriptors_that_are_no_connected_stream_are_refused_as_by_std() {
    everywhere(|rt, _| {
        rt.run(|| {
            same_as_a_stream("a directory", || File::open("/").unwrap().into());
            same_as_a_stream("a file", || File::open("/proc/self/exe").unwrap().into());
            same_as_a_stream("a listener", || std::net::TcpListener::bind("127.0.0.1:0").unwrap().into());
        });
    });
}

#[test]
fn descriptors_that_do_not_listen_accept_nothing_as_in_std() {
    everywhere(|rt, _| {
        rt.run(|| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let stream = || OwnedFd::from(std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let directory = || OwnedFd::from(File::open("/").unwrap());
            let ours = |descriptor| sinew::net::TcpListener::from(descriptor).accept();
            let theirs = |descriptor| std::net::TcpListener::from(descriptor).accept();
            assert_same_error("accept of a stream", ours(stream()), theirs(stream()));
            assert_same_error("accept of a directory", ours(directory()), theirs(directory()));
        });
    });
}

/// Returns a socket whose descriptor has been closed behind its back.
fn closed() -> ManuallyDrop<OwnedFd> {
    let (socket, _) = std_unix::UnixStream::pair().unwrap();
    let socket = ManuallyDrop::new(OwnedFd::from(socket));
    // The number is far above those that other tests open meanwhile, so it stays free.
    // SAFETY: no memory is involved.
    let far = unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 900) };
    assert!(far >= 900);
    // SAFETY: both descriptors are ours, and the owner that is made of the number is never dropped.
    unsafe {
        libc::close(socket.as_raw_fd());
        libc::close(far);
        ManuallyDrop::new(OwnedFd::from_raw_fd(far))
    }
}

#[test]
fn a_closed_descriptor_is_a_bad_descriptor_as_in_std() {
    everywhere(|rt, _| {
        rt.run(|| {
            let taken = || ManuallyDrop::into_inner(closed());
            let mut ours = ManuallyDrop::new(sinew::net::UnixStream::from(taken()));
            let mut theirs = ManuallyDrop::new(std_unix::UnixStream::from(taken()));
            assert_same_error("read", ours.read(&mut [0]), theirs.read(&mut [0]));
            assert_same_error("write", ours.write(b"x"), theirs.write(b"x"));
            let ours = ManuallyDrop::new(sinew::net::TcpListener::from(taken()));
            let theirs = ManuallyDrop::new(std::net::TcpListener::from(taken()));
            assert_same_error("accept", ours.accept(), theirs.accept());
            // SAFETY: the number belongs to nothing, and is borrowed only to be refused.
            let refused =
                sinew::io::Pollable::new(unsafe { std::os::fd::BorrowedFd::borrow_raw(closed().as_raw_fd()) });
            assert_eq!(refused.err().and_then(|error| error.raw_os_error()), Some(libc::EBADF));
        });
    });
}

#[test]
fn addresses_that_do_not_fit_are_refused_as_by_std() {
    everywhere(|rt, _| {
        rt.run(|| {
            let six: SocketAddr = "[::1]:9".parse().unwrap();
            let (ours, theirs) = (sinew::net::UdpSocket::bind("127.0.0.1:0"), std::net::UdpSocket::bind("127.0.0.1:0"));
            let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
            assert_same_error("a datagram to another family", ours.send_to(b"x", six), theirs.send_to(b"x", six));
            assert_same_error("a peer of another family", ours.connect(six), theirs.connect(six));
            assert_same_error("a datagram to a port without a socket", ours.send(b"x"), theirs.send(b"x"));
            let used = theirs.local_addr().unwrap();
            let kind =
                assert_same_error("a port in use", sinew::net::UdpSocket::bind(used), std::net::UdpSocket::bind(used));
            assert_eq!(kind, io::ErrorKind::AddrInUse);

            let long = "x".repeat(200);
            let paths = ["", "/no/such/folder/socket", "/dev/null", "with a \0 in it", long.as_str()];
            for path in paths.map(Path::new) {
                let connected = sinew::net::UnixStream::connect(path);
                assert_same_error(&format!("connect to {path:?}"), connected, std_unix::UnixStream::connect(path));
            }
            for path in ["/no/such/folder/socket", "/dev/null", "with a \0 in it", long.as_str()].map(Path::new) {
                let bound = sinew::net::UnixListener::bind(path);
                assert_same_error(&format!("bind to {path:?}"), bound, std_unix::UnixListener::bind(path));
            }
        });
    });
}
