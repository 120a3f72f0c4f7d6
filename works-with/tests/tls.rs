//! rustls over Sinew's sockets: `examples/tls_echo.rs` and its clients.

#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

// The test does not use its `main`.
#[allow(dead_code)]
#[path = "../examples/tls_echo.rs"]
mod tls_echo;

use fixture::everywhere;
use fixture::loopback::{SIZES, bytes, listener, narrow_pair, pair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use sinew::net::{Shutdown, SocketAddr, TcpStream};
use sinew::sync::{Barrier, Mutex};
use sinew::{FibreBuilder, Runtime, Scope, ScopedJoinHandle};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls_echo::{STACK, identity, session};

type Client = StreamOwned<ClientConnection, TcpStream>;

/// Spawns a fibre whose stack is large enough for either side.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    f: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    FibreBuilder::new().stack_size(STACK).spawn_scoped(scope, f).unwrap()
}

/// Runs `f` in such a fibre.
fn run(rt: &Runtime, f: impl FnOnce() + Send) {
    rt.run(|| sinew::scope(|scope| drop(spawn(scope, f))));
}

/// A server's configuration, and that of clients that trust it.
struct Parties {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl Parties {
    fn new() -> Parties {
        let (certificate, server) = identity().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Parties { server, client: Arc::new(client) }
    }

    fn connection(&self) -> ClientConnection {
        let name = ServerName::try_from("localhost").unwrap();
        ClientConnection::new(Arc::clone(&self.client), name).unwrap()
    }

    fn connect(&self, address: SocketAddr) -> Client {
        StreamOwned::new(self.connection(), TcpStream::connect(address).unwrap())
    }

    /// Runs `f` with the client's end of a session, whose other end is in another fibre. Returns
    /// how both ended.
    fn with_session<T>(
        &self,
        (here, there): (TcpStream, TcpStream),
        f: impl FnOnce(Client) -> T,
    ) -> (T, io::Result<()>) {
        sinew::scope(|scope| {
            let session = spawn(scope, || session(there, Arc::clone(&self.server)));
            (f(StreamOwned::new(self.connection(), here)), session.join().unwrap())
        })
    }
}

/// Says goodbye, and waits for the answer.
fn part(tls: &mut Client) {
    tls.conn.send_close_notify();
    tls.flush().unwrap();
    assert_eq!(tls.read(&mut [0]).unwrap(), 0, "the other end did not say goodbye");
}

fn exchange(tls: &mut Client, sent: &[u8]) {
    tls.write_all(sent).unwrap();
    let mut received = vec![0; sent.len()];
    tls.read_exact(&mut received).unwrap();
    assert!(received == sent, "{} bytes came back changed", sent.len());
}

#[test]
fn two_hundred_sessions_at_once_get_back_the_bytes_that_they_send() {
    let parties = Parties::new();
    everywhere(|rt, setup| {
        // The cost of handshakes in a debug build sets the limit.
        let clients = if setup.migrating { 40 } else { 200 };
        run(rt, || {
            let (listener, address) = listener();
            let all_came = Barrier::new(clients);
            sinew::scope(|scope| {
                for client in 0..clients {
                    let (parties, all_came) = (&parties, &all_came);
                    spawn(scope, move || {
                        let mut tls = parties.connect(address);
                        exchange(&mut tls, &bytes(client as u64, 10));
                        all_came.wait();
                        exchange(&mut tls, &bytes(client as u64 + 1000, SIZES[client % SIZES.len()]));
                        part(&mut tls);
                    });
                }
                for stream in listener.incoming().take(clients) {
                    let config = Arc::clone(&parties.server);
                    spawn(scope, move || session(stream.unwrap(), config).unwrap());
                }
            });
        });
    });
}

/// Sends and receives at the same time over one connection. One fibre writes to the socket, the
/// other reads from it, and each one locks the library for a moment.
fn cross(connection: ClientConnection, stream: &TcpStream, sent: &[u8]) {
    let connection = Mutex::new(connection);
    let (mut writer, mut reader) = (stream, stream);
    sinew::scope(|scope| {
        spawn(scope, || {
            let mut rest = sent;
            while !rest.is_empty() || connection.lock().unwrap().is_handshaking() {
                let mut records = Vec::new();
                let mut locked = connection.lock().unwrap();
                if !locked.is_handshaking() {
                    let count = locked.writer().write(rest).unwrap();
                    rest = &rest[count..];
                }
                while locked.wants_write() {
                    locked.write_tls(&mut records).unwrap();
                }
                drop(locked);
                writer.write_all(&records).unwrap();
                sinew::yield_now();
            }
        });
        let (mut received, mut records) = (Vec::new(), vec![0; 20_000]);
        while received.len() < sent.len() {
            let count = reader.read(&mut records).unwrap();
            assert_ne!(count, 0, "the stream ended after {} bytes", received.len());
            let (mut rest, mut locked) = (&records[..count], connection.lock().unwrap());
            while !rest.is_empty() {
                locked.read_tls(&mut rest).unwrap();
                locked.process_new_packets().unwrap();
                match locked.reader().read_to_end(&mut received) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    end => panic!("the session ended: {end:?}"),
                }
            }
        }
        assert!(received == sent, "bytes came back changed");
    });
}

#[test]
fn more_bytes_than_the_sockets_hold_cross_in_both_directions() {
    let parties = Parties::new();
    let sent = bytes(7, 1_500_000);
    everywhere(|rt, _| {
        run(rt, || {
            let ((), end) = parties.with_session(narrow_pair(), |tls| {
                cross(tls.conn, &tls.sock, &sent);
                tls.sock.shutdown(Shutdown::Both).unwrap();
            });
            assert_eq!(end.unwrap_err().kind(), ErrorKind::UnexpectedEof, "there was no goodbye");
        });
    });
}

#[test]
fn a_peer_that_vanishes_is_an_error_on_either_side() {
    let parties = Parties::new();
    everywhere(|rt, _| {
        run(rt, || {
            // In the middle of its first message.
            let ((), end) = parties.with_session(pair(), |mut tls| {
                let mut hello = Vec::new();
                tls.conn.write_tls(&mut hello).unwrap();
                tls.sock.write_all(&hello[..hello.len() / 2]).unwrap();
            });
            assert_eq!(end.unwrap_err().kind(), ErrorKind::UnexpectedEof);
            // After that message, without reading the answer.
            let ((), end) = parties.with_session(pair(), |mut tls| {
                let mut sock = &tls.sock;
                tls.conn.write_tls(&mut sock).unwrap();
                sock.shutdown(Shutdown::Write).unwrap();
            });
            assert!(end.is_err());
            // In the middle of the session.
            let ((), end) = parties.with_session(pair(), |mut tls| exchange(&mut tls, b"and then I was gone"));
            assert_eq!(end.unwrap_err().kind(), ErrorKind::UnexpectedEof);

            // A server that accepts and is killed, with the client's bytes unread or read.
            for reads in [false, true] {
                let (here, mut there) = pair();
                let mut tls = StreamOwned::new(parties.connection(), here);
                sinew::scope(|scope| {
                    scope.spawn(move || {
                        let mut first = [0];
                        there.read_exact(&mut first).unwrap();
                        if reads {
                            there.shutdown(Shutdown::Write).unwrap();
                            there.read_to_end(&mut Vec::new()).unwrap();
                        }
                    });
                    let error = tls.write_all(b"hello?").and_then(|()| tls.read(&mut [0])).unwrap_err();
                    let expected = if reads { ErrorKind::UnexpectedEof } else { ErrorKind::ConnectionReset };
                    assert_eq!(error.kind(), expected);
                    drop(tls);
                });
            }
        });
    });
}

#[test]
fn bytes_that_are_not_tls_are_an_error() {
    let parties = Parties::new();
    everywhere(|rt, _| {
        run(rt, || {
            let ((), end) =
                parties.with_session(pair(), |mut tls| tls.sock.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap());
            assert_eq!(end.unwrap_err().kind(), ErrorKind::InvalidData);
        });
    });
}

#[test]
fn both_sides_see_a_goodbye() {
    let parties = Parties::new();
    everywhere(|rt, _| {
        run(rt, || {
            let ((), end) = parties.with_session(pair(), |mut tls| {
                exchange(&mut tls, b"one");
                part(&mut tls);
            });
            end.unwrap();
        });
    });
}

#[test]
fn a_read_timeout_passes_through_the_library_and_the_session_goes_on() {
    const TIMEOUT: Duration = Duration::from_millis(5);
    let parties = Parties::new();
    everywhere(|rt, _| {
        run(rt, || {
            let ((), end) = parties.with_session(pair(), |mut tls| {
                exchange(&mut tls, b"before");
                tls.sock.set_read_timeout(Some(TIMEOUT)).unwrap();
                let began = Instant::now();
                assert_eq!(tls.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
                assert!(began.elapsed() >= TIMEOUT);
                tls.sock.set_read_timeout(None).unwrap();
                exchange(&mut tls, b"after");
                part(&mut tls);
            });
            end.unwrap();
            // During the handshake, in which the server does not answer.
            let (here, _there) = pair();
            here.set_read_timeout(Some(TIMEOUT)).unwrap();
            let mut tls = StreamOwned::new(parties.connection(), here);
            assert_eq!(tls.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        });
    });
}
