//! Heads and bodies of requests: those that are understood, those that are refused, and properties
//! that hold for every input.

use proptest::prelude::*;
use sinew_http_protocol::body::Discard;
use sinew_http_protocol::head::{Field, MOST_FIELDS};
use sinew_http_protocol::{Body, Fields, Limits, Method, Request, Status};

const LIMITS: Limits = Limits { head: 4096, target: 512 };

fn parse<'b>(bytes: &'b [u8], limits: &Limits) -> Result<Option<Request<'b>>, Status> {
    sinew_http_protocol::parse(bytes, limits, &mut Fields::default())
}

fn whole(head: &str) -> Request<'_> {
    match parse(head.as_bytes(), &LIMITS) {
        Ok(Some(request)) => request,
        other => panic!("{head:?} gave {other:?}"),
    }
}

fn refused(head: &str) -> Status {
    match parse(head.as_bytes(), &LIMITS) {
        Err(status) => status,
        other => panic!("{head:?} gave {other:?}"),
    }
}

/// Returns a request with these fields and a host.
fn with(fields: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

#[test]
fn a_plain_request_is_understood() {
    let request = whole("GET /a?b HTTP/1.1\r\nHost: example.org:80\r\nRange: bytes=0-1\r\n\r\nrest");
    assert_eq!((request.method, request.target, request.body), (Method::Get, "/a?b", Body::Length(0)));
    assert!(request.keep_alive && request.is_1_1 && !request.expects_continue);
    assert_eq!(request.range, Field::Once(b"bytes=0-1"));
    assert_eq!(request.length, 61);
}

#[test]
fn version_and_connection_field_decide_whether_a_connection_stays() {
    for (head, stays) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, CLOSE\r\n\r\n", false),
        ("GET / HTTP/1.0\r\n\r\n", false),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true),
        ("GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", false),
    ] {
        assert_eq!(whole(head).keep_alive, stays, "{head:?}");
    }
}

#[test]
fn ambiguous_requests_are_refused() {
    for fields in [
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
        "Content-Length: 1\r\nContent-Length: 1\r\n",
        "Content-Length: 1\r\nContent-Length: 2\r\n",
        "Content-Length: 1, 1\r\n",
        "Content-Length: +1\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x1\r\n",
        "Content-Length: \r\n",
        "Content-Length: 1 1\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Content-Length : 1\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: \x0bchunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "X: a\r\n folded\r\n",
        "X: a\r\n\tTransfer-Encoding: chunked\r\n",
        " X: a\r\n",
        "X: a\nY: b\r\n",
        "X: a\n",
        "X: a\rTransfer-Encoding: chunked\r\n",
        "X: a\0b\r\n",
        "X\r\n",
        ": a\r\n",
        "Host: b\r\n",
    ] {
        assert_eq!(refused(&with(fields)), Status::BAD_REQUEST, "{fields:?}");
    }
    assert_eq!(refused(&with("Transfer-Encoding: gzip, chunked\r\n")), Status::NOT_IMPLEMENTED);
    assert_eq!(refused("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), Status::BAD_REQUEST);
    assert_eq!(refused("GET / HTTP/1.1\nHost: a\n\n"), Status::BAD_REQUEST);
    assert_eq!(refused("GET / HTTP/1.1\r\nHost: a\r\n\n"), Status::BAD_REQUEST);
}

#[test]
fn each_error_has_its_own_status() {
    assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), Status::BAD_REQUEST);
    assert_eq!(refused("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), Status::BAD_REQUEST);
    assert_eq!(refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), Status::VERSION_NOT_SUPPORTED);
    assert_eq!(refused("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), Status::VERSION_NOT_SUPPORTED);
    assert_eq!(refused("GET / ICY/1.0\r\nHost: a\r\n\r\n"), Status::BAD_REQUEST);
    assert_eq!(refused("GET /\r\n\r\n"), Status::BAD_REQUEST);
    assert_eq!(refused("BREW / HTTP/1.1\r\nHost: a\r\n\r\n"), Status::NOT_IMPLEMENTED);
    assert_eq!(refused("get / HTTP/1.1\r\nHost: a\r\n\r\n"), Status::NOT_IMPLEMENTED);
    assert_eq!(refused(&with("Expect: the unexpected\r\n")), Status::EXPECTATION_FAILED);
    assert_eq!(whole("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n").method, Method::Other);
}

#[test]
fn a_long_head_is_refused_before_it_is_complete() {
    let target = "/".repeat(LIMITS.target + 1);
    assert_eq!(refused(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")), Status::URI_TOO_LONG);
    assert_eq!(refused(&format!("GET {}", "/".repeat(LIMITS.target + 40))), Status::URI_TOO_LONG);
    let field = format!("X: {}\r\n", "x".repeat(LIMITS.head));
    assert_eq!(refused(&with(&field)), Status::HEADERS_TOO_LARGE);
    assert_eq!(refused(&with(&field)[..LIMITS.head]), Status::HEADERS_TOO_LARGE);
    let longest = "/".repeat(LIMITS.target);
    assert_eq!(whole(&format!("GET {longest} HTTP/1.1\r\nHost: a\r\n\r\n")).target, longest);
}

#[test]
fn the_number_of_fields_is_limited() {
    whole(&with(&"X: y\r\n".repeat(MOST_FIELDS - 1)));
    assert_eq!(refused(&with(&"X: y\r\n".repeat(MOST_FIELDS))), Status::HEADERS_TOO_LARGE);
}

#[test]
fn the_memory_for_fields_is_kept() {
    let mut fields = Fields::default();
    let heads = [with(&"X: y\r\n".repeat(100)), with(""), "GET".to_owned(), with("X: y\n")];
    let outcomes = heads.iter().map(|head| {
        let parsed = sinew_http_protocol::parse(head.as_bytes(), &LIMITS, &mut fields);
        (parsed.map(|request| request.is_some()), fields.capacity())
    });
    let capacity = MOST_FIELDS;
    let expected =
        [(Ok(true), capacity), (Ok(true), capacity), (Ok(false), capacity), (Err(Status::BAD_REQUEST), capacity)];
    assert_eq!(outcomes.collect::<Vec<_>>(), expected);
}

/// Returns the length of the body, `None` if it is incomplete, or the status of a refusal.
fn discarded(body: Body, bytes: &[u8], limit: u64) -> Result<Option<usize>, Status> {
    let mut discard = Discard::new(body, limit)?;
    let taken = discard.take(bytes)?;
    Ok(discard.is_done().then_some(taken))
}

#[test]
fn a_chunked_body_ends_after_its_last_chunk() {
    let chunked = |bytes: &[u8]| discarded(Body::Chunked, bytes, 1000);
    assert_eq!(chunked(b"0\r\n\r\nGET"), Ok(Some(5)));
    assert_eq!(chunked(b"3\r\nabc\r\n0\r\n\r\nGET"), Ok(Some(13)));
    assert_eq!(chunked(b"3;name=\"value\"\r\nabc\r\n0\r\nTrailer: x\r\n\r\n"), Ok(Some(38)));
    assert_eq!(chunked(b"0003\r\n\r\n\r\r\n0\r\n\r\n"), Ok(Some(16)));
    assert_eq!(chunked(b"3 ;a=b\r\nabc\r\n0 \r\n\r\n"), Ok(Some(19)));
    assert_eq!(chunked(b"3\r\nab"), Ok(None));
    for wrong in [
        &b"\r\n"[..],
        b"g\r\n",
        b"-1\r\n",
        b"0x3\r\nabc\r\n",
        b"3\nabc\r\n0\r\n\r\n",
        b"3\r\nabcd\r\n",
        b"3\r\nabc\n0\r\n\r\n",
        b"3\r\nabc0\r\n\r\n",
        b"3\r\nabcx\n0\r\n\r\n",
        b"3;\n\r\n",
        b"3 3\r\nabc\r\n0\r\n\r\n",
        b"0\r\n\n",
        b"0\r\n folded\r\n\r\n",
        b"0\r\nX: a\n\r\n",
        b"ffffffffffffffff\r\n",
    ] {
        assert_eq!(chunked(wrong), Err(Status::BAD_REQUEST), "{}", wrong.escape_ascii());
    }
}

#[test]
fn bodies_are_limited() {
    assert_eq!(discarded(Body::Length(11), b"", 10), Err(Status::CONTENT_TOO_LARGE));
    assert_eq!(discarded(Body::Length(10), b"0123456789x", 10), Ok(Some(10)));
    assert_eq!(discarded(Body::Chunked, b"8\r\n01234567\r\n3\r\n", 10), Err(Status::CONTENT_TOO_LARGE));
    let endless = [&b"0;"[..], &[b'x'; 100_000]].concat();
    assert_eq!(discarded(Body::Chunked, &endless, 10), Err(Status::CONTENT_TOO_LARGE));
}

fn token() -> impl Strategy<Value = String> {
    "[A-Za-z0-9!#$%&'*+.^_`|~-]{1,12}"
}

fn fields() -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop_oneof![token().prop_map(|name| format!("X-{name}")), Just("Range".into()), Just("Cookie".into())];
    prop::collection::vec((name, "[ -~]{0,40}"), 0..10)
}

fn bytes_near_http() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        &b"GET "[..],
        &b"POST / HTTP/1.1\r\n"[..],
        &b"/ HTTP/1.1\r\nHost: a\r\n"[..],
        &b" HTTP/1.0\r\n"[..],
        &b"Content-Length: 5\r\n"[..],
        &b"Transfer-Encoding: chunked\r\n"[..],
        &b"Connection: close\r\n"[..],
        &b"\r\n"[..],
        &b"\n"[..],
        &b"\r"[..],
        &b" "[..],
        &b": "[..],
        &b"\0"[..],
        &b"a"[..],
        &b"\xff"[..],
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_well_formed_head_is_complete_at_its_end_and_not_before(target in "/[a-z0-9/?=&.%]{0,60}", fields in fields(), rest in ".{0,20}") {
        let mut head = format!("GET {target} HTTP/1.1\r\nHost: example.org\r\n");
        for (name, value) in &fields {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let all = format!("{head}{rest}");
        let request = whole(&all);
        prop_assert_eq!(request.length, head.len());
        prop_assert_eq!(request.target, target);
        for end in 0..head.len() {
            prop_assert!(matches!(parse(&all.as_bytes()[..end], &LIMITS), Ok(None)), "at {}", end);
        }
    }

    #[test]
    fn bytes_behind_a_head_do_not_change_it(bytes in bytes_near_http(), more in bytes_near_http()) {
        if let Ok(Some(request)) = parse(&bytes, &LIMITS) {
            let longer = [&bytes[..], &more].concat();
            let Ok(Some(again)) = parse(&longer, &LIMITS) else { panic!("{:?}", bytes) };
            prop_assert_eq!((again.length, again.body, again.target), (request.length, request.body, request.target));
            prop_assert!(bytes[..request.length].ends_with(b"\r\n\r\n"));
            let lines = bytes[..request.length].split(|&byte| byte == b'\n');
            prop_assert!(lines.clone().take(lines.count() - 1).all(|line| line.ends_with(b"\r")));
        }
    }

    #[test]
    fn a_refused_head_stays_refused_with_more_bytes(bytes in bytes_near_http(), more in bytes_near_http()) {
        if parse(&bytes, &LIMITS).is_err() {
            prop_assert!(parse(&[&bytes[..], &more].concat(), &LIMITS).is_err());
        }
    }

    #[test]
    fn a_body_ends_at_the_same_place_however_it_is_cut(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
        cuts in prop::collection::vec(1usize..20, 1..20),
    ) {
        let mut body = Vec::new();
        for chunk in &chunks {
            body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\n\r\n");
        let length = body.len();
        body.extend_from_slice(b"GET / HTTP/1.1\r\n");
        let mut discard = Discard::new(Body::Chunked, 1000).unwrap();
        let (mut at, mut cuts) = (0, cuts.iter().cycle());
        while !discard.is_done() {
            let end = (at + cuts.next().unwrap()).min(body.len());
            at += discard.take(&body[at..end]).unwrap();
        }
        prop_assert_eq!(at, length);
    }
}
