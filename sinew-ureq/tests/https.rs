//! https: ureq's rustls over Sinew's sockets, on both sides.
#![cfg(feature = "rustls")]

#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;
mod server;

use fixture::loopback::listener;
use fixture::{LONG, wherever};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use server::{run, spawn};
use std::sync::Arc;
use std::time::Duration;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Error};

fn identity() -> (CertificateDer<'static>, Arc<ServerConfig>) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate.clone()], key.into()).unwrap();
    (certificate, Arc::new(config))
}

fn agent(roots: RootCerts, limit: Duration) -> Agent {
    let tls = TlsConfig::builder().root_certs(roots).build();
    sinew_ureq::agent(Agent::config_builder().tls_config(tls).timeout_global(Some(limit)).build())
}

fn trusting(certificate: &CertificateDer<'_>) -> RootCerts {
    RootCerts::new_with_certs(&[Certificate::from_der(certificate).to_owned()])
}

#[test]
fn requests_and_answers_pass_through_rustls() {
    let (certificate, config) = identity();
    wherever(
        |setup| setup.processors < 4,
        |rt, _| {
            run(rt, || {
                let (listener, address) = listener();
                let (config, certificate) = (&config, &certificate);
                sinew::scope(|scope| {
                    let session = move || {
                        let stream = listener.accept().unwrap().0;
                        let mut tls = StreamOwned::new(ServerConnection::new(Arc::clone(config)).unwrap(), stream);
                        for _ in 0..2 {
                            let request = server::read(&mut tls).unwrap();
                            server::answer(&mut tls, request.path.as_bytes());
                        }
                    };
                    spawn(scope, session);
                    let agent = agent(trusting(certificate), LONG);
                    for path in ["/one", "/two"] {
                        let url = format!("https://localhost:{}{path}", address.port());
                        assert_eq!(agent.get(&url).call().unwrap().body_mut().read_to_string().unwrap(), path);
                    }
                });
            });
        },
    );
}

#[test]
fn a_certificate_that_is_not_trusted_is_an_error() {
    let (_, config) = identity();
    let (other, _) = identity();
    wherever(
        |setup| setup.processors < 4,
        |rt, _| {
            run(rt, || {
                let (listener, address) = listener();
                let (config, other) = (&config, &other);
                sinew::scope(|scope| {
                    let session = move || {
                        let stream = listener.accept().unwrap().0;
                        let mut tls = ServerConnection::new(Arc::clone(config)).unwrap();
                        assert!(tls.complete_io(&mut &stream).is_err());
                    };
                    spawn(scope, session);
                    let url = format!("https://localhost:{}/", address.port());
                    let error = agent(trusting(other), LONG).get(&url).call().unwrap_err();
                    assert!(matches!(error, Error::Rustls(_) | Error::Io(_)), "{error:?}");
                });
            });
        },
    );
}

#[test]
fn a_timeout_ends_a_handshake_that_the_server_does_not_answer() {
    let (certificate, _) = identity();
    wherever(
        |setup| setup.processors < 4,
        |rt, _| {
            run(rt, || {
                server::silent(|url| {
                    let url = url.replace("http://127.0.0.1", "https://localhost");
                    let error = agent(trusting(&certificate), Duration::from_millis(20)).get(&url).call().unwrap_err();
                    assert!(matches!(error, Error::Timeout(_)), "{error:?}");
                });
            });
        },
    );
}
