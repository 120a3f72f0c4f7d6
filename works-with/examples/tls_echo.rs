//! An echo server over TLS: unchanged rustls on Sinew's sockets, with one plain blocking function
//! for each session.
//!
//! rustls needs a stream that is `Read` and `Write`, and `sinew::net::TcpStream` is one. A session
//! waits for its client in a fibre. rustls need not know that many sessions share a kernel thread.
//!
//! ```sh
//! cargo run --release -p sinew-works-with --example tls_echo -- 127.0.0.1:4433
//! openssl s_client -quiet -connect 127.0.0.1:4433     # then type a line
//! ```
//!
//! Stack use measured with rustls 0.23: a session needs 56 KiB in a debug build and 16 KiB in a
//! release build, a client 44 and 20 KiB. A fibre has 256 KiB unless it asks for another size. Each session asks
//! for 128 KiB: where there are a million sessions, the page tables are smaller then.
//!
//! The program makes its own certificate when it starts. No client has a reason to trust it.

use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use sinew::FibreBuilder;
use sinew::net::{TcpListener, TcpStream};
use std::error::Error;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// The session of a client that is silent for longer ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// The stack of a session.
pub const STACK: usize = 128 * 1024;

/// Sends everything back until the client says goodbye.
pub fn session(stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut tls = StreamOwned::new(connection, stream);
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match tls.read(&mut buffer)? {
            0 => break,
            count => tls.write_all(&buffer[..count])?,
        }
    }
    tls.conn.send_close_notify();
    tls.flush()
}

/// Makes a certificate for `localhost`. Returns it with the configuration of a server.
pub fn identity() -> Result<(CertificateDer<'static>, Arc<ServerConfig>), Box<dyn Error + Send + Sync>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate.clone()], key.into())?;
    Ok((certificate, Arc::new(config)))
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:4433".to_owned());
    sinew::run(|| {
        let (_, config) = identity()?;
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        println!("listening at {address}; try: openssl s_client -quiet -connect {address}");
        for stream in listener.incoming() {
            let (stream, config) = (stream?, Arc::clone(&config));
            FibreBuilder::new().stack_size(STACK).spawn(move || {
                if let Err(error) = session(stream, config) {
                    eprintln!("a session ended early: {error}");
                }
            })?;
        }
        Ok(())
    })
}
