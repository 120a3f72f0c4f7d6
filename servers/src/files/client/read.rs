//! Measures a server: reads a file over several connections at once, and discards it.

use super::connection::{Connection, explain};
use super::{about, bytes, unexpected};
use crate::files::options::ReadOptions;
use crate::files::record::{HEADER, TAG};
use crate::files::words::{Answer, PIECE_HEADER, Request};
use crate::runtime::{self, Style};
use crate::{descriptors, message};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use sinew::net::TcpStream;
use sinew::time::timeout;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// The most bytes that are discarded by one call. Unmeasured: a socket seldom holds more.
const MOST_AT_ONCE: usize = 1 << 20;

/// Reads the file, and prints how fast it was.
///
/// # Errors
/// A connection fails, or the server refuses.
pub fn read(options: &ReadOptions) -> io::Result<()> {
    let count = options.connections;
    descriptors::allow(count.into(), "--connections")?;
    let runtime = runtime::build(&options.runtime, Style::Fibres)?;
    let (bytes, elapsed) = runtime.run(|| {
        let open = (0..count).map(|_| Connection::open(&options.access));
        let connections = open.collect::<io::Result<Vec<_>>>()?;
        let begin = Instant::now();
        let bytes = sinew::scope(|scope| {
            let fibres = connections.into_iter().map(|connection| scope.spawn(|| read_times(connection, options)));
            let fibres: Vec<_> = fibres.collect();
            fibres.into_iter().map(|fibre| fibre.join().expect("reading does not panic")).sum::<io::Result<u64>>()
        })?;
        io::Result::Ok((bytes, begin.elapsed()))
    })?;
    let rate = bytes as f64 / elapsed.as_secs_f64() / 1e6;
    let text = format!("{count} connections, {bytes} bytes in {:.3} s: {rate:.0} MB/s\n", elapsed.as_secs_f64());
    message::print(text.as_bytes())
}

/// Reads the file as often as the options say. Returns the number of its bytes.
fn read_times(mut connection: Connection, options: &ReadOptions) -> io::Result<u64> {
    let mut bytes = 0;
    for _ in 0..options.times {
        bytes += read_once(&mut connection, options)?;
    }
    Ok(bytes)
}

fn read_once(connection: &mut Connection, options: &ReadOptions) -> io::Result<u64> {
    connection.ask(Request::Get(bytes(&options.path)))?;
    let mut count = 0;
    loop {
        let (length, rest) = match connection.hear()? {
            Answer::Piece { rest, content } => (content.len() as u64, rest),
            Answer::Sorry(sorry) => return Err(about(&options.path, ErrorKind::NotFound, sorry.text())),
            Answer::Names { .. } => return Err(unexpected()),
        };
        count += length;
        if rest == 0 {
            return Ok(count);
        }
        if options.skip {
            let skipped = skip(connection, length, rest, options.access.timeout);
            return skipped.map(|()| count + rest).map_err(|error| explain(&error));
        }
    }
}

/// Discards the records with the next `rest` bytes of a file. Each but the last has `length` of them.
fn skip(connection: &mut Connection, length: u64, rest: u64, patience: Duration) -> io::Result<()> {
    let records = rest.checked_div(length).ok_or_else(unexpected)? + u64::from(!rest.is_multiple_of(length));
    let mut bytes = rest + records * (HEADER + PIECE_HEADER + TAG) as u64;
    let mut buffer = vec![0; MOST_AT_ONCE];
    while bytes > 0 {
        let room = bytes.min(MOST_AT_ONCE as u64) as usize;
        bytes -= timeout(patience, || discard(&connection.stream, &mut buffer[..room]))? as u64;
    }
    connection.input.number += records;
    Ok(())
}

/// Waits for bytes and discards them, up to the size of the buffer. Returns their number. The
/// kernel does not copy them.
fn discard(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match recv(stream, &mut *buffer, RecvFlags::TRUNC | RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok((_, count)) => return Ok(count),
            Err(Errno::AGAIN) => drop(stream.peek(&mut [0])?),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
