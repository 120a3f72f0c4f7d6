//! The head of a request.

use crate::status::Status;
use httparse::{EMPTY_HEADER, Error, Header};
use std::mem::MaybeUninit;

/// The largest number of fields in a request.
pub const MOST_FIELDS: usize = 128;

/// The limits of a head.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest head in bytes, up to the empty line.
    pub head: usize,
    /// The largest target in bytes.
    pub target: usize,
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Send the file.
    Get,
    /// Send what GET would send, without the body.
    Head,
    /// Name the allowed methods.
    Options,
    /// A method that a server of files does not support.
    Other,
}

/// The end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// This number of bytes after the head.
    Length(u64),
    /// The end of its last chunk.
    Chunked,
}

/// A complete head, which can be understood in one way only.
#[derive(Clone, Copy, Debug)]
pub struct Request<'b> {
    /// The method.
    pub method: Method,
    /// The name of the method.
    pub method_name: &'b str,
    /// The target, as the client wrote it.
    pub target: &'b str,
    /// Whether the version is HTTP/1.1, rather than 1.0.
    pub is_1_1: bool,
    /// Whether the client wants the connection to stay open.
    pub keep_alive: bool,
    /// The end of the body, where the next request begins.
    pub body: Body,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// `If-Match`.
    pub if_match: Field<'b>,
    /// `If-None-Match`.
    pub if_none_match: Field<'b>,
    /// `If-Modified-Since`.
    pub if_modified_since: Field<'b>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Field<'b>,
    /// `If-Range`.
    pub if_range: Field<'b>,
    /// `Range`.
    pub range: Field<'b>,
    /// `Accept-Encoding`.
    pub accept_encoding: Field<'b>,
    /// `Referer`.
    pub referer: Field<'b>,
    /// `User-Agent`.
    pub user_agent: Field<'b>,
    /// The length of the head in bytes, with the empty line at its end.
    pub length: usize,
}

/// A field that may occur once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Field<'b> {
    /// The field is absent.
    #[default]
    Absent,
    /// The field occurs once.
    Once(&'b [u8]),
    /// The field occurs more than once.
    Repeated,
}

impl<'b> Field<'b> {
    fn meet(&mut self, value: &'b [u8]) {
        *self = if *self == Field::Absent { Field::Once(value) } else { Field::Repeated };
    }

    /// Returns the value if the field occurs once.
    pub fn value(self) -> Option<&'b [u8]> {
        match self {
            Field::Once(value) => Some(value),
            _ => None,
        }
    }

    /// Returns whether the field occurs, once or more.
    pub fn is_present(self) -> bool {
        self != Field::Absent
    }
}

/// Memory for the fields of a head, kept from one head to the next.
#[derive(Debug, Default)]
pub struct Fields {
    /// Always empty: only its capacity is used.
    room: Vec<Header<'static>>,
}

impl Fields {
    /// Returns the number of fields that fit without another allocation.
    pub fn capacity(&self) -> usize {
        self.room.capacity()
    }
}

/// Parses the head at the beginning of `bytes`. Returns `None` if the head is incomplete.
///
/// # Errors
/// Returns the status of the answer. The connection has to be closed after it, because the
/// beginning of the next request is not known.
#[inline]
pub fn parse<'b>(bytes: &'b [u8], limits: &Limits, fields: &mut Fields) -> Result<Option<Request<'b>>, Status> {
    let mut room: Vec<Header<'b>> = std::mem::take(&mut fields.room);
    room.reserve(MOST_FIELDS);
    let parsed = parse_with(bytes, limits, &mut room.spare_capacity_mut()[..MOST_FIELDS]);
    // This keeps the memory, for headers of another lifetime. The vector is empty.
    fields.room = room.into_iter().map(|_| EMPTY_HEADER).collect();
    parsed
}

#[inline]
fn parse_with<'b>(
    bytes: &'b [u8],
    limits: &Limits,
    room: &mut [MaybeUninit<Header<'b>>],
) -> Result<Option<Request<'b>>, Status> {
    let mut raw = httparse::Request::new(&mut []);
    let length = match raw.parse_with_uninit_headers(bytes, room) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return partial(bytes, limits),
        Err(Error::TooManyHeaders) => return Err(Status::HEADERS_TOO_LARGE),
        Err(Error::Version) => return Err(wrong_version(bytes)),
        Err(_) => return Err(Status::BAD_REQUEST),
    };
    let (Some(method_name), Some(target), Some(version)) = (raw.method, raw.path, raw.version) else {
        return Err(Status::BAD_REQUEST);
    };
    if target.len() > limits.target {
        return Err(Status::URI_TOO_LONG);
    }
    if length > limits.head {
        return Err(Status::HEADERS_TOO_LARGE);
    }
    // `httparse` takes a lone LF for the end of a line.
    if memchr::memchr_iter(b'\n', &bytes[..length]).any(|at| at == 0 || bytes[at - 1] != b'\r') {
        return Err(Status::BAD_REQUEST);
    }
    let method = method_of(method_name)?;
    let mut request = Request { method, method_name, target, is_1_1: version == 1, length, ..Request::EMPTY };
    let mut framing = Framing::default();
    for field in raw.headers.iter() {
        request.meet(field, &mut framing)?;
    }
    match framing.host {
        Field::Once(host) if is_host(host) => {}
        Field::Absent if !request.is_1_1 => {}
        _ => return Err(Status::BAD_REQUEST),
    }
    request.keep_alive = !framing.close && (request.is_1_1 || framing.keep_alive);
    request.expects_continue &= request.is_1_1;
    request.body = framing.body(request.is_1_1)?;
    Ok(Some(request))
}

/// Decides whether an incomplete head may still become a valid one.
fn partial<'b>(bytes: &[u8], limits: &Limits) -> Result<Option<Request<'b>>, Status> {
    let line = bytes.iter().skip_while(|&&byte| byte == b'\r' || byte == b'\n');
    let line_length = line.take_while(|&&byte| byte != b'\n').count();
    // "OPTIONS " and " HTTP/1.1\r" are around the target.
    if line_length > limits.target + 18 {
        Err(Status::URI_TOO_LONG)
    } else if bytes.len() >= limits.head {
        Err(Status::HEADERS_TOO_LARGE)
    } else {
        Ok(None)
    }
}

/// Returns the status for a version that is not supported, or is malformed. The line may be
/// incomplete.
#[cold]
fn wrong_version(bytes: &[u8]) -> Status {
    let line = bytes.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    match line.split(|&byte| byte == b' ').nth(2).and_then(|version| version.strip_prefix(b"HTTP/")) {
        Some([b'0'..=b'9', ..]) => Status::VERSION_NOT_SUPPORTED,
        _ => Status::BAD_REQUEST,
    }
}

fn method_of(name: &str) -> Result<Method, Status> {
    match name {
        "GET" => Ok(Method::Get),
        "HEAD" => Ok(Method::Head),
        "OPTIONS" => Ok(Method::Options),
        "POST" | "PUT" | "DELETE" | "PATCH" | "CONNECT" | "TRACE" => Ok(Method::Other),
        _ => Err(Status::NOT_IMPLEMENTED),
    }
}

/// The bytes that a host may contain.
const HOST: [bool; 256] = {
    let mut table = [false; 256];
    let others = b"-._~:[]%!$&'()*+,;=";
    let mut at = 0;
    while at < 256 {
        table[at] = (at as u8).is_ascii_alphanumeric();
        at += 1;
    }
    at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
};

/// Returns whether a value is a name or an address, maybe with a port. Its meaning does not matter
/// here.
#[inline]
fn is_host(host: &[u8]) -> bool {
    host.iter().all(|&byte| HOST[usize::from(byte)])
}

/// The fields that decide where a request ends, and whether another one follows.
#[derive(Default)]
struct Framing<'b> {
    host: Field<'b>,
    length: Field<'b>,
    transfer: Field<'b>,
    close: bool,
    keep_alive: bool,
}

impl<'b> Request<'b> {
    const EMPTY: Request<'b> = Request {
        method: Method::Other,
        method_name: "",
        target: "",
        is_1_1: false,
        keep_alive: false,
        body: Body::Length(0),
        expects_continue: false,
        if_match: Field::Absent,
        if_none_match: Field::Absent,
        if_modified_since: Field::Absent,
        if_unmodified_since: Field::Absent,
        if_range: Field::Absent,
        range: Field::Absent,
        accept_encoding: Field::Absent,
        referer: Field::Absent,
        user_agent: Field::Absent,
        length: 0,
    };

    #[inline(always)]
    fn meet(&mut self, field: &Header<'b>, framing: &mut Framing<'b>) -> Result<(), Status> {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        // The length of a name is compared first.
        match field.name.len() {
            4 if is("host") => framing.host.meet(field.value),
            5 if is("range") => self.range.meet(field.value),
            6 if is("expect") => {
                if !field.value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(Status::EXPECTATION_FAILED);
                }
                self.expects_continue = true;
            }
            7 if is("referer") => self.referer.meet(field.value),
            8 if is("if-match") => self.if_match.meet(field.value),
            8 if is("if-range") => self.if_range.meet(field.value),
            10 if is("connection") => {
                for token in field.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                    framing.close |= token.eq_ignore_ascii_case(b"close");
                    framing.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            10 if is("user-agent") => self.user_agent.meet(field.value),
            13 if is("if-none-match") => self.if_none_match.meet(field.value),
            14 if is("content-length") => framing.length.meet(field.value),
            15 if is("accept-encoding") => self.accept_encoding.meet(field.value),
            17 if is("if-modified-since") => self.if_modified_since.meet(field.value),
            17 if is("transfer-encoding") => framing.transfer.meet(field.value),
            19 if is("if-unmodified-since") => self.if_unmodified_since.meet(field.value),
            _ => {}
        }
        Ok(())
    }
}

impl Framing<'_> {
    #[inline]
    fn body(&self, is_1_1: bool) -> Result<Body, Status> {
        match (self.length, self.transfer) {
            (Field::Absent, Field::Absent) => Ok(Body::Length(0)),
            (Field::Once(digits), Field::Absent) => length_of(digits).map(Body::Length).ok_or(Status::BAD_REQUEST),
            (Field::Absent, Field::Once(codings)) if is_1_1 => chunked(codings),
            _ => Err(Status::BAD_REQUEST),
        }
    }
}

fn length_of(digits: &[u8]) -> Option<u64> {
    // Digits only: `parse` alone would accept a plus sign.
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

fn chunked(codings: &[u8]) -> Result<Body, Status> {
    if codings.eq_ignore_ascii_case(b"chunked") {
        return Ok(Body::Chunked);
    }
    // The end of the body is known only if `chunked` comes last, and once.
    let mut codings = codings.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    match codings.next_back() {
        Some(last) if is_chunked(last) && !codings.any(is_chunked) => Err(Status::NOT_IMPLEMENTED),
        _ => Err(Status::BAD_REQUEST),
    }
}
