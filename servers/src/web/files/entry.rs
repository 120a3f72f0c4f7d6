//! A file that is served, in all its forms.

use super::beneath::{Kind, Top};
use crate::memory;
use crate::web::clock;
use rustix::fs::{Stat, fstat};
use rustix::io::Errno;
use sinew::fs::File;
use sinew_http_protocol::condition::Version;
use sinew_http_protocol::encoding::{Encoding, is_accepted};
use sinew_http_protocol::media;
use std::fmt::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

/// Files up to this size are kept in memory, and sent together with their head in one call.
/// Unmeasured beyond that: at 64 KiB what copying costs is about what `sendfile` saves.
pub const SMALL: u64 = 64 * 1024;

/// The file as it is, and as it lies compressed beside itself.
pub struct Entry {
    /// Where the plain one is.
    path: Box<[u8]>,
    plain: Form,
    /// In the order of [`Encoding::ALL`].
    compressed: [Option<Form>; 2],
    /// The second of the clock at which it was last known to be so.
    checked: AtomicI64,
    /// Whether somebody has asked for it since the cache looked last.
    pub(super) used: AtomicBool,
}

/// What is sent: a file in one form.
pub struct Form {
    identity: Identity,
    /// When it was changed, in seconds since 1970.
    modified: i64,
    /// Its tag, with the quotes.
    tag: Box<str>,
    /// The fields of an answer that depend on the form alone, but for the length.
    pub fields: Box<str>,
    /// The same with the length.
    pub whole: Box<str>,
    /// Its bytes.
    pub content: Content,
}

/// Where the bytes are.
pub enum Content {
    /// In memory.
    Bytes(Box<[u8]>),
    /// In the file.
    File(File),
}

/// Two files with the same one are taken for the same file, unchanged.
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
    /// Of an open file. On a thread that may block.
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
        let modified = clock::http_date(seconds);
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

    /// How many bytes it has.
    #[inline]
    pub fn size(&self) -> u64 {
        self.identity.size
    }

    /// As conditions know it.
    #[inline]
    pub fn version(&self) -> Version<'_> {
        Version { tag: self.tag.as_bytes(), modified: self.modified }
    }

    /// Bytes of memory, roughly.
    fn weight(&self) -> usize {
        let content = match &self.content {
            Content::Bytes(bytes) => bytes.len(),
            Content::File(_) => 0,
        };
        content + self.fields.len() + self.whole.len() + size_of::<Form>()
    }
}

/// All of a small file, unless it changes meanwhile.
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
    /// Of a file that has been opened, and of what lies beside it. On a thread that may
    /// block.
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

    /// The form that suits a client which accepts these encodings.
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

    /// Whether it was looked at in this second.
    #[inline]
    pub(super) fn is_fresh(&self, now: i64) -> bool {
        self.checked.load(Relaxed) == now
    }

    /// Whether the caller is the one to look at it in this second.
    pub(super) fn claim(&self, now: i64) -> bool {
        self.checked.swap(now, Relaxed) != now
    }

    /// Whether the files are what they were, none is missing, none has come. On a thread
    /// that may block.
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

    /// Bytes of memory, roughly.
    pub(super) fn weight(&self) -> usize {
        self.plain.weight() + self.compressed.iter().flatten().map(Form::weight).sum::<usize>() + size_of::<Entry>()
    }
}

/// Where a compressed form would be.
fn name(path: &[u8], encoding: Encoding) -> Vec<u8> {
    [path, encoding.suffix().as_bytes()].concat()
}
