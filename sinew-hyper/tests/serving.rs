//! hyper's server on tasks. The clients are fibres.

mod service;

use service::{Client, answer, on_all_sizes, request, serve, settings};

const CLIENTS: usize = 50;
const REQUESTS: usize = 200;

#[test]
fn ten_thousand_requests_of_fibres_are_answered() {
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let (address, server) = serve(CLIENTS, settings());
            let clients = (0..CLIENTS).map(|number| {
                sinew::spawn(move || {
                    let mut client = Client::connect(address);
                    for request in 0..REQUESTS {
                        let path = format!("/{number}/{request}");
                        client.ask(&path);
                        assert_eq!(client.read(), answer(&path));
                    }
                    REQUESTS
                })
            });
            let clients: Vec<_> = clients.collect();
            let answered: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
            assert_eq!(answered, 10_000);
            let ends = server.join().unwrap();
            assert_eq!(ends.len(), CLIENTS);
            ends.into_iter().for_each(|end| end.unwrap());
        });
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let mut builder = settings();
            builder.pipeline_flush(true);
            let (address, server) = serve(1, builder);
            let mut client = Client::connect(address);
            for round in 0..10 {
                let paths: Vec<String> = (0..32).map(|number| format!("/{round}/{number}")).collect();
                client.send(paths.iter().map(|path| request(path)).collect::<String>());
                for path in &paths {
                    assert_eq!(client.read(), answer(path));
                }
            }
            drop(client);
            assert!(server.join().unwrap().remove(0).is_ok());
        });
    });
}

/// Returns a body in which no part repeats.
fn long_body() -> Vec<u8> {
    (0..4 << 20).map(|index: u32| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn a_long_body_is_streamed_both_ways_at_once() {
    on_all_sizes(|rt, _| {
        rt.run(|| {
            let (address, server) = serve(2, settings());
            let body = long_body();
            for chunked in [false, true] {
                let mut client = Client::connect(address);
                let writer = client.stream().clone();
                sinew::scope(|scope| {
                    // The body is larger than all buffers together. A client that wrote all of it
                    // before it read would wait for ever.
                    scope.spawn(|| post(writer, &body, chunked));
                    let answer = client.read();
                    assert_eq!((answer.status, answer.body.len()), (200, body.len()));
                    assert!(answer.body == body, "chunked {chunked}: the bytes differ");
                });
            }
            server.join().unwrap().into_iter().for_each(|end| end.unwrap());
        });
    });
}

fn post(mut writer: impl std::io::Write, body: &[u8], chunked: bool) {
    let head = "POST / HTTP/1.1\r\nhost: here\r\n";
    if !chunked {
        write!(writer, "{head}content-length: {}\r\n\r\n", body.len()).unwrap();
        return writer.write_all(body).unwrap();
    }
    write!(writer, "{head}transfer-encoding: chunked\r\n\r\n").unwrap();
    for chunk in body.chunks(50_000) {
        write!(writer, "{:x}\r\n", chunk.len()).unwrap();
        writer.write_all(chunk).unwrap();
        writer.write_all(b"\r\n").unwrap();
    }
    writer.write_all(b"0\r\n\r\n").unwrap();
}
