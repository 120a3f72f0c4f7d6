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

/// The length of the longest key.
pub const LONGEST_KEY: usize = 250;

/// A request that is answered with an error and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The answer, without its line end.
    pub text: &'static str,
    /// Whether the request asked for no answer. Then it gets none.
    pub noreply: bool,
    /// The number of bytes of data that follow and are to be skipped, including their line end. The
    /// answer comes after them.
    pub swallow: u32,
}

impl Refusal {
    /// Returns a refusal that is always sent, with nothing to skip.
    pub const fn new(text: &'static str) -> Refusal {
        Refusal { text, noreply: false, swallow: 0 }
    }

    /// The answer to a line that is not a command.
    pub const ERROR: Refusal = Refusal::new("ERROR");

    pub(crate) const FORMAT: Refusal = Refusal::new("CLIENT_ERROR bad command line format");

    pub(crate) const fn unless(self, noreply: bool) -> Refusal {
        Refusal { noreply, ..self }
    }

    pub(crate) const fn swallowing(self, swallow: u32) -> Refusal {
        Refusal { swallow, ..self }
    }
}

/// The ways in which a request stores a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Stores in any case.
    Set,
    /// Stores if there is no item.
    Add,
    /// Stores if there is an item.
    Replace,
    /// Puts the value after that of the item.
    Append,
    /// Puts the value before that of the item.
    Prepend,
    /// Stores if the item has the unique number that the client knows.
    Cas,
}
