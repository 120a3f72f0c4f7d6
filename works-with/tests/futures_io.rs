//! The traits of `futures-io`, used through the combinators of the crate `futures`.

#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

use fixture::everywhere;
use fixture::loopback::listener;
use futures::future::{join_all, select};
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{AsyncReadExt, AsyncWriteExt};
use sinew::net::{TcpStream, UnixStream};
use sinew::sync::mpmc;
use sinew::task;
use std::pin::pin;

#[test]
fn streams_can_be_split_copied_and_closed() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (listener, address) = listener();
            let server = task::spawn(async move {
                let (stream, _) = listener.accept_async().await.unwrap();
                let (reader, mut writer) = stream.split();
                let count = futures::io::copy(reader, &mut writer).await.unwrap();
                writer.close().await.unwrap();
                count
            });
            let client = task::spawn(async move {
                let stream = TcpStream::connect_async(address).await.unwrap();
                let (mut reader, mut writer) = (&stream, &stream);
                let text = vec![b'x'; 100_000];
                let send = async {
                    writer.write_all(&text).await.unwrap();
                    writer.close().await.unwrap();
                };
                let mut back = Vec::new();
                futures::join!(send, async { reader.read_to_end(&mut back).await.unwrap() });
                back.len()
            });
            assert_eq!(client.join().unwrap(), 100_000);
            assert_eq!(server.join().unwrap(), 100_000);
            let (mut here, mut there) = UnixStream::pair().unwrap();
            task::spawn(async move {
                here.write_all(b"unix").await.unwrap();
                let mut back = [0; 4];
                there.read_exact(&mut back).await.unwrap();
                assert_eq!(&back, b"unix");
            })
            .join()
            .unwrap();
        });
    });
}

#[test]
fn halves_can_be_copied_and_closed() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, there) = UnixStream::pair().unwrap();
            let server = task::spawn(async move {
                let (reader, mut writer) = there.into_split();
                // The drop of the writer closes.
                futures::io::copy(reader, &mut writer).await.unwrap()
            });
            let client = task::spawn(async move {
                let (mut reader, mut writer) = UnixStream::split(&here);
                let text = vec![b'x'; 1_000_000];
                let send = async {
                    AsyncWriteExt::write_all(&mut writer, &text).await.unwrap();
                    writer.close().await.unwrap();
                };
                let mut back = Vec::new();
                futures::join!(send, async { reader.read_to_end(&mut back).await.unwrap() });
                back.len()
            });
            assert_eq!((client.join().unwrap(), server.join().unwrap()), (1_000_000, 1_000_000));
        });
    });
}

#[test]
fn combinators_with_their_own_wakers_can_wait_for_locks_and_channels() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (sender, receiver) = mpmc::sync_channel(1);
            let sum = task::spawn(async move {
                let sends = (1..=50u64).map(|n| {
                    let sender = sender.clone();
                    async move {
                        task::yield_now_async().await;
                        sender.send_async(n).await.unwrap();
                    }
                });
                drop(sender.clone());
                let sends = join_all(sends);
                let receives: FuturesUnordered<_> = (0..50).map(|_| receiver.recv_async()).collect();
                let (_, sum) = futures::join!(sends, receives.fold(0, |sum, n| async move { sum + n.unwrap() }));
                // The loser is dropped while it waits.
                let (waits, ends) = (pin!(receiver.recv_async()), pin!(task::yield_now_async()));
                select(waits, ends).await;
                sum
            });
            assert_eq!(sum.join().unwrap(), 50 * 51 / 2);
        });
    });
}
