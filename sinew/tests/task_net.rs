//! Sockets that tasks and fibres use.

mod fixture;

use fixture::loopback::listener;
use fixture::{Random, alone, everywhere, wait_until, wherever, within_turns};
use sinew::io::Pollable;
use sinew::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use sinew::{block_on, task, time};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::Duration;

/// Echoes until the peer closes.
async fn echo(stream: TcpStream) -> std::io::Result<u64> {
    let (mut buffer, mut total) = ([0; 512], 0);
    loop {
        match stream.read_async(&mut buffer).await? {
            0 => return Ok(total),
            count => {
                stream.write_all_async(&buffer[..count]).await?;
                total += count as u64;
            }
        }
    }
}

#[test]
fn tasks_serve_fibres_tasks_and_threads() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (listener, address) = listener();
            let server = task::spawn(async move {
                let mut sessions = task::JoinSet::new();
                for _ in 0..9 {
                    let (stream, _) = listener.accept_async().await.unwrap();
                    sessions.spawn(echo(stream));
                }
                let mut total = 0;
                while let Some(session) = sessions.join_next_async().await {
                    total += session.unwrap().unwrap();
                }
                total
            });
            let talk = move |text: &str| {
                let mut stream = TcpStream::connect(address).unwrap();
                for _ in 0..5 {
                    stream.write_all(text.as_bytes()).unwrap();
                    let mut answer = vec![0; text.len()];
                    stream.read_exact(&mut answer).unwrap();
                    assert_eq!(answer, text.as_bytes());
                }
            };
            let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(move || talk("thread"))).collect();
            let fibres: Vec<_> = (0..3).map(|_| sinew::spawn(move || talk("fibres"))).collect();
            let tasks: Vec<_> = (0..3)
                .map(|_| {
                    task::spawn(async move {
                        let stream = TcpStream::connect_async(address).await.unwrap();
                        for _ in 0..5 {
                            stream.write_all_async(b"tasks!").await.unwrap();
                            let mut answer = [0; 6];
                            stream.read_exact_async(&mut answer).await.unwrap();
                            assert_eq!(&answer, b"tasks!");
                        }
                    })
                })
                .collect();
            fibres.into_iter().for_each(|fibre| fibre.join().unwrap());
            tasks.into_iter().for_each(|task| task.join().unwrap());
            assert_eq!(server.join().unwrap(), 9 * 5 * 6);
            sinew::blocking(|| threads.into_iter().for_each(|thread| thread.join().unwrap()));
        });
    });
}

#[test]
fn dropping_a_read_loses_no_byte() {
    const BYTES: usize = 20_000;
    let seed = Random::new(u64::from(std::process::id()) | 1 << 41).below(u64::MAX);
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, mut there) = UnixStream::pair().unwrap();
            let writer = sinew::spawn(move || {
                let bytes: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
                for (chunk, pause) in bytes.chunks(97).zip(0..) {
                    there.write_all(chunk).unwrap();
                    if pause % 3 == 0 {
                        sinew::yield_now();
                    }
                }
            });
            let reader = task::spawn(async move {
                let (mut received, mut buffer, mut random) = (0, [0; 64], seed | 1);
                loop {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                    let turns = random >> 62;
                    // Gives up a read that is enqueued, or one that polls.
                    let count = match random >> 61 & 1 {
                        0 => within_turns(turns, here.read_async(&mut buffer)).await,
                        _ => within_turns(turns, poll_fn(|context| here.poll_read(context, &mut buffer))).await,
                    };
                    match count.map(Result::unwrap) {
                        None => {}
                        Some(0) => return received,
                        Some(count) => {
                            for byte in &buffer[..count] {
                                assert_eq!(usize::from(*byte), received % 251);
                                received += 1;
                            }
                        }
                    }
                }
            });
            writer.join().unwrap();
            assert_eq!(reader.join().unwrap(), BYTES);
        });
    });
}

#[test]
fn a_polling_reader_is_woken_when_bytes_come_and_after_enqueued_readers() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, mut there) = UnixStream::pair().unwrap();
            let here = Arc::new(here);
            let pending = Arc::new(AtomicU32::new(0));
            let noting = |pending: &Arc<AtomicU32>| {
                let pending = Arc::clone(pending);
                move |is_pending: bool| {
                    pending.fetch_add(u32::from(is_pending), Relaxed);
                }
            };
            let (its, note) = (Arc::clone(&here), noting(&pending));
            let polls = task::spawn(async move {
                let mut buffer = [0; 1];
                poll_fn(|context| {
                    let polled = its.poll_read(context, &mut buffer);
                    note(polled.is_pending());
                    polled
                })
                .await
                .unwrap();
                buffer[0]
            });
            wait_until(|| pending.load(Relaxed) == 1);
            let (its, note) = (Arc::clone(&here), noting(&pending));
            let waits = task::spawn(async move {
                let mut buffer = [0; 1];
                {
                    let mut read = pin!(its.read_async(&mut buffer));
                    poll_fn(|context| {
                        let polled = read.as_mut().poll(context);
                        note(polled.is_pending());
                        polled
                    })
                    .await
                    .unwrap();
                }
                buffer[0]
            });
            wait_until(|| pending.load(Relaxed) == 2);
            there.write_all(b"12").unwrap();
            assert_eq!((waits.join().unwrap(), polls.join().unwrap()), (b'1', b'2'));
        });
    });
}

#[test]
fn waiting_for_readiness_takes_no_bytes_and_also_ends_with_the_stream() {
    everywhere(|rt, _| {
        rt.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut here = listener.accept().unwrap().0;
            let (its, polls) = (here.clone(), Arc::new(AtomicU32::new(0)));
            let count = Arc::clone(&polls);
            let polling = task::spawn(poll_fn(move |context| {
                count.fetch_add(1, Relaxed);
                its.poll_readable(context)
            }));
            wait_until(|| polls.load(Relaxed) == 1);
            // All enqueued tasks are signalled, one after the other, and then the polling one.
            let entered: Vec<_> = (0..3)
                .map(|_| {
                    let its = here.clone();
                    task::spawn(async move { its.readable_async().await })
                })
                .collect();
            (0..10).for_each(|_| sinew::yield_now());
            assert!(!polling.is_finished() && !entered.iter().any(|task| task.is_finished()));
            there.write_all(b"abc").unwrap();
            entered.into_iter().for_each(|task| task.join().unwrap().unwrap());
            polling.join().unwrap().unwrap();
            assert_eq!(polls.load(Relaxed), 2);
            let mut buffer = [0; 8];
            assert_eq!(here.read(&mut buffer).unwrap(), 3);
            let its = here.clone();
            let end = task::spawn(async move { its.readable_async().await });
            drop(there);
            end.join().unwrap().unwrap();
            assert_eq!(here.read(&mut buffer).unwrap(), 0);
            // The stream stays at its end.
            block_on(here.readable_async()).unwrap();
        });
    });
}

#[test]
fn a_task_that_waits_without_a_buffer_misses_no_byte() {
    const BYTES: usize = 3_000;
    let seed = Random::new(u64::from(std::process::id()) | 1 << 43).below(u64::MAX);
    everywhere(|rt, _| {
        rt.run(|| {
            let (mut here, mut there) = UnixStream::pair().unwrap();
            let writer = sinew::spawn(move || {
                let mut random = seed | 1;
                for byte in 0..BYTES {
                    there.write_all(&[byte as u8]).unwrap();
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                    (0..random >> 62).for_each(|_| sinew::yield_now());
                }
            });
            // A task waits, then a fibre reads, in turns: like sessions that come and go.
            let mut received = 0;
            loop {
                let its = here.clone();
                task::spawn(poll_fn(move |context| its.poll_readable(context))).join().unwrap().unwrap();
                let mut buffer = [0; 3];
                let count = here.read(&mut buffer).unwrap();
                if count == 0 {
                    break;
                }
                for byte in &buffer[..count] {
                    assert_eq!(*byte, received as u8);
                    received += 1;
                }
            }
            assert_eq!(received, BYTES);
            writer.join().unwrap();
        });
    });
}

#[test]
fn tasks_that_accept_side_by_side_get_every_connection() {
    everywhere(|rt, _| {
        rt.run(|| {
            let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
            let address = listener.local_addr().unwrap();
            let accepted = Arc::new(AtomicU32::new(0));
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    let (listener, accepted) = (Arc::clone(&listener), Arc::clone(&accepted));
                    task::spawn(async move {
                        while accepted.load(Relaxed) < 20 {
                            let limit = Duration::from_millis(50);
                            if let Ok(connection) = time::timeout_async(limit, listener.accept_async()).await {
                                connection.unwrap();
                                accepted.fetch_add(1, Relaxed);
                            }
                        }
                    })
                })
                .collect();
            let clients: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
            tasks.into_iter().for_each(|task| task.join().unwrap());
            assert_eq!(accepted.load(Relaxed), 20);
            drop(clients);
        });
    });
}

#[test]
fn a_task_waits_until_a_full_socket_has_room() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, mut there) = UnixStream::pair().unwrap();
            let writer = task::spawn(async move {
                let chunk = [7; 4096];
                for _ in 0..256 {
                    here.write_all_async(&chunk).await.unwrap();
                }
            });
            let mut all = Vec::new();
            there.read_to_end(&mut all).unwrap();
            writer.join().unwrap();
            assert_eq!(all.len(), 256 * 4096);
        });
    });
}

#[test]
fn tasks_can_wait_for_the_other_kinds_of_socket() {
    everywhere(|rt, setup| {
        rt.run(|| {
            let (near, far) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
            let (near_address, far_address) = (near.local_addr().unwrap(), far.local_addr().unwrap());
            let receives = task::spawn(async move {
                let mut buffer = [0; 16];
                let (count, from) = far.recv_from_async(&mut buffer).await.unwrap();
                assert_eq!((&buffer[..count], from), (&b"hello"[..], near_address));
                far.connect(near_address).unwrap();
                far.send_async(b"bye").await.unwrap();
            });
            let sends = task::spawn(async move {
                near.send_to_async(b"hello", far_address).await.unwrap();
                let mut buffer = [0; 16];
                near.recv_async(&mut buffer).await.unwrap()
            });
            assert_eq!(sends.join().unwrap(), 3);
            receives.join().unwrap();

            let name = format!("sinew-task-{}-{setup:?}", std::process::id());
            let address = SocketAddr::from_abstract_name(name).unwrap();
            let listener = UnixListener::bind_addr(&address).unwrap();
            let accepts = task::spawn(async move { listener.accept_async().await.unwrap().0 });
            let stream = task::spawn(async move { UnixStream::connect_async(&address).await.unwrap() }).join().unwrap();
            let other = accepts.join().unwrap();
            drop(stream);
            assert_eq!(block_on(other.read_async(&mut [0; 4])).unwrap(), 0);

            let (reader, writer) = std::io::pipe().unwrap();
            let (reader, writer) = (Pollable::new(reader).unwrap(), Pollable::new(writer).unwrap());
            let reads = task::spawn(async move {
                reader.readable_async().await.unwrap();
                let mut buffer = [0; 4];
                reader.read_with_async(|mut pipe| pipe.read(&mut buffer)).await.unwrap()
            });
            block_on(async {
                writer.writable_async().await.unwrap();
                writer.write_with_async(|mut pipe| pipe.write(b"pipe")).await.unwrap();
            });
            assert_eq!(reads.join().unwrap(), 4);
        });
    });
}

#[test]
fn a_refused_connection_is_an_error_and_a_blocking_read_in_a_task_panics() {
    everywhere(|rt, _| {
        rt.run(|| {
            let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let error = task::spawn(TcpStream::connect_async(closed)).join().unwrap().unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
            let (mut here, there) = UnixStream::pair().unwrap();
            let blocks = task::spawn(async move { here.read(&mut [0; 4]).unwrap() });
            assert!(blocks.join().unwrap_err().to_string().contains("may not block its processor"));
            drop(there);
        });
    });
    alone(|| {
        let (here, _there) = UnixStream::pair().unwrap();
        let error = block_on(here.read_async(&mut [0; 4])).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    });
}

#[test]
fn a_busy_session_gives_way_to_fibres() {
    wherever(
        |setup| setup.processors == 1,
        |rt, _| {
            rt.run(|| {
                let stop = Arc::new(AtomicU32::new(0));
                let its_stop = Arc::clone(&stop);
                let busy = task::spawn(async move {
                    let (here, there) = UnixStream::pair().unwrap();
                    while its_stop.load(Relaxed) == 0 {
                        here.write_async(b"x").await.unwrap();
                        poll_fn(|context| there.poll_read(context, &mut [0; 1])).await.unwrap();
                    }
                });
                (0..10).for_each(|_| sinew::yield_now());
                stop.store(1, Relaxed);
                busy.join().unwrap();
            });
        },
    );
}

#[test]
fn tasks_send_and_receive_unix_datagrams() {
    everywhere(|rt, setup| {
        rt.run(|| {
            let name = |end: &str| {
                let name = format!("sinew-datagram-{end}-{}-{setup:?}", std::process::id());
                SocketAddr::from_abstract_name(name).unwrap()
            };
            let receiver = UnixDatagram::bind_addr(&name("receiver")).unwrap();
            let (address, from) = (name("receiver"), name("sender"));
            let sender = UnixDatagram::bind_addr(&from).unwrap();
            let sends = task::spawn(async move {
                // More than the kernel keeps.
                for index in 0..100u8 {
                    let sent = vec![index; index as usize + 1];
                    assert_eq!(sender.send_to_addr_async(&sent, &address).await.unwrap(), sent.len());
                }
                sender.connect_addr(&address).unwrap();
                for index in 0..100 {
                    assert_eq!(sender.send_async(&[index]).await.unwrap(), 1);
                }
            });
            let receives = task::spawn(async move {
                let mut buffer = [0; 128];
                for index in 0..100u8 {
                    let (count, sender) = receiver.recv_from_async(&mut buffer).await.unwrap();
                    assert_eq!(buffer[..count], vec![index; index as usize + 1]);
                    assert_eq!(sender.as_abstract_name(), from.as_abstract_name());
                }
                for index in 0..100u8 {
                    assert_eq!((receiver.recv_async(&mut buffer).await.unwrap(), buffer[0]), (1, index));
                }
            });
            sends.join().unwrap();
            receives.join().unwrap();
        });
    });
}

#[test]
fn a_dropped_receive_loses_no_unix_datagram() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (one, other) = UnixDatagram::pair().unwrap();
            let task = task::spawn(async move {
                let mut buffer = [0; 16];
                assert!(within_turns(3, other.recv_async(&mut buffer)).await.is_none());
                assert!(within_turns(3, other.recv_from_async(&mut buffer)).await.is_none());
                one.send_async(b"hello").await.unwrap();
                let count = other.recv_async(&mut buffer).await.unwrap();
                assert_eq!(&buffer[..count], b"hello");
                let path = std::env::temp_dir().join(format!("sinew-nothing-{}", std::process::id()));
                let error = one.send_to_async(b"x", &path).await.unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
            });
            task.join().unwrap();
        });
    });
}
