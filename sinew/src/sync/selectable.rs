//! What a [`Select`](super::Select) can wait for besides channels. The layers above implement it.

use std::io;

/// What a [`Select`](super::Select) can wait to read from: a stream, a listener, a socket for
/// datagrams, any [`Pollable`](crate::io::Pollable).
///
/// A type that wraps one of these, such as a stream with a buffer, implements this by what it
/// wraps. It says that it is ready while its buffer is not empty.
///
/// ```
/// use sinew::net::UnixStream;
/// use sinew::sync::{Select, SelectReader};
/// use std::io::{BufRead, BufReader, Write};
///
/// struct Lines(BufReader<UnixStream>);
///
/// impl SelectReader for Lines {
///     async fn ready_to_read_async(&self) -> std::io::Result<()> {
///         if self.0.buffer().is_empty() { self.0.get_ref().ready_to_read_async().await } else { Ok(()) }
///     }
/// }
///
/// sinew::run(|| {
///     let (mut ours, theirs) = UnixStream::pair().unwrap();
///     ours.write_all(b"one\ntwo\n").unwrap();
///     let mut lines = Lines(BufReader::new(theirs));
///     for expected in ["one\n", "two\n"] {
///         Select::new().readable(&lines, |ready| ready.unwrap()).run();
///         let mut line = String::new();
///         lines.0.read_line(&mut line).unwrap();
///         assert_eq!(line, expected);
///     }
/// });
/// ```
pub trait SelectReader {
    /// Waits until it is worth trying to read, or to accept: there is something, or the end, or an
    /// error. It takes nothing. If the future is dropped, it leaves nothing behind.
    fn ready_to_read_async(&self) -> impl Future<Output = io::Result<()>>;
}

/// What a [`Select`](super::Select) can wait to write to; else as [`SelectReader`].
pub trait SelectWriter {
    /// Waits until it is worth trying to write: there is room, or an error. If the future is
    /// dropped, it leaves nothing behind.
    fn ready_to_write_async(&self) -> impl Future<Output = io::Result<()>>;
}

/// What a [`Select`](super::Select) can wait to join: the handles of fibres and tasks.
pub trait SelectJoin {
    /// Waits until a join would not wait. If the future is dropped, it leaves nothing behind.
    fn finished_async(&mut self) -> impl Future<Output = ()>;
}
