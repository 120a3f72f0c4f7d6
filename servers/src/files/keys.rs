//! Key pairs, and the files that hold them.
//!
//! A key is one word: `sinew-secret-` or `sinew-public-`, then 64 hexadecimal digits. So a secret key
//! in the place of a public one is noticed. A file of public keys has one key in each line, with an
//! optional name behind it. Lines that begin with `#` are comments.

use super::noise;
use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The length of a key in bytes.
pub const LENGTH: usize = 32;

const SECRET: &str = "sinew-secret-";
const PUBLIC: &str = "sinew-public-";

/// The largest file of keys that is read, in bytes. It holds some 50,000 keys.
const MOST: u64 = 8 << 20;

/// A secret key. It has no `Debug`, so that no message can show it.
pub struct Secret(pub [u8; LENGTH]);

/// A public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Public(pub [u8; LENGTH]);

impl fmt::Display for Public {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC}{}", digits(&self.0))
    }
}

fn digits(key: &[u8; LENGTH]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the digits of a key.
fn key(digits: &str) -> Option<[u8; LENGTH]> {
    let digits = digits.as_bytes();
    let mut key = [0; LENGTH];
    if digits.len() != 2 * LENGTH {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(key)
}

fn invalid(file: &Path, what: impl fmt::Display) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{}: {what}", file.display()))
}

fn named(file: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}

fn read(file: &Path) -> io::Result<String> {
    let status = fs::metadata(file).map_err(|error| named(file, &error))?;
    if !status.is_file() || status.len() > MOST {
        return Err(invalid(file, "not a file of keys"));
    }
    fs::read_to_string(file).map_err(|error| named(file, &error))
}

impl Secret {
    /// Reads the secret key of a file that only its owner can read.
    ///
    /// # Errors
    /// The file cannot be read, others can read it, or it holds something else.
    pub fn read(file: &Path) -> io::Result<Secret> {
        let mode = fs::metadata(file).map_err(|error| named(file, &error))?.mode();
        if mode & 0o077 != 0 {
            return Err(invalid(file, "other users can read this secret key; use chmod 600"));
        }
        let text = read(file)?;
        let digits = text.trim().strip_prefix(SECRET).ok_or_else(|| {
            let hint = if text.starts_with(PUBLIC) { "this is a public key; " } else { "" };
            invalid(file, format_args!("{hint}not a secret key as \"sinew files keys\" makes it"))
        })?;
        key(digits).map(Secret).ok_or_else(|| invalid(file, "a damaged secret key"))
    }
}

impl Public {
    /// Reads the only key of a file.
    ///
    /// # Errors
    /// The file cannot be read, or does not hold exactly one public key.
    pub fn read(file: &Path) -> io::Result<Public> {
        let keys = lines(file)?;
        match &keys[..] {
            [(key, _)] => Ok(*key),
            _ => Err(invalid(file, format_args!("one public key is wanted, but there are {}", keys.len()))),
        }
    }
}

/// Reads the public keys of a file, each with its name.
fn lines(file: &Path) -> io::Result<Vec<(Public, String)>> {
    let text = read(file)?;
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let parse = |(number, line): (usize, &str)| {
        let (word, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word.strip_prefix(PUBLIC).and_then(key) {
            Some(key) => Ok((Public(key), name.trim().to_owned())),
            None if word.starts_with(SECRET) => {
                Err(invalid(file, format_args!("line {number} is a secret key; use the file that ends in .pub")))
            }
            None => Err(invalid(file, format_args!("line {number} is not a public key"))),
        }
    };
    lines.map(parse).collect()
}

/// The clients that may use a server.
pub struct Clients {
    names: HashMap<Public, Arc<str>>,
}

impl Clients {
    /// Reads the public keys of a file.
    ///
    /// # Errors
    /// The file cannot be read, or a line of it is not a key.
    pub fn read(file: &Path) -> io::Result<Clients> {
        let lines = lines(file)?;
        Ok(Clients { names: lines.into_iter().map(|(key, name)| (key, name.into())).collect() })
    }

    /// Returns the name of the client with this key, if there is such a client. The name may be empty.
    pub fn find(&self, key: &Public) -> Option<Arc<str>> {
        self.names.get(key).cloned()
    }

    /// Returns the number of clients.
    pub fn count(&self) -> usize {
        self.names.len()
    }
}

/// Makes a key pair. Writes the secret key to `file`, and the public key to the file with `.pub` at
/// its end. Existing files are not overwritten.
///
/// # Errors
/// A file exists already, or cannot be written.
pub fn make(file: &Path) -> io::Result<(PathBuf, Public)> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".pub");
    let beside = PathBuf::from(beside);
    if beside.exists() {
        return Err(named(&beside, &ErrorKind::AlreadyExists.into()));
    }
    let (secret, public) = noise::pair()?;
    write(file, 0o600, format_args!("{SECRET}{}", digits(&secret.0)))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().map(|character| if character.is_control() { '?' } else { character }).collect();
    write(&beside, 0o644, format_args!("{public} {name}"))?;
    Ok((beside, public))
}

fn write(file: &Path, mode: u32, line: fmt::Arguments<'_>) -> io::Result<()> {
    let write = |mut open: File| {
        writeln!(open, "{line}")?;
        open.sync_all()
    };
    let opened = File::options().write(true).create_new(true).mode(mode).open(file);
    opened.and_then(write).map_err(|error| named(file, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written_and_nothing_else_is_a_key() {
        let bytes: [u8; LENGTH] = std::array::from_fn(|index| index as u8 * 7);
        let text = digits(&bytes);
        assert_eq!(key(&text), Some(bytes));
        assert_eq!(key(&text.to_uppercase()), Some(bytes));
        for wrong in ["", &text[1..], &format!("{text}0"), &text.replace('0', "g"), &"é".repeat(LENGTH)] {
            assert_eq!(key(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn files_of_public_keys_have_names_and_comments() {
        let file = std::env::temp_dir().join(format!("sinew-files-keys-{}", std::process::id()));
        let (one, two) = (Public([1; LENGTH]), Public([2; LENGTH]));
        fs::write(&file, format!("# people\n\n{one}\tAlice B.\r\n  {two}  \n")).unwrap();
        let clients = Clients::read(&file).unwrap();
        assert_eq!(clients.count(), 2);
        assert_eq!(clients.find(&one).as_deref(), Some("Alice B."));
        assert_eq!(clients.find(&two).as_deref(), Some(""));
        assert_eq!(clients.find(&Public([3; LENGTH])), None);
        assert!(Public::read(&file).is_err(), "there are two");
        fs::write(&file, format!("{one}\n{SECRET}{}\n", digits(&[9; LENGTH]))).unwrap();
        let error = Clients::read(&file).err().unwrap().to_string();
        assert!(error.contains("line 2 is a secret key") && !error.contains("0909"), "{error}");
        fs::remove_file(file).unwrap();
    }
}
