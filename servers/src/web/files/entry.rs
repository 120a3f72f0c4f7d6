//! A file that is served, in all its forms.

use crate::dates::http_date;
use crate::memory;
use crate::tree::{Kind, Top};
use rustix::fs::{Stat, fstat};
use rustix::io::Errno;
use sinew::fs::File;
use sinew_http_protocol::condition::Version;
use sinew_http_protocol::encoding::{Encoding, is_accepted};
use sinew_http_protocol::media;
use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

/// Files up to this size are kept in memory, and sent together with their head in one call. At 64
/// KiB copying costs about what `sendfile` saves. Other sizes are unmeasured.
pub const SMALL: u64 = 64 * 1024;

/// A file, with its compressed forms if they exist beside it.
pub struct Entry {
    /// The path of the plain form.
    path: Box<[u8]>,
    plain: Form,
    /// In the order of [`Encoding::ALL`].
    compressed: [Option<Form>; 2],
    /// The last second of the clock in which the files were compared with this entry.
    checked: AtomicI64,
    /// Whether a session has asked for the entry since the cache's hand was here.
    pub(super) used: AtomicBool,
}

/// A file in one form, ready to be sent.
pub struct Form {
    identity: Identity,
    /// The time of the last change, in seconds since 1970.
    modified: i64,
    /// The entity tag, with its quotes.
    tag: Box<str>,
    /// The fields of an answer that depend only on the form, without the length.
    pub fields: Box<str>,
    /// The same fields with the length.
    pub whole: Box<str>,
    pub content: Content,
}

/// The bytes of a form.
pub enum Content {
    /// In memory.
    Bytes(Box<[u8]>),
    /// In the file.
    File(File),
}

/// The identity of a file's content. Two files with equal identities are taken for the same file,
/// unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    number: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn of(stat: &Stat) -> Identity {
        Identity {
            device: stat.st_dev,
            number: stat.st_ino,
            size: stat.st_size as u64,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }
}

impl Form {
    /// Makes the form of an open file. May block.
    fn new(path: &[u8], opened: OwnedFd, encoding: Option<Encoding>, common: &str) -> Result<Form, Errno> {
        let stat = fstat(&opened)?;
        let identity = Identity::of(&stat);
        let content = match read(&opened, identity)? {
            Some(bytes) => Content::Bytes(bytes),
            None => Content::File(File::from(opened)),
        };
        let (seconds, nanoseconds) = identity.modified;
        let suffix = encoding.map_or("", Encoding::suffix);
        let tag = format!("\"{seconds:x}{nanoseconds:08x}-{:x}{suffix}\"", identity.size);
        let mut fields = format!("Content-Type: {}\r\n", media::content_type(path));
        let modified = http_date(seconds);
        // Writing to a string does not fail.
        let _ = write!(
            fields,
            "Last-Modified: {}\r\nETag: {tag}\r\nAccept-Ranges: bytes\r\n{common}",
            String::from_utf8_lossy(&modified)
        );
        if let Some(encoding) = encoding {
            let _ = write!(fields, "Content-Encoding: {}\r\n", encoding.name());
        }
        let whole = format!("{fields}Content-Length: {}\r\n", identity.size).into();
        Ok(Form { identity, modified: seconds, tag: tag.into(), fields: fields.into(), whole, content })
    }

    /// Returns the size in bytes.
    #[inline]
    pub fn size(&self) -> u64 {
        self.identity.size
    }

    /// Returns what conditional requests compare.
    #[inline]
    pub fn version(&self) -> Version<'_> {
        Version { tag: self.tag.as_bytes(), modified: self.modified }
    }

    /// Returns the bytes of memory, roughly.
    fn weight(&self) -> usize {
        let content = match &self.content {
            Content::Bytes(bytes) => bytes.len(),
            Content::File(_) => 0,
        };
        content + self.fields.len() + self.whole.len() + size_of::<Form>()
    }
}

/// Returns the content of a small file. Returns `None` if the file is large, or changes meanwhile.
fn read(file: &OwnedFd, identity: Identity) -> Result<Option<Box<[u8]>>, Errno> {
    if identity.size > SMALL {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    memory::reserve(&mut bytes, identity.size as usize).map_err(|_| Errno::NOMEM)?;
    bytes.resize(identity.size as usize, 0);
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::io::pread(file, &mut bytes[filled..], filled as u64) {
            Ok(0) => return Ok(None),
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((Identity::of(&fstat(file)?) == identity).then(|| bytes.into_boxed_slice()))
}

impl Entry {
    /// Makes the entry of an open file and of the compressed files beside it. May block.
    pub(super) fn new(top: &Top, path: &[u8], opened: OwnedFd, max_age: Option<u32>, now: i64) -> Result<Entry, Errno> {
        let mut common = max_age.map_or_else(String::new, |age| format!("Cache-Control: max-age={age}\r\n"));
        let beside = Encoding::ALL.map(|encoding| match top.open_file(&name(path, encoding)) {
            Ok((opened, Kind::File)) => Some((encoding, opened)),
            _ => None,
        });
        if beside.iter().any(Option::is_some) {
            common.push_str("Vary: Accept-Encoding\r\n");
        }
        let plain = Form::new(path, opened, None, &common)?;
        let compressed = beside.map(|found| {
            let (encoding, opened) = found?;
            Form::new(path, opened, Some(encoding), &common).ok()
        });
        let (checked, used) = (AtomicI64::new(now), AtomicBool::new(false));
        Ok(Entry { path: path.into(), plain, compressed, checked, used })
    }

    /// Returns the best form for a client that accepts these encodings.
    #[inline]
    pub fn form(&self, accepted: Option<&[u8]>) -> &Form {
        match accepted {
            Some(accepted) if self.compressed.iter().any(Option::is_some) => self.form_slow(accepted),
            _ => &self.plain,
        }
    }

    #[cold]
    fn form_slow(&self, accepted: &[u8]) -> &Form {
        let mut forms = Encoding::ALL.iter().zip(&self.compressed);
        let found = forms.find_map(|(&encoding, form)| form.as_ref().filter(|_| is_accepted(accepted, encoding)));
        found.unwrap_or(&self.plain)
    }

    /// Returns whether the entry was checked in this second.
    #[inline]
    pub(super) fn is_fresh(&self, now: i64) -> bool {
        self.checked.load(Relaxed) == now
    }

    /// Marks the entry as checked in this second. Returns whether the caller is the first one, and
    /// so has to check it.
    pub(super) fn claim(&self, now: i64) -> bool {
        self.checked.swap(now, Relaxed) != now
    }

    /// Returns whether all files are unchanged, none is missing and none has appeared. May block.
    pub(super) fn is_unchanged(&self, top: &Top) -> bool {
        let is_same = |path: &[u8], form: Option<&Form>| match (top.status(path), form) {
            (Ok(stat), Some(form)) => Identity::of(&stat) == form.identity,
            (Err(_), None) => true,
            _ => false,
        };
        let mut forms = Encoding::ALL.iter().zip(&self.compressed);
        is_same(&self.path, Some(&self.plain))
            && forms.all(|(&encoding, form)| is_same(&name(&self.path, encoding), form.as_ref()))
    }

    /// Returns the bytes of memory, roughly.
    pub(super) fn weight(&self) -> usize {
        self.plain.weight() + self.compressed.iter().flatten().map(Form::weight).sum::<usize>() + size_of::<Entry>()
    }
}

/// Returns the path of a compressed form.
fn name(path: &[u8], encoding: Encoding) -> Vec<u8> {
    [path, encoding.suffix().as_bytes()].concat()
}
