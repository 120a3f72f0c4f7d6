//! Names and passwords of clients: `-Y`.
//!
//! A client authenticates itself with a `set` of any key. The value is its name and its password
//! with a blank between them. Before that no other request is answered.

use super::session::{Next, Session, Step};
use super::stream::Stream;
use sinew_memcached_protocol::{LONGEST_LINE, Line, Tokens, line, number};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The longest name and password together: the length of memcached's buffer.
const LONGEST: u32 = 2048;

/// The largest number of pairs of a name and a password. memcached's number.
const MOST_PAIRS: usize = 8;

/// Names with their passwords, and how often clients tried them.
#[derive(Default)]
pub struct Authentication {
    pairs: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    attempts: AtomicU64,
    errors: AtomicU64,
}

impl Authentication {
    /// Reads a file whose lines have the form `name:password`.
    ///
    /// # Errors
    /// If the file cannot be read, or has other lines, or too many.
    pub fn read(path: Option<&Path>) -> io::Result<Authentication> {
        let Some(path) = path else { return Ok(Authentication::default()) };
        let explain = |text: &dyn std::fmt::Display| io::Error::other(format!("{}: {text}", path.display()));
        let text = std::fs::read(path).map_err(|error| explain(&error))?;
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let pairs: Option<Vec<_>> = lines
            .map(|line| {
                let colon = line.iter().position(|byte| *byte == b':')?;
                Some((line[..colon].to_vec(), line[colon + 1..].to_vec()))
            })
            .collect();
        let pairs = pairs.ok_or_else(|| explain(&"each line must have the form name:password"))?;
        if pairs.is_empty() || pairs.len() > MOST_PAIRS {
            return Err(explain(&format_args!("the file must have between 1 and {MOST_PAIRS} lines")));
        }
        Ok(Authentication { pairs: Some(pairs), ..Authentication::default() })
    }

    /// Returns whether clients have to authenticate themselves.
    pub fn is_needed(&self) -> bool {
        self.pairs.is_some()
    }

    /// Returns how often clients tried, and how often they failed.
    pub fn numbers(&self) -> (u64, u64) {
        (self.attempts.load(Relaxed), self.errors.load(Relaxed))
    }

    fn check(&self, name: &[u8], password: &[u8]) -> bool {
        self.attempts.fetch_add(1, Relaxed);
        // All pairs are compared to the end, so that the time of the comparison tells nothing.
        let is_known = self
            .pairs
            .iter()
            .flatten()
            .fold(false, |known, pair| known | (is_same(&pair.0, name) & is_same(&pair.1, password)));
        self.errors.fetch_add(u64::from(!is_known), Relaxed);
        is_known
    }
}

fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

impl<S: Stream> Session<'_, S> {
    /// Reads the client's name and password. Takes nothing until the request is complete.
    #[cold]
    #[inline(never)]
    pub(super) fn authenticate(&mut self, bytes: &[u8]) -> Step {
        let (words, length) = match line(bytes) {
            Line::Whole { line, taken } => (line, taken),
            _ if bytes.len() > LONGEST_LINE => return Step { taken: 0, next: Next::Close },
            _ => return Step { taken: 0, next: Next::More },
        };
        let mut words = Tokens::new(words);
        let (name, size) = (words.next(), words.nth(3).and_then(number::unsigned_short));
        let Some(size) = size.filter(|size| name == Some(b"set") && *size <= LONGEST) else {
            self.say("CLIENT_ERROR unauthenticated", false);
            return Step { taken: length, next: Next::More };
        };
        let end = length + size as usize;
        let Some(data) = bytes.get(length..end + 2) else { return Step { taken: 0, next: Next::More } };
        let answer = match data.strip_suffix(b"\r\n") {
            None => "CLIENT_ERROR bad command line termination",
            Some(value) => self.introduce(value),
        };
        self.say(answer, false);
        Step { taken: end + 2, next: Next::More }
    }

    fn introduce(&mut self, value: &[u8]) -> &'static str {
        let mut words = Tokens::new(value);
        let (Some(name), Some(password)) = (words.next(), words.next()) else {
            return "CLIENT_ERROR bad authentication token format";
        };
        self.is_authenticated = self.server.authentication.check(name, password);
        if self.is_authenticated { "STORED" } else { "CLIENT_ERROR authentication failure" }
    }
}
