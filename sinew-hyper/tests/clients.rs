//! hyper's own clients: HTTP/1 over TCP and Unix sockets, and HTTP/2, whose streams are tasks.

mod service;

use bytes::Bytes;
use futures::future::join_all;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::service::service_fn;
use hyper::{Method, Request, client, server};
use service::{echo, on_all_sizes, serve, settings, whole};
use sinew::net::{TcpListener, TcpStream, UnixStream};
use sinew::task;
use sinew_hyper::{SinewExecutor, SinewIo, SinewTimer};
use std::convert::Infallible;
use std::time::Duration;

fn get(path: String) -> Request<service::Body> {
    Request::get(path).header("host", "here").body(whole("")).unwrap()
}

#[test]
fn a_fibre_drives_a_client_whose_connection_is_a_task() {
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let (address, server) = serve(1, settings());
            let stream = SinewIo::new(TcpStream::connect(address).unwrap());
            let (mut sender, connection) = sinew::block_on(client::conn::http1::handshake(stream)).unwrap();
            let connection = task::spawn(connection);
            for number in 0..100 {
                let path = format!("/{number}");
                let answer = sinew::block_on(async {
                    sender.ready().await.unwrap();
                    let answer = sender.send_request(get(path.clone())).await.unwrap();
                    answer.into_body().collect().await.unwrap().to_bytes()
                });
                assert_eq!(answer, format!("you asked for {path}"));
            }
            drop(sender);
            connection.join().unwrap().unwrap();
            server.join().unwrap().remove(0).unwrap();
        });
    });
}

#[test]
fn a_body_is_streamed_through_a_unix_socket_and_back() {
    const CHUNKS: u64 = 200;
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let (here, there) = UnixStream::pair().unwrap();
            let server =
                task::spawn(async { settings().serve_connection(SinewIo::new(there), service_fn(echo)).await });
            let received = task::spawn(async move {
                let (mut sender, connection) = client::conn::http1::handshake(SinewIo::new(here)).await.unwrap();
                let connection = task::spawn(connection);
                let chunk = |n: u64| Ok::<_, Infallible>(Frame::data(Bytes::from(n.to_le_bytes().repeat(1000))));
                let body = StreamBody::new(futures::stream::iter((0..CHUNKS).map(chunk)));
                let request = Request::builder().method(Method::POST).header("host", "here").body(body).unwrap();
                let answer = sender.send_request(request).await.unwrap();
                let received = answer.into_body().collect().await.unwrap().to_bytes();
                drop(sender);
                connection.await.unwrap().unwrap();
                received
            });
            let expected: Vec<u8> = (0..CHUNKS).flat_map(|n| n.to_le_bytes().repeat(1000)).collect();
            assert!(received.join().unwrap() == expected, "the bytes differ");
            server.join().unwrap().unwrap();
        });
    });
}

#[test]
fn many_streams_share_one_connection() {
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = task::spawn(async move {
                let (stream, _) = listener.accept_async().await.unwrap();
                let mut builder = server::conn::http2::Builder::new(SinewExecutor::new());
                builder.timer(SinewTimer::new()).keep_alive_interval(Duration::from_millis(5));
                builder.serve_connection(SinewIo::new(stream), service_fn(echo)).await
            });
            let answers = task::spawn(async move {
                let stream = SinewIo::new(TcpStream::connect_async(address).await.unwrap());
                let handshake = client::conn::http2::handshake(SinewExecutor::new(), stream).await;
                let (sender, connection) = handshake.unwrap();
                let connection = task::spawn(connection);
                let asked = (0..100).map(|number| {
                    let mut sender = sender.clone();
                    async move {
                        let answer = sender.send_request(get(format!("http://here/{number}"))).await.unwrap();
                        answer.into_body().collect().await.unwrap().to_bytes()
                    }
                });
                let answers = join_all(asked).await;
                drop(sender);
                // The connection fails if the other side has just left.
                let _ = connection.await.unwrap();
                answers
            });
            let answers = answers.join().unwrap();
            assert_eq!(answers.len(), 100);
            for (number, answer) in answers.into_iter().enumerate() {
                assert_eq!(answer, format!("you asked for /{number}"));
            }
            let _ = server.join().unwrap();
        });
    });
}
