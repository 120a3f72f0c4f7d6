//! The event-driven floor: a bare loop over epoll on one thread that answers every
//! request with the same bytes. Nothing that serves HTTP can do less.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use super::Epoll;

const LISTENER: usize = usize::MAX;

/// Serves for ever.
pub fn serve(listener: TcpListener, reply: &[u8]) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = Epoll::new()?;
    epoll.add(&listener, LISTENER)?;
    let mut streams: Vec<Option<TcpStream>> = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        for number in epoll.wait(-1)? {
            if number == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(true)?;
                    epoll.add(&stream, streams.len())?;
                    streams.push(Some(stream));
                }
                continue;
            }
            let Some(stream) = streams[number].as_mut() else { continue };
            let ended = match stream.read(&mut buffer) {
                Ok(0) => true,
                Ok(count) => {
                    let requests = buffer[..count].windows(4).filter(|w| w == b"\r\n\r\n").count();
                    (0..requests).any(|_| stream.write_all(reply).is_err())
                }
                Err(error) => error.kind() != ErrorKind::WouldBlock,
            };
            if ended {
                streams[number] = None;
            }
        }
    }
}
