//! Copies a file from a server.

use super::connection::Connection;
use super::{about, bytes, unexpected, with};
use crate::files::options::GetOptions;
use crate::files::words::{Answer, Request};
use sinew::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Copies a file from a server.
///
/// # Errors
/// The errors of the connection and of the file; the server's refusal.
pub fn get(options: &GetOptions) -> io::Result<()> {
    let own = || options.path.file_name().map(PathBuf::from);
    let output = options.output.clone().or_else(own);
    let output = output.ok_or_else(|| about(&options.path, ErrorKind::InvalidInput, "give a file with --output"))?;
    with(&options.access, |mut connection| {
        connection.ask(Request::Get(bytes(&options.path)))?;
        if output.as_os_str() == "-" {
            return copy(&mut connection, &options.path, &mut sinew::io::stdout());
        }
        // A device or a pipe is written, not replaced.
        if fs::metadata(&output).is_ok_and(|status| !status.is_file() && !status.is_dir()) {
            let opened = File::options().write(true).open(&output).map_err(|error| named(&output, &error))?;
            return copy(&mut connection, &options.path, &mut { opened });
        }
        replace(&output, |file| copy(&mut connection, &options.path, file))
    })
}

fn named(file: &Path, error: &io::Error) -> io::Error {
    about(file, error.kind(), &error.to_string())
}

/// Writes a file beside `output`, and gives it that name when it is complete.
fn replace(output: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut beside = output.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = Path::new(&beside);
    let mut file = File::create_new(beside).map_err(|error| named(beside, &error))?;
    let written = write(&mut file).and_then(|()| fs::rename(beside, output).map_err(|error| named(output, &error)));
    if written.is_err() {
        // The error says enough.
        let _ = fs::remove_file(beside);
    }
    written
}

/// Writes the file of an answer.
fn copy(connection: &mut Connection, path: &Path, output: &mut dyn Write) -> io::Result<()> {
    let mut expected = None;
    loop {
        match connection.hear()? {
            Answer::Piece { rest, content } => {
                let size = rest.checked_add(content.len() as u64).ok_or_else(unexpected)?;
                if *expected.get_or_insert(size) != size {
                    return Err(unexpected());
                }
                output
                    .write_all(content)
                    .map_err(|error| about(path, error.kind(), &format!("cannot be written: {error}")))?;
                expected = Some(rest);
                if rest == 0 {
                    return output.flush();
                }
            }
            Answer::Sorry(sorry) => return Err(about(path, ErrorKind::NotFound, sorry.text())),
            Answer::Names { .. } => return Err(unexpected()),
        }
    }
}
