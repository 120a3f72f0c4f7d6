//! What the server tells about itself.

use super::session::{Session, TURN};
use super::stream::Stream;
use super::{Server, VERSION};
use sinew_memcached_protocol::Tokens;
use sinew_memcached_protocol::binary::{Answer, Request, Status, push_answer};
use std::fmt::Display;

/// Names and values, in the order in which they are sent.
#[derive(Default)]
pub struct Report {
    lines: Vec<(String, String)>,
}

impl Report {
    fn add(&mut self, name: impl Into<String>, value: impl Display) {
        self.lines.push((name.into(), value.to_string()));
    }

    /// As many bytes as it takes to send it, if there are `more` to each name and value.
    fn length(&self, more: usize) -> u32 {
        self.lines.iter().map(|(name, value)| more + name.len() + value.len()).sum::<usize>() as u32
    }
}

impl<S: Stream> Session<'_, S> {
    #[inline(never)]
    pub(super) fn stats(&mut self, mut words: Tokens<'_>) {
        let report = match words.next() {
            None => self.server.general(),
            Some(b"settings") => self.server.settings(),
            Some(b"items") => self.server.items(),
            Some(b"slabs") => self.server.slabs(),
            Some(b"sizes") => Report { lines: vec![("sizes_status".into(), "disabled".into())] },
            Some(b"reset") => {
                self.server.reset();
                return self.say("RESET", false);
            }
            Some(b"cachedump") => return self.say("CLIENT_ERROR stats cachedump not allowed", false),
            Some(b"detail") => return self.say("CLIENT_ERROR usage: stats detail on|off|dump", false),
            Some(_) => return self.say("ERROR", false),
        };
        self.count_work(TURN);
        if self.reserve(report.length("STAT  \r\n".len())).is_err() {
            return self.say("SERVER_ERROR out of memory writing stats", false);
        }
        for (name, value) in &report.lines {
            self.out.extend_from_slice(format!("STAT {name} {value}\r\n").as_bytes());
        }
        self.out.extend_from_slice(b"END\r\n");
    }

    pub(super) fn binary_stats(&mut self, request: &Request<'_>, key: &[u8]) {
        let report = match key {
            b"" => self.server.general(),
            _ if key.starts_with(b"settings") => self.server.settings(),
            _ if key.starts_with(b"reset") => {
                self.server.reset();
                Report::default()
            }
            b"items" => self.server.items(),
            b"slabs" => self.server.slabs(),
            _ => {
                let answer = Answer { value_length: 9, ..Answer::default() };
                push_answer(&mut self.out, request, Status::NotFound, answer);
                return self.out.extend_from_slice(b"Not found");
            }
        };
        self.count_work(TURN);
        if self.reserve(report.length(24) + 24).is_err() {
            return push_answer(&mut self.out, request, Status::OutOfMemory, Answer::default());
        }
        let end = (String::new(), String::new());
        for (name, value) in report.lines.iter().chain([&end]) {
            let answer = Answer { key: name.as_bytes(), value_length: value.len() as u32, ..Answer::default() };
            push_answer(&mut self.out, request, Status::Success, answer);
            self.out.extend_from_slice(value.as_bytes());
        }
    }
}

/// Seconds of user and system time that the process has used.
fn processor_time() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11);
    // The kernel's unit for this is fixed at a hundredth of a second.
    let mut next = || fields.next().and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0) / 100.0;
    (next(), next())
}

impl Server {
    fn general(&self) -> Report {
        let mut report = Report::default();
        let totals = self.store.totals();
        let counters = totals.counters;
        let (user, system) = processor_time();
        let connections = self.connections.current();
        report.add("pid", std::process::id());
        report.add("uptime", self.clock.uptime());
        report.add("time", self.clock.date());
        report.add("version", VERSION);
        report.add("server", concat!("sinew ", env!("CARGO_PKG_VERSION")));
        report.add("scheduler", self.scheduler);
        report.add("engine", "epoll");
        report.add("pointer_size", 64);
        report.add("rusage_user", format_args!("{user:.6}"));
        report.add("rusage_system", format_args!("{system:.6}"));
        report.add("max_connections", self.connections.most());
        report.add("curr_connections", connections);
        report.add("total_connections", self.connections.total());
        report.add("rejected_connections", self.connections.rejected());
        report.add("connection_structures", connections);
        report.add("dormant_connections", self.lobby.count());
        report.add("cmd_get", counters.cmd_get);
        report.add("cmd_set", counters.cmd_set);
        report.add("cmd_flush", self.flushes());
        report.add("cmd_touch", counters.cmd_touch);
        report.add("cmd_meta", counters.cmd_meta);
        report.add("get_hits", counters.get_hits);
        report.add("get_misses", counters.get_misses);
        report.add("get_expired", counters.get_expired);
        report.add("get_flushed", counters.get_flushed);
        report.add("delete_misses", counters.delete_misses);
        report.add("delete_hits", counters.delete_hits);
        report.add("incr_misses", counters.incr_misses);
        report.add("incr_hits", counters.incr_hits);
        report.add("decr_misses", counters.decr_misses);
        report.add("decr_hits", counters.decr_hits);
        report.add("cas_misses", counters.cas_misses);
        report.add("cas_hits", counters.cas_hits);
        report.add("cas_badval", counters.cas_badval);
        report.add("touch_hits", counters.touch_hits);
        report.add("touch_misses", counters.touch_misses);
        report.add("store_too_large", counters.store_too_large);
        report.add("store_no_memory", counters.store_no_memory);
        report.add("bytes_read", self.traffic.received_total());
        report.add("bytes_written", self.traffic.sent_total());
        report.add("limit_maxbytes", self.limit);
        report.add("accepting_conns", 1);
        report.add("threads", self.threads);
        report.add("hash_power_level", totals.places.max(1).ilog2());
        report.add("hash_bytes", totals.index_bytes);
        report.add("bytes", totals.bytes);
        report.add("curr_items", totals.items);
        report.add("total_items", counters.total_items);
        report.add("evicted_unfetched", counters.evicted_unfetched);
        report.add("expired_unfetched", counters.expired_unfetched);
        report.add("evictions", counters.evictions);
        report.add("reclaimed", counters.reclaimed);
        report
    }

    fn settings(&self) -> Report {
        let mut report = Report::default();
        let options = &self.options;
        let yes = |yes| if yes { "yes" } else { "no" };
        report.add("maxbytes", self.limit);
        report.add("maxconns", options.conn_limit);
        report.add("tcpport", options.port);
        report.add("udpport", 0);
        report.add("inter", options.listen.join(","));
        report.add("verbosity", self.verbosity());
        report.add("evictions", if options.disable_evictions { "off" } else { "on" });
        report.add("domain_socket", options.unix_socket.as_ref().map_or("NULL".into(), |path| path.to_string_lossy()));
        report.add("umask", format_args!("{:o}", options.unix_mask));
        report.add("num_threads", self.threads);
        report.add("detail_enabled", yes(false));
        report.add("cas_enabled", yes(true));
        report.add("tcp_backlog", options.listen_backlog);
        report.add("binding_protocol", "auto-negotiate");
        report.add("auth_enabled_sasl", yes(false));
        report.add("item_size_max", options.max_item_size);
        report.add("maxconns_fast", yes(true));
        report.add("flush_enabled", yes(!options.disable_flush_all));
        report.add("dump_enabled", yes(false));
        report.add("scheduler", self.scheduler);
        report.add("engine", "epoll");
        report
    }

    /// There are no classes of sizes here: all items are in class 1.
    fn items(&self) -> Report {
        let mut report = Report::default();
        let totals = self.store.totals();
        if totals.items > 0 {
            report.add("items:1:number", totals.items);
            report.add("items:1:mem_requested", totals.bytes);
            report.add("items:1:evicted", totals.counters.evictions);
            report.add("items:1:evicted_unfetched", totals.counters.evicted_unfetched);
            report.add("items:1:outofmemory", totals.counters.out_of_memory);
            report.add("items:1:reclaimed", totals.counters.reclaimed);
        }
        report
    }

    /// Blocks, as chunks of the one class.
    fn slabs(&self) -> Report {
        use super::store::{BLOCK, PAGE};
        let mut report = Report::default();
        let totals = self.store.totals();
        let pages = (totals.taken - totals.index_bytes) / PAGE;
        let (all, used) = (pages * (PAGE / BLOCK), totals.bytes / BLOCK);
        report.add("1:chunk_size", BLOCK);
        report.add("1:chunks_per_page", PAGE / BLOCK);
        report.add("1:total_pages", pages);
        report.add("1:total_chunks", all);
        report.add("1:used_chunks", used);
        report.add("1:free_chunks", all - used);
        report.add("1:get_hits", totals.counters.get_hits);
        report.add("1:cmd_set", totals.counters.cmd_set);
        report.add("1:delete_hits", totals.counters.delete_hits);
        report.add("1:incr_hits", totals.counters.incr_hits);
        report.add("1:decr_hits", totals.counters.decr_hits);
        report.add("1:cas_hits", totals.counters.cas_hits);
        report.add("1:cas_badval", totals.counters.cas_badval);
        report.add("1:touch_hits", totals.counters.touch_hits);
        report.add("active_slabs", 1);
        report.add("total_malloced", totals.taken);
        report
    }

    fn reset(&self) {
        self.store.reset_counters();
        self.traffic.reset();
        self.connections.reset();
    }
}
