//! The load generator against servers that are known.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::http::Stay;
use super::{Load, Shape, Traffic, bare, connect, http};

const LENGTH: Duration = Duration::from_millis(30);

/// Answers every byte by three, until the client leaves or, if `requests` is not 0, until it has
/// answered that number. Counts connections that have asked.
fn server(requests: usize) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let asked = Arc::new(AtomicU64::new(0));
    let counter = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counter = counter.clone();
            thread::spawn(move || session(stream, requests, &counter));
        }
    });
    (address, asked)
}

fn session(mut stream: TcpStream, requests: usize, asked: &AtomicU64) {
    let mut answered = 0;
    while let Ok(count @ 1..) = stream.read(&mut [0; 8]) {
        asked.fetch_add(u64::from(answered == 0), Relaxed);
        answered += count;
        if stream.write_all(&b"abc".repeat(count)).is_err() || answered == requests {
            return;
        }
    }
}

fn one_byte() -> Traffic {
    Box::new(|_, bytes| {
        bytes.push(b'?');
        3
    })
}

#[test]
fn a_closed_loop_has_as_many_requests_under_way_as_it_was_told() {
    let (address, asked) = server(0);
    let shape = Shape { depth: 16, ..Shape::plain(4) };
    let rate = Load::connect(address, shape, one_byte()).and_then(|mut load| load.closed(LENGTH)).expect("a run");
    assert_eq!(rate.all % 16, 0);
    assert!(rate.all >= 64 && rate.per_second > 0.0);
    assert_eq!(asked.load(Relaxed), 4);
}

#[test]
fn every_second_connection_of_a_skewed_load_is_silent() {
    let (address, asked) = server(0);
    let shape = Shape { is_skewed: true, ..Shape::plain(6) };
    Load::connect(address, shape, one_byte()).and_then(|mut load| load.closed(LENGTH)).expect("a run");
    assert_eq!(asked.load(Relaxed), 3);
}

#[test]
fn each_request_of_a_load_that_renews_has_a_connection_of_its_own() {
    let (address, asked) = server(1);
    let shape = Shape { renews: true, ..Shape::plain(2) };
    let mut load = Load::connect(address, shape, one_byte()).expect("connections");
    let first = load.closed(LENGTH).expect("a run").all;
    let second = load.closed(LENGTH).expect("another run").all;
    assert!(first >= 2 && second >= 2);
    assert_eq!(asked.load(Relaxed), first + second);
}

#[test]
fn an_open_loop_is_answered_for_every_request() {
    let (address, _) = server(0);
    let mut load = Load::connect(address, Shape::plain(3), one_byte()).expect("connections");
    let served = load.open(LENGTH, 1000.0).expect("a run");
    assert_eq!(served.lost, 0);
    assert!(served.times.count() > 0);
}

#[test]
fn an_open_loop_leaves_out_the_times_of_requests_that_do_not_count() {
    let (address, _) = server(0);
    let sent = Arc::new(AtomicU64::new(0));
    let counter = sent.clone();
    let both: Traffic = Box::new(move |_, bytes| {
        bytes.push(if counter.fetch_add(1, Relaxed).is_multiple_of(2) { b'?' } else { b'!' });
        3
    });
    let mut load = Load::connect(address, Shape::plain(3), both).expect("connections");
    load.count_only(|request| request == b"?");
    let served = load.open(LENGTH, 1000.0).expect("a run");
    assert_eq!((served.lost, served.times.count()), (0, sent.load(Relaxed).div_ceil(2)));
}

#[test]
fn a_reply_that_is_longer_than_it_was_is_an_error() {
    let (address, _) = server(0);
    let short: Traffic = Box::new(|_, bytes| {
        bytes.push(b'?');
        2
    });
    let mut load = Load::connect(address, Shape::plain(1), short).expect("a connection");
    assert!(load.closed(LENGTH).is_err());
}

/// The address of a bare loop.
fn address_of(bare: &'static str, stay: Stay) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || bare::serve(bare, listener, stay));
    address
}

/// Returns a client of each bare loop that does not wait for ever.
fn clients(stay: Stay) -> impl Iterator<Item = TcpStream> {
    bare::permitted().map(move |bare| connect(address_of(bare, stay)).expect("a connection"))
}

#[test]
fn bare_loops_put_requests_together_and_take_them_apart() {
    for mut stream in clients(Stay::Open) {
        let request = Stay::Open.request("/");
        let reply = Stay::Open.reply();
        let three = request.repeat(3);
        // Within the empty line that ends the second request. The first reply shows that the
        // beginning of the second one was read, too.
        let (part, rest) = three.split_at(2 * request.len() - 2);
        for (bytes, count) in [(part, 1), (rest, 2)] {
            stream.write_all(bytes).expect("to send");
            let mut replies = vec![0; count * reply.len()];
            stream.read_exact(&mut replies).expect("replies");
            assert_eq!(replies, reply.repeat(count));
        }
    }
}

#[test]
fn bare_loops_send_the_rest_of_replies_when_the_client_reads() {
    for mut stream in clients(Stay::Open) {
        // Their replies are more than the sockets' buffers hold.
        const REQUESTS: usize = 60_000;
        let request = Stay::Open.request("/");
        let mut writer = stream.try_clone().expect("a second handle");
        let writer = thread::spawn(move || writer.write_all(&request.repeat(REQUESTS)));
        let mut replies = vec![0; REQUESTS * Stay::Open.reply().len()];
        stream.read_exact(&mut replies).expect("all replies");
        assert!(replies.ends_with(Stay::Open.reply()));
        writer.join().expect("a writer").expect("to send");
    }
}

#[test]
fn bare_loops_close_a_connection_after_its_one_reply() {
    for bare in bare::permitted() {
        let address = address_of(bare, Stay::Close);
        for _ in 0..3 {
            let mut stream = connect(address).expect("a connection");
            let reply = http::ask(&mut stream, &Stay::Close.request("/")).expect("a reply");
            assert_eq!(reply, Stay::Close.reply().len());
            assert_eq!(stream.read(&mut [0; 8]).expect("the end"), 0);
        }
    }
}

#[test]
fn bare_loops_serve_many_connections() {
    for bare in bare::permitted() {
        let address = address_of(bare, Stay::Open);
        let traffic = http::traffic(address, Stay::Open.request("/")).expect("a reply");
        let mut load = Load::connect(address, Shape::plain(300), traffic).expect("connections");
        assert!(load.closed(LENGTH).expect("a run").all >= 300, "{bare}");
    }
}
