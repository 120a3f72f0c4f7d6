//! Slow clients of a web server.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::connect;
use super::http::Stay;

/// The time that each client waits between two bytes.
const PAUSE: Duration = Duration::from_secs(1);

pub struct Slow {
    over: Arc<AtomicBool>,
    driver: JoinHandle<usize>,
}

impl Slow {
    /// Starts the clients. Every second one sends a head, one byte each second. The others read a
    /// large file, one byte each second.
    pub fn attach(address: SocketAddr, count: usize, large: &str) -> io::Result<Slow> {
        let mut streams = Vec::with_capacity(count);
        for number in 0..count {
            let mut stream = connect(address)?;
            if number % 2 == 1 {
                stream.write_all(&Stay::Open.request(large))?;
            }
            streams.push(stream);
        }
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let driver = thread::spawn(move || drive(&streams, &is_over));
        Ok(Slow { over, driver })
    }

    /// Ends the clients. Returns the number of clients that the server has not turned away.
    pub fn detach(self) -> usize {
        self.over.store(true, Relaxed);
        self.driver.thread().unpark();
        self.driver.join().expect("the driver does not panic")
    }
}

fn drive(streams: &[TcpStream], is_over: &AtomicBool) -> usize {
    let mut head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ".iter().copied().chain(std::iter::repeat(b'x'));
    let mut served = vec![true; streams.len()];
    while !is_over.load(Relaxed) {
        let byte = head.next().expect("it has no end");
        for (number, mut stream) in streams.iter().enumerate() {
            let done = if number % 2 == 0 { stream.write(&[byte]) } else { stream.read(&mut [0]) };
            served[number] &= done.is_ok_and(|count| count == 1);
        }
        let begun = Instant::now();
        while !is_over.load(Relaxed) && begun.elapsed() < PAUSE {
            thread::park_timeout(PAUSE.saturating_sub(begun.elapsed()));
        }
    }
    served.into_iter().filter(|&served| served).count()
}
