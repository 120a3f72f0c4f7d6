//! Paths, ranges, dates, tags and encodings.

use proptest::prelude::*;
use sinew_http_protocol::condition::{Verdict, Version, judge, range_counts};
use sinew_http_protocol::encoding::{Encoding, is_accepted};
use sinew_http_protocol::media::content_type;
use sinew_http_protocol::range::{MOST_PARTS, Wanted, wanted};
use sinew_http_protocol::target::{encode, place};
use sinew_http_protocol::{Fields, Limits, Request, Status};

fn parse<'b>(bytes: &'b [u8], limits: &Limits) -> Result<Option<Request<'b>>, Status> {
    sinew_http_protocol::parse(bytes, limits, &mut Fields::default())
}

fn path(target: &str) -> Result<(String, bool), Status> {
    place(target).map(|place| (String::from_utf8(place.path.into_owned()).unwrap(), place.is_directory))
}

#[test]
fn targets_name_places_below_the_served_directory() {
    for (target, expected, is_directory) in [
        ("/", "", true),
        ("/a", "a", false),
        ("/a/", "a", true),
        ("/a/b.c", "a/b.c", false),
        ("//a///b", "a/b", false),
        ("/./a/.", "a", true),
        ("/a/../b", "b", false),
        ("/a/..", "", true),
        ("/a/b/../../c/", "c", true),
        ("/%61%2e%62", "a.b", false),
        ("/a/%2e%2e/b", "b", false),
        ("/...", "...", false),
        ("/a%20b?c=%2f", "a b", false),
        ("http://example.org/a", "a", false),
        ("HTTPS://example.org", "", true),
        ("http://example.org?x", "", true),
        ("/a\\..\\b", "a\\..\\b", false),
    ] {
        assert_eq!(path(target), Ok((expected.to_owned(), is_directory)), "{target}");
    }
}

#[test]
fn targets_that_lead_out_or_are_malformed_are_refused() {
    for target in [
        "/..",
        "/../etc/passwd",
        "/a/../../b",
        "/%2e%2e/b",
        "/%2E./b",
        "/.%2e",
        "/a%2fb",
        "/a%2F..%2f..",
        "/a%00",
        "/%",
        "/%1",
        "/%zz",
        "/%%32e",
        "/a#b",
        "*",
        "",
        "a",
        "ftp://example.org/",
        "http:///a",
        "example.org:80",
    ] {
        assert_eq!(path(target), Err(Status::BAD_REQUEST), "{target}");
    }
}

#[test]
fn names_that_begin_with_a_dot_are_hidden() {
    let hidden = |target: &str| place(target).unwrap().is_hidden();
    assert!(hidden("/.git/config") && hidden("/a/.htpasswd") && hidden("/%2egit/") && hidden("/.well-known/.x"));
    assert!(!hidden("/") && !hidden("/a.b/c.") && !hidden("/.well-known/acme"));
}

#[test]
fn ranges_are_parsed() {
    let parts = |value: &str| wanted(value.as_bytes(), 100);
    assert_eq!(parts("bytes=0-9"), Wanted::Part(0..10));
    assert_eq!(parts("Bytes= 90-"), Wanted::Part(90..100));
    assert_eq!(parts("bytes=-1"), Wanted::Part(99..100));
    assert_eq!(parts("bytes=-1000"), Wanted::Part(0..100));
    assert_eq!(parts("bytes=50-1000"), Wanted::Part(50..100));
    assert_eq!(parts("bytes=99-99999999999999999999"), Wanted::Part(99..100));
    assert_eq!(parts("bytes=0-0, 5-6,-1"), Wanted::Parts(vec![0..1, 5..7, 99..100]));
    assert_eq!(parts("bytes=0-0,100-"), Wanted::Part(0..1));
    for nothing in ["bytes=100-", "bytes=-0", "bytes=100-200,300-", "bytes="] {
        assert_eq!(parts(nothing), Wanted::Nothing, "{nothing}");
    }
    for whole in ["bytes=9-1", "bytes=a-", "bytes=-", "bytes=1", "lines=1-2", "bytes", "bytes=0-,0-", "bytes=+1-2"] {
        assert_eq!(parts(whole), Wanted::Whole, "{whole}");
    }
    assert_eq!(parts(&format!("bytes={}", "1-1,".repeat(MOST_PARTS + 1))), Wanted::Whole);
    assert_eq!(wanted(b"bytes=0-", 0), Wanted::Nothing);
}

/// Judges a request with `If-Modified-Since: date` for a file that was changed at `modified`.
fn judge_since(date: &str, modified: i64) -> Verdict {
    let head = format!("GET / HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: {date}\r\n\r\n");
    let Ok(Some(request)) = parse(head.as_bytes(), &Limits { head: 1000, target: 100 }) else { panic!("{head:?}") };
    judge(&request, Version { tag: b"\"v1\"", modified })
}

#[test]
fn all_three_forms_of_a_date_are_understood_to_the_second() {
    for (date, modified) in [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
        ("Sun Nov  6 08:49:37 1994", 784_111_777),
        ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
        ("Tuesday, 31-Dec-69 23:59:59 GMT", 3_155_759_999),
        ("Thursday, 01-Jan-70 00:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
    ] {
        assert_eq!(judge_since(date, modified), Verdict::NotModified, "{date}");
        assert_eq!(judge_since(date, modified + 1), Verdict::Answer, "{date}");
    }
}

#[test]
fn a_condition_with_a_broken_date_is_ignored() {
    for date in [
        "yesterday",
        "Sun, 06 Nov 1994",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Mon, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 06 Nov 1994 08:49:37 GMT\u{e9}",
    ] {
        assert_eq!(judge_since(date, 0), Verdict::Answer, "{date}");
    }
}

#[test]
fn conditions_are_judged_in_order() {
    let version = Version { tag: b"\"v1\"", modified: 784_111_777 };
    for (fields, expected) in [
        ("", Verdict::Answer),
        ("If-None-Match: \"v1\"", Verdict::NotModified),
        ("If-None-Match: W/\"v1\"", Verdict::NotModified),
        ("If-None-Match: \"v0\", \"v1\"", Verdict::NotModified),
        ("If-None-Match: *", Verdict::NotModified),
        ("If-None-Match: \"v0\"", Verdict::Answer),
        ("If-None-Match: \"v0\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", Verdict::Answer),
        ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", Verdict::NotModified),
        ("If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT", Verdict::Answer),
        ("If-Modified-Since: whenever", Verdict::Answer),
        ("If-Match: \"v1\"", Verdict::Answer),
        ("If-Match: W/\"v1\"", Verdict::Failed),
        ("If-Match: \"v0\"", Verdict::Failed),
        ("If-Match: *", Verdict::Answer),
        ("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT", Verdict::Failed),
        ("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT", Verdict::Answer),
    ] {
        let end = if fields.is_empty() { "" } else { "\r\n" };
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}{end}\r\n");
        let limits = Limits { head: 1000, target: 100 };
        let Ok(Some(request)) = parse(head.as_bytes(), &limits) else { panic!("{head:?}") };
        assert_eq!(judge(&request, version), expected, "{fields}");
    }
    for (field, expected) in [
        ("If-Range: \"v1\"", true),
        ("If-Range: W/\"v1\"", false),
        ("If-Range: \"v0\"", false),
        ("If-Range: Sun, 06 Nov 1994 08:49:37 GMT", true),
        ("If-Range: Sun, 06 Nov 1994 08:49:38 GMT", false),
        ("X: y", true),
    ] {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
        let Ok(Some(request)) = parse(head.as_bytes(), &Limits { head: 1000, target: 100 }) else { panic!() };
        assert_eq!(range_counts(&request, version), expected, "{field}");
    }
}

#[test]
fn encodings_are_accepted_as_the_client_says() {
    let (br, gzip) = (Encoding::Brotli, Encoding::Gzip);
    assert!(is_accepted(b"gzip, deflate, br", br) && is_accepted(b"GZIP;q=0.5", gzip));
    assert!(is_accepted(b"*", br) && !is_accepted(b"*;q=0", br) && is_accepted(b"br, *;q=0", br));
    assert!(!is_accepted(b"gzip;q=0, *", gzip) && !is_accepted(b"gzip; q=0.00", gzip));
    assert!(!is_accepted(b"", gzip) && !is_accepted(b"xgzip, identity", gzip));
}

#[test]
fn content_types_follow_the_last_ending() {
    assert_eq!(content_type(b"a/b.HTML"), "text/html; charset=utf-8");
    assert_eq!(content_type(b"a.tar.gz"), "application/gzip");
    assert_eq!(content_type(b"a.html/b"), "application/octet-stream");
    assert_eq!(content_type(b""), "application/octet-stream");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_target_leads_out(target in "(http://h)?/([./%a]|%2e|%2f|%00|%5c|//|\\.\\.|[!-~]){0,12}") {
        if let Ok(place) = place(&target) {
            let names: Vec<&[u8]> = place.path.split(|&byte| byte == b'/').collect();
            let is_name = |name: &&[u8]| !matches!(name, &b"" | &b"." | &b"..") && !name.contains(&0);
            prop_assert!(place.path.is_empty() || names.iter().all(is_name), "{:?}", place);
        }
    }

    #[test]
    fn every_encoded_name_is_decoded_to_itself(name in prop::collection::vec(1u8..=255, 1..40)) {
        let name: Vec<u8> = name.into_iter().filter(|&byte| byte != b'/').collect();
        prop_assume!(!matches!(&name[..], b"" | b"." | b".."));
        let mut target = "/".to_owned();
        encode(&name, &mut target);
        prop_assert!(target.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>&\"'".contains(&byte)));
        prop_assert_eq!(&place(&target).unwrap().path[..], &name[..]);
    }

    #[test]
    fn every_part_lies_within_the_file(value in "bytes=([0-9]{0,3}-[0-9]{0,3},? ?){0,20}", size in 0u64..1000) {
        let parts = match wanted(value.as_bytes(), size) {
            Wanted::Part(part) => vec![part],
            Wanted::Parts(parts) => parts,
            _ => vec![],
        };
        prop_assert!(parts.len() <= MOST_PARTS);
        prop_assert!(parts.iter().all(|part| part.start < part.end && part.end <= size));
    }
}
