//! Lines, and the words in them.

/// The length of the longest line. A longer line without its end is not a request, unless it asks
/// for many keys.
pub const LONGEST_LINE: usize = 2048;

/// The largest number of blanks before a long request for many keys.
const MOST_BLANKS: usize = 100;

/// The first line of the bytes received so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line, without its end.
    Whole {
        /// The line.
        line: &'a [u8],
        /// The number of bytes that it takes, including its end.
        taken: usize,
    },
    /// The end of the line has not arrived yet.
    Partial,
    /// The line is too long.
    Endless,
}

/// Returns the first line of `bytes`.
///
/// A line ends with a line feed. A carriage return before it is not part of the line, unless the
/// line has no other byte. A NUL hides the rest of its line, as in memcached.
#[inline]
pub fn line(bytes: &[u8]) -> Line<'_> {
    let Some(end) = memchr::memchr(b'\n', bytes) else { return unfinished(bytes) };
    let mut line = &bytes[..end];
    if let [before @ .., b'\r'] = line
        && !before.is_empty()
    {
        line = before;
    }
    if let Some(nul) = memchr::memchr(0, line) {
        line = &line[..nul];
    }
    Line::Whole { line, taken: end + 1 }
}

fn unfinished(bytes: &[u8]) -> Line<'_> {
    if bytes.len() <= LONGEST_LINE {
        return Line::Partial;
    }
    let blanks = bytes.iter().take_while(|byte| **byte == b' ').count();
    let words = &bytes[blanks..];
    let is_get = words.starts_with(b"get ") || words.starts_with(b"gets ");
    if blanks <= MOST_BLANKS && is_get { Line::Partial } else { Line::Endless }
}

/// The words of a line, separated by blanks.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Tokens<'a> {
    /// Returns the words of `line`.
    pub fn new(line: &'a [u8]) -> Tokens<'a> {
        Tokens { rest: line }
    }

    /// Returns the part of the line that has not been split yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|byte| *byte != b' ')?;
        let words = &self.rest[start..];
        let end = words.iter().position(|byte| *byte == b' ').unwrap_or(words.len());
        let (word, rest) = words.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

/// Returns whether an unknown command that begins with `name` ends with a version of HTTP.
#[cold]
pub(crate) fn is_http(name: &[u8], others: Tokens<'_>) -> bool {
    others.last().unwrap_or(name).starts_with(b"HTTP/")
}

/// The words of a command that takes few words.
pub(crate) struct Few<'a, const MOST: usize> {
    words: [&'a [u8]; MOST],
    /// The number of words; `MOST + 1` if there are more.
    count: usize,
}

impl<'a, const MOST: usize> Few<'a, MOST> {
    pub(crate) fn of(mut tokens: Tokens<'a>) -> Self {
        let mut few = Few { words: [&[]; MOST], count: 0 };
        for word in &mut few.words {
            let Some(token) = tokens.next() else { return few };
            *word = token;
            few.count += 1;
        }
        few.count += usize::from(tokens.next().is_some());
        few
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns whether the last word says that no answer is wanted.
    pub(crate) fn noreply(&self) -> bool {
        self.count > 0 && self.count <= MOST && self.words[self.count - 1] == b"noreply"
    }
}

impl<'a, const MOST: usize> std::ops::Index<usize> for Few<'a, MOST> {
    type Output = &'a [u8];

    fn index(&self, index: usize) -> &&'a [u8] {
        &self.words[index]
    }
}
