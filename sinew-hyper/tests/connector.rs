//! The pooled client of hyper-util on Sinew's sockets.
#![cfg(feature = "client")]

mod service;

use futures::future::join_all;
use http_body_util::BodyExt;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Response, Uri};
use hyper_util::client::legacy::{Builder, Client};
use service::{Body, echo, on_all_sizes, serve, settings};
use sinew::net::{SocketAddr, TcpListener};
use sinew::task;
use sinew_hyper::{SinewConnector, SinewExecutor, SinewIo, SinewTimer};
use std::collections::HashSet;
use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::time::Duration;

type PooledClient = Client<SinewConnector, Body>;

fn builder() -> Builder {
    let mut builder = Client::builder(SinewExecutor::new());
    builder.pool_timer(SinewTimer::new()).pool_idle_timeout(Duration::from_secs(600));
    builder
}

fn client() -> PooledClient {
    builder().build(SinewConnector::new())
}

async fn get(client: &PooledClient, uri: String) -> String {
    let answer = client.get(uri.parse().unwrap()).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

async fn get_path(client: &PooledClient, address: SocketAddr, path: &str) {
    assert_eq!(get(client, format!("http://{address}{path}")).await, format!("you asked for {path}"));
}

/// Answers with the port of the client's socket.
async fn serve_ports(listener: TcpListener) {
    loop {
        let (stream, peer) = listener.accept_async().await.unwrap();
        let answer = move |_request| async move { Ok::<_, Infallible>(Response::new(peer.port().to_string())) };
        drop(task::spawn(settings().serve_connection(SinewIo::new(stream), service_fn(answer))));
    }
}

/// A connection returns to the pool a moment after its answer has been read, so the next request may
/// still open another one.
#[test]
fn requests_one_after_the_other_use_a_connection_again() {
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = task::spawn(serve_ports(listener));
            let asked = task::spawn(async move {
                let (client, mut ports) = (client(), HashSet::new());
                while ports.insert(get(&client, format!("http://{address}/")).await) {
                    task::yield_now_async().await;
                }
            });
            asked.join().unwrap();
            server.abort();
            assert!(server.join().unwrap_err().is_aborted());
        });
    });
}

#[test]
fn requests_at_once_have_connections_of_their_own() {
    const REQUESTS: usize = 50;
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let (address, server) = serve(REQUESTS, settings());
            // The pool keeps no connection, so each request opens one.
            let client: PooledClient = builder().pool_max_idle_per_host(0).build(SinewConnector::new().nodelay(false));
            let asked = task::spawn(async move {
                let paths: Vec<_> = (0..REQUESTS).map(|number| format!("/{number}")).collect();
                join_all(paths.iter().map(|path| get_path(&client, address, path))).await;
            });
            asked.join().unwrap();
            server.join().unwrap().into_iter().for_each(|end| end.unwrap());
        });
    });
}

#[test]
fn http2_puts_all_requests_on_one_connection() {
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = task::spawn(async move {
                let (stream, _) = listener.accept_async().await.unwrap();
                let connection = http2::Builder::new(SinewExecutor::new());
                connection.serve_connection(SinewIo::new(stream), service_fn(echo)).await
            });
            let client: PooledClient = builder().http2_only(true).build(SinewConnector::default());
            let asks = |number: usize| {
                let client = client.clone();
                async move { get_path(&client, address, &format!("/{number}")).await }
            };
            // The first request makes the connection that the others share.
            task::spawn(asks(50)).join().unwrap();
            let asked: Vec<_> = (0..50).map(|number| task::spawn(asks(number))).collect();
            asked.into_iter().for_each(|request| request.join().unwrap());
            drop(client);
            // The connection fails if the other side has just left.
            let _ = server.join().unwrap();
        });
    });
}

#[test]
fn names_of_hosts_are_looked_up() {
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let (address, server) = serve(1, settings());
            let client = client();
            let uri = format!("http://localhost:{}/name", address.port());
            let answer = task::spawn(async move { get(&client, uri).await });
            assert_eq!(answer.join().unwrap(), "you asked for /name");
            server.join().unwrap().remove(0).unwrap();
        });
    });
}

/// Returns the error of the socket under an error of the client.
fn kind(error: &(dyn std::error::Error + 'static)) -> ErrorKind {
    match error.downcast_ref::<io::Error>() {
        Some(error) => error.kind(),
        None => kind(error.source().expect("an error of the socket")),
    }
}

#[test]
fn a_port_without_a_listener_and_other_schemes_are_errors() {
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let ask = |uri: Uri| kind(&task::spawn(client().get(uri)).join().unwrap().unwrap_err());
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            assert_eq!(ask(format!("http://{address}/").parse().unwrap()), ErrorKind::ConnectionRefused);
            assert_eq!(ask(Uri::from_static("https://127.0.0.1/")), ErrorKind::InvalidInput);
        });
    });
}
