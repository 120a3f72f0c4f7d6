//! Copies from a reader to a writer.

use std::io::{self, ErrorKind, Read, Write};

/// The bytes that are copied at a time: what a pipe holds. Unmeasured beyond that.
const BUFFER: usize = 64 * 1024;

/// Reads until the end and writes all of it. Returns the number of bytes.
///
/// As `std::io::copy`, with a buffer on the heap: the stack of a fibre is small.
///
/// # Errors
/// The reader's and the writer's. `Interrupted` is tried again.
pub fn copy<R, W>(reader: &mut R, writer: &mut W) -> io::Result<u64>
where
    R: Read + ?Sized,
    W: Write + ?Sized,
{
    let mut buffer = vec![0; BUFFER];
    let mut total = 0;
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => {
                writer.write_all(&buffer[..count])?;
                total += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
