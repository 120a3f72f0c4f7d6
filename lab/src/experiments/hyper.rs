//! `hyper`: the same HTTP server, hyper, on Sinew's tasks and on Tokio's, for which it is made.
//! Only the runtime differs.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use sinew_hyper::SinewIo;
use tokio::runtime::Builder;

use super::serving::{self, METRICS, per_cpu};
use super::{Experiment, PLAIN, Plot, web};
use crate::case::Case;
use crate::load::server;
use crate::peers::{self, fibres};

pub static HYPER: Experiment = Experiment {
    name: "hyper",
    source: "Sinew",
    measures: "As web, by hyper: on Sinew’s fibres (each drives the future of one connection) and tasks, on Tokio’s multi-thread runtime, and on Tokio’s runtime for one thread.",
    good: "At least 0.97 of the faster Tokio’s requests for each second of CPU.",
    metrics: METRICS,
    plots: &[Plot::Bars { metric: "ops_per_cpu_s" }, Plot::Bars { metric: "ops_per_s" }, Plot::Quantiles],
    is_pinned: false,
    others: "hyper has no adapter for them in the lab, and Sinew’s other schedulers are compared in web",
    concerns: |peer| [peers::DEFAULT, "sinew/tasks", "tokio", "tokio/current"].contains(&peer.name),
    variants: |depth, _, _| serving::connections(depth),
    measure: |case| web::measure(case).into(),
    serve: Some(serve),
    bars: &[per_cpu("sinew/tasks", "64 connections").at_least(0.97).over_peers(&["tokio", "tokio/current"])],
    ..PLAIN
};

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"Hello, world!"))))
}

/// Runs in the server's process.
fn serve(case: &Case) -> io::Result<()> {
    match case.peer.as_str() {
        "tokio" => {
            let runtime = Builder::new_multi_thread().worker_threads(case.processors).enable_io().build()?;
            // The root is a task on a worker: the thread of `block_on` is no worker.
            let root = runtime.spawn(on_tokio());
            runtime.block_on(root).map_err(io::Error::other)?
        }
        "tokio/current" => Builder::new_current_thread().enable_io().build()?.block_on(on_tokio()),
        peer => on_sinew(case.processors, peer),
    }
}

fn on_sinew(processors: usize, peer: &str) -> io::Result<()> {
    let is_fibres = peer == peers::DEFAULT;
    let runtime = fibres::quiet(fibres::builder(processors, peers::DEFAULT)).build();
    runtime.map_err(io::Error::other)?.run(move || {
        let listener = sinew::net::TcpListener::from(server::listener()?);
        for stream in listener.incoming() {
            let stream = stream?;
            stream.set_nodelay(true)?;
            // An error of one client does not end the others.
            let session = async {
                let _ = http1::Builder::new().serve_connection(SinewIo::new(stream), service_fn(answer)).await;
            };
            match is_fibres {
                true => drop(sinew::spawn(|| sinew::block_on(session))),
                false => drop(sinew::task::spawn(session)),
            }
        }
        Ok(())
    })
}

async fn on_tokio() -> io::Result<()> {
    let listener = server::listener()?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        });
    }
}
