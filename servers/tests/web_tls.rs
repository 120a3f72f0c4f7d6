//! HTTPS, with rustls and with curl as clients.

mod site;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use site::{PATIENCE, Serving, Site, noise};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;

struct Secure {
    serving: Serving,
    config: Arc<ClientConfig>,
    certificate: String,
}

fn secure(site: Site, options: &[&str]) -> Secure {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (site.above().join("cert.pem"), site.above().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let certificate = certificate.to_str().unwrap().to_owned();
    let tls = ["--tls", &certificate, key.to_str().unwrap()];
    let serving = site.serve(&[&tls[..], options].concat());
    Secure { serving, config: Arc::new(config), certificate }
}

impl Secure {
    fn connect(&self) -> StreamOwned<ClientConnection, TcpStream> {
        let stream = TcpStream::connect(self.serving.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(Arc::clone(&self.config), name).unwrap(), stream)
    }
}

#[test]
fn files_of_all_sizes_are_served() {
    let (small, large) = (noise(20_000), noise(3_000_000));
    let secure = secure(Site::new().file("small", &small).file("large", &large), &["--plaintext"]);
    let mut stream = secure.connect();
    let ask = |target: &str, end: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{end}\r\n");
    let all = ask("/plaintext", "") + &ask("/small", "") + &ask("/large", "Connection: close\r\n");
    stream.write_all(all.as_bytes()).unwrap();
    // The end is announced, so nobody has cut the connection.
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    let find = |needle: &[u8]| said.windows(needle.len()).position(|bytes| bytes == needle);
    assert!(find(b"Hello, World!HTTP/1.1 200 OK\r\n").is_some());
    assert!(find(&small).is_some() && said.ends_with(&large));
}

#[test]
fn curl_trusts_the_certificate() {
    let content = noise(300_000);
    let secure = secure(Site::new().file("a.bin", &content), &[]);
    let port = secure.serving.address.port();
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--max-time", "20", "--cacert", &secure.certificate]);
    curl.args(["--resolve", &format!("localhost:{port}:127.0.0.1"), &format!("https://localhost:{port}/a.bin")]);
    match curl.output() {
        Ok(output) => assert!(output.status.success() && output.stdout == content, "{output:?}"),
        Err(_) => eprintln!("skipped: curl is not installed"),
    }
}

#[test]
fn a_client_without_tls_is_closed() {
    let secure = secure(Site::new().file("a", "A"), &["--header-timeout", "0.5"]);
    let mut plain = secure.serving.connect();
    plain.say("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let said = plain.hear_all();
    assert!(!said.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&said));
    let mut silent = secure.serving.connect();
    assert!(silent.is_closed());
    let mut stream = secure.connect();
    stream.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.ends_with("\r\n\r\nA"));
}

#[test]
fn the_server_answers_and_sends_close_notify() {
    let secure = secure(Site::new().file("a", "A"), &["--idle-timeout", "30"]);
    let ask = |stream: &mut StreamOwned<ClientConnection, TcpStream>| {
        stream.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    };
    // This client sends no more, but receives.
    let mut leaving = secure.connect();
    ask(&mut leaving);
    leaving.conn.send_close_notify();
    leaving.flush().unwrap();
    let mut said = String::new();
    leaving.read_to_string(&mut said).expect("an end that is announced");
    assert!(said.ends_with("\r\n\r\nA"), "{said}");
    let mut idle = secure.connect();
    ask(&mut idle);
    said.clear();
    while !said.ends_with("\r\n\r\nA") {
        let mut byte = [0];
        idle.read_exact(&mut byte).expect("an answer");
        said.push(byte[0].into());
    }
    secure.serving.terminate();
    assert_eq!(idle.read(&mut [0]).expect("an end that is announced"), 0);
}
