//! Descriptors that are not what they are taken for, and addresses that do not fit: the
//! errors are those that std gives for the same.

#![allow(unsafe_code)]

#[path = "fixture/mod.rs"]
mod fixture;

use fixture::everywhere;
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net as std_unix;
use std::path::Path;

/// Both fail, in the same way.
#[track_caller]
fn same<T, U>(what: &str, ours: io::Result<T>, theirs: io::Result<U>) -> io::ErrorKind {
    let (Err(ours), Err(theirs)) = (ours, theirs) else { panic!("{what}: no error") };
    let described = |error: &io::Error| (error.kind(), error.raw_os_error(), error.to_string());
    assert_eq!(described(&ours), described(&theirs), "{what}");
    ours.kind()
}

/// What a stream of each kind says to a descriptor that is none.
#[track_caller]
fn same_as_a_stream(what: &str, descriptor: impl Fn() -> OwnedFd) {
    let (mut ours, mut theirs) = (sinew::net::TcpStream::from(descriptor()), std::net::TcpStream::from(descriptor()));
    same(&format!("read of {what}"), ours.read(&mut [0]), theirs.read(&mut [0]));
    same(&format!("write to {what}"), ours.write(b"x"), theirs.write(b"x"));
    same(&format!("peer of {what}"), ours.peer_addr(), theirs.peer_addr());
    let (mut ours, mut theirs) = (sinew::net::UnixStream::from(descriptor()), std_unix::UnixStream::from(descriptor()));
    same(&format!("read of {what}"), ours.read(&mut [0]), theirs.read(&mut [0]));
    same(&format!("write to {what}"), ours.write(b"x"), theirs.write(b"x"));
}

#[test]
fn what_is_no_connected_stream_is_refused_as_std_does() {
    everywhere(|rt, _| {
        rt.run(|| {
            same_as_a_stream("a directory", || File::open("/").unwrap().into());
            same_as_a_stream("a file", || File::open("/proc/self/exe").unwrap().into());
            same_as_a_stream("a listener", || std::net::TcpListener::bind("127.0.0.1:0").unwrap().into());
        });
    });
}

#[test]
fn what_does_not_listen_accepts_nothing_as_with_std() {
    everywhere(|rt, _| {
        rt.run(|| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let stream = || OwnedFd::from(std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let directory = || OwnedFd::from(File::open("/").unwrap());
            let ours = |descriptor| sinew::net::TcpListener::from(descriptor).accept();
            let theirs = |descriptor| std::net::TcpListener::from(descriptor).accept();
            same("accept of a stream", ours(stream()), theirs(stream()));
            same("accept of a directory", ours(directory()), theirs(directory()));
        });
    });
}

/// A socket whose descriptor somebody else has closed.
fn closed() -> ManuallyDrop<OwnedFd> {
    let (socket, _) = std_unix::UnixStream::pair().unwrap();
    let socket = ManuallyDrop::new(OwnedFd::from(socket));
    // Far above those that others open meanwhile, so that the number stays free.
    // SAFETY: no memory is involved.
    let far = unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 900) };
    assert!(far >= 900);
    // SAFETY: both are ours; what is made of the number is never dropped.
    unsafe {
        libc::close(socket.as_raw_fd());
        libc::close(far);
        ManuallyDrop::new(OwnedFd::from_raw_fd(far))
    }
}

#[test]
fn a_descriptor_that_was_closed_is_bad_as_with_std() {
    everywhere(|rt, _| {
        rt.run(|| {
            let taken = || ManuallyDrop::into_inner(closed());
            let mut ours = ManuallyDrop::new(sinew::net::UnixStream::from(taken()));
            let mut theirs = ManuallyDrop::new(std_unix::UnixStream::from(taken()));
            same("read", ours.read(&mut [0]), theirs.read(&mut [0]));
            same("write", ours.write(b"x"), theirs.write(b"x"));
            let ours = ManuallyDrop::new(sinew::net::TcpListener::from(taken()));
            let theirs = ManuallyDrop::new(std::net::TcpListener::from(taken()));
            same("accept", ours.accept(), theirs.accept());
            // SAFETY: the number is that of nobody, and is borrowed for a refusal only.
            let refused =
                sinew::io::Pollable::new(unsafe { std::os::fd::BorrowedFd::borrow_raw(closed().as_raw_fd()) });
            assert_eq!(refused.err().and_then(|error| error.raw_os_error()), Some(libc::EBADF));
        });
    });
}

#[test]
fn addresses_that_do_not_fit_are_refused_as_std_does() {
    everywhere(|rt, _| {
        rt.run(|| {
            let six: SocketAddr = "[::1]:9".parse().unwrap();
            let (ours, theirs) = (sinew::net::UdpSocket::bind("127.0.0.1:0"), std::net::UdpSocket::bind("127.0.0.1:0"));
            let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
            same("a datagram to another family", ours.send_to(b"x", six), theirs.send_to(b"x", six));
            same("a peer of another family", ours.connect(six), theirs.connect(six));
            same("a datagram to nobody", ours.send(b"x"), theirs.send(b"x"));
            let used = theirs.local_addr().unwrap();
            let kind = same("a port in use", sinew::net::UdpSocket::bind(used), std::net::UdpSocket::bind(used));
            assert_eq!(kind, io::ErrorKind::AddrInUse);

            let long = "x".repeat(200);
            let paths = ["", "/no/such/folder/socket", "/dev/null", "with a \0 in it", long.as_str()];
            for path in paths.map(Path::new) {
                let connected = sinew::net::UnixStream::connect(path);
                same(&format!("connect to {path:?}"), connected, std_unix::UnixStream::connect(path));
            }
            for path in ["/no/such/folder/socket", "/dev/null", "with a \0 in it", long.as_str()].map(Path::new) {
                let bound = sinew::net::UnixListener::bind(path);
                same(&format!("bind to {path:?}"), bound, std_unix::UnixListener::bind(path));
            }
        });
    });
}
