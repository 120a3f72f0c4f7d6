//! The meta commands: two letters, a key, and flags.

use crate::text::data_length;
use crate::{LONGEST_KEY, Refusal, Tokens, Verb, base64, number};

/// The largest number of words of a request, including its name.
const MOST_WORDS: usize = 19;

/// The length of the longest token that is sent back, including its letter.
const LONGEST_OPAQUE: usize = 32;

/// A request.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// `mn`: asks only for an answer.
    Noop,
    /// `me`: asks what is known about an item.
    Debug(Key<'a>),
    /// `mg`.
    Get(Request<'a>),
    /// `ms`: data follows.
    Set {
        /// Key and flags.
        request: Request<'a>,
        /// How to store it.
        verb: Verb,
        /// The length of the data that follows, without its line end.
        length: u32,
    },
    /// `md`.
    Delete(Request<'a>),
    /// `ma`.
    Arithmetic {
        /// Key and flags.
        request: Request<'a>,
        /// Whether to add. Otherwise to subtract.
        add: bool,
    },
}

/// A key as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// The key itself.
    Plain(&'a [u8]),
    /// The key in base64. It has been checked that it can be decoded.
    Base64(&'a [u8]),
}

impl<'a> Key<'a> {
    /// Returns the key itself. Decodes it into `room` if it is in base64.
    pub fn decode(self, room: &'a mut [u8; LONGEST_KEY + 2]) -> &'a [u8] {
        match self {
            Key::Plain(key) => key,
            Key::Base64(text) => base64::decode(text, room).unwrap_or_default(),
        }
    }

    /// Returns whether it was sent in base64.
    pub fn is_base64(self) -> bool {
        matches!(self, Key::Base64(_))
    }
}

/// A key and what its flags say.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The key of the item.
    pub key: Key<'a>,
    /// `v`: the value is wanted.
    pub value: bool,
    /// `u`: the request does not count as a use of the item.
    pub unnoticed: bool,
    /// `q`: the usual answer is not wanted.
    pub quiet: bool,
    /// `I`: `ms` may store an outdated value, and `md` marks the item as outdated.
    pub stale: bool,
    /// `N`: an item is created if there is none, with this expiry.
    pub vivify: Option<i32>,
    /// `T`: the new expiry.
    pub expiry: Option<i32>,
    /// `R`: if the item expires before this, one client is told to renew it.
    pub recache: Option<i32>,
    /// `F`: the client's flags for the item.
    pub client_flags: u32,
    /// `C`: the unique number that the item must have.
    pub unique: Option<u64>,
    /// `D`: the number to add or subtract.
    pub delta: u64,
    /// `J`: the value of an item that is created.
    pub initial: u64,
    /// `M`: the mode, or 0.
    mode: u8,
    flags: Tokens<'a>,
}

impl<'a> Request<'a> {
    /// Returns the flags in the order in which they were sent.
    pub fn flags(&self) -> Tokens<'a> {
        self.flags
    }
}

const OPAQUE_TOO_LONG: Refusal = Refusal::new("CLIENT_ERROR opaque token too long");
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";
const BAD_FLAG: Refusal = Refusal::new("CLIENT_ERROR invalid or duplicate flag");

/// Parses a meta command: `letter` is its second letter, the words follow.
#[inline(never)]
pub(crate) fn parse(letter: u8, mut tokens: Tokens<'_>) -> Result<Command<'_>, Refusal> {
    let count = 1 + tokens.take(MOST_WORDS).count();
    match letter {
        b'n' => return Ok(Command::Noop),
        b'e' => return debug(tokens),
        b'g' | b's' | b'd' | b'a' => {}
        _ => return Err(Refusal::ERROR),
    }
    let key = tokens.next().ok_or(Refusal::ERROR)?;
    if key.len() > LONGEST_KEY {
        return Err(Refusal::FORMAT);
    }
    if letter == b's' && count == 2 {
        return Err(Refusal::FORMAT);
    }
    if count > MOST_WORDS {
        return Err(Refusal::new(match letter {
            b'g' => "CLIENT_ERROR options flags are too long",
            _ => "CLIENT_ERROR options flags too long",
        }));
    }
    match letter {
        b'g' => Ok(Command::Get(request(key, tokens).and_then(short_opaque)?)),
        b's' => set(key, tokens),
        b'd' => Ok(Command::Delete(request(key, tokens).map_err(|_| BAD_FLAG).and_then(short_opaque)?)),
        _ => arithmetic(key, tokens),
    }
}

fn debug(mut tokens: Tokens<'_>) -> Result<Command<'_>, Refusal> {
    let key = tokens.next().filter(|key| key.len() <= LONGEST_KEY).ok_or(Refusal::FORMAT)?;
    let key = match tokens.next() {
        Some(b"b") => decodable(key).ok_or(Refusal::FORMAT)?,
        _ => Key::Plain(key),
    };
    Ok(Command::Debug(key))
}

#[inline(never)]
fn decodable(key: &[u8]) -> Option<Key<'_>> {
    base64::decode(key, &mut [0; LONGEST_KEY + 2]).map(|_| Key::Base64(key))
}

fn set<'a>(key: &'a [u8], mut tokens: Tokens<'a>) -> Result<Command<'a>, Refusal> {
    let length = tokens.next().and_then(number::signed).and_then(data_length).ok_or(Refusal::FORMAT)?;
    let behind = |refusal: Refusal| refusal.swallowing(length + 2);
    let request = request(key, tokens).map_err(behind)?;
    let verb = match request.mode {
        0 | b'S' => Verb::Set,
        b'E' => Verb::Add,
        b'A' => Verb::Append,
        b'P' => Verb::Prepend,
        b'R' => Verb::Replace,
        _ => return Err(behind(Refusal::new("CLIENT_ERROR invalid mode for ms M token"))),
    };
    let verb = if request.unique.is_some() && matches!(verb, Verb::Set | Verb::Replace) { Verb::Cas } else { verb };
    let request = short_opaque(request).map_err(behind)?;
    Ok(Command::Set { request, verb, length })
}

fn arithmetic<'a>(key: &'a [u8], tokens: Tokens<'a>) -> Result<Command<'a>, Refusal> {
    let request = request(key, tokens).map_err(|_| BAD_FLAG)?;
    let add = match request.mode {
        0 | b'I' | b'+' => true,
        b'D' | b'-' => false,
        _ => return Err(Refusal::new("CLIENT_ERROR invalid mode for ma M token")),
    };
    Ok(Command::Arithmetic { request, add })
}

/// Refuses a token that is too long to be sent back. `ma` refuses it only after its work is done.
fn short_opaque(request: Request<'_>) -> Result<Request<'_>, Refusal> {
    if request.has_long_opaque() { Err(OPAQUE_TOO_LONG) } else { Ok(request) }
}

impl Request<'_> {
    /// Returns whether a token is too long to be sent back.
    pub fn has_long_opaque(&self) -> bool {
        self.flags().any(|flag| flag[0] == b'O' && flag.len() > LONGEST_OPAQUE)
    }

    /// Returns the answer to a request with such a token.
    pub fn refusal_of_opaque(&self) -> Refusal {
        OPAQUE_TOO_LONG
    }
}

fn request<'a>(key: &'a [u8], flags: Tokens<'a>) -> Result<Request<'a>, Refusal> {
    let mut request = Request {
        key: Key::Plain(key),
        value: false,
        unnoticed: false,
        quiet: false,
        stale: false,
        vivify: None,
        expiry: None,
        recache: None,
        client_flags: 0,
        unique: None,
        delta: 1,
        initial: 0,
        mode: 0,
        flags,
    };
    // A faulty flag does not end the loop: a later flag may have a fault with another answer.
    let mut fault = None;
    let mut seen = 0u128;
    for flag in flags {
        let (letter, argument) = (flag[0], &flag[1..]);
        if letter >= 127 || seen >> letter & 1 == 1 {
            return Err(Refusal::new("CLIENT_ERROR duplicate flag"));
        }
        seen |= 1 << letter;
        if let Err(text) = request.take(letter, argument, key)? {
            fault = Some(text.or(fault).unwrap_or(Refusal::FORMAT.text));
        }
    }
    match fault {
        Some(text) => Err(Refusal::new(text)),
        None => Ok(request),
    }
}

impl<'a> Request<'a> {
    /// Notes one flag. The outer error is for unknown letters, the inner error for faulty
    /// arguments.
    fn take(
        &mut self,
        letter: u8,
        argument: &[u8],
        key: &'a [u8],
    ) -> Result<Result<(), Option<&'static str>>, Refusal> {
        let bad_token = Some(BAD_TOKEN);
        let taken = match letter {
            b'b' => {
                let decoded = decodable(key).map(|key| self.key = key);
                decoded.ok_or(Some("CLIENT_ERROR error decoding key"))
            }
            b'N' => note(&mut self.vivify, number::signed(argument)).ok_or(bad_token),
            b'T' => note(&mut self.expiry, number::signed(argument)).ok_or(bad_token),
            b'R' => note(&mut self.recache, number::signed(argument)).ok_or(bad_token),
            b'C' => note(&mut self.unique, number::unsigned(argument)).ok_or(bad_token),
            b'F' => number::unsigned_short(argument).map(|flags| self.client_flags = flags).ok_or(None),
            b'D' => {
                let delta = number::unsigned(argument).map(|delta| self.delta = delta);
                delta.ok_or(Some("CLIENT_ERROR invalid numeric delta value"))
            }
            b'J' => {
                let initial = number::unsigned(argument).map(|initial| self.initial = initial);
                initial.ok_or(Some("CLIENT_ERROR invalid numeric initial value"))
            }
            b'M' => match argument {
                [mode] => {
                    self.mode = *mode;
                    Ok(())
                }
                _ => Err(Some("CLIENT_ERROR incorrect length for M token")),
            },
            b'v' => raise(&mut self.value),
            b'u' => raise(&mut self.unnoticed),
            b'q' => raise(&mut self.quiet),
            b'I' => raise(&mut self.stale),
            b'l' | b'h' | b'O' | b'P' | b'L' | b'k' | b's' | b't' | b'c' | b'f' => Ok(()),
            _ => return Err(Refusal::new("CLIENT_ERROR invalid flag")),
        };
        Ok(taken)
    }
}

fn raise(flag: &mut bool) -> Result<(), Option<&'static str>> {
    *flag = true;
    Ok(())
}

fn note<T>(place: &mut Option<T>, value: Option<T>) -> Option<()> {
    value.map(|value| *place = Some(value))
}
