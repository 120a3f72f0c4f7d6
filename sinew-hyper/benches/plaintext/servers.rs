//! The servers: hyper answering a short text, on each runtime with one worker.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use sinew_hyper::SinewIo;
use std::convert::Infallible;
use std::io::{self, Read, stdin};
use std::net::SocketAddr;
use std::thread;

/// What a server says when it is ready.
pub const LISTENING: &str = "listening at ";

const ANYWHERE: &str = "127.0.0.1:0";

/// Who runs hyper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    Sinew,
    /// On the kernel thread that runs everything.
    TokioCurrent,
    /// On a worker.
    TokioMulti,
}

impl Contender {
    pub const ALL: [Contender; 3] = [Contender::Sinew, Contender::TokioCurrent, Contender::TokioMulti];

    pub fn name(self) -> &'static str {
        match self {
            Contender::Sinew => "sinew",
            Contender::TokioCurrent => "tokio-current",
            Contender::TokioMulti => "tokio-multi",
        }
    }

    pub fn from_name(name: &str) -> Option<Contender> {
        Contender::ALL.into_iter().find(|contender| contender.name() == name)
    }
}

async fn answer(_request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"Hello, World!"))))
}

/// Serves until standard input ends, which is the case also when the parent is killed.
pub fn serve(contender: Contender) -> io::Result<()> {
    thread::spawn(|| {
        let _ = stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    match contender {
        Contender::Sinew => on_sinew(),
        Contender::TokioCurrent => {
            tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(on_tokio())
        }
        Contender::TokioMulti => {
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build()?.block_on(on_tokio())
        }
    }
}

fn announce(address: SocketAddr) {
    println!("{LISTENING}{address}");
}

fn on_sinew() -> io::Result<()> {
    sinew::Runtime::builder().processors(1).build().map_err(io::Error::other)?.run(|| {
        let listener = sinew::net::TcpListener::bind(ANYWHERE)?;
        announce(listener.local_addr()?);
        for stream in listener.incoming() {
            let stream = stream?;
            stream.set_nodelay(true)?;
            // A client that breaks off is no concern of the others.
            drop(sinew::task::spawn(async {
                let _ = http1::Builder::new().serve_connection(SinewIo::new(stream), service_fn(answer)).await;
            }));
        }
        Ok(())
    })
}

async fn on_tokio() -> io::Result<()> {
    let listener = tokio::net::TcpListener::bind(ANYWHERE).await?;
    announce(listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        });
    }
}
