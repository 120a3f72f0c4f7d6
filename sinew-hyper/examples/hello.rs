//! A server that greets, for `curl` and `wrk`, with a task for each connection.
//!
//! `cargo run --release -p sinew-hyper --example hello [address]`, then `curl
//! http://127.0.0.1:3000/you` or `wrk http://127.0.0.1:3000/`.

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use sinew::net::TcpListener;
use sinew_hyper::{SinewIo, SinewTimer};
use std::convert::Infallible;
use std::io;

async fn greet(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let name = request.uri().path().trim_start_matches('/');
    Ok(Response::new(format!("Hello, {}!\n", if name.is_empty() { "world" } else { name })))
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    sinew::run(|| {
        let listener = TcpListener::bind(address)?;
        println!("listening at http://{}", listener.local_addr()?);
        // A fibre accepts, tasks serve.
        for stream in listener.incoming() {
            let stream = stream?;
            stream.set_nodelay(true)?;
            drop(sinew::task::spawn(async move {
                let mut connection = http1::Builder::new();
                connection.timer(SinewTimer::new());
                if let Err(error) = connection.serve_connection(SinewIo::new(stream), service_fn(greet)).await {
                    eprintln!("a connection failed: {error}");
                }
            }));
        }
        Ok(())
    })
}
