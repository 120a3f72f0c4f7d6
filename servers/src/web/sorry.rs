//! The page of a target that is not here, or that the server does not show. It has the style of a
//! listing, and links that lead on.

use super::listing::{self, escaped};
use sinew_http_protocol::Status;
use sinew_http_protocol::target::{Place, encode};

/// The fields of such an answer.
pub const FIELDS: &str = "Content-Type: text/html; charset=utf-8\r\n";

/// The reason why there is nothing to see.
#[derive(Clone, Copy, Debug)]
pub enum Reason {
    NotFound,
    /// The directory has no index page, and the server lists no directories.
    NotListed,
    /// The server may not read it.
    Forbidden,
}

impl Reason {
    pub fn status(self) -> Status {
        match self {
            Reason::NotFound => Status::NOT_FOUND,
            Reason::NotListed | Reason::Forbidden => Status::FORBIDDEN,
        }
    }

    /// Returns the headline, and the words behind the path.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Reason::NotFound => ("Not found", "is not on this server."),
            Reason::NotListed => ("Not listed", "is a directory without an index page."),
            Reason::Forbidden => ("Not readable", "cannot be read by this server."),
        }
    }
}

/// Returns the page for a place.
pub fn page(reason: Reason, place: &Place<'_>) -> String {
    let slash: &[u8] = if place.is_directory && !place.path.is_empty() { b"/" } else { b"" };
    let path = escaped(&[b"/", &place.path[..], slash].concat());
    let (headline, words) = reason.words();
    let status = reason.status();
    let title = format!("{} {}", status.0, status.reason());
    let mut text = listing::opening(&title);
    text += &format!("<h1>{headline}</h1>\n<p><code>{path}</code> {words}</p>\n<ul>\n");
    if let Some(parent) = parent(&place.path) {
        let mut location = "/".to_owned();
        encode(parent, &mut location);
        text += &format!("<li><a href=\"{location}/\">Up to /{}/</a></li>\n", escaped(parent));
    }
    if !place.path.is_empty() {
        text += "<li><a href=\"/\">To the start page</a></li>\n";
    }
    text += &format!("</ul>\n<footer>{title}</footer>\n</body>\n</html>\n");
    text
}

/// Returns the directory of a path, unless it is the top one.
fn parent(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().rposition(|&byte| byte == b'/')?;
    Some(&path[..slash])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(target: &'static str) -> String {
        let place = sinew_http_protocol::target::place(target).expect("a good target");
        page(Reason::NotFound, &place)
    }

    #[test]
    fn the_page_names_the_path_and_leads_to_its_directory_and_to_the_start() {
        let page = page_of("/a%20b/c/%3Cd%3E");
        assert!(page.contains("<code>/a b/c/&lt;d&gt;</code> is not on this server."), "{page}");
        assert!(page.contains("<a href=\"/a%20b/c/\">Up to /a b/c/</a>"), "{page}");
        assert!(page.contains("<a href=\"/\">"), "{page}");
    }

    #[test]
    fn a_name_at_the_top_leads_to_the_start_only() {
        let page = page_of("/nothing");
        assert_eq!(page.matches("<a href").count(), 1, "{page}");
        assert_eq!(page_of("/").matches("<a href").count(), 0);
    }
}
