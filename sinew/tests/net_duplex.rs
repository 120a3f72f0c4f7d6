//! Full-duplex use of one stream: split halves, and session objects that two fibres share.

mod fixture;

use fixture::loopback::{bytes, narrow_pair, pair};
use fixture::{everywhere, let_others_wait};
use sinew::cancel::Cancelled;
use sinew::net::{Duplex, TcpStream, UnixStream};
use sinew::{task, time};
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// Bytes that cross in each direction: more than the sockets hold.
const MUCH: usize = 2_000_000;

#[test]
fn owned_halves_carry_megabytes_in_both_directions_at_once() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, there) = narrow_pair();
            let fibres = [(here, 1, 2), (there, 2, 1)].map(|(stream, own, other)| {
                let (mut reader, mut writer) = stream.into_split();
                let writes = sinew::spawn(move || writer.write_all(&bytes(own, MUCH)).unwrap());
                let reads = sinew::spawn(move || {
                    let mut received = Vec::new();
                    // The end comes from the drop of the other writer.
                    reader.read_to_end(&mut received).unwrap();
                    assert!(received == bytes(other, MUCH));
                });
                [writes, reads]
            });
            fibres.into_iter().flatten().for_each(|fibre| fibre.join().unwrap());
        });
    });
}

#[test]
fn the_end_of_a_borrowed_half_leaves_the_stream_open() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, mut there) = UnixStream::pair().unwrap();
            let (reader, mut writer) = here.split();
            writer.write_all(b"a").unwrap();
            let _ = (reader, writer);
            (&here).write_all(b"b").unwrap();
            let mut received = [0; 2];
            there.read_exact(&mut received).unwrap();
            assert_eq!(&received, b"ab");
            here.split().1.shutdown().unwrap();
            assert_eq!(there.read(&mut received).unwrap(), 0);
        });
    });
}

#[test]
fn halves_of_one_stream_reunite_and_the_stream_stays_open() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, mut there) = pair();
            let (strange_reader, strange_writer) = pair().0.into_split();
            let (reader, writer) = here.into_split();
            let error = reader.reunite(strange_writer).unwrap_err();
            let (reader, strange_writer) = (error.0, error.1);
            strange_writer.reunite(strange_reader).unwrap();
            let mut here = writer.reunite(reader).unwrap();
            here.write_all(b"still open").unwrap();
            there.read_exact(&mut [0; 10]).unwrap();
            let (_reader, writer) = here.into_split();
            writer.forget();
            there.set_nonblocking(true).unwrap();
            assert_eq!(there.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        });
    });
}

#[test]
fn tasks_use_the_two_halves_at_once() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, there) = narrow_pair();
            let (mut reader, mut writer) = here.into_split();
            let (mut echo_reader, mut echo_writer) = there.into_split();
            let tasks = [
                task::spawn(async move { writer.write_all_async(&bytes(3, MUCH)).await }),
                task::spawn(async move {
                    let mut received = vec![0; MUCH];
                    reader.read_exact_async(&mut received).await?;
                    assert!(received == bytes(3, MUCH));
                    Ok(())
                }),
                task::spawn(async move {
                    let mut buffer = vec![0; 10_000];
                    loop {
                        match echo_reader.read_async(&mut buffer).await? {
                            0 => return Ok(()),
                            count => echo_writer.write_all_async(&buffer[..count]).await?,
                        }
                    }
                }),
            ];
            tasks.into_iter().for_each(|task| task.join().unwrap().unwrap());
        });
    });
}

/// A session object as inconvenient as they come: it encrypts into a buffer, sends from there, and
/// sends everything before it reads.
struct Masked {
    stream: TcpStream,
    pending: Vec<u8>,
}

const MASK: u8 = 0x5a;

/// The bytes that it keeps at most.
const MOST_PENDING: usize = 50_000;

impl Masked {
    fn send_pending(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            let count = self.stream.write(&self.pending)?;
            self.pending.drain(..count);
        }
        self.stream.flush()
    }
}

impl Read for Masked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.send_pending()?;
        let count = self.stream.read(buffer)?;
        buffer[..count].iter_mut().for_each(|byte| *byte ^= MASK);
        Ok(count)
    }
}

impl Write for Masked {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.send_pending()?;
        let count = buffer.len().min(MOST_PENDING);
        self.pending.extend(buffer[..count].iter().map(|byte| byte ^ MASK));
        let _ = self.send_pending();
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_pending()
    }
}

fn masked(stream: TcpStream) -> Duplex<Masked> {
    let session = Masked { stream: stream.clone(), pending: Vec::new() };
    Duplex::new(session, &stream)
}

fn receive(mut duplex: &Duplex<Masked>, seed: u64) {
    let mut received = vec![0; MUCH];
    duplex.read_exact(&mut received).unwrap();
    assert!(received == bytes(seed, MUCH));
}

#[test]
fn a_session_object_carries_megabytes_in_both_directions_at_once() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, there) = narrow_pair();
            let (here, there) = (masked(here), masked(there));
            sinew::scope(|scope| {
                for (duplex, own, other) in [(&here, 1, 2), (&there, 2, 1)] {
                    let mut writer = duplex;
                    scope.spawn(move || writer.write_all(&bytes(own, MUCH)).unwrap());
                    scope.spawn(move || receive(duplex, other));
                }
            });
        });
    });
}

#[test]
fn tasks_share_a_session_object_with_fibres() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, there) = narrow_pair();
            let (here, there) = (masked(here), masked(there));
            let (writer, reader) = (here.clone(), there.clone());
            let sends = task::spawn(async move { writer.write_all_async(&bytes(5, MUCH)).await.unwrap() });
            let receives = task::spawn(async move {
                let (mut received, mut buffer) = (Vec::new(), vec![0; 10_000]);
                while received.len() < MUCH {
                    let count = reader.read_async(&mut buffer).await.unwrap();
                    received.extend_from_slice(&buffer[..count]);
                }
                assert!(received == bytes(5, MUCH));
            });
            sinew::scope(|scope| {
                scope.spawn(|| (&there).write_all(&bytes(6, MUCH)).unwrap());
                receive(&here, 6);
            });
            sends.join().unwrap();
            receives.join().unwrap();
        });
    });
}

#[test]
fn a_fibre_that_waits_for_bytes_does_not_keep_another_from_writing() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, mut there) = pair();
            let duplex = masked(here);
            sinew::scope(|scope| {
                let reads = scope.spawn(|| (&duplex).read(&mut [0; 8]).unwrap());
                let_others_wait();
                (&duplex).write_all(b"abc").unwrap();
                there.read_exact(&mut [0; 3]).unwrap();
                there.write_all(b"de").unwrap();
                assert_eq!(reads.join().unwrap(), 2);
            });
        });
    });
}

#[test]
fn a_change_that_another_call_makes_in_the_session_wakes_a_fibre_that_waits_for_it() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, _there) = pair();
            // Whether the session has been told to stop.
            let duplex = Duplex::new((here.clone(), false), &here);
            sinew::scope(|scope| {
                let stops = scope.spawn(|| {
                    duplex.read_with(|(stream, has_stopped)| if *has_stopped { Ok(0) } else { stream.read(&mut [0]) })
                });
                let_others_wait();
                let stop = |(stream, has_stopped): &mut (TcpStream, bool)| {
                    *has_stopped = true;
                    stream.write(b"stop")
                };
                duplex.write_with(stop).unwrap();
                assert_eq!(stops.join().unwrap().unwrap(), 0);
            });
        });
    });
}

fn cancelled(error: &io::Error) -> Option<Cancelled> {
    error.get_ref().and_then(|source| source.downcast_ref::<Cancelled>()).copied()
}

#[test]
fn timeouts_deadlines_and_cancellation_end_the_wait_of_a_session() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, mut there) = pair();
            here.set_read_timeout(Some(MS)).unwrap();
            let duplex = masked(here.clone());
            let mut buffer = [0; 4];
            assert_eq!((&duplex).read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
            let late = duplex.read_with_timeout(MS, |session| session.read(&mut buffer));
            assert_eq!(late.unwrap_err().kind(), ErrorKind::TimedOut);
            let late = duplex.read_with_deadline(Instant::now(), |session| session.read(&mut buffer));
            assert_eq!(late.unwrap_err().kind(), ErrorKind::TimedOut);
            here.set_read_timeout(None).unwrap();
            let late = time::timeout(MS, || (&duplex).read(&mut buffer)).unwrap_err();
            assert_eq!(cancelled(&late), Some(Cancelled::Overdue));
            let its = duplex.clone();
            let fibre = sinew::spawn(move || (&its).read(&mut [0]).unwrap_err());
            let_others_wait();
            fibre.fibre().cancel();
            assert_eq!(cancelled(&fibre.join().unwrap()), Some(Cancelled::Requested));
            // Nothing is lost.
            there.write_all(&[MASK ^ 7]).unwrap();
            (&duplex).read_exact(&mut buffer[..1]).unwrap();
            assert_eq!(buffer[0], 7);
        });
    });
}

#[test]
fn the_last_handle_gives_the_session_back_and_its_socket_waits_again() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, there) = narrow_pair();
            let duplex = masked(here);
            let other = duplex.clone();
            let duplex = duplex.into_inner().err().expect("there is another handle");
            drop(other);
            let mut session = duplex.into_inner().unwrap();
            sinew::scope(|scope| {
                scope.spawn(move || session.write_all(&bytes(9, MUCH)).unwrap());
                receive(&masked(there), 9);
            });
        });
    });
}

#[test]
fn a_peer_that_goes_away_ends_both_directions() {
    everywhere(|rt, _| {
        rt.run(|| {
            let (here, there) = narrow_pair();
            let duplex = masked(here);
            sinew::scope(|scope| {
                let reads = scope.spawn(|| (&duplex).read(&mut [0]));
                let writes = scope.spawn(|| (&duplex).write_all(&bytes(1, MUCH)).unwrap_err());
                let_others_wait();
                drop(there);
                assert!(matches!(reads.join().unwrap(), Ok(0) | Err(_)));
                assert!(matches!(writes.join().unwrap().kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset));
            });
        });
    });
}
