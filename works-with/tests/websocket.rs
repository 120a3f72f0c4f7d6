//! tungstenite over Sinew's sockets: `examples/websocket_echo.rs` and its clients.
//!
//! The library takes random numbers from a thread-local generator, in functions that also write to
//! the socket. Where fibres migrate, such a function needs [`sinew::pinned`].

#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

// The test does not use its `main`.
#[allow(dead_code)]
#[path = "../examples/websocket_echo.rs"]
mod websocket_echo;

use fixture::everywhere;
use fixture::loopback::{SIZES, bytes, listener, narrow_pair, pair};
use sinew::net::{Shutdown, TcpStream};
use sinew::pinned;
use sinew::sync::Barrier;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role};
use tungstenite::{Error, HandshakeError, Message, WebSocket};

type Client = WebSocket<TcpStream>;

fn session(stream: TcpStream) -> Result<(), Error> {
    pinned(|| websocket_echo::session(stream))
}

fn shake_hands(stream: TcpStream) -> Client {
    tungstenite::client("ws://localhost/", stream).unwrap().0
}

/// Runs `f` with the client's end of a session, whose other end is in another fibre. Returns how
/// both ended.
fn with_session<T>((here, there): (TcpStream, TcpStream), f: impl FnOnce(TcpStream) -> T) -> (T, Result<(), Error>) {
    sinew::scope(|scope| {
        let session = scope.spawn(|| session(there));
        (pinned(|| f(here)), session.join().unwrap())
    })
}

/// Returns a message of this many bytes, as text or as binary.
fn message(seed: u64, size: usize) -> Message {
    let bytes = bytes(seed, size);
    if seed.is_multiple_of(2) {
        Message::binary(bytes)
    } else {
        Message::text(bytes.into_iter().map(|byte| char::from(b'a' + byte % 26)).collect::<String>())
    }
}

fn exchange(client: &mut Client, sent: Message) {
    client.send(sent.clone()).unwrap();
    assert!(client.read().unwrap() == sent, "{} bytes came back changed", sent.len());
}

/// Closes, and waits for the answer.
fn part(client: &mut Client) {
    let frame = CloseFrame { code: CloseCode::Away, reason: "enough".into() };
    client.close(Some(frame.clone())).unwrap();
    assert_eq!(client.read().unwrap(), Message::Close(Some(frame)), "the other end did not close");
    assert!(matches!(client.read().unwrap_err(), Error::ConnectionClosed));
}

fn kind(error: Error) -> ErrorKind {
    match error {
        Error::Io(error) => error.kind(),
        other => panic!("not an error of the socket: {other}"),
    }
}

#[test]
fn two_hundred_sessions_at_once_get_back_the_messages_that_they_send() {
    const CLIENTS: usize = 200;
    everywhere(|rt, _| {
        rt.run(|| {
            let (listener, address) = listener();
            let all_came = Barrier::new(CLIENTS);
            sinew::scope(|scope| {
                for number in 0..CLIENTS {
                    let (all_came, seed) = (&all_came, number as u64);
                    let client = move || {
                        let mut client = shake_hands(TcpStream::connect(address).unwrap());
                        exchange(&mut client, message(seed, 10));
                        all_came.wait();
                        exchange(&mut client, message(seed + 1000, SIZES[number % SIZES.len()]));
                        part(&mut client);
                    };
                    scope.spawn(move || pinned(client));
                }
                for stream in listener.incoming().take(CLIENTS) {
                    scope.spawn(move || session(stream.unwrap()).unwrap());
                }
            });
        });
    });
}

#[test]
fn more_bytes_than_the_sockets_hold_cross_in_both_directions() {
    const MESSAGES: u64 = 10;
    const SIZE: usize = 150_000;
    everywhere(|rt, _| {
        rt.run(|| {
            let ((), end) = with_session(narrow_pair(), |stream| {
                let mut reader = shake_hands(stream.try_clone().unwrap());
                let mut writer = WebSocket::from_raw_socket(stream, Role::Client, None);
                sinew::scope(|scope| {
                    scope.spawn(|| {
                        pinned(|| (0..MESSAGES).for_each(|seed| writer.send(message(seed, SIZE)).unwrap()));
                    });
                    for seed in 0..MESSAGES {
                        assert!(reader.read().unwrap() == message(seed, SIZE), "message {seed} came back changed");
                    }
                });
                part(&mut reader);
            });
            end.unwrap();
        });
    });
}

#[test]
fn a_peer_that_vanishes_is_an_error_on_either_side() {
    everywhere(|rt, _| {
        rt.run(|| {
            // In the middle of its request.
            let ((), end) = with_session(pair(), |mut stream| stream.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap());
            assert!(matches!(end.unwrap_err(), Error::Protocol(_)));
            // In the middle of a message.
            let ((), end) = with_session(pair(), |stream| {
                let mut client = shake_hands(stream);
                exchange(&mut client, message(1, 100));
                // A frame that announces a hundred bytes, masked with zeros.
                client.get_mut().write_all(&[0x82, 0x80 | 100, 0, 0, 0, 0, 1, 2, 3]).unwrap();
            });
            assert!(matches!(end.unwrap_err(), Error::Protocol(_)));

            // A server that accepts and is killed, with the request unread or read.
            for reads in [false, true] {
                let (here, mut there) = pair();
                sinew::scope(|scope| {
                    scope.spawn(move || {
                        there.read_exact(&mut [0]).unwrap();
                        if reads {
                            there.shutdown(Shutdown::Write).unwrap();
                            there.read_to_end(&mut Vec::new()).unwrap();
                        }
                    });
                    match pinned(|| tungstenite::client("ws://localhost/", here).unwrap_err()) {
                        HandshakeError::Failure(Error::Io(error)) if !reads => {
                            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                        }
                        HandshakeError::Failure(Error::Protocol(_)) if reads => {}
                        other => panic!("{other}"),
                    }
                });
            }
        });
    });
}

#[test]
fn both_sides_see_a_close() {
    everywhere(|rt, _| {
        rt.run(|| {
            let ((), end) = with_session(pair(), |stream| {
                let mut client = shake_hands(stream);
                exchange(&mut client, message(2, 5));
                part(&mut client);
            });
            end.unwrap();
        });
    });
}

#[test]
fn a_read_timeout_passes_through_the_library_and_the_session_goes_on() {
    const TIMEOUT: Duration = Duration::from_millis(5);
    everywhere(|rt, _| {
        rt.run(|| {
            let ((), end) = with_session(pair(), |stream| {
                let mut client = shake_hands(stream);
                exchange(&mut client, message(1, 10));
                client.get_ref().set_read_timeout(Some(TIMEOUT)).unwrap();
                let began = Instant::now();
                assert_eq!(kind(client.read().unwrap_err()), ErrorKind::WouldBlock);
                assert!(began.elapsed() >= TIMEOUT);
                client.get_ref().set_read_timeout(None).unwrap();
                exchange(&mut client, message(2, 10));
                part(&mut client);
            });
            end.unwrap();
            // During the handshake, in which the server does not answer.
            let (here, _there) = pair();
            here.set_read_timeout(Some(TIMEOUT)).unwrap();
            let interrupted = pinned(|| tungstenite::client("ws://localhost/", here).unwrap_err());
            assert!(matches!(interrupted, HandshakeError::Interrupted(_)));
        });
    });
}
