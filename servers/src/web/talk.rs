//! Decides what a request is answered with. Both styles of the server use it: the fibres of
//! `session.rs`, and the events of `events/`.

use super::Server;
use super::answer::{Given, Manner, Output};
use super::files::Found;
use super::listing::{self, Page};
use super::sorry::{self, Reason};
use super::transport::Transport;
use crate::tree::FRESH;
use sinew_http_protocol::condition::{self, Verdict};
use sinew_http_protocol::{Method, Request, Status, range, target};
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

const ALLOW: &str = "Allow: GET, HEAD, OPTIONS\r\n";

/// The client of a session.
#[derive(Clone, Copy)]
pub struct Client {
    /// Its address, if the log wants it.
    pub address: Option<SocketAddr>,
}

/// The fate of a connection after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It stays open for another request.
    Stay,
    /// It is closed: both sides have sent everything.
    Close,
    /// It is closed, but the client may still be sending.
    Farewell,
}

/// The result of looking for the target of a request.
pub enum Sight {
    /// The text for web benchmarks.
    Plaintext,
    /// The result of a search for the target.
    Found(Found),
    /// Nothing: the target cannot be understood.
    Wrong(Status),
    /// It does not matter: the method is not one that shows files.
    Unseen,
}

impl Server {
    /// Looks for the target of a request. May wait for a disk, which takes no processor.
    #[inline]
    pub fn look(&self, method: Method, target: &str) -> Sight {
        if !matches!(method, Method::Get | Method::Head) {
            return Sight::Unseen;
        }
        if self.options.plaintext && target == "/plaintext" {
            return Sight::Plaintext;
        }
        match target::place(target) {
            Ok(place) if !self.options.hidden && place.is_hidden() => Sight::Found(Found::Nothing),
            Ok(place) => Sight::Found(self.files.find(&place)),
            Err(status) => Sight::Wrong(status),
        }
    }
}

/// The state that answering needs.
pub struct Talk<'a, T> {
    pub server: &'a Server,
    pub client: Client,
    pub output: Output<'a, T>,
}

impl<T: Transport> Talk<'_, T> {
    /// Answers with an error, for bytes that cannot be understood. Nothing behind them can be
    /// understood either.
    #[cold]
    #[inline(never)]
    pub fn refuse(&mut self, status: Status, sent: &[u8]) -> io::Result<After> {
        let manner = Manner { with_body: !sent.starts_with(b"HEAD "), ..Manner::LAST };
        let given = self.output.status(status, "", manner)?;
        if let Some(log) = &self.server.log {
            log.refusal(self.client.address, given);
        }
        Ok(After::Farewell)
    }

    /// Looks for the target of a request, and answers.
    #[inline]
    pub fn answer(&mut self, request: &Request<'_>) -> io::Result<After> {
        self.answer_seen(request, self.server.look(request.method, request.target))
    }

    /// Answers a request with what there is at its target.
    #[inline]
    pub fn answer_seen(&mut self, request: &Request<'_>, sight: Sight) -> io::Result<After> {
        let mut manner = Manner::of(request, !self.server.is_stopping());
        let given = match sight {
            Sight::Plaintext => self.output.plaintext(manner),
            sight => self.answer_slow(request, &mut manner, sight),
        };
        if let Some(log) = &self.server.log {
            log.request(self.client.address, request, *given.as_ref().unwrap_or(&self.output.given));
        }
        given?;
        Ok(if manner.stay { After::Stay } else { After::Close })
    }

    /// Clears `how.stay` if the end of the connection is the end of the answer.
    #[inline(never)]
    fn answer_slow(&mut self, request: &Request<'_>, how: &mut Manner, sight: Sight) -> io::Result<Given> {
        let manner = *how;
        match sight {
            Sight::Plaintext => self.output.plaintext(manner),
            Sight::Unseen if request.method == Method::Options => self.output.bare(Status::NO_CONTENT, ALLOW, manner),
            Sight::Unseen => self.output.status(Status::METHOD_NOT_ALLOWED, ALLOW, manner),
            Sight::Wrong(status) => self.output.status(status, "", manner),
            Sight::Found(Found::File(entry)) => {
                let form = entry.form(request.accept_encoding.value());
                match condition::judge(request, form.version()) {
                    Verdict::Answer => {}
                    Verdict::NotModified => return self.output.bare(Status::NOT_MODIFIED, &form.fields, manner),
                    Verdict::Failed => return self.output.status(Status::PRECONDITION_FAILED, "", manner),
                }
                match request.range.value() {
                    Some(wanted)
                        if request.method == Method::Get && condition::range_counts(request, form.version()) =>
                    {
                        self.output.parts(form, range::wanted(wanted, form.size()), manner)
                    }
                    _ => self.output.whole(form, manner),
                }
            }
            Sight::Found(found) => match target::place(request.target) {
                Ok(place) => self.answer_without_file(request, how, &place, &found),
                Err(status) => self.output.status(status, "", manner),
            },
        }
    }

    #[cold]
    #[inline(never)]
    fn answer_without_file(
        &mut self,
        request: &Request<'_>,
        how: &mut Manner,
        place: &target::Place<'_>,
        found: &Found,
    ) -> io::Result<Given> {
        let manner = *how;
        match found {
            Found::WithoutSlash => {
                let location = listing::with_slash(place);
                self.output.status(Status::MOVED_PERMANENTLY, &format!("Location: {location}\r\n"), manner)
            }
            Found::Directory if self.server.options.list => {
                how.stay &= request.is_1_1 || !manner.with_body;
                self.list(place, *how, request.is_1_1)
            }
            Found::Directory => self.sorry(Reason::NotListed, place, manner),
            Found::Forbidden => self.sorry(Reason::Forbidden, place, manner),
            Found::Nothing => self.sorry(Reason::NotFound, place, manner),
            Found::File(_) | Found::Unavailable => self.unavailable(manner),
        }
    }

    fn list(&mut self, place: &target::Place<'_>, manner: Manner, in_chunks: bool) -> io::Result<Given> {
        if !manner.with_body {
            return self.output.bare(Status::OK, listing::FIELDS, manner);
        }
        let files = &self.server.files;
        let now = Instant::now();
        let first = match files.list(place, now.checked_sub(FRESH).unwrap_or(now)) {
            Ok(names) => names,
            Err(Found::Unavailable) => return self.unavailable(manner),
            // The directory was there a moment ago.
            Err(_) => return self.sorry(Reason::Forbidden, place, manner),
        };
        // The listing goes on with the same names as long as they are kept.
        let (oldest, mut first) = (first.read_at, Some(first));
        let mut page = Page::new(&place.path);
        self.output.pieces(listing::FIELDS, manner, in_chunks, |into, most| {
            match first.take().map_or_else(|| files.list(place, oldest), Ok) {
                Ok(names) => page.piece(&names, into, most),
                Err(_) => {
                    page.break_off(into);
                    true
                }
            }
        })
    }

    /// Answers with a page that says what is not here, and leads on.
    fn sorry(&mut self, reason: Reason, place: &target::Place<'_>, manner: Manner) -> io::Result<Given> {
        self.output.page(reason.status(), sorry::FIELDS, sorry::page(reason, place).as_bytes(), manner)
    }

    fn unavailable(&mut self, manner: Manner) -> io::Result<Given> {
        self.output.status(Status::UNAVAILABLE, "Retry-After: 1\r\n", manner)
    }
}
