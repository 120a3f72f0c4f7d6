//! Lists a directory of a server.

use super::{about, bytes, unexpected, with};
use crate::dates::minute;
use crate::files::options::LsOptions;
use crate::files::words::{Answer, More, Request};
use crate::message;
use crate::tree::Name;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Lists a directory of a server.
///
/// # Errors
/// The errors of the connection; the server's refusal; the output cannot be written.
pub fn list(options: &LsOptions) -> io::Result<()> {
    let path = options.path.as_deref().unwrap_or(Path::new("."));
    with(&options.access, |mut connection| {
        connection.ask(Request::List(bytes(path)))?;
        loop {
            let (more, text) = match connection.hear()? {
                Answer::Names { more, entries } => {
                    let lines: io::Result<Vec<String>> = entries.map(|name| Ok(line(&name?))).collect();
                    (more, lines?.concat())
                }
                Answer::Sorry(sorry) => return Err(about(path, ErrorKind::NotFound, sorry.text())),
                Answer::Piece { .. } => return Err(unexpected()),
            };
            message::print(text.as_bytes())?;
            match more {
                More::Yes => {}
                More::No => return Ok(()),
                More::Cut => return Err(about(path, ErrorKind::Other, "there are more names")),
            }
        }
    })
}

/// Returns the line of a name. Characters that would control a terminal are not shown.
fn line(name: &Name<'_>) -> String {
    let text = String::from_utf8_lossy(name.bytes);
    let text: String = text.chars().map(|character| if character.is_control() { '?' } else { character }).collect();
    let (size, slash) = if name.is_directory { (String::new(), "/") } else { (name.size.to_string(), "") };
    format!("{size:>14}  {}  {text}{slash}\n", minute(name.modified))
}
