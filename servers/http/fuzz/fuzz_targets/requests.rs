//! Feeds any bytes to the parser: finds the requests in them, discards their bodies, and checks
//! their targets and fields.
//!
//! ```sh
//! cargo +nightly fuzz run requests --fuzz-dir servers/http/fuzz
//! ```
//!
//! or, without `cargo-fuzz`:
//!
//! ```sh
//! cd servers/http/fuzz
//! RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
//!     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table" \
//!     cargo +nightly run --release --target x86_64-unknown-linux-gnu -- \
//!     -max_total_time=60 -max_len=1500 -dict=requests.dict
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use sinew_http_protocol::body::Discard;
use sinew_http_protocol::condition::{Version, judge, range_counts};
use sinew_http_protocol::encoding::{Encoding, is_accepted};
use sinew_http_protocol::range::{MOST_PARTS, Wanted, wanted};
use sinew_http_protocol::{Fields, Limits, Request, parse, target, upgrade};

const LIMITS: Limits = Limits { head: 1024, target: 256 };
const MOST_BODY: u64 = 1024;
const SIZE: u64 = 1000;

fuzz_target!(|bytes: &[u8]| {
    let (whole, cut) = (ends(bytes, bytes.len().max(1)), ends(bytes, 1));
    assert_eq!(whole, cut, "the result depends on how the bytes are cut");
});

/// Returns the ends of all requests, with their bodies, when bytes come in steps of this size. The
/// last element is the status of a refusal, if there is one.
fn ends(bytes: &[u8], step: usize) -> Vec<usize> {
    let mut fields = Fields::default();
    let (mut ends, mut begin, mut end) = (Vec::new(), 0, 0);
    loop {
        let request = loop {
            match parse(&bytes[begin..end], &LIMITS, &mut fields) {
                Ok(Some(request)) => break request,
                // A head that is too long may be refused for another reason when more of it is
                // known.
                Err(status) if matches!(status.0, 414 | 431) => return ends,
                Err(status) => return [ends, vec![status.0.into()]].concat(),
                Ok(None) if end == bytes.len() => return ends,
                Ok(None) => end = (end + step).min(bytes.len()),
            }
        };
        look(&request, &bytes[begin..]);
        begin += request.length;
        let mut body = match Discard::new(request.body, MOST_BODY) {
            Ok(body) => body,
            Err(status) => return [ends, vec![status.0.into()]].concat(),
        };
        while !body.is_done() {
            match body.take(&bytes[begin..end.max(begin)]) {
                Ok(count) => begin += count,
                Err(status) => return [ends, vec![status.0.into()]].concat(),
            }
            if !body.is_done() {
                if end == bytes.len() {
                    return ends;
                }
                end = (end + step).min(bytes.len());
            }
        }
        ends.push(begin);
        end = end.max(begin);
    }
}

/// Checks what has to hold of every request.
fn look(request: &Request<'_>, bytes: &[u8]) {
    let head = &bytes[..request.length];
    assert!(head.ends_with(b"\r\n\r\n"));
    for (at, &byte) in head.iter().enumerate() {
        assert!(byte != 0);
        assert!(byte != b'\n' || head[at - 1] == b'\r');
        assert!(byte != b'\r' || head[at + 1] == b'\n');
    }
    if let Ok(place) = target::place(request.target) {
        let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
        assert!(place.path.is_empty() || place.path.split(|&byte| byte == b'/').all(is_name));
        let mut again = "/".to_owned();
        target::encode(&place.path, &mut again);
        assert_eq!(target::place(&again).unwrap().path, place.path);
    }
    if let Ok(upgrade) = upgrade::websocket(head) {
        assert!(upgrade.key.len() == 24 && upgrade.origin.is_some() | upgrade.is_same_origin());
    }
    let version = Version { tag: b"\"tag\"", modified: 784_111_777 };
    let _ = (judge(request, version), range_counts(request, version));
    let accepted = request.accept_encoding.value().unwrap_or_default();
    let _ = (is_accepted(accepted, Encoding::Gzip), is_accepted(accepted, Encoding::Brotli));
    match wanted(request.range.value().unwrap_or_default(), SIZE) {
        Wanted::Part(part) => assert!(part.start < part.end && part.end <= SIZE),
        Wanted::Parts(parts) => {
            assert!(parts.len() <= MOST_PARTS);
            assert!(parts.iter().all(|part| part.start < part.end && part.end <= SIZE));
        }
        Wanted::Whole | Wanted::Nothing => {}
    }
}
