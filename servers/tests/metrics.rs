//! `--metrics`: what is served there, to whom, and what clients cannot do.

mod process;

use process::{PATIENCE, Process, discard, prepare, receive};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

/// The number of connections that the door for metrics has at a time.
const MOST: usize = 8;

/// A server with metrics. It is killed when this value is dropped.
struct Server {
    process: Process,
    /// Where it serves its clients.
    address: SocketAddr,
    metrics: SocketAddr,
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns the address in a line such as `listening at 127.0.0.1:7` or `metrics at http://127.0.0.1:7/metrics`.
fn address_in(line: &str) -> SocketAddr {
    let last = line.trim().rsplit([' ', '/']).find(|word| word.contains(':'));
    last.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no address: {line}"))
}

impl Server {
    /// Starts a server whose metrics are at a port of their own.
    fn start(arguments: &[&str]) -> Server {
        let mut process = Process::start(command(arguments).args(["--metrics", "0"])).expect("the server");
        let (mut output, mut errors) = (BufReader::new(process.output()), BufReader::new(process.errors()));
        let mut line = String::new();
        // memcached tells its address there.
        if arguments[0] == "memcached" { errors.read_line(&mut line) } else { output.read_line(&mut line) }.unwrap();
        let address = address_in(&line);
        line.clear();
        errors.read_line(&mut line).unwrap();
        assert!(line.starts_with("metrics at http://"), "{line}");
        let metrics = address_in(line.trim().trim_end_matches("/metrics"));
        discard(output);
        discard(errors);
        Server { process, address, metrics }
    }

    fn web(options: &[&str]) -> Server {
        let site = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        Server::start(&[&["web", site, "--plaintext", "--listen", "127.0.0.1:0"], options].concat())
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.metrics).expect("a connection");
        prepare(&stream);
        stream
    }

    /// Sends bytes, and returns everything that comes back.
    fn ask(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // The server may have answered and closed already.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        hear(&mut stream)
    }

    /// Returns the metrics, after a check of the answer around them.
    fn scrape(&self) -> String {
        let answer = self.ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer}"));
        let mut lines = head.split("\r\n");
        assert_eq!(lines.next(), Some("HTTP/1.1 200 OK"));
        let fields: HashMap<_, _> = lines.map(|line| line.split_once(": ").unwrap()).collect();
        assert_eq!(fields["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
        assert_eq!(fields["Content-Length"], body.len().to_string());
        assert_eq!(body.matches("# EOF").count(), 1);
        assert!(body.ends_with("\n# EOF\n"));
        body.to_owned()
    }

    /// Returns the sum of all samples with this name.
    fn number(&self, name: &str) -> f64 {
        sum(&self.scrape(), name)
    }
}

fn hear(stream: &mut TcpStream) -> String {
    let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match receive(stream, &mut buffer, &heard) {
            0 => return String::from_utf8(heard).expect("text"),
            count => heard.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Returns the sum of all samples with this name. Each line of the text has to be one of a sample or a comment.
fn sum(text: &str, name: &str) -> f64 {
    let (mut sum, mut found) = (0.0, false);
    for line in text.lines().filter(|line| !line.starts_with("# ")) {
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        if series.split('{').next() == Some(name) {
            (sum, found) = (sum + value, true);
        }
    }
    assert!(found, "no {name}");
    sum
}

fn each(check: impl Fn(&Server)) {
    check(&Server::web(&[]));
    check(&Server::web(&["--events"]));
    check(&Server::start(&["memcached", "-p", "0"]));
    check(&Server::start(&["chat", "--listen", "127.0.0.1:0"]));
}

#[test]
fn every_server_tells_what_its_runtime_counts_on_the_loopback_interface() {
    each(|server| {
        assert_eq!(server.metrics.ip(), Ipv4Addr::LOCALHOST);
        assert!(server.number("sinew_dispatches_total") > 0.0);
        assert!(server.number("sinew_live_strands") >= 1.0);
        let head = server.ask(b"HEAD /metrics HTTP/1.0\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(server.ask(b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
        server.process.terminate();
    });
}

#[test]
fn a_server_without_the_option_has_no_such_door() {
    let mut process = Process::start(&mut command(&["chat", "--listen", "127.0.0.1:0"])).expect("the server");
    let mut line = String::new();
    BufReader::new(process.output()).read_line(&mut line).unwrap();
    let address = address_in(&line);
    let mut stream = TcpStream::connect(address).unwrap();
    prepare(&stream);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    assert!(hear(&mut stream).starts_with("HTTP/1.1 404"));
    process.terminate();
    assert!(process.wait_for_end().success());
    assert_eq!(process.messages(), "");
}

#[test]
fn the_server_ends_while_somebody_is_connected_to_its_metrics() {
    each(|server| {
        let mut silent = server.connect();
        silent.write_all(b"GET").unwrap();
        // It has been accepted: those who come later are answered.
        server.scrape();
        server.process.terminate();
        assert_eq!(hear(&mut silent), "");
    });
}

#[test]
fn memcached_tells_its_own_numbers() {
    let server = Server::start(&["memcached", "-p", "0"]);
    let mut client = TcpStream::connect(server.address).unwrap();
    prepare(&client);
    client.write_all(b"set a 0 0 1\r\nx\r\nget a b\r\nmn\r\n").unwrap();
    let mut heard = vec![0; "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nMN\r\n".len()];
    client.read_exact(&mut heard).unwrap();
    let text = server.scrape();
    let number = |name: &str| sum(&text, &format!("sinew_memcached_{name}"));
    assert_eq!((number("gets_total"), number("get_hits_total"), number("get_misses_total")), (2.0, 1.0, 1.0));
    assert_eq!((number("sets_total"), number("items")), (1.0, 1.0));
    assert_eq!((number("connections"), number("connections_accepted_total")), (1.0, 1.0));
    drop(client);
    let began = Instant::now();
    // A session counts bytes when it waits or ends.
    while server.number("sinew_memcached_sent_bytes_total") < heard.len() as f64 {
        assert!(began.elapsed() < PATIENCE);
    }
    assert!(server.number("sinew_memcached_received_bytes_total") > 0.0);
}

#[test]
fn chat_tells_its_own_numbers() {
    let server = Server::start(&["chat", "--listen", "127.0.0.1:0"]);
    assert_eq!(server.number("sinew_chat_sessions"), 0.0);
    assert_eq!(server.number("sinew_chat_messages_total"), 0.0);
}

#[test]
fn requests_that_are_wrong_are_refused_and_others_answered() {
    let server = Server::web(&[]);
    let refused: [(&[u8], &str); 8] = [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
        (b"GET /metrics/ HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
        (b"GET //metrics HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "405"),
        (b"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "405"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n", "400"),
        (b"GET /metrics HTTP/7.7\r\nHost: x\r\n\r\n", "505"),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nno field\r\n\r\n", "400"),
    ];
    for (request, status) in refused {
        let answer = server.ask(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    // No other input keeps the next client from being served, and the server keeps no memory of it.
    let endless = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 1 << 20]].concat();
    let long_target = [b"GET /".as_slice(), &vec![b'x'; 1 << 16], b" HTTP/1.1\r\n\r\n"].concat();
    let garbage: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for bytes in [&*endless, &*long_target, &*garbage, b"", b"\r\n\r\n\r\n", b"GET /metrics HTTP/1.1\r\n"] {
        let answer = server.ask(bytes);
        assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
        server.scrape();
    }
}

#[test]
fn silent_clients_are_dropped_and_do_not_keep_others_out() {
    let server = Server::web(&[]);
    let before = server.process.sockets();
    let mut silent: Vec<_> = (0..2 * MOST).map(|_| server.connect()).collect();
    silent.iter_mut().for_each(|stream| stream.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap());
    let began = Instant::now();
    while server.process.sockets() < before + MOST {
        assert!(began.elapsed() < PATIENCE);
    }
    assert_eq!(server.process.sockets(), before + MOST);
    // This waits until those before it are dropped.
    server.scrape();
    silent.iter_mut().for_each(|stream| assert_eq!(hear(stream), ""));
}

#[test]
fn metrics_are_served_beside_load() {
    let server = Server::web(&[]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut stream = TcpStream::connect(server.address).unwrap();
                prepare(&stream);
                let mut buffer = [0; 4096];
                while !is_over.load(Relaxed) {
                    stream.write_all(b"GET /plaintext HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                    assert!(receive(&mut stream, &mut buffer, b"") > 0);
                }
            });
        }
        let (began, mut before) = (Instant::now(), 0.0);
        for _ in 0..50 {
            let text = server.scrape();
            let dispatches = sum(&text, "sinew_dispatches_total");
            assert!(dispatches >= before, "{dispatches} after {before}");
            before = dispatches;
        }
        // The sessions wake up for each request.
        while server.number("sinew_wakeups_total") < 100.0 {
            assert!(began.elapsed() < PATIENCE);
        }
        is_over.store(true, Relaxed);
    });
}

#[test]
fn an_address_that_cannot_be_had_is_an_error() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for wrong in [&*taken, "nonsense", ":1", "127.0.0.1"] {
        let output = command(&["chat", "--listen", "127.0.0.1:0", "--metrics", wrong]).output().unwrap();
        assert!(!output.status.success(), "{wrong}");
        assert!(!output.stderr.is_empty(), "{wrong}");
    }
}
