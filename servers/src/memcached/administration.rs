//! Commands for operators.

use super::session::{Next, PIECE_COUNTS, Session};
use super::store::{Number, STEP, Shard};
use super::stream::Stream;
use super::traffic::Reason;
use super::watch::{Encoded, FETCHERS, topic};
use super::{Server, store};
use rustix::process::{Signal, getpid, kill_process};
use sinew_memcached_protocol::{Tokens, number};
use std::io;

const ERROR: &str = "ERROR";
const MALFORMED: &str = "CLIENT_ERROR bad command line format";
const BAD_CLASS: &str = "BADCLASS invalid class id";

/// Returns the words of a command, and whether the last word says that no answer is wanted.
fn words(tokens: Tokens<'_>) -> (Vec<&[u8]>, bool) {
    let words: Vec<&[u8]> = tokens.collect();
    let noreply = words.last() == Some(&b"noreply".as_slice());
    (words, noreply)
}

fn fraction(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse().ok().filter(|fraction: &f64| fraction.is_finite())
}

/// Returns the classes of a list with commas, as bits; `None` if one of them is not a class.
fn classes(word: &[u8]) -> Option<store::ClassBits> {
    if word == b"all" || word == b"hash" {
        return Some(u64::MAX);
    }
    let class = |text: &[u8]| number::unsigned_short(text).filter(|class| (1..64).contains(class));
    word.split(|byte| *byte == b',')
        .filter(|text| !text.is_empty())
        .try_fold(0, |all, text| Some(all | 1 << class(text)?))
}

impl<S: Stream> Session<'_, S> {
    /// Returns whether answers to other requests are unsent that memcached would have unsent, too.
    fn is_pipelined(&self) -> bool {
        !self.out.is_empty() && self.out.len() != self.settled
    }

    /// `shutdown`: sends a signal to this process, which does the rest.
    pub(super) fn shut_down(&mut self, tokens: Tokens<'_>) -> Option<Next> {
        let signal = match words(tokens).0.as_slice() {
            _ if !self.server.options.enable_shutdown => {
                self.say("ERROR: shutdown not enabled", false);
                return None;
            }
            [] => Signal::INT,
            [b"graceful"] => Signal::USR1,
            _ => {
                self.say("CLIENT_ERROR invalid shutdown mode", false);
                return None;
            }
        };
        self.entry.set_reason(Reason::Shutdown);
        // A process may always send signals to itself.
        let _ = kill_process(getpid(), signal);
        Some(Next::Close)
    }

    /// `watch`.
    pub(super) fn begin_watch(&mut self, tokens: Tokens<'_>) -> Option<Next> {
        let (words, noreply) = words(tokens);
        let refusal = if self.server.options.disable_watch {
            "CLIENT_ERROR watch commands not allowed"
        } else if self.is_pipelined() {
            "ERROR cannot pipeline other commands before watch"
        } else if words.is_empty() {
            return Some(Next::Watch(FETCHERS));
        } else {
            match words.iter().try_fold(0, |all, word| Some(all | topic(word)?)) {
                Some(topics) => return Some(Next::Watch(topics)),
                None => ERROR,
            }
        };
        self.say(refusal, noreply);
        None
    }

    /// `cache_memlimit`.
    pub(super) fn set_memory_limit(&mut self, megabytes: u32, noreply: bool) {
        let answer = match megabytes {
            ..8 => "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
            1_000_000_001.. => "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
            _ => match usize::try_from(u64::from(megabytes) << 20) {
                Ok(bytes) => {
                    self.server.set_limit(bytes);
                    "OK"
                }
                Err(_) => "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust",
            },
        };
        self.say(answer, noreply);
    }

    /// `slabs`: answers as memcached does. No memory has to move from one class to another here.
    pub(super) fn slabs(&mut self, tokens: Tokens<'_>) {
        let (words, noreply) = words(tokens);
        let mut extended = self.server.extended_mut();
        let (answer, noreply) = match words.as_slice() {
            [b"reassign", _, _] if !extended.slab_reassign => ("CLIENT_ERROR slab reassignment disabled", false),
            [b"reassign", from, to] => (reassign(from, to), false),
            [b"automove", b"ratio", rest @ ..] => match rest.first().copied().and_then(fraction) {
                Some(ratio) => {
                    extended.slab_automove_ratio = ratio;
                    ("OK", noreply)
                }
                None => (ERROR, noreply),
            },
            [b"automove", level, ..] => match number::unsigned_short(level) {
                Some(level @ 0..=2) => {
                    extended.slab_automove = level;
                    ("OK", noreply)
                }
                Some(_) => (ERROR, noreply),
                None => (MALFORMED, noreply),
            },
            _ => (ERROR, false),
        };
        drop(extended);
        self.say(answer, noreply);
    }

    /// `lru`: keeps the numbers that it sets. Only `temp_ttl` has an effect: there is one order of
    /// use.
    pub(super) fn lru(&mut self, tokens: Tokens<'_>) {
        let (words, noreply) = words(tokens);
        let answer = match words.as_slice() {
            [] => return self.say(ERROR, false),
            [b"tune", hot, warm, hot_factor, warm_factor, ..] => self.server.tune(
                number::unsigned_short(hot),
                number::unsigned_short(warm),
                fraction(hot_factor),
                fraction(warm_factor),
            ),
            [b"mode", mode, ..] if self.server.extended().lru_maintainer => match *mode {
                b"flat" | b"segmented" => {
                    self.server.extended_mut().lru_segmented = *mode == b"segmented";
                    "OK"
                }
                _ => ERROR,
            },
            [b"temp_ttl", seconds, ..] if self.server.extended().lru_maintainer => match number::signed(seconds) {
                Some(seconds) => {
                    self.server.set_temporary_ttl(u32::try_from(seconds).ok());
                    "OK"
                }
                None => ERROR,
            },
            _ => ERROR,
        };
        self.say(answer, noreply);
    }

    /// `lru_crawler`.
    pub(super) fn crawler(&mut self, tokens: Tokens<'_>) -> io::Result<()> {
        let (words, server) = (words(tokens).0, self.server);
        let is_on = server.extended().lru_crawler;
        let answer = match words.as_slice() {
            [b"crawl" | b"metadump", _] if !is_on => "CLIENT_ERROR lru crawler disabled",
            [b"crawl", which] => match classes(which) {
                None => BAD_CLASS,
                Some(classes) if server.sweeper.crawl(classes) => "OK",
                Some(_) => "BUSY currently processing crawler request",
            },
            [b"metadump", _] if server.options.disable_dumping => "ERROR metadump not allowed",
            [b"metadump", _] if self.is_pipelined() => "ERROR cannot pipeline other commands before metadump",
            [b"metadump", which] => match classes(which) {
                None => BAD_CLASS,
                Some(classes) => return self.dump(classes),
            },
            [b"tocrawl", count] => match number::unsigned_short(count) {
                Some(count) => {
                    server.extended_mut().lru_crawler_tocrawl = count;
                    "OK"
                }
                None => MALFORMED,
            },
            [b"sleep", micros] => match number::unsigned_short(micros) {
                Some(micros @ 0..=1_000_000) => {
                    server.extended_mut().lru_crawler_sleep = micros;
                    "OK"
                }
                Some(_) => "CLIENT_ERROR sleep must be one second or less",
                None => MALFORMED,
            },
            [b"enable"] if is_on => "ERROR failed to start lru crawler thread",
            [b"disable"] if !is_on => "ERROR failed to stop lru crawler thread",
            [b"enable" | b"disable"] => {
                server.extended_mut().lru_crawler = !is_on;
                "OK"
            }
            _ => ERROR,
        };
        self.say(answer, false);
        Ok(())
    }

    /// `extstore`: accepts numbers for a storage that does not exist here, and ignores them.
    pub(super) fn external(&mut self, tokens: Tokens<'_>) {
        let (words, noreply) = words(tokens);
        let is_number = |word: &[u8]| number::unsigned_short(word).is_some();
        let is_known = match words.as_slice() {
            [b"free_memchunks", class, limit, ..] => {
                number::unsigned_short(class).is_some_and(|class| class < 64) && is_number(limit)
            }
            [b"max_frag", value, ..] => fraction(value).is_some(),
            [
                b"item_size" | b"item_age" | b"low_ttl" | b"recache_rate" | b"compact_under" | b"drop_under"
                | b"max_sleep" | b"drop_unread",
                value,
                ..,
            ] => is_number(value),
            _ => false,
        };
        self.say(if is_known { "OK" } else { ERROR }, noreply && words.len() > 1);
    }

    /// `lru_crawler metadump`: sends a line for each item.
    fn dump(&mut self, classes: store::ClassBits) -> io::Result<()> {
        self.walk(classes, |session, shard, item| {
            let (blocks, clock) = (&shard.blocks, &session.server.clock);
            let expiry = match blocks.expiry(item) {
                0 => -1,
                expiry => clock.date_of(expiry),
            };
            let line = format!(
                "key={} exp={expiry} la={} cas={} fetch={} cls={} size={}\n",
                Encoded(&blocks.key(item)),
                clock.date_of(blocks.used_at(item)),
                session.server.shown(blocks.unique(item)),
                if blocks.is_marked(item, store::FETCHED) { "yes" } else { "no" },
                shard.class_of(item),
                shard.size(item),
            );
            session.out.extend_from_slice(line.as_bytes());
        })?;
        self.out.extend_from_slice(b"END\r\n");
        Ok(())
    }

    /// Calls `each` with all items of these classes, a few of them under one lock. Sends answers in
    /// between if there are many.
    pub(super) fn walk(
        &mut self,
        classes: store::ClassBits,
        mut each: impl FnMut(&mut Self, &Shard, Number),
    ) -> io::Result<()> {
        for number in 0..self.server.store.shards() {
            let mut place = 0;
            loop {
                self.send_some()?;
                self.count_work(PIECE_COUNTS);
                self.moment = self.server.moment();
                let shard = self.server.store.lock(number);
                let end = (place + STEP).min(shard.index.places());
                shard.visit(place..end, self.moment, |item| {
                    if classes >> shard.class_of(item) & 1 == 1 {
                        each(self, &shard, item);
                    }
                });
                place = end;
                if place >= shard.index.places() {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn reassign(from: &[u8], to: &[u8]) -> &'static str {
    match (number::signed(from), number::signed(to)) {
        (Some(from), Some(to)) if from == to => "SAME src and dst class are identical",
        (Some(from), Some(to)) if from > 63 || !(0..64).contains(&to) => "BADCLASS invalid src or dst class id",
        (Some(_), Some(_)) => "NOSPARE source class has no spare pages",
        _ => MALFORMED,
    }
}

impl Server {
    fn tune(&self, hot: Option<u32>, warm: Option<u32>, hot_factor: Option<f64>, factor: Option<f64>) -> &'static str {
        let (Some(hot), Some(warm), Some(hot_factor), Some(factor)) = (hot, warm, hot_factor, factor) else {
            return ERROR;
        };
        if hot.wrapping_add(warm) > 80 {
            return "ERROR hot and warm pcts must not exceed 80";
        }
        if hot_factor <= 0.0 || factor <= 0.0 {
            return "ERROR hot/warm age factors must be greater than 0";
        }
        let mut extended = self.extended_mut();
        (extended.hot_lru_pct, extended.warm_lru_pct) = (hot, warm);
        (extended.hot_max_factor, extended.warm_max_factor) = (hot_factor, factor);
        "OK"
    }

    fn set_temporary_ttl(&self, seconds: Option<u32>) {
        let mut extended = self.extended_mut();
        extended.temp_lru = seconds.is_some();
        extended.temporary_ttl = seconds.unwrap_or(extended.temporary_ttl);
        drop(extended);
        self.store.protect(seconds.unwrap_or(0));
    }
}
