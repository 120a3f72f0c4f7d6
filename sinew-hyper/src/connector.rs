//! A connector for hyper-util's client.

use crate::SinewIo;
use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use sinew::net::{TcpStream, UnixStream};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_service::Service;

/// Opens sockets of [`sinew::net`] for the pooled client of hyper-util. Needs the feature `client`.
///
/// ```
/// use http_body_util::{BodyExt, Empty};
/// use hyper::body::Bytes;
/// use hyper_util::client::legacy::Client;
/// use sinew_hyper::{SinewConnector, SinewExecutor, SinewTimer};
/// use std::io::{Read, Write};
///
/// sinew::run(|| {
///     let listener = sinew::net::TcpListener::bind("127.0.0.1:0").unwrap();
///     let uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
///     let server = sinew::spawn(move || {
///         let mut stream = listener.accept().unwrap().0;
///         stream.read(&mut [0; 1000]).unwrap();
///         stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").unwrap();
///     });
///     let client: Client<_, Empty<Bytes>> =
///         Client::builder(SinewExecutor::new()).pool_timer(SinewTimer::new()).build(SinewConnector::new());
///     let body = sinew::task::spawn(async move {
///         client.get(uri).await.unwrap().into_body().collect().await.unwrap().to_bytes()
///     });
///     assert_eq!(body.join().unwrap(), "hello");
///     server.join().unwrap();
/// });
/// ```
///
/// It connects to `http` URIs. A host's name is looked up, and its addresses are tried one after the
/// other. TLS is a connector around this one. Connections are tasks
/// of the caller's cluster.
#[derive(Clone, Debug)]
pub struct SinewConnector {
    nodelay: bool,
}

impl SinewConnector {
    /// Returns a connector whose sockets send small packets at once.
    #[must_use]
    pub const fn new() -> SinewConnector {
        SinewConnector { nodelay: true }
    }

    /// Sets whether sockets send small packets at once (`TCP_NODELAY`).
    #[must_use]
    pub const fn nodelay(mut self, nodelay: bool) -> SinewConnector {
        self.nodelay = nodelay;
        self
    }
}

impl Default for SinewConnector {
    fn default() -> SinewConnector {
        SinewConnector::new()
    }
}

impl Service<Uri> for SinewConnector {
    type Response = SinewIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<SinewIo<TcpStream>>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Connects to the host and the port of `uri`. The port is 80 unless `uri` names one.
    ///
    /// # Errors
    /// `InvalidInput` for a scheme other than `http`, and without a host; the error of the lookup; the
    /// kernel's.
    fn call(&mut self, uri: Uri) -> Self::Future {
        let nodelay = self.nodelay;
        Box::pin(async move {
            let stream = connect(&uri).await?;
            stream.set_nodelay(nodelay)?;
            Ok(SinewIo::new(stream))
        })
    }
}

async fn connect(uri: &Uri) -> io::Result<TcpStream> {
    if uri.scheme_str() != Some("http") {
        return Err(invalid("the scheme of the URI is not http"));
    }
    let host = uri.host().ok_or_else(|| invalid("the URI names no host"))?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    TcpStream::connect_async((host, uri.port_u16().unwrap_or(80))).await
}

fn invalid(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

impl Connection for SinewIo<TcpStream> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Connection for SinewIo<UnixStream> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
