//! Statistics and settings of the server, with memcached's names and in its order.
//!
//! | module | |
//! | --- | --- |
//! | `general` | `stats`, and `stats runtime`, which memcached does not have |
//! | `settings` | `stats settings` |
//! | `classes` | `stats items`, `stats slabs`, `stats sizes` |
//! | `prefixes` | `stats detail` |
//!
//! Where memcached counts something that does not exist here, the number is 0, or the number of the
//! most similar thing.

mod classes;
mod general;
mod prefixes;
mod settings;

pub use prefixes::Prefixes;

use super::Server;
use super::session::Session;
use super::stream::Stream;
use sinew_memcached_protocol::binary::{Answer, HEADER, Request, Status, push_answer};
use sinew_memcached_protocol::{Tokens, number};
use std::fmt::Display;
use std::io;

/// A number above memcached's largest class of sizes.
const MOST_CLASSES: u32 = 64;

/// The length of the longest answer to `stats cachedump`.
const LONGEST_DUMP: usize = 2 << 20;

/// Names and values, in the order in which they are sent.
#[derive(Default)]
pub struct Report {
    lines: Vec<(String, String)>,
}

impl Report {
    fn add(&mut self, name: impl Into<String>, value: impl Display) {
        self.lines.push((name.into(), value.to_string()));
    }

    /// Returns the bytes that it takes to send this report, with `more` bytes for each name and
    /// value.
    fn length(&self, more: usize) -> u32 {
        let length = self.lines.iter().map(|(name, value)| more + name.len() + value.len()).sum::<usize>();
        u32::try_from(length).unwrap_or(u32::MAX)
    }
}

fn yes(is_on: bool) -> &'static str {
    if is_on { "yes" } else { "no" }
}

impl<S: Stream> Session<'_, S> {
    #[inline(never)]
    pub(super) fn stats(&mut self, mut words: Tokens<'_>) -> io::Result<()> {
        let server = self.server;
        let (kind, first, second) = (words.next(), words.next(), words.next());
        let report = match kind {
            None => server.general(),
            Some(b"runtime") => server.runtime(),
            Some(b"settings") => server.settings(),
            Some(b"items") => server.items(self.moment.now),
            Some(b"slabs") => server.slabs(),
            Some(b"conns") => server.conns(self.moment.now),
            // memcached reports nothing about these while they are not in use.
            Some(b"extstore") => Report::default(),
            Some(b"sizes") => self.sizes()?,
            Some(b"sizes_enable" | b"sizes_disable") => {
                self.track_sizes(kind == Some(b"sizes_enable"));
                return Ok(());
            }
            Some(b"reset") => {
                server.reset_all();
                self.say("RESET", false);
                return Ok(());
            }
            Some(b"cachedump") => return self.cachedump(first, second),
            Some(b"detail") => {
                self.detail(first);
                return Ok(());
            }
            Some(_) => {
                self.say("ERROR", false);
                return Ok(());
            }
        };
        self.end_turn();
        if self.reserve(report.length("STAT  \r\n".len())).is_err() {
            self.say("SERVER_ERROR out of memory writing stats", false);
            return Ok(());
        }
        for (name, value) in &report.lines {
            self.out.extend_from_slice(format!("STAT {name} {value}\r\n").as_bytes());
        }
        self.out.extend_from_slice(b"END\r\n");
        Ok(())
    }

    fn detail(&mut self, word: Option<&[u8]>) {
        match word {
            Some(b"on") => self.server.prefixes.enable(true),
            Some(b"off") => self.server.prefixes.enable(false),
            Some(b"dump") => return self.server.prefixes.dump(&mut self.out),
            _ => return self.say("CLIENT_ERROR usage: stats detail on|off|dump", false),
        }
        self.say("OK", false);
    }

    fn cachedump(&mut self, class: Option<&[u8]>, limit: Option<&[u8]>) -> io::Result<()> {
        if self.server.options.disable_dumping {
            self.say("CLIENT_ERROR stats cachedump not allowed", false);
            return Ok(());
        }
        let (Some(class), Some(limit)) = (class, limit) else {
            self.say("CLIENT_ERROR bad command line", false);
            return Ok(());
        };
        let (Some(class), Some(limit)) = (number::unsigned_short(class), number::unsigned_short(limit)) else {
            self.say("CLIENT_ERROR bad command line format", false);
            return Ok(());
        };
        if class >= MOST_CLASSES {
            self.say("CLIENT_ERROR Illegal slab id", false);
            return Ok(());
        }
        let (mut shown, mut bytes) = (0, 0);
        self.walk(1 << class, |session, shard, item| {
            let blocks = &shard.blocks;
            let is_base64 = blocks.is_marked(item, super::store::BASE64);
            if is_base64 || limit != 0 && shown >= limit || bytes >= LONGEST_DUMP {
                return;
            }
            let before = session.out.len();
            session.out.extend_from_slice(b"ITEM ");
            session.out.extend_from_slice(&blocks.key(item));
            let expiry = match blocks.expiry(item) {
                0 => 0,
                expiry => session.server.clock.date_of(expiry),
            };
            let rest = format!(" [{} b; {expiry} s]\r\n", blocks.length(item));
            session.out.extend_from_slice(rest.as_bytes());
            shown += 1;
            bytes += session.out.len() - before;
        })?;
        self.out.extend_from_slice(b"END\r\n");
        Ok(())
    }

    pub(super) fn binary_stats(&mut self, request: &Request<'_>, key: &[u8]) -> io::Result<()> {
        let server = self.server;
        let report = match key {
            b"" => server.general(),
            _ if key.starts_with(b"reset") => {
                server.reset_all();
                Report::default()
            }
            _ if key.starts_with(b"settings") => server.settings(),
            _ if key.starts_with(b"detail") => {
                self.binary_detail(request, &key[b"detail".len()..]);
                return Ok(());
            }
            b"items" => server.items(self.moment.now),
            b"slabs" => server.slabs(),
            b"sizes" => self.sizes()?,
            _ => {
                self.binary_refuse(request, Status::NotFound);
                return Ok(());
            }
        };
        self.end_turn();
        if self.reserve(report.length(HEADER) + HEADER as u32).is_err() {
            push_answer(&mut self.out, request, Status::OutOfMemory, Answer::default());
            return Ok(());
        }
        let end = (String::new(), String::new());
        for (name, value) in report.lines.iter().chain([&end]) {
            let answer = Answer { key: name.as_bytes(), value_length: value.len() as u32, ..Answer::default() };
            push_answer(&mut self.out, request, Status::Success, answer);
            self.out.extend_from_slice(value.as_bytes());
        }
        Ok(())
    }

    fn binary_refuse(&mut self, request: &Request<'_>, status: Status) {
        let answer = Answer { value_length: status.text().len() as u32, ..Answer::default() };
        push_answer(&mut self.out, request, status, answer);
        self.out.extend_from_slice(status.text().as_bytes());
    }

    fn binary_detail(&mut self, request: &Request<'_>, word: &[u8]) {
        let mut text = Vec::new();
        match word {
            _ if word.starts_with(b" dump") => self.server.prefixes.dump(&mut text),
            _ if word.starts_with(b" on") => self.server.prefixes.enable(true),
            _ if word.starts_with(b" off") => self.server.prefixes.enable(false),
            _ => return self.binary_refuse(request, Status::NotFound),
        }
        for text in [&text[..], b""].iter().skip(usize::from(text.is_empty())) {
            let key: &[u8] = if text.is_empty() { b"" } else { b"detailed" };
            let answer = Answer { key, value_length: text.len() as u32, ..Answer::default() };
            push_answer(&mut self.out, request, Status::Success, answer);
            self.out.extend_from_slice(text);
        }
    }
}

impl Server {
    fn conns(&self, now: u32) -> Report {
        let mut report = Report::default();
        let doors = self.doors.get().map_or(&[][..], Vec::as_slice);
        let (mut doors, mut entries) = (doors.iter().peekable(), self.connections.all().into_iter().peekable());
        // Sorted by their numbers.
        loop {
            match (doors.peek(), entries.peek()) {
                (Some((number, address)), entry) if entry.is_none_or(|entry| entry.number > *number) => {
                    let is_udp = address.starts_with("udp");
                    if is_udp {
                        report.add(format!("{number}:UDP"), "UDP");
                    }
                    report.add(format!("{number}:addr"), address);
                    report.add(format!("{number}:state"), if is_udp { "conn_read" } else { "conn_listening" });
                    report.add(format!("{number}:secs_since_last_cmd"), self.clock.uptime());
                    doors.next();
                }
                (_, Some(entry)) => {
                    let (number, (peer, door, state, idle)) = (entry.number, entry.describe(now));
                    report.add(format!("{number}:addr"), peer);
                    report.add(format!("{number}:listen_addr"), door);
                    report.add(format!("{number}:state"), state);
                    report.add(format!("{number}:secs_since_last_cmd"), idle);
                    entries.next();
                }
                _ => return report,
            }
        }
    }

    fn reset_all(&self) {
        self.reset();
        self.store.reset_counters();
        self.traffic.reset();
        self.connections.reset();
        self.prefixes.reset();
        self.watchers.reset();
    }
}
