//! Sinew's sockets with Tokio's traits, used through Tokio's own combinators.

#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

use fixture::everywhere;
use fixture::loopback::{SIZES, bytes, echo, narrow_pair, pair};
use sinew::net::UnixStream;
use sinew::task;
use sinew_tokio::SinewIo;
use std::io::{ErrorKind, IoSlice};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional, split};

#[test]
fn bytes_of_every_size_come_back() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, there) = pair();
            let server = sinew::spawn(move || echo(there));
            let client = task::spawn(async move {
                let mut stream = SinewIo::new(here);
                for (number, &size) in SIZES.iter().enumerate() {
                    let sent = bytes(number as u64, size);
                    // A vector with room that is not initialised.
                    let mut received = Vec::with_capacity(size);
                    stream.write_all(&sent).await.unwrap();
                    while received.len() < size {
                        assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0);
                    }
                    assert!(sent == received, "{size} bytes came back changed");
                }
                stream.shutdown().await.unwrap();
                assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
                stream.shutdown().await.unwrap();
            });
            client.join().unwrap();
            server.join().unwrap().unwrap();
        });
    });
}

#[test]
fn more_bytes_than_the_sockets_hold_cross_in_both_directions() {
    const BYTES: usize = 1_500_000;
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, there) = narrow_pair();
            let server = sinew::spawn(move || echo(there));
            let (mut reader, mut writer) = split(SinewIo::new(here));
            let writes = task::spawn(async move {
                writer.write_all(&bytes(1, BYTES)).await.unwrap();
                writer.shutdown().await.unwrap();
            });
            let mut received = Vec::new();
            sinew::block_on(reader.read_to_end(&mut received)).unwrap();
            assert!(received == bytes(1, BYTES), "bytes came back changed");
            writes.join().unwrap();
            server.join().unwrap().unwrap();
        });
    });
}

#[test]
fn a_proxy_copies_both_ways_between_kinds_of_socket() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (client, outside) = pair();
            let (inside, server) = UnixStream::pair().unwrap();
            let server = sinew::spawn(move || echo(server));
            let proxy =
                task::spawn(
                    async move { copy_bidirectional(&mut SinewIo::new(outside), &mut SinewIo::from(inside)).await },
                );
            let mut client = SinewIo::new(client);
            let received = sinew::block_on(async {
                let parts = [IoSlice::new(b"over "), IoSlice::new(b"there")];
                assert_eq!(client.write_vectored(&parts).await.unwrap(), 10);
                client.shutdown().await.unwrap();
                let mut text = String::new();
                client.read_to_string(&mut text).await.unwrap();
                text
            });
            assert_eq!(received, "over there");
            assert_eq!(proxy.join().unwrap().unwrap(), (10, 10));
            server.join().unwrap().unwrap();
        });
    });
}

#[test]
fn a_peer_that_vanishes_is_an_error() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, there) = pair();
            sinew::block_on(async {
                there.write_all_async(b"half").await.unwrap();
                drop(there);
                let mut here = SinewIo::new(here);
                let error = here.read_exact(&mut [0; 8]).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
            });
        });
    });
}
