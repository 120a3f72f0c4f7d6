//! The listing of a directory, as a page that is made piece by piece.

use crate::dates::minute;
use crate::tree::{Name, Names};
use sinew_http_protocol::target::{Place, encode};
use std::fmt::Write;

/// The fields of an answer with a listing. The next one may differ, so it must not be cached.
pub const FIELDS: &str = "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-cache\r\n";

const STYLE: &str = "\
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.3rem;font-weight:600;overflow-wrap:anywhere}
table{width:100%;border-collapse:collapse}
td,th{padding:.3rem .6rem;text-align:left;border-bottom:1px solid #8883}
td:nth-child(n+2),th:nth-child(n+2){text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td:first-child{overflow-wrap:anywhere}
th{font-weight:600;font-size:.85rem;opacity:.7}
tr:hover td{background:#8881}
a{text-decoration:none;color:LinkText}a:hover{text-decoration:underline}
code{overflow-wrap:anywhere}
footer{margin-top:1rem;font-size:.85rem;opacity:.6}
";

/// A page that is being sent. It knows the last name that it has shown, and goes on behind it in
/// the names of that moment. No name is shown twice. A name that comes or goes meanwhile may be
/// shown or not.
pub struct Page<'a> {
    path: &'a [u8],
    /// The last name of the last piece, and whether it is a directory.
    last: Option<(bool, Vec<u8>)>,
    has_begun: bool,
    shown: u64,
}

impl<'a> Page<'a> {
    /// Begins the page of the directory at this path.
    pub fn new(path: &'a [u8]) -> Page<'a> {
        Page { path, last: None, has_begun: false, shown: 0 }
    }

    /// Appends a piece, until `into` has about `most` bytes. Returns whether the page is complete.
    pub fn piece(&mut self, names: &Names, into: &mut Vec<u8>, most: usize) -> bool {
        if !self.has_begun {
            self.begin(into);
        }
        let mut rest = names.after(self.last.as_ref().map(|(is_directory, name)| (*is_directory, &name[..])));
        let mut row = String::new();
        while into.len() < most {
            let Some(name) = rest.next() else {
                self.end(into, if names.are_cut { ", and more that are not shown" } else { "" });
                return true;
            };
            row.clear();
            make_row(&name, &mut row);
            into.extend_from_slice(row.as_bytes());
            self.shown += 1;
            if into.len() >= most {
                self.last = Some((name.is_directory, name.bytes.to_vec()));
            }
        }
        false
    }

    fn begin(&mut self, into: &mut Vec<u8>) {
        self.has_begun = true;
        let slash: &[u8] = if self.path.is_empty() { b"" } else { b"/" };
        let title = escaped(&[b"/", self.path, slash].concat());
        let text = format!(
            "{}<h1>{}</h1>\n<table>\n\
             <thead><tr><th>Name</th><th>Size</th><th>Changed (UTC)</th></tr></thead>\n<tbody>\n",
            opening(&title),
            trail(self.path).unwrap_or(title),
        );
        into.extend_from_slice(text.as_bytes());
        if !self.path.is_empty() {
            let parent = "<tr><td><a href=\"../\">../ (parent directory)</a></td><td></td><td></td></tr>\n";
            into.extend_from_slice(parent.as_bytes());
        }
    }

    /// Appends the end of the page when the remaining names cannot be read.
    pub fn break_off(&self, into: &mut Vec<u8>) {
        self.end(into, ", and then the directory could not be read any more");
    }

    fn end(&self, into: &mut Vec<u8>, more: &str) {
        let entries = if self.shown == 1 { "entry" } else { "entries" };
        let text = format!("</tbody>\n</table>\n<footer>{} {entries}{more}</footer>\n</body>\n</html>\n", self.shown);
        into.extend_from_slice(text.as_bytes());
    }
}

/// Returns the beginning of a page, up to its body. The title is escaped already.
pub fn opening(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n"
    )
}

/// Paths with more names than this have no trail: its length grows with their square.
const LONGEST_TRAIL: usize = 16;

/// Returns the path with a link on each directory above it.
fn trail(path: &[u8]) -> Option<String> {
    let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect();
    if names.is_empty() || names.len() > LONGEST_TRAIL {
        return None;
    }
    let mut text = "<a href=\"/\">/</a>".to_owned();
    let mut location = "/".to_owned();
    let (last, above) = names.split_last()?;
    for name in above {
        encode(name, &mut location);
        location.push('/');
        // Writing to a string does not fail.
        let _ = write!(text, "<a href=\"{location}\">{}/</a>", escaped(name));
    }
    let _ = write!(text, "{}/", escaped(last));
    Some(text)
}

fn make_row(name: &Name<'_>, into: &mut String) {
    let slash = if name.is_directory { "/" } else { "" };
    into.push_str("<tr><td><a href=\"./");
    encode(name.bytes, into);
    let size = if name.is_directory { String::new() } else { readable(name.size) };
    // Writing to a string does not fail.
    let _ = writeln!(
        into,
        "{slash}\">{}{slash}</a></td><td>{size}</td><td>{}</td></tr>",
        escaped(name.bytes),
        minute(name.modified)
    );
}

/// Returns the place with a slash at its end, as a client has to write it.
pub fn with_slash(place: &Place<'_>) -> String {
    let mut location = "/".to_owned();
    encode(&place.path, &mut location);
    location.push('/');
    if let Some(query) = place.query {
        // The query came in a head, so it has no spaces and no line ends.
        let _ = write!(location, "?{}", String::from_utf8_lossy(query));
    }
    location
}

/// Escapes the characters that mean something in HTML.
pub fn escaped(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for character in String::from_utf8_lossy(name).chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            character if character.is_control() => text.push('\u{fffd}'),
            character => text.push(character),
        }
    }
    text
}

fn readable(size: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if size < 1024 {
        return format!("{size} B");
    }
    let mut value = size as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while value >= 1023.95
        && let Some(next) = units.next()
    {
        value /= 1024.0;
        unit = Some(next);
    }
    format!("{value:.1} {}", unit.unwrap_or(&""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        let sizes = [0, 1023, 1024, 1536, 1_048_575, 1 << 20, u64::MAX];
        let expected = ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "16384.0 PiB"];
        assert_eq!(sizes.map(readable), expected);
    }

    #[test]
    fn a_trail_leads_to_each_directory_above() {
        let trail_of = |path: &str| trail(path.as_bytes());
        assert_eq!(trail_of(""), None);
        let expected = "<a href=\"/\">/</a><a href=\"/a%20b/\">a b/</a><a href=\"/a%20b/%26/\">&amp;/</a>c/";
        assert_eq!(trail_of("a b/&/c").as_deref(), Some(expected));
        assert_eq!(trail_of(&"a/".repeat(LONGEST_TRAIL + 1)), None);
    }

    #[test]
    fn names_are_escaped_in_html() {
        assert_eq!(escaped(b"<a href='x'>&\"\x07\xff"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\u{fffd}\u{fffd}");
    }
}
