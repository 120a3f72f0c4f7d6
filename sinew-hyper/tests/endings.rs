//! The ends of connections: by a client that vanishes, by a timeout, by a server that stops.

mod service;

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::oneshot;
use futures::future::{Either, select};
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::rt::Write as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use service::{Client, answer, echo, on_all_sizes, serve, settings};
use sinew::net::TcpListener;
use sinew::task;
use sinew_hyper::SinewIo;
use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

#[test]
fn a_client_that_vanishes_ends_its_own_connection_only() {
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let (address, server) = serve(3, settings());
            let mut witness = Client::connect(address);
            witness.ask("/before");
            assert_eq!(witness.read(), answer("/before"));
            let within_a_head = Client::connect(address);
            within_a_head.send("GET /nev");
            drop(within_a_head);
            let within_a_body = Client::connect(address);
            within_a_body.send("POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 1000\r\n\r\nonly some");
            drop(within_a_body);
            witness.ask("/after");
            assert_eq!(witness.read(), answer("/after"));
            drop(witness);
            let ends = server.join().unwrap();
            assert_eq!(ends.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, false]);
        });
    });
}

#[test]
fn a_body_whose_reader_is_gone_is_dropped() {
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let (alive, mut dropped) = oneshot::channel::<()>();
            let server = task::spawn(async move {
                let (stream, _) = listener.accept_async().await.unwrap();
                let alive = Cell::new(Some(alive));
                let endless = service_fn(move |_: Request<_>| {
                    let alive = alive.take();
                    let chunks = futures::stream::repeat_with(move || {
                        assert!(alive.is_some());
                        Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b'x'; 10_000])))
                    });
                    async { Ok::<_, Infallible>(Response::new(StreamBody::new(chunks.boxed()))) }
                });
                http1::Builder::new().serve_connection(SinewIo::new(stream), endless).await
            });
            let mut client = Client::connect(address);
            client.ask("/");
            assert!(!client.is_at_end());
            assert_eq!(dropped.try_recv(), Ok(None));
            drop(client);
            assert!(server.join().unwrap().is_err(), "the server notices that the reader is gone");
            assert!(sinew::block_on(dropped).is_err());
        });
    });
}

#[test]
fn a_head_that_does_not_come_in_time_ends_the_connection() {
    const LIMIT: Duration = Duration::from_millis(30);
    const LONGEST: Duration = Duration::from_secs(10);
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let mut builder = settings();
            builder.header_read_timeout(LIMIT);
            let (address, server) = serve(2, builder);
            let began = Instant::now();
            let mut slow = Client::connect(address);
            slow.send("GET /slow HTTP/1.1\r\nhost: he");
            let mut quick = Client::connect(address);
            quick.ask("/quick");
            assert_eq!(quick.read(), answer("/quick"));
            drop(quick);
            while !slow.is_at_end() {
                slow.read();
            }
            assert!((LIMIT..LONGEST).contains(&began.elapsed()), "{:?}", began.elapsed());
            let ends = server.join().unwrap();
            assert!(ends[0].as_ref().is_err_and(hyper::Error::is_timeout), "{:?}", ends[0]);
            assert!(ends[1].is_ok());
        });
    });
}

#[test]
fn a_server_that_stops_answers_pending_requests_and_closes() {
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let (asked, when_asked) = oneshot::channel();
            let (stop, when_stopped) = oneshot::channel::<()>();
            let (go_on, when_to_go_on) = oneshot::channel::<()>();
            let server = task::spawn(async move {
                let (stream, _) = listener.accept_async().await.unwrap();
                let parts = Cell::new(Some((asked, when_to_go_on)));
                let service = service_fn(move |request| {
                    let parts = parts.take();
                    async move {
                        if let Some((asked, when_to_go_on)) = parts {
                            asked.send(()).unwrap();
                            when_to_go_on.await.unwrap();
                        }
                        echo(request).await
                    }
                });
                let mut connection = pin!(settings().serve_connection(SinewIo::new(stream), service));
                match select(connection.as_mut(), when_stopped).await {
                    Either::Left((end, _)) => panic!("it ended before it was stopped: {end:?}"),
                    Either::Right(_) => connection.as_mut().graceful_shutdown(),
                }
                go_on.send(()).unwrap();
                connection.await
            });
            let mut client = Client::connect(address);
            client.ask("/asked");
            sinew::block_on(when_asked).unwrap();
            stop.send(()).unwrap();
            let mut expected = answer("/asked");
            expected.closes = true;
            assert_eq!(client.read(), expected);
            assert!(client.is_at_end());
            assert!(server.join().unwrap().is_ok());
        });
    });
}

#[test]
fn shutting_down_a_stream_whose_other_end_is_gone_is_no_error() {
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = Client::connect(listener.local_addr().unwrap());
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"unread").unwrap();
            assert_eq!(client.stream().peek(&mut [0]).unwrap(), 1);
            // Closing a socket with unread bytes resets the connection.
            drop(client);
            assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
            assert_eq!(stream.shutdown(Shutdown::Write).unwrap_err().kind(), ErrorKind::NotConnected);
            let mut shut = SinewIo::new(stream);
            sinew::block_on(poll_fn(|context| Pin::new(&mut shut).poll_shutdown(context))).unwrap();
        });
    });
}
