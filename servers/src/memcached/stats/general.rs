//! `stats`.

use super::super::{Server, VERSION};
use super::{Report, yes};
use crate::memcached::input;
use crate::memcached::store::Totals;
use crate::{descriptors, metrics};

/// Returns the seconds of user and system time that the process has used.
fn processor_time() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(11);
    // The kernel's unit for this is always a hundredth of a second.
    let mut next = || fields.next().and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0) / 100.0;
    (next(), next())
}

impl Server {
    /// `stats runtime`, which memcached does not have.
    pub(super) fn runtime(&self) -> Report {
        let mut report = Report::default();
        report.add("server", concat!("sinew ", env!("CARGO_PKG_VERSION")));
        report.add("scheduler", self.scheduler);
        let has_ring = self.io.batches() || self.io.files();
        report.add("engine", if has_ring { "epoll+io_uring" } else { "epoll" });
        report.add("io_uring_sends", yes(self.io.batches()));
        // The kernel's number for the reason why it refuses io_uring.
        report.add("io_uring_error", self.io.refusal().and_then(|error| error.raw_os_error()).unwrap_or(0));
        report.add("dormant_connections", self.lobby.count());
        report.add("item_memory", self.store.totals().in_use);
        report
    }

    /// Writes the numbers that matter most as metrics.
    pub fn write_figures(&self, out: &mut String) {
        let totals = self.store.totals();
        let (counters, hits) = (totals.counters, totals.all.counters);
        let mut counter = |name, help, value| metrics::counter(out, &format!("sinew_memcached_{name}"), help, value);
        counter("connections_accepted", "Connections that were accepted.", self.connections.total());
        counter("gets", "Keys that were asked for.", counters.cmd_get);
        counter("get_hits", "Keys that were asked for and found.", hits.get_hits);
        counter("get_misses", "Keys that were asked for and not found.", counters.get_misses);
        counter("sets", "Items that were stored.", hits.cmd_set);
        counter("evictions", "Items that made room for others.", hits.evicted);
        counter("received_bytes", "Bytes from clients.", self.traffic.received_total());
        counter("sent_bytes", "Bytes to clients.", self.traffic.sent_total());
        let mut gauge = |name, help, value| metrics::gauge(out, &format!("sinew_memcached_{name}"), help, value);
        gauge("connections", "Connections.", self.connections.current());
        gauge("silent_connections", "Connections without a fibre.", self.lobby.count() as u64);
        gauge("items", "Items.", totals.all.stock.items);
        gauge("item_bytes", "Bytes of items.", totals.all.stock.bytes);
        gauge("limit_bytes", "The largest number of bytes for items.", self.limit());
    }

    pub(super) fn general(&self) -> Report {
        let mut report = Report::default();
        self.process(&mut report);
        self.connection_numbers(&mut report);
        let totals = self.store.totals();
        self.requests(&mut report, &totals);
        self.store_numbers(&mut report, &totals);
        report
    }

    fn process(&self, report: &mut Report) {
        let (user, system) = processor_time();
        report.add("pid", std::process::id());
        report.add("uptime", self.clock.uptime());
        report.add("time", self.clock.date());
        report.add("version", VERSION);
        report.add("libevent", "none");
        report.add("pointer_size", usize::BITS);
        report.add("rusage_user", format_args!("{user:.6}"));
        report.add("rusage_system", format_args!("{system:.6}"));
    }

    fn connection_numbers(&self, report: &mut Report) {
        let connections = self.connections.current();
        let buffers = connections.saturating_sub(self.lobby.count() as u64);
        report.add("max_connections", self.connections.most());
        report.add("curr_connections", connections);
        report.add("total_connections", self.connections.total());
        if self.extended().maxconns_fast {
            report.add("rejected_connections", self.connections.rejected());
        }
        report.add("connection_structures", connections);
        report.add("response_obj_oom", 0);
        report.add("response_obj_count", 0);
        report.add("response_obj_bytes", 0);
        report.add("read_buf_count", buffers);
        report.add("read_buf_bytes", buffers * input::SMALL as u64);
        report.add("read_buf_bytes_free", 0);
        report.add("read_buf_oom", 0);
        report.add("reserved_fds", descriptors::OTHERS);
    }

    fn requests(&self, report: &mut Report, totals: &Totals) {
        let (counters, hits) = (totals.counters, totals.all.counters);
        report.add("cmd_get", counters.cmd_get);
        report.add("cmd_set", hits.cmd_set);
        report.add("cmd_flush", self.flushes());
        report.add("cmd_touch", counters.cmd_touch);
        report.add("cmd_meta", counters.cmd_meta);
        report.add("get_hits", hits.get_hits);
        report.add("get_misses", counters.get_misses);
        report.add("get_expired", counters.get_expired);
        report.add("get_flushed", counters.get_flushed);
        report.add("delete_misses", counters.delete_misses);
        report.add("delete_hits", hits.delete_hits);
        report.add("incr_misses", counters.incr_misses);
        report.add("incr_hits", hits.incr_hits);
        report.add("decr_misses", counters.decr_misses);
        report.add("decr_hits", hits.decr_hits);
        report.add("cas_misses", counters.cas_misses);
        report.add("cas_hits", hits.cas_hits);
        report.add("cas_badval", hits.cas_badval);
        report.add("touch_hits", hits.touch_hits);
        report.add("touch_misses", counters.touch_misses);
        report.add("store_too_large", counters.store_too_large);
        report.add("store_no_memory", counters.store_no_memory);
        let (attempts, errors) = self.authentication.numbers();
        report.add("auth_cmds", attempts);
        report.add("auth_errors", errors);
        if self.extended().idle_timeout > 0 {
            report.add("idle_kicks", self.connections.kicked());
        }
        report.add("bytes_read", self.traffic.received_total());
        report.add("bytes_written", self.traffic.sent_total());
    }

    fn store_numbers(&self, report: &mut Report, totals: &Totals) {
        let extended = self.extended();
        let (is_full, times_full, micros_full) = self.connections.fullness();
        report.add("limit_maxbytes", self.limit());
        report.add("accepting_conns", u32::from(!is_full));
        report.add("listen_disabled_num", times_full);
        report.add("time_in_listen_disabled_us", micros_full);
        report.add("threads", self.threads);
        report.add("conn_yields", self.yields());
        report.add("hash_power_level", totals.places.max(1).ilog2());
        report.add("hash_bytes", totals.index_bytes);
        report.add("hash_is_expanding", 0);
        if extended.slab_reassign {
            for name in ["rescues", "chunk_rescues", "evictions_nomem", "inline_reclaim", "busy_items", "busy_deletes"]
            {
                report.add(format!("slab_reassign_{name}"), 0);
            }
            report.add("slab_reassign_running", 0);
            report.add("slabs_moved", 0);
        }
        if extended.lru_crawler {
            report.add("lru_crawler_running", u32::from(self.sweeper.is_crawling()));
            report.add("lru_crawler_starts", self.sweeper.starts());
        }
        if extended.lru_maintainer {
            report.add("lru_maintainer_juggles", self.sweeper.starts());
        }
        let [watchers, lines, sent, skipped] = self.watchers.numbers();
        report.add("malloc_fails", totals.failures);
        report.add("log_worker_dropped", 0);
        report.add("log_worker_written", lines);
        report.add("log_watcher_skipped", skipped);
        report.add("log_watcher_sent", sent);
        report.add("log_watchers", watchers);
        report.add("unexpected_napi_ids", 0);
        report.add("round_robin_fallback", 0);
        report.add("bytes", totals.all.stock.bytes);
        report.add("curr_items", totals.all.stock.items);
        report.add("total_items", totals.counters.total_items);
        report.add("slab_global_page_pool", totals.spare_pages);
        let counters = totals.all.counters;
        report.add("expired_unfetched", counters.expired_unfetched);
        report.add("evicted_unfetched", counters.evicted_unfetched);
        if extended.lru_maintainer {
            report.add("evicted_active", counters.evicted_active);
        }
        report.add("evictions", counters.evicted);
        report.add("reclaimed", counters.reclaimed);
        report.add("crawler_reclaimed", counters.crawler_reclaimed);
        report.add("crawler_items_checked", counters.crawler_items_checked);
        report.add("lrutail_reflocked", 0);
        if extended.lru_maintainer {
            report.add("moves_to_cold", 0);
            report.add("moves_to_warm", counters.spared);
            report.add("moves_within_lru", totals.counters.lru_moves);
            report.add("direct_reclaims", counters.evicted + counters.reclaimed);
            report.add("lru_bumps_dropped", 0);
        }
    }
}
