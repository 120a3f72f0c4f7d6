//! rustls and tungstenite objects that two fibres use in both directions at the same time, and
//! `examples/websocket_chat.rs`.
//!
//! The libraries never wait while a `Duplex` calls them, so they need no `pinned`, except in the
//! handshake of tungstenite.

#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

// The test does not use their `main`.
#[allow(dead_code)]
#[path = "../examples/tls_echo.rs"]
mod tls_echo;
#[allow(dead_code)]
#[path = "../examples/websocket_chat.rs"]
mod websocket_chat;

use fixture::loopback::{bytes, listener, narrow_pair, pair};
use fixture::{everywhere, wait_until};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection, StreamOwned};
use sinew::net::{Duplex, TcpStream};
use sinew::{FibreBuilder, Runtime, Scope, ScopedJoinHandle, pinned};
use std::io::{Read, Write};
use std::sync::Arc;
use tls_echo::{STACK, identity};
use tungstenite::protocol::Role;
use tungstenite::{Error, Message, WebSocket};
use websocket_chat::{Room, session};

type Server = StreamOwned<ServerConnection, TcpStream>;
type Client = StreamOwned<ClientConnection, TcpStream>;

/// Bytes that cross in each direction: more than the sockets hold.
const MUCH: usize = 1_500_000;

/// Spawns a fibre whose stack is large enough for either library.
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

/// Returns the two ends of a TLS session, before the handshake.
fn tls_pair((here, there): (TcpStream, TcpStream)) -> (Client, Server) {
    let (certificate, config) = identity().unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(client), name).unwrap();
    (StreamOwned::new(client, here), StreamOwned::new(ServerConnection::new(config).unwrap(), there))
}

/// Does the handshake of both ends.
fn shake_hands(mut client: Client, mut server: Server) -> (Client, Server) {
    sinew::scope(|scope| {
        let serves = spawn(scope, || server.conn.complete_io(&mut server.sock).map(|_| ()));
        client.conn.complete_io(&mut client.sock).unwrap();
        serves.join().unwrap().unwrap();
    });
    (client, server)
}

/// Sends and receives at the same time, by two fibres.
fn cross<S: Read + Write + Send>(duplex: &Duplex<S>, own: u64, other: u64) {
    sinew::scope(|scope| {
        spawn(scope, || (&mut &*duplex).write_all(&bytes(own, MUCH)).unwrap());
        let mut received = vec![0; MUCH];
        (&mut &*duplex).read_exact(&mut received).unwrap();
        assert!(received == bytes(other, MUCH), "other bytes have come");
    });
}

#[test]
fn megabytes_cross_a_tls_session_in_both_directions_at_once() {
    everywhere(|rt, _| {
        run(rt, || {
            let (client, server) = tls_pair(narrow_pair());
            let (here, there) = (client.sock.clone(), server.sock.clone());
            let (client, server) = (Duplex::new(client, &here), Duplex::new(server, &there));
            sinew::scope(|scope| {
                spawn(scope, || cross(&server, 1, 2));
                cross(&client, 2, 1);
            });
            // A goodbye, which the other end answers by its own.
            let goodbye = |tls: &mut Client| {
                tls.conn.send_close_notify();
                tls.flush()
            };
            client.write_with(goodbye).unwrap();
            assert_eq!((&server).read(&mut [0]).unwrap(), 0);
        });
    });
}

/// Sends a message, which the library gets only once.
fn send<S: Read + Write>(socket: &Duplex<WebSocket<S>>, message: Message) {
    let mut message = Some(message);
    let sent = socket.write_with(|socket| {
        if let Some(message) = message.take() {
            socket.write(message)?;
        }
        socket.flush()
    });
    sent.unwrap();
}

const MESSAGES: u64 = 10;

/// Sends and receives messages at the same time, by two fibres.
fn converse<S: Read + Write + Send>(socket: &Duplex<WebSocket<S>>) {
    const SIZE: usize = 150_000;
    sinew::scope(|scope| {
        spawn(scope, || {
            for seed in 0..MESSAGES {
                // The other end answers it while it is about to send.
                send(socket, Message::Ping(vec![seed as u8; 100].into()));
                send(socket, Message::binary(bytes(seed, SIZE)));
            }
        });
        let (mut messages, mut pongs) = (0, 0);
        while messages < MESSAGES || pongs == 0 {
            match socket.read_with(WebSocket::read).unwrap() {
                Message::Binary(received) => {
                    assert!(received == bytes(messages, SIZE), "message {messages} has come changed");
                    messages += 1;
                }
                Message::Ping(_) => {}
                Message::Pong(_) => pongs += 1,
                other => panic!("{other:?}"),
            }
        }
    });
}

/// Closes, and reads until the other end has closed.
fn part<S: Read + Write>(socket: &Duplex<WebSocket<S>>) {
    match socket.write_with(|socket| socket.close(None)) {
        Ok(()) | Err(Error::ConnectionClosed) => {}
        Err(error) => panic!("{error}"),
    }
    loop {
        match socket.read_with(WebSocket::read) {
            Ok(_) => {}
            Err(Error::ConnectionClosed | Error::AlreadyClosed) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn messages_cross_a_websocket_in_both_directions_at_once() {
    everywhere(|rt, _| {
        run(rt, || {
            let (here, there) = narrow_pair();
            let client = WebSocket::from_raw_socket(here.clone(), Role::Client, None);
            let server = WebSocket::from_raw_socket(there.clone(), Role::Server, None);
            let (client, server) = (Duplex::new(client, &here), Duplex::new(server, &there));
            sinew::scope(|scope| {
                spawn(scope, || converse(&server));
                converse(&client);
            });
            sinew::scope(|scope| {
                spawn(scope, || {
                    part(&server);
                    drop((server, there));
                });
                part(&client);
            });
        });
    });
}

#[test]
fn messages_cross_a_websocket_over_tls_in_both_directions_at_once() {
    everywhere(|rt, _| {
        run(rt, || {
            let (client, server) = tls_pair(narrow_pair());
            let (here, there) = (client.sock.clone(), server.sock.clone());
            let (client, server) = shake_hands(client, server);
            let client = WebSocket::from_raw_socket(client, Role::Client, None);
            let server = WebSocket::from_raw_socket(server, Role::Server, None);
            let (client, server) = (Duplex::new(client, &here), Duplex::new(server, &there));
            sinew::scope(|scope| {
                spawn(scope, || converse(&server));
                converse(&client);
            });
        });
    });
}

#[test]
fn clients_of_the_chat_hear_the_others_and_not_themselves() {
    const CLIENTS: usize = 20;
    everywhere(|rt, _| {
        run(rt, || {
            let ((listener, address), room) = (listener(), Room::default());
            sinew::scope(|scope| {
                for _ in 0..CLIENTS {
                    let room = &room;
                    spawn(scope, move || {
                        let stream = TcpStream::connect(address).unwrap();
                        let mut socket = pinned(|| tungstenite::client("ws://localhost/", stream).unwrap().0);
                        wait_until(|| room.clients() == CLIENTS);
                        pinned(|| socket.send(Message::text("hello")).unwrap());
                        for _ in 1..CLIENTS {
                            let heard = pinned(|| socket.read().unwrap().into_text().unwrap());
                            assert!(heard.ends_with(": hello"), "heard {heard}");
                        }
                        pinned(|| {
                            socket.close(None).unwrap();
                            while socket.read().is_ok() {}
                        });
                    });
                }
                for stream in listener.incoming().take(CLIENTS) {
                    let room = &room;
                    spawn(scope, move || pinned(|| session(stream.unwrap(), room)).unwrap());
                }
            });
            assert_eq!(room.clients(), 0);
        });
    });
}

#[test]
fn a_fibre_that_waits_for_a_message_answers_the_ping_before_it() {
    everywhere(|rt, _| {
        run(rt, || {
            let (here, there) = pair();
            let mut client = WebSocket::from_raw_socket(here, Role::Client, None);
            let server = WebSocket::from_raw_socket(there.clone(), Role::Server, None);
            let server = Duplex::new(server, &there);
            pinned(|| client.send(Message::Ping(b"one".as_slice().into())).unwrap());
            assert!(matches!(server.read_with(WebSocket::read).unwrap(), Message::Ping(_)));
            sinew::scope(|scope| {
                // It waits for the next message, and sends the answer first.
                let next = spawn(scope, || server.read_with(WebSocket::read).unwrap());
                assert_eq!(pinned(|| client.read().unwrap()), Message::Pong(b"one".as_slice().into()));
                pinned(|| client.send(Message::text("two")).unwrap());
                assert_eq!(next.join().unwrap(), Message::text("two"));
            });
        });
    });
}
