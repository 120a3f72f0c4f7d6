//! Conditional requests: whether the client has the file already.

use crate::head::{Field, Request};
use httpdate::HttpDate;
use std::time::{SystemTime, UNIX_EPOCH};

/// The result of a request's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They hold, or there are none: answer with the file.
    Answer,
    /// 304: the client has this version.
    NotModified,
    /// 412: the file is not the version that the client expects.
    Failed,
}

/// The version of a file, as conditions compare it.
#[derive(Clone, Copy, Debug)]
pub struct Version<'a> {
    /// The entity tag, with its quotes. It is a strong one.
    pub tag: &'a [u8],
    /// The time of the last change, in seconds since 1970.
    pub modified: i64,
}

/// Judges the conditions of a request, in the order of RFC 9110, section 13.2.2.
#[inline]
pub fn judge(request: &Request<'_>, version: Version<'_>) -> Verdict {
    let is_conditional = request.if_none_match.is_present()
        || request.if_modified_since.is_present()
        || request.if_match.is_present()
        || request.if_unmodified_since.is_present();
    if is_conditional { judge_slow(request, version) } else { Verdict::Answer }
}

#[cold]
fn judge_slow(request: &Request<'_>, version: Version<'_>) -> Verdict {
    let time = |field: Field<'_>| field.value().and_then(seconds);
    match request.if_match {
        Field::Absent => {
            if time(request.if_unmodified_since).is_some_and(|since| version.modified > since) {
                return Verdict::Failed;
            }
        }
        Field::Once(tags) if matches(tags, version.tag, Comparison::Strong) => {}
        _ => return Verdict::Failed,
    }
    match request.if_none_match {
        Field::Absent => match time(request.if_modified_since) {
            Some(since) if version.modified <= since => Verdict::NotModified,
            _ => Verdict::Answer,
        },
        Field::Once(tags) if matches(tags, version.tag, Comparison::Weak) => Verdict::NotModified,
        _ => Verdict::Answer,
    }
}

/// Returns whether `Range` counts: there is no `If-Range`, or it names this version.
pub fn range_counts(request: &Request<'_>, version: Version<'_>) -> bool {
    match request.if_range {
        Field::Absent => true,
        Field::Once(tag) if tag.first() == Some(&b'"') => tag == version.tag,
        Field::Once(date) => seconds(date) == Some(version.modified),
        Field::Repeated => false,
    }
}

/// Returns the seconds since 1970 of a date in one of HTTP's three forms.
fn seconds(text: &[u8]) -> Option<i64> {
    let date: HttpDate = std::str::from_utf8(text).ok()?.parse().ok()?;
    let since_1970 = SystemTime::from(date).duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since_1970.as_secs()).ok()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// Weak tags match nothing.
    Strong,
    /// A weak tag matches what it would without the `W/`.
    Weak,
}

fn matches(list: &[u8], tag: &[u8], comparison: Comparison) -> bool {
    if list == b"*" {
        return true;
    }
    // Our tags have no comma. A tag with a comma is cut into pieces that match nothing.
    list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).any(|item| match item.strip_prefix(b"W/") {
        Some(item) => comparison == Comparison::Weak && item == tag,
        None => item == tag,
    })
}
