//! The text protocol: a request is one line, and data may follow it.

use crate::line::{Few, is_http};
use crate::{LONGEST_KEY, Refusal, Tokens, Verb, meta, number};

/// A request.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// `get`, `gets`, `gat`, `gats`.
    Get(Get<'a>),
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`: data follows.
    Store(Store<'a>),
    /// `delete`.
    Delete {
        /// The key of the item.
        key: &'a [u8],
        /// Whether no answer is wanted.
        noreply: bool,
    },
    /// `incr`, `decr`.
    Arithmetic {
        /// The key of the item.
        key: &'a [u8],
        /// Whether to add. Otherwise to subtract.
        add: bool,
        /// The number to add or subtract.
        delta: u64,
        /// Whether no answer is wanted.
        noreply: bool,
    },
    /// `touch`.
    Touch {
        /// The key of the item.
        key: &'a [u8],
        /// When it expires, in the client's number.
        expiry: i32,
        /// Whether no answer is wanted.
        noreply: bool,
    },
    /// `flush_all`.
    FlushAll {
        /// When to flush, in the client's number. Now if it is not positive.
        delay: i32,
        /// Whether no answer is wanted.
        noreply: bool,
    },
    /// `verbosity`.
    Verbosity {
        /// The new level.
        level: u32,
        /// Whether no answer is wanted.
        noreply: bool,
    },
    /// `stats` and the words after it.
    Stats(Tokens<'a>),
    /// `version`.
    Version,
    /// `quit`.
    Quit,
    /// The first line of a request over HTTP. A browser sends it for a page that may come from
    /// anywhere. The page chooses the bytes that follow, so none of them may be read.
    Http,
    /// `shutdown` and the words after it.
    Shutdown(Tokens<'a>),
    /// `watch` and the words after it.
    Watch(Tokens<'a>),
    /// `slabs` and the words after it.
    Slabs(Tokens<'a>),
    /// `lru` and the words after it.
    Lru(Tokens<'a>),
    /// `lru_crawler` and the words after it.
    Crawler(Tokens<'a>),
    /// `extstore` and the words after it.
    External(Tokens<'a>),
    /// `refresh_certs`.
    RefreshCertificates,
    /// `cache_memlimit`.
    MemoryLimit {
        /// The new limit.
        megabytes: u32,
        /// Whether no answer is wanted.
        noreply: bool,
    },
    /// One of the meta commands.
    Meta(meta::Command<'a>),
    /// A line that is refused.
    Refused(Refusal),
}

/// A request for values.
#[derive(Clone, Copy, Debug)]
pub struct Get<'a> {
    /// The keys of the values.
    pub keys: Keys<'a>,
    /// Whether unique numbers are wanted, too.
    pub unique: bool,
    /// The new expiry, in the client's number.
    pub touch: Option<i32>,
}

/// The keys of a request.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    tokens: Tokens<'a>,
}

impl<'a> Keys<'a> {
    /// Checks all keys: one that is too long refuses the whole request.
    #[inline]
    fn new(tokens: Tokens<'a>) -> Result<Keys<'a>, Refusal> {
        let has_room = tokens.rest().len() > LONGEST_KEY;
        let has_long = has_room && { tokens }.any(|key| key.len() > LONGEST_KEY);
        if has_long { Err(Refusal::FORMAT) } else { Ok(Keys { tokens }) }
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.tokens.next()
    }
}

/// A request to store the data that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    /// How to store the data.
    pub verb: Verb,
    /// The key of the item.
    pub key: &'a [u8],
    /// The client's flags for the item.
    pub flags: u32,
    /// When it expires, in the client's number.
    pub expiry: i32,
    /// The length of the data that follows, without its line end.
    pub length: u32,
    /// The unique number of the item to be replaced; 0 except for [`Verb::Cas`].
    pub unique: u64,
    /// Whether no answer is wanted.
    pub noreply: bool,
}

/// Parses a line.
#[inline]
pub fn parse(line: &[u8]) -> Command<'_> {
    let mut tokens = Tokens::new(line);
    let Some(name) = tokens.next() else { return Command::Refused(Refusal::ERROR) };
    match name {
        b"get" => get(tokens, false),
        b"set" => store(Verb::Set, tokens),
        b"gets" => get(tokens, true),
        [b'm', _] => match meta::parse(name[1], tokens) {
            Ok(command) => Command::Meta(command),
            Err(refusal) => Command::Refused(refusal),
        },
        _ => rest(name, tokens).unwrap_or_else(Command::Refused),
    }
}

#[inline(never)]
fn rest<'a>(name: &[u8], tokens: Tokens<'a>) -> Result<Command<'a>, Refusal> {
    Ok(match name {
        b"gat" => return get_and_touch(tokens, false),
        b"gats" => return get_and_touch(tokens, true),
        b"add" => store(Verb::Add, tokens),
        b"replace" => store(Verb::Replace, tokens),
        b"append" => store(Verb::Append, tokens),
        b"prepend" => store(Verb::Prepend, tokens),
        b"cas" => store(Verb::Cas, tokens),
        b"incr" => return arithmetic(true, tokens),
        b"decr" => return arithmetic(false, tokens),
        b"delete" => return delete(tokens),
        b"touch" => return touch(tokens),
        b"flush_all" => return flush_all(tokens),
        b"verbosity" => return verbosity(tokens),
        b"stats" => Command::Stats(tokens),
        b"version" => Command::Version,
        b"quit" => Command::Quit,
        b"bget" => get(tokens, false),
        b"shutdown" => Command::Shutdown(tokens),
        b"watch" => Command::Watch(tokens),
        b"slabs" => Command::Slabs(tokens),
        b"lru" => Command::Lru(tokens),
        b"lru_crawler" => Command::Crawler(tokens),
        b"extstore" => Command::External(tokens),
        b"refresh_certs" => Command::RefreshCertificates,
        b"cache_memlimit" => return memory_limit(tokens),
        _ if is_http(name, tokens) => Command::Http,
        _ => return Err(Refusal::ERROR),
    })
}

#[inline]
fn get(tokens: Tokens<'_>, unique: bool) -> Command<'_> {
    if { tokens }.next().is_none() {
        return Command::Refused(Refusal::ERROR);
    }
    match Keys::new(tokens) {
        Ok(keys) => Command::Get(Get { keys, unique, touch: None }),
        Err(refusal) => Command::Refused(refusal),
    }
}

fn get_and_touch(mut tokens: Tokens<'_>, unique: bool) -> Result<Command<'_>, Refusal> {
    let expiry = tokens.next().ok_or(Refusal::ERROR)?;
    let expiry = number::signed(expiry).ok_or(INVALID_EXPIRY)?;
    Ok(Command::Get(Get { keys: Keys::new(tokens)?, unique, touch: Some(expiry) }))
}

const INVALID_EXPIRY: Refusal = Refusal::new("CLIENT_ERROR invalid exptime argument");

#[inline]
fn store(verb: Verb, tokens: Tokens<'_>) -> Command<'_> {
    try_store(verb, tokens).unwrap_or_else(Command::Refused)
}

#[inline]
fn try_store(verb: Verb, tokens: Tokens<'_>) -> Result<Command<'_>, Refusal> {
    let words = Few::<6>::of(tokens);
    let needed = if verb == Verb::Cas { 5 } else { 4 };
    if words.count() != needed && words.count() != needed + 1 {
        return Err(Refusal::ERROR);
    }
    let noreply = words.noreply();
    let malformed = Refusal::FORMAT.unless(noreply);
    let key = checked(words[0], malformed)?;
    let flags = number::unsigned_short(words[1]).ok_or(malformed)?;
    let expiry = number::signed(words[2]).ok_or(malformed)?;
    let length = number::signed(words[3]).ok_or(malformed)?;
    let unique = if verb == Verb::Cas { number::unsigned(words[4]).ok_or(malformed)? } else { 0 };
    let length = data_length(length).ok_or(malformed)?;
    Ok(Command::Store(Store { verb, key, flags, expiry, length, unique, noreply }))
}

/// Returns the length of the data. The length with its line end must fit into the same type.
pub(crate) fn data_length(length: i32) -> Option<u32> {
    if length > i32::MAX - 2 { None } else { u32::try_from(length).ok() }
}

fn checked(key: &[u8], refusal: Refusal) -> Result<&[u8], Refusal> {
    if key.len() <= LONGEST_KEY { Ok(key) } else { Err(refusal) }
}

fn arithmetic(add: bool, tokens: Tokens<'_>) -> Result<Command<'_>, Refusal> {
    let words = Few::<3>::of(tokens);
    if !(2..=3).contains(&words.count()) {
        return Err(Refusal::ERROR);
    }
    let noreply = words.noreply();
    let key = checked(words[0], Refusal::FORMAT.unless(noreply))?;
    let invalid = Refusal::new("CLIENT_ERROR invalid numeric delta argument").unless(noreply);
    let delta = number::unsigned(words[1]).ok_or(invalid)?;
    Ok(Command::Arithmetic { key, add, delta, noreply })
}

fn touch(tokens: Tokens<'_>) -> Result<Command<'_>, Refusal> {
    let words = Few::<3>::of(tokens);
    if !(2..=3).contains(&words.count()) {
        return Err(Refusal::ERROR);
    }
    let noreply = words.noreply();
    let key = checked(words[0], Refusal::FORMAT.unless(noreply))?;
    let expiry = number::signed(words[1]).ok_or(INVALID_EXPIRY.unless(noreply))?;
    Ok(Command::Touch { key, expiry, noreply })
}

/// Parses `delete`. A delay of 0 is allowed, because old clients send one.
fn delete(tokens: Tokens<'_>) -> Result<Command<'_>, Refusal> {
    let words = Few::<3>::of(tokens);
    if !(1..=3).contains(&words.count()) {
        return Err(Refusal::ERROR);
    }
    let noreply = words.count() > 1 && words.noreply();
    let has_delay = words.count() > 1 && words[1] == b"0";
    let valid = match words.count() {
        1 => true,
        2 => has_delay || noreply,
        _ => has_delay && noreply,
    };
    if !valid {
        let usage = Refusal::new("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]");
        return Err(usage.unless(noreply));
    }
    let key = checked(words[0], Refusal::FORMAT.unless(noreply))?;
    Ok(Command::Delete { key, noreply })
}

fn flush_all(tokens: Tokens<'_>) -> Result<Command<'_>, Refusal> {
    let words = Few::<2>::of(tokens);
    if words.count() > 2 {
        return Err(Refusal::ERROR);
    }
    let noreply = words.noreply();
    let delay = match words.count() - usize::from(noreply) {
        0 => 0,
        _ => number::signed(words[0]).ok_or(INVALID_EXPIRY.unless(noreply))?,
    };
    Ok(Command::FlushAll { delay, noreply })
}

fn memory_limit(tokens: Tokens<'_>) -> Result<Command<'_>, Refusal> {
    let words = Few::<2>::of(tokens);
    if !(1..=2).contains(&words.count()) {
        return Err(Refusal::ERROR);
    }
    let noreply = words.noreply();
    let megabytes = number::unsigned_short(words[0]).ok_or(Refusal::ERROR.unless(noreply))?;
    Ok(Command::MemoryLimit { megabytes, noreply })
}

fn verbosity(tokens: Tokens<'_>) -> Result<Command<'_>, Refusal> {
    let words = Few::<2>::of(tokens);
    if !(1..=2).contains(&words.count()) {
        return Err(Refusal::ERROR);
    }
    let noreply = words.noreply();
    let level = number::unsigned_short(words[0]).ok_or(Refusal::FORMAT.unless(noreply))?;
    Ok(Command::Verbosity { level, noreply })
}
