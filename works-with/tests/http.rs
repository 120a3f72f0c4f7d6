//! HTTP: axum and the client of hyper-util on sinew-hyper, reqwest with sinew-tokio, ureq with
//! sinew-ureq, and the blocking clients on the pool.

mod beside;
#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use beside::{assert_blocks_its_fibre, assert_blocks_its_processor, wherever_fibres_stay};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper_util::client::legacy::Client;
use hyper_util::service::TowerToHyperService;
use sinew::net::{SocketAddr, TcpListener};
use sinew::sync::Mutex;
use sinew_hyper::{SinewConnector, SinewExecutor, SinewIo, SinewTimer};
use sinew_tokio::WithTokio;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::mpsc;

type Words = Arc<Mutex<Vec<String>>>;

/// A service of axum's, with a state, a path and a body.
fn router() -> Router {
    Router::new()
        .route("/hello/{name}", get(|Path(name): Path<String>| async move { format!("Hello, {name}!") }))
        .route(
            "/words",
            post(|State(words): State<Words>, word: String| async move {
                let mut words = words.lock_async().await.unwrap();
                words.push(word);
                words.len().to_string()
            }),
        )
        .with_state(Words::default())
}

/// Runs `f` with the address of a server that serves the router, each connection in a task, to this
/// number of connections.
fn beside_router<T>(connections: usize, f: impl FnOnce(SocketAddr) -> T) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = sinew::spawn(move || {
        let router = router();
        let serve = |stream| {
            let service = TowerToHyperService::new(router.clone());
            sinew::task::spawn(http1::Builder::new().serve_connection(SinewIo::new(stream), service))
        };
        let open: Vec<_> = listener.incoming().take(connections).map(|stream| serve(stream.unwrap())).collect();
        open.into_iter().for_each(|connection| connection.join().unwrap().unwrap());
    });
    let result = f(address);
    server.join().unwrap();
    result
}

#[test]
fn axum_serves_and_the_client_of_hyper_util_asks() {
    wherever_fibres_stay(|| {
        beside_router(3, |address| {
            // Each request has a connection of its own, so that the server knows their number.
            let mut builder = Client::builder(SinewExecutor::new());
            let builder = builder.pool_timer(SinewTimer::new()).pool_max_idle_per_host(0);
            let client: Client<_, Full<Bytes>> = builder.build(SinewConnector::new());
            let text = |answer: hyper::Response<hyper::body::Incoming>| async {
                answer.into_body().collect().await.unwrap().to_bytes()
            };
            sinew::block_on(async {
                let uri = format!("http://{address}/hello/axum").parse().unwrap();
                assert_eq!(text(client.get(uri).await.unwrap()).await, "Hello, axum!");
                for number in ["1", "2"] {
                    let request = hyper::Request::post(format!("http://{address}/words"));
                    let request = request.body(Full::from("a word")).unwrap();
                    assert_eq!(text(client.request(request).await.unwrap()).await, number);
                }
            });
            drop(client);
        });
    });
}

#[test]
fn reqwest_works_with_sinew_tokio() {
    const TASKS: usize = 10;
    wherever_fibres_stay(|| {
        beside_router(1 + TASKS, |address| {
            // In a fibre.
            let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
            let answer = sinew_tokio::block_on(async {
                client.get(format!("http://{address}/hello/fibre")).send().await?.text().await
            });
            assert_eq!(answer.unwrap(), "Hello, fibre!");
            // In tasks, and the name of the host is looked up.
            let ask = |number: usize| {
                let request = client.get(format!("http://localhost:{}/hello/{number}", address.port()));
                async move { request.send().await?.text().await }.with_tokio()
            };
            let tasks: Vec<_> = (0..TASKS).map(|number| sinew::task::spawn(ask(number))).collect();
            for (number, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.join().unwrap().unwrap(), format!("Hello, {number}!"));
            }
        });
    });
}

/// Returns the address of a server on a kernel thread, and a call that makes it answer one request.
fn late_server() -> (String, impl FnOnce()) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (sender, receiver) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        receiver.recv().unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nlate").unwrap();
    });
    (url, move || {
        sender.send(()).unwrap();
        server.join().unwrap();
    })
}

fn ask_with_ureq(agent: &ureq::Agent, url: &str) {
    assert_eq!(agent.get(url).call().unwrap().body_mut().read_to_string().unwrap(), "late");
}

fn ask_with_reqwest(url: &str) {
    assert_eq!(reqwest::blocking::get(url).unwrap().text().unwrap(), "late");
}

#[test]
fn ureq_with_sinew_ureq_blocks_its_fibre_only() {
    let (url, release) = late_server();
    let agent = sinew_ureq::agent(ureq::config::Config::default());
    assert_blocks_its_fibre(move || ask_with_ureq(&agent, &url), release);
}

#[test]
fn ureq_as_it_is_holds_up_its_processor() {
    let (url, release) = late_server();
    assert_blocks_its_processor(move || ask_with_ureq(&ureq::Agent::new_with_defaults(), &url), release);
}

#[test]
fn ureq_on_the_pool_blocks_its_fibre_only() {
    let (url, release) = late_server();
    let ask = move || ask_with_ureq(&ureq::Agent::new_with_defaults(), &url);
    assert_blocks_its_fibre(move || sinew::blocking(ask), release);
}

#[test]
fn reqwest_blocking_as_it_is_holds_up_its_processor() {
    let (url, release) = late_server();
    assert_blocks_its_processor(move || ask_with_reqwest(&url), release);
}

#[test]
fn reqwest_blocking_on_the_pool_blocks_its_fibre_only() {
    let (url, release) = late_server();
    assert_blocks_its_fibre(move || sinew::blocking(|| ask_with_reqwest(&url)), release);
}
