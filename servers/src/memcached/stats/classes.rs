//! `stats items`, `stats slabs` and `stats sizes`: items by their sizes.

use super::super::Server;
use super::super::session::Session;
use super::super::store::{Class, SLAB_PAGE};
use super::super::stream::Stream;
use super::Report;
use std::collections::BTreeMap;
use std::io;

/// The number of bytes between two counted sizes.
const STEP: usize = 32;

impl Server {
    /// `stats items`. There is one order of use here. Items that eviction spares are reported as
    /// warm, all others as hot.
    pub(super) fn items(&self, now: u32) -> Report {
        let mut report = Report::default();
        let (totals, extended) = (self.store.totals(), self.extended());
        let age = self.store.age(now);
        for (number, Class { stock, counters, evicted_time }) in totals.classes.iter().enumerate() {
            if stock.items == 0 {
                continue;
            }
            let mut add = |name: &str, value: u64| report.add(format!("items:{number}:{name}"), value);
            add("number", stock.items);
            if extended.lru_maintainer {
                let warm = stock.spared.min(stock.items - stock.temporary);
                add("number_hot", stock.items - stock.temporary - warm);
                add("number_warm", warm);
                add("number_cold", 0);
                if extended.temp_lru {
                    add("number_temp", stock.temporary);
                }
                add("age_hot", age.into());
                add("age_warm", 0);
            }
            add("age", if extended.lru_maintainer { 0 } else { age.into() });
            add("mem_requested", stock.bytes);
            add("evicted", counters.evicted);
            add("evicted_nonzero", counters.evicted_nonzero);
            add("evicted_time", (*evicted_time).into());
            add("outofmemory", counters.out_of_memory);
            add("tailrepairs", 0);
            add("reclaimed", counters.reclaimed);
            add("expired_unfetched", counters.expired_unfetched);
            add("evicted_unfetched", counters.evicted_unfetched);
            if extended.lru_maintainer {
                add("evicted_active", counters.evicted_active);
            }
            add("crawler_reclaimed", counters.crawler_reclaimed);
            add("crawler_items_checked", counters.crawler_items_checked);
            add("lrutail_reflocked", 0);
            if extended.lru_maintainer {
                add("moves_to_cold", 0);
                add("moves_to_warm", counters.spared);
                add("moves_within_lru", 0);
                add("direct_reclaims", counters.evicted + counters.reclaimed);
                add("hits_to_hot", counters.get_hits);
                add("hits_to_warm", 0);
                add("hits_to_cold", 0);
                add("hits_to_temp", 0);
            }
        }
        report
    }

    /// `stats slabs`. Items are not chunks here: the numbers say what memcached would need for
    /// them.
    pub(super) fn slabs(&self) -> Report {
        let mut report = Report::default();
        let (totals, mut active) = (self.store.totals(), 0);
        for (number, Class { stock, counters, .. }) in totals.classes.iter().enumerate() {
            if stock.items == 0 && counters.cmd_set == 0 {
                continue;
            }
            active += 1;
            let chunk = self.store.chunk(number);
            let used = stock.items.max(stock.bytes / chunk as u64);
            let each = (SLAB_PAGE / chunk) as u64;
            let pages = used.div_ceil(each).max(1);
            let mut add = |name: &str, value: u64| report.add(format!("{number}:{name}"), value);
            add("chunk_size", chunk as u64);
            add("chunks_per_page", each);
            add("total_pages", pages);
            add("total_chunks", pages * each);
            add("used_chunks", used);
            add("free_chunks", pages * each - used);
            add("free_chunks_end", 0);
            add("get_hits", counters.get_hits);
            add("cmd_set", counters.cmd_set);
            add("delete_hits", counters.delete_hits);
            add("incr_hits", counters.incr_hits);
            add("decr_hits", counters.decr_hits);
            add("cas_hits", counters.cas_hits);
            add("cas_badval", counters.cas_badval);
            add("touch_hits", counters.touch_hits);
        }
        report.add("active_slabs", active);
        report.add("total_malloced", totals.malloced);
        report
    }
}

impl<S: Stream> Session<'_, S> {
    /// `stats sizes`: the number of items by size, among items stored since sizes are tracked.
    pub(super) fn sizes(&mut self) -> io::Result<Report> {
        let mut report = Report::default();
        let Some(since) = self.server.tracked_since() else {
            report.add("sizes_status", "disabled");
            return Ok(report);
        };
        let mut counts = BTreeMap::new();
        self.walk(u64::MAX, |_, shard, item| {
            if shard.blocks.unique(item) > since {
                *counts.entry(shard.size(item).next_multiple_of(STEP)).or_insert(0) += 1;
            }
        })?;
        counts.iter().for_each(|(size, count)| report.add(size.to_string(), count));
        Ok(report)
    }

    /// Turns the tracking of sizes on or off. memcached sends no END here.
    pub(super) fn track_sizes(&mut self, is_on: bool) {
        let text = if is_on && self.server.options.disable_cas {
            "STAT sizes_status error\r\nSTAT sizes_error cas_support_disabled"
        } else {
            self.server.track_sizes(is_on);
            if is_on { "STAT sizes_status enabled" } else { "STAT sizes_status disabled" }
        };
        self.say(text, false);
    }
}
