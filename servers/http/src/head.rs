//! A request's head.

use crate::status::Status;
use httparse::{EMPTY_HEADER, Error, Header};

/// As many fields as are looked for at first: more than browsers send.
const USUAL_FIELDS: usize = 32;

/// As many fields as a request may have.
pub const MOST_FIELDS: usize = 128;

/// How much a client may say.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a head, up to the empty line.
    pub head: usize,
    /// Bytes of a target.
    pub target: usize,
}

/// What is asked to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Show it.
    Get,
    /// Say what showing it would say.
    Head,
    /// Say what may be asked.
    Options,
    /// One that HTTP has, and files have no use for.
    Other,
}

/// Where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many bytes after the head.
    Length(u64),
    /// Where its chunks say.
    Chunked,
}

/// A head that is whole, and that can be read in one way only.
#[derive(Clone, Copy, Debug)]
pub struct Request<'b> {
    /// What is asked to be done.
    pub method: Method,
    /// Its name.
    pub method_name: &'b str,
    /// To what, as the client wrote it.
    pub target: &'b str,
    /// Whether it is HTTP/1.1, rather than 1.0.
    pub is_1_1: bool,
    /// Whether the client wants the connection to stay.
    pub keep_alive: bool,
    /// Where the next request begins.
    pub body: Body,
    /// Whether the client waits for a word before it sends the body.
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
    /// Bytes of the head, with the empty line at its end.
    pub length: usize,
}

/// A field that may occur once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Field<'b> {
    /// It is not there.
    #[default]
    Absent,
    /// It is there once.
    Once(&'b [u8]),
    /// It is there more than once.
    Repeated,
}

impl<'b> Field<'b> {
    fn meet(&mut self, value: &'b [u8]) {
        *self = if *self == Field::Absent { Field::Once(value) } else { Field::Repeated };
    }

    /// The value, if there is one and only one.
    pub fn value(self) -> Option<&'b [u8]> {
        match self {
            Field::Once(value) => Some(value),
            _ => None,
        }
    }

    /// Whether it is there, once or more.
    pub fn is_present(self) -> bool {
        self != Field::Absent
    }
}

/// Reads the head at the beginning of the bytes, of which there may be more behind it.
/// `None` if it is the beginning of one.
///
/// # Errors
/// The status of the answer, after which the connection is to be closed: where the next
/// request begins is not known.
#[inline]
pub fn parse<'b>(bytes: &'b [u8], limits: &Limits) -> Result<Option<Request<'b>>, Status> {
    let mut fields = [EMPTY_HEADER; USUAL_FIELDS];
    match parse_with(bytes, limits, &mut fields) {
        Err(Failure::TooManyFields) => parse_slow(bytes, limits),
        Err(Failure::Refused(status)) => Err(status),
        Ok(parsed) => Ok(parsed),
    }
}

enum Failure {
    TooManyFields,
    Refused(Status),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure::Refused(status)
    }
}

#[cold]
#[inline(never)]
fn parse_slow<'b>(bytes: &'b [u8], limits: &Limits) -> Result<Option<Request<'b>>, Status> {
    let mut fields = vec![EMPTY_HEADER; MOST_FIELDS];
    parse_with(bytes, limits, &mut fields).map_err(|failure| match failure {
        Failure::TooManyFields => Status::HEADERS_TOO_LARGE,
        Failure::Refused(status) => status,
    })
}

#[inline(always)]
fn parse_with<'b>(bytes: &'b [u8], limits: &Limits, fields: &mut [Header<'b>]) -> Result<Option<Request<'b>>, Failure> {
    let mut raw = httparse::Request::new(fields);
    let length = match raw.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(partial(bytes, limits)?),
        Err(Error::TooManyHeaders) => return Err(Failure::TooManyFields),
        Err(Error::Version) => return Err(wrong_version(bytes).into()),
        Err(_) => return Err(Status::BAD_REQUEST.into()),
    };
    let (Some(method_name), Some(target), Some(version)) = (raw.method, raw.path, raw.version) else {
        return Err(Status::BAD_REQUEST.into());
    };
    if target.len() > limits.target {
        return Err(Status::URI_TOO_LONG.into());
    }
    if length > limits.head {
        return Err(Status::HEADERS_TOO_LARGE.into());
    }
    // `httparse` takes a lone LF for the end of a line.
    if memchr::memchr_iter(b'\n', &bytes[..length]).any(|at| at == 0 || bytes[at - 1] != b'\r') {
        return Err(Status::BAD_REQUEST.into());
    }
    let method = method_of(method_name)?;
    let mut found = Found::default();
    for field in raw.headers.iter() {
        found.meet(field)?;
    }
    let is_1_1 = version == 1;
    match found.host {
        Field::Once(host) if is_host(host) => {}
        Field::Absent if !is_1_1 => {}
        _ => return Err(Status::BAD_REQUEST.into()),
    }
    Ok(Some(Request {
        method,
        method_name,
        target,
        is_1_1,
        keep_alive: !found.close && (is_1_1 || found.keep_alive),
        body: found.body(is_1_1)?,
        expects_continue: found.expects_continue && is_1_1,
        if_match: found.if_match,
        if_none_match: found.if_none_match,
        if_modified_since: found.if_modified_since,
        if_unmodified_since: found.if_unmodified_since,
        if_range: found.if_range,
        range: found.range,
        accept_encoding: found.accept_encoding,
        referer: found.referer,
        user_agent: found.user_agent,
        length,
    }))
}

/// Of a head that is not whole: whether it may still become one.
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

/// A version that is none, or one that is not spoken here.
#[cold]
fn wrong_version(bytes: &[u8]) -> Status {
    let line = bytes.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    match line.trim_ascii_end().rsplit(|&byte| byte == b' ').next() {
        Some([b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9']) => Status::VERSION_NOT_SUPPORTED,
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

/// A name or an address, maybe a port; which one does not matter here.
fn is_host(host: &[u8]) -> bool {
    host.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+,;=".contains(byte))
}

/// The fields that mean something here.
#[derive(Default)]
struct Found<'b> {
    host: Field<'b>,
    length: Field<'b>,
    transfer: Field<'b>,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
    if_match: Field<'b>,
    if_none_match: Field<'b>,
    if_modified_since: Field<'b>,
    if_unmodified_since: Field<'b>,
    if_range: Field<'b>,
    range: Field<'b>,
    accept_encoding: Field<'b>,
    referer: Field<'b>,
    user_agent: Field<'b>,
}

impl<'b> Found<'b> {
    #[inline(always)]
    fn meet(&mut self, field: &Header<'b>) -> Result<(), Status> {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        // Names are told apart by their length first.
        match field.name.len() {
            4 if is("host") => self.host.meet(field.value),
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
                    self.close |= token.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= token.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            10 if is("user-agent") => self.user_agent.meet(field.value),
            13 if is("if-none-match") => self.if_none_match.meet(field.value),
            14 if is("content-length") => self.length.meet(field.value),
            15 if is("accept-encoding") => self.accept_encoding.meet(field.value),
            17 if is("if-modified-since") => self.if_modified_since.meet(field.value),
            17 if is("transfer-encoding") => self.transfer.meet(field.value),
            19 if is("if-unmodified-since") => self.if_unmodified_since.meet(field.value),
            _ => {}
        }
        Ok(())
    }

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
    // No sign, no space, no list: `parse` alone would take a plus.
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

fn chunked(codings: &[u8]) -> Result<Body, Status> {
    if codings.eq_ignore_ascii_case(b"chunked") {
        return Ok(Body::Chunked);
    }
    // Where the body ends is known only if `chunked` comes last, and once.
    let mut codings = codings.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    match codings.next_back() {
        Some(last) if is_chunked(last) && !codings.any(is_chunked) => Err(Status::NOT_IMPLEMENTED),
        _ => Err(Status::BAD_REQUEST),
    }
}
