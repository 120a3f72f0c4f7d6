//! Sends of several fibres at a time go to the kernel as a batch. Each fibre gets the result of its own.

mod fixture;

use fixture::{loopback, migrating, spin_until, wait_until};
use sinew::Runtime;
use sinew::io::{Batched, Engine};
use sinew::net::TcpStream;
use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

const SESSIONS: usize = 16;

/// A client's end, of which the runtime knows nothing.
struct Client(std::net::TcpStream);

impl Client {
    fn say(&mut self, byte: u8) {
        self.0.write_all(&[byte]).unwrap();
    }

    fn hear(&mut self) -> u8 {
        let mut byte = [0];
        self.0.read_exact(&mut byte).unwrap();
        byte[0]
    }
}

/// Clients, each with a session that answers a byte by the next one.
struct Clients {
    clients: Vec<Client>,
    answered: Arc<AtomicUsize>,
}

impl Clients {
    fn new(count: usize, write: fn(&mut TcpStream, u8) -> io::Result<()>) -> Clients {
        let answered = Arc::new(AtomicUsize::new(0));
        let clients = (0..count).map(|_| {
            let ((client, mut server), answered) = (loopback::pair(), Arc::clone(&answered));
            sinew::spawn(move || {
                let mut byte = [0; 2];
                while let Ok(1) = server.read(&mut byte) {
                    write(&mut server, byte[0].wrapping_add(1)).unwrap();
                    answered.fetch_add(1, SeqCst);
                }
            });
            Client(client.into())
        });
        let mut clients = Clients { clients: clients.collect(), answered };
        // From now on all sessions wait in the poller.
        clients.round(0);
        clients
    }

    /// Speaks to all sessions, and hears their answers. On one processor all sessions are ready then.
    fn round(&mut self, byte: u8) {
        let before = self.answered.load(SeqCst);
        self.clients.iter_mut().for_each(|client| client.say(byte));
        wait_until(|| self.answered.load(SeqCst) == before + self.clients.len());
        self.clients.iter_mut().for_each(|client| assert_eq!(client.hear(), byte.wrapping_add(1)));
    }
}

fn write_all(stream: &mut TcpStream, byte: u8) -> io::Result<()> {
    stream.write_all(&[byte])
}

fn write_slices(stream: &mut TcpStream, byte: u8) -> io::Result<()> {
    assert_eq!(stream.write_vectored(&[IoSlice::new(&[]), IoSlice::new(&[byte]), IoSlice::new(&[])])?, 1);
    Ok(())
}

#[test]
fn sends_of_several_fibres_are_one_call() {
    let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
    let cluster = runtime.main_cluster();
    if !cluster.io().batches() {
        println!("SKIPPED: the kernel permits no io_uring");
        return;
    }
    runtime.run(|| {
        let mut clients = Clients::new(SESSIONS, write_all);
        // If the machine is busy, a batch is late, and then there are none for a while.
        let is_batched = (0..10_000).any(|round| {
            let before = cluster.batched();
            clients.round(round as u8);
            let after = cluster.batched();
            (after.calls - before.calls, after.batches - before.batches) == (SESSIONS as u64, 1)
        });
        assert!(is_batched, "{:?}", cluster.batched());
        clients.clients.clear();
    });
}

#[test]
fn without_io_uring_each_send_is_a_call() {
    let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).io(Engine::Epoll).build().unwrap();
    runtime.run(|| {
        let mut clients = Clients::new(SESSIONS, write_all);
        (0..10).for_each(|round| clients.round(round));
        clients.clients.clear();
    });
    assert_eq!(runtime.main_cluster().batched(), Batched::default());
}

#[test]
fn slices_are_sent_in_a_batch() {
    for engine in [Engine::Auto, Engine::Epoll] {
        Runtime::builder().spares(0).stall_limit(None).processors(1).io(engine).build().unwrap().run(|| {
            let mut clients = Clients::new(SESSIONS, write_slices);
            (0..100).for_each(|round| clients.round(round));
            clients.clients.clear();
        });
    }
}

/// A session that computes until the others have been answered: their calls are in the outbox of its
/// processor, or are made by another one.
#[test]
fn another_processor_makes_the_calls_of_one_that_is_held_up() {
    migrating(Runtime::builder().spares(0).stall_limit(None).processors(2)).build().unwrap().run(|| {
        let is_answered = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for number in 0..SESSIONS {
            let ((client, mut server), is_answered) = (loopback::pair(), Arc::clone(&is_answered));
            sinew::spawn(move || {
                let mut byte = [0; 2];
                while let Ok(1) = server.read(&mut byte) {
                    if number == SESSIONS / 2 {
                        spin_until(|| is_answered.load(SeqCst));
                    }
                    server.write_all(&byte[..1]).unwrap();
                }
            });
            clients.push(std::net::TcpStream::from(client));
        }
        // A kernel thread, because fibres may be held up.
        let client = std::thread::spawn(move || {
            let hear = |mut client: &std::net::TcpStream| client.read_exact(&mut [0]).unwrap();
            for round in 0..200 {
                is_answered.store(false, SeqCst);
                clients.iter().for_each(|mut client| client.write_all(&[round as u8]).unwrap());
                let others = (0..SESSIONS).filter(|number| *number != SESSIONS / 2);
                others.for_each(|number| hear(&clients[number]));
                is_answered.store(true, SeqCst);
                hear(&clients[SESSIONS / 2]);
            }
        });
        sinew::blocking(move || client.join()).unwrap();
    });
}

#[test]
fn each_fibre_gets_the_error_of_its_own_send() {
    Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap().run(|| {
        for _ in 0..50 {
            let (mut clients, mut sessions) = (Vec::new(), Vec::new());
            for number in 0..SESSIONS {
                let (client, mut server) = loopback::pair();
                clients.push(std::net::TcpStream::from(client));
                sessions.push(sinew::spawn(move || {
                    let mut byte = [0];
                    server.read_exact(&mut byte).unwrap();
                    // The other half of the sessions cannot send any more.
                    if number % 2 == 0 {
                        server.shutdown(std::net::Shutdown::Write).unwrap();
                    }
                    server.write(&[number as u8; 3])
                }));
            }
            // All sessions begin to wait.
            sinew::yield_now();
            clients.iter().for_each(|mut client| client.write_all(&[7]).unwrap());
            for (number, session) in sessions.into_iter().enumerate() {
                match session.join().unwrap() {
                    Ok(count) => assert_eq!((count, number % 2), (3, 1)),
                    Err(error) => assert_eq!((error.kind(), number % 2), (io::ErrorKind::BrokenPipe, 0)),
                }
            }
        }
    });
}

/// Sessions send more than a connection holds, and go on when the clients read.
#[test]
fn a_send_that_has_to_wait_goes_on_later() {
    const PIECES: usize = 300;
    Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap().run(|| {
        let mut clients = Vec::new();
        for seed in 0..SESSIONS as u64 {
            let (client, mut server) = loopback::narrow_pair();
            clients.push(std::net::TcpStream::from(client));
            sinew::spawn(move || {
                let mut byte = [0];
                server.read_exact(&mut byte).unwrap();
                let bytes = loopback::bytes(seed, PIECES * 4096);
                bytes.chunks(4096).for_each(|piece| server.write_all(piece).unwrap());
            });
        }
        sinew::yield_now();
        clients.iter().for_each(|mut client| client.write_all(&[1]).unwrap());
        let client = std::thread::spawn(move || {
            for (seed, mut client) in clients.into_iter().enumerate() {
                let mut bytes = Vec::new();
                client.read_to_end(&mut bytes).unwrap();
                assert!(bytes == loopback::bytes(seed as u64, PIECES * 4096), "client {seed} has other bytes");
            }
        });
        sinew::blocking(move || client.join()).unwrap();
    });
}
