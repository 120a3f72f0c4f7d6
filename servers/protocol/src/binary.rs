//! The binary protocol: a header of 24 bytes, then extras, a key and a value.

use crate::{LONGEST_KEY, Verb};

/// The first byte of a request. The first byte of a connection shows its protocol.
pub const REQUEST: u8 = 0x80;

/// The first byte of an answer.
pub const RESPONSE: u8 = 0x81;

/// The length of a header.
pub const HEADER: usize = 24;

/// The status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum Status {
    Success = 0,
    NotFound = 1,
    Exists = 2,
    TooLarge = 3,
    Invalid = 4,
    NotStored = 5,
    NotNumeric = 6,
    AuthError = 0x20,
    Unknown = 0x81,
    OutOfMemory = 0x82,
}

impl Status {
    /// Returns the text of an answer with this status.
    pub fn text(self) -> &'static str {
        match self {
            Status::Success => "",
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::Invalid => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NotNumeric => "Non-numeric server-side value for incr or decr",
            Status::AuthError => "Auth failure.",
            Status::Unknown => "Unknown command",
            Status::OutOfMemory => "Out of memory",
        }
    }
}

/// The first request of the bytes received so far.
#[derive(Clone, Copy, Debug)]
pub enum Frame<'a> {
    /// A request, up to the beginning of its value.
    Whole {
        /// The request.
        request: Request<'a>,
        /// The number of bytes that it takes, without its value.
        taken: usize,
    },
    /// The request is not complete.
    Partial,
    /// The bytes are not a request. The bytes after them have no meaning.
    Garbage,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The opcode. The answer repeats it.
    pub opcode: u8,
    /// A number of the client's. The answer repeats it.
    pub opaque: [u8; 4],
    /// The unique number that the item must have, or 0.
    pub unique: u64,
    /// Whether the client does not want the usual answer.
    pub quiet: bool,
    /// The command.
    pub command: Command<'a>,
}

/// A command of the binary protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Command<'a> {
    Get {
        key: &'a [u8],
        with_key: bool,
        touch: Option<u32>,
    },
    Touch {
        key: &'a [u8],
        expiry: u32,
    },
    /// A value of this length follows.
    Store {
        verb: Verb,
        key: &'a [u8],
        flags: u32,
        expiry: u32,
        length: u32,
    },
    Delete {
        key: &'a [u8],
    },
    /// If `expiry` has all bits set, the item is not created.
    Arithmetic {
        key: &'a [u8],
        add: bool,
        delta: u64,
        initial: u64,
        expiry: u32,
    },
    Flush {
        delay: u32,
    },
    Noop,
    Version,
    Stat {
        key: &'a [u8],
    },
    Quit,
    /// An unknown or unsupported opcode. This number of bytes is to be skipped.
    Unknown {
        swallow: u32,
    },
    /// A known opcode in a malformed request: the connection is closed.
    Malformed,
    /// Lengths that contradict each other: the connection is closed.
    Inconsistent,
}

fn number_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut number = [0; N];
    number.copy_from_slice(&bytes[at..at + N]);
    number
}

/// Parses the first request of `bytes`.
pub fn parse(bytes: &[u8]) -> Frame<'_> {
    match bytes.first() {
        Some(&REQUEST) if bytes.len() >= HEADER => {}
        None | Some(&REQUEST) => return Frame::Partial,
        Some(_) if bytes.len() < HEADER => return Frame::Partial,
        Some(_) => return Frame::Garbage,
    }
    let key_length = u16::from_be_bytes(number_at(bytes, 2));
    let extras_length = bytes[4];
    let body = u32::from_be_bytes(number_at(bytes, 8));
    let key_at = HEADER + usize::from(extras_length);
    let taken = key_at + usize::from(key_length);
    if bytes.len() < taken {
        return Frame::Partial;
    }
    let (opcode, quiet) = loud(bytes[1]);
    let parts = Parts { opcode, extras: &bytes[HEADER..key_at], key: &bytes[key_at..taken], body };
    let request = Request {
        opcode: bytes[1],
        opaque: number_at(bytes, 12),
        unique: u64::from_be_bytes(number_at(bytes, 16)),
        quiet,
        command: parts.command(),
    };
    Frame::Whole { request, taken }
}

/// Returns the opcode of the variant that answers, and whether this opcode is the quiet variant.
fn loud(opcode: u8) -> (u8, bool) {
    let loud = match opcode {
        0x09 => 0x00,
        0x0d => 0x0c,
        0x11..=0x14 => opcode - 0x10,
        0x15..=0x16 => opcode - 0x10,
        0x17 => 0x07,
        0x18 => 0x08,
        0x19 => 0x0e,
        0x1a => 0x0f,
        0x1e => 0x1d,
        0x24 => 0x23,
        _ => return (opcode, false),
    };
    (loud, true)
}

struct Parts<'a> {
    opcode: u8,
    extras: &'a [u8],
    key: &'a [u8],
    body: u32,
}

impl<'a> Parts<'a> {
    fn command(&self) -> Command<'a> {
        let (key, extras) = (self.key, self.extras.len());
        let Some(value) = self.body.checked_sub((key.len() + extras) as u32) else { return Command::Inconsistent };
        if key.len() > LONGEST_KEY {
            return Command::Malformed;
        }
        let (has_key, has_value) = (!key.is_empty(), value > 0);
        let bare = !has_key && extras == 0 && !has_value;
        match self.opcode {
            0x00 | 0x0c if has_key && extras == 0 && !has_value => {
                Command::Get { key, with_key: self.opcode == 0x0c, touch: None }
            }
            0x01..=0x03 if has_key && extras == 8 => self.store(value),
            0x0e | 0x0f if has_key && extras == 0 => self.concatenate(value),
            0x04 if has_key && extras == 0 && !has_value => Command::Delete { key },
            0x05 | 0x06 if has_key && extras == 20 && !has_value => self.arithmetic(),
            0x07 if bare => Command::Quit,
            0x08 if !has_key && !has_value && (extras == 0 || extras == 4) => {
                Command::Flush { delay: if extras == 4 { self.short(0) } else { 0 } }
            }
            0x0a if bare => Command::Noop,
            0x0b if bare => Command::Version,
            0x10 if extras == 0 => Command::Stat { key },
            0x1c if has_key && extras == 4 => Command::Touch { key, expiry: self.short(0) },
            0x1d | 0x23 if has_key && extras == 4 => {
                Command::Get { key, with_key: self.opcode == 0x23, touch: Some(self.short(0)) }
            }
            // Authentication is not enabled.
            0x20 if bare => Command::Unknown { swallow: 0 },
            0x21 | 0x22 if has_key && extras == 0 => Command::Unknown { swallow: value },
            0x00..=0x08 | 0x0a..=0x0c | 0x0e..=0x10 | 0x1c | 0x1d | 0x20..=0x23 => Command::Malformed,
            // memcached skips the body once more after it has read it.
            _ => Command::Unknown { swallow: self.body },
        }
    }

    fn short(&self, at: usize) -> u32 {
        u32::from_be_bytes(number_at(self.extras, at))
    }

    fn long(&self, at: usize) -> u64 {
        u64::from_be_bytes(number_at(self.extras, at))
    }

    fn store(&self, length: u32) -> Command<'a> {
        let verb = [Verb::Set, Verb::Add, Verb::Replace][usize::from(self.opcode) - 1];
        Command::Store { verb, key: self.key, flags: self.short(0), expiry: self.short(4), length }
    }

    fn concatenate(&self, length: u32) -> Command<'a> {
        let verb = if self.opcode == 0x0e { Verb::Append } else { Verb::Prepend };
        Command::Store { verb, key: self.key, flags: 0, expiry: 0, length }
    }

    fn arithmetic(&self) -> Command<'a> {
        let (delta, initial, expiry) = (self.long(0), self.long(8), self.short(16));
        Command::Arithmetic { key: self.key, add: self.opcode == 0x05, delta, initial, expiry }
    }
}

/// The parts of an answer, without its value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer<'a> {
    /// The bytes after the header.
    pub extras: &'a [u8],
    /// The key after the extras.
    pub key: &'a [u8],
    /// The length of the value that follows.
    pub value_length: u32,
    /// The unique number of the item.
    pub unique: u64,
}

/// Appends an answer without its value.
pub fn push_answer(out: &mut Vec<u8>, request: &Request<'_>, status: Status, answer: Answer<'_>) {
    let body = (answer.extras.len() + answer.key.len()) as u32 + answer.value_length;
    let mut header = [0; HEADER];
    header[0] = RESPONSE;
    header[1] = request.opcode;
    header[2..4].copy_from_slice(&(answer.key.len() as u16).to_be_bytes());
    header[4] = answer.extras.len() as u8;
    header[6..8].copy_from_slice(&(status as u16).to_be_bytes());
    header[8..12].copy_from_slice(&body.to_be_bytes());
    header[12..16].copy_from_slice(&request.opaque);
    header[16..24].copy_from_slice(&answer.unique.to_be_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(answer.extras);
    out.extend_from_slice(answer.key);
}
