//! native-tls over Sinew's sockets. Needs the feature `native-tls`, and OpenSSL's headers.
#![cfg(feature = "native-tls")]

mod beside;
#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

use beside::{STACK, wherever_fibres_stay};
use fixture::loopback::{bytes, listener};
use native_tls::{Certificate, Identity, TlsAcceptor, TlsConnector};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use sinew::FibreBuilder;
use sinew::net::TcpStream;
use std::io::{Read, Write};

#[test]
fn sessions_at_once_get_back_the_bytes_that_they_send() {
    const CLIENTS: usize = 20;
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let identity = Identity::from_pkcs8(cert.pem().as_bytes(), signing_key.serialize_pem().as_bytes()).unwrap();
    let acceptor = TlsAcceptor::new(identity).unwrap();
    let trusted = Certificate::from_pem(cert.pem().as_bytes()).unwrap();
    let connector = TlsConnector::builder().add_root_certificate(trusted).build().unwrap();
    wherever_fibres_stay(|| {
        let (listener, address) = listener();
        sinew::scope(|scope| {
            for client in 0..CLIENTS {
                let connector = &connector;
                let client = move || {
                    let stream = TcpStream::connect(address).unwrap();
                    let mut tls = connector.connect("localhost", stream).unwrap();
                    let sent = bytes(client as u64, 50_000);
                    let mut received = vec![0; sent.len()];
                    tls.write_all(&sent).unwrap();
                    tls.read_exact(&mut received).unwrap();
                    assert!(sent == received, "the bytes came back changed");
                    tls.shutdown().unwrap();
                };
                FibreBuilder::new().stack_size(STACK).spawn_scoped(scope, client).unwrap();
            }
            for stream in listener.incoming().take(CLIENTS) {
                let acceptor = &acceptor;
                let session = move || fixture::loopback::echo(acceptor.accept(stream.unwrap()).unwrap()).unwrap();
                FibreBuilder::new().stack_size(STACK).spawn_scoped(scope, session).unwrap();
            }
        });
    });
}
