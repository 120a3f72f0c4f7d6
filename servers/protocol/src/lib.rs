#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod base64;
pub mod binary;
mod line;
pub mod meta;
pub mod number;
pub mod text;

pub use line::{LONGEST_LINE, Line, Tokens, line};

/// The longest key that there may be.
pub const LONGEST_KEY: usize = 250;

/// A request that gets an error for an answer, and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The answer, without the end of its line.
    pub text: &'static str,
    /// Whether the request asked for no answer: then it gets none.
    pub noreply: bool,
    /// As many bytes of data follow that are to be skipped, the end of their line
    /// included. The answer comes after them.
    pub swallow: u32,
}

impl Refusal {
    /// One that is always said, with nothing to skip.
    pub const fn new(text: &'static str) -> Refusal {
        Refusal { text, noreply: false, swallow: 0 }
    }

    /// The answer to what is no command.
    pub const ERROR: Refusal = Refusal::new("ERROR");

    pub(crate) const FORMAT: Refusal = Refusal::new("CLIENT_ERROR bad command line format");

    pub(crate) const fn unless(self, noreply: bool) -> Refusal {
        Refusal { noreply, ..self }
    }

    pub(crate) const fn swallowing(self, swallow: u32) -> Refusal {
        Refusal { swallow, ..self }
    }
}

/// What a request to store something is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Store.
    Set,
    /// Store what is not there.
    Add,
    /// Store in place of what is there.
    Replace,
    /// Put behind what is there.
    Append,
    /// Put in front of what is there.
    Prepend,
    /// Store in place of what is there, if it is what the client thinks.
    Cas,
}
