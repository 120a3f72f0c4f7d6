//! What is in a directory, as a page.

use rustix::fs::{AtFlags, Dir, FileType, statat};
use sinew_http_protocol::date;
use sinew_http_protocol::target::{Place, encode};
use std::fmt::Write;

/// The fields of an answer with a listing, which may be another one the next time.
pub const FIELDS: &str = "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-cache\r\n";

/// As many names as are shown. A page is made in memory, some 200 bytes for each.
const MOST: usize = 5_000;

/// The largest page, and what is needed to make it: names of 255 bytes, each of which takes three
/// in a link and six in a text, in a string that has been doubled.
pub const LARGEST: usize = 2 * MOST * (255 * 10 + 200);

struct Line {
    name: Vec<u8>,
    is_directory: bool,
    size: u64,
    modified: i64,
}

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
footer{margin-top:1rem;font-size:.85rem;opacity:.6}
";

/// The page of a directory at this path. On a thread that may block.
pub fn page(directory: Dir, path: &[u8], hidden: bool) -> String {
    let (lines, left_out) = read(directory, hidden);
    let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
    let title = escaped(&[b"/", path, slash].concat());
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<table>\n\
         <thead><tr><th>Name</th><th>Size</th><th>Changed (UTC)</th></tr></thead>\n<tbody>\n"
    );
    if !path.is_empty() {
        page.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    for line in &lines {
        let slash = if line.is_directory { "/" } else { "" };
        page.push_str("<tr><td><a href=\"./");
        encode(&line.name, &mut page);
        let size = if line.is_directory { String::new() } else { readable(line.size) };
        // Writing to a string does not fail.
        let _ = writeln!(
            page,
            "{slash}\">{}{slash}</a></td><td>{size}</td><td>{}</td></tr>",
            escaped(&line.name),
            minute(line.modified)
        );
    }
    page.push_str("</tbody>\n</table>\n<footer>");
    let _ = match (lines.len(), left_out) {
        (1, 0) => write!(page, "1 entry"),
        (count, 0) => write!(page, "{count} entries"),
        (count, more) => write!(page, "{count} entries, and {more} that are not shown"),
    };
    page.push_str("</footer>\n</body>\n</html>\n");
    page
}

/// Directories first, then by name; and how many there are beyond the most.
fn read(mut directory: Dir, hidden: bool) -> (Vec<Line>, usize) {
    let (mut lines, mut left_out) = (Vec::new(), 0);
    while let Some(Ok(entry)) = directory.next() {
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." || name.starts_with(b".") && !hidden {
            continue;
        }
        if lines.len() == MOST {
            left_out += 1;
            continue;
        }
        let stat = directory.fd().ok().and_then(|fd| statat(fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).ok());
        let Some(stat) = stat else { continue };
        lines.push(Line {
            name: name.to_vec(),
            is_directory: FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
            size: stat.st_size as u64,
            modified: stat.st_mtime,
        });
    }
    lines.sort_by(|one, other| (!one.is_directory, &one.name).cmp(&(!other.is_directory, &other.name)));
    (lines, left_out)
}

/// The place with a slash at its end, as a client has to write it.
pub fn with_slash(place: &Place<'_>) -> String {
    let mut location = "/".to_owned();
    encode(&place.path, &mut location);
    location.push('/');
    if let Some(query) = place.query {
        // It came in a head, so it has neither spaces nor ends of lines.
        let _ = write!(location, "?{}", String::from_utf8_lossy(query));
    }
    location
}

fn escaped(name: &[u8]) -> String {
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

fn minute(seconds: i64) -> String {
    let (year, month, day) = date::civil(seconds.div_euclid(86_400));
    let second = seconds.rem_euclid(86_400);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}", second / 3600, second / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        let sizes = [0, 1023, 1024, 1536, 1_048_575, 1 << 20, u64::MAX];
        let expected = ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "16384.0 PiB"];
        assert_eq!(sizes.map(readable), expected);
        assert_eq!(minute(784_111_777), "1994-11-06 08:49");
    }

    #[test]
    fn names_mean_nothing_in_html() {
        assert_eq!(escaped(b"<a href='x'>&\"\x07\xff"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\u{fffd}\u{fffd}");
    }
}
