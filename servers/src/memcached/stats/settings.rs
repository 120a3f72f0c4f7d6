//! `stats settings`.

use super::super::Server;
use super::super::options::{Protocol, UdpPort};
use super::{Report, yes};

impl Server {
    pub(super) fn settings(&self) -> Report {
        let mut report = Report::default();
        self.network(&mut report);
        self.items_and_classes(&mut report);
        self.order_of_use(&mut report);
        absent(&mut report);
        report
    }

    fn network(&self, report: &mut Report) {
        let options = &self.options;
        let path = options.unix_socket.as_ref().map(|path| path.to_string_lossy());
        let (tcp, udp) = match (&path, options.udp_port) {
            (Some(_), _) => (0, 0),
            (None, UdpPort::At(port)) => (options.tcp_port(), port),
            (None, _) => (options.tcp_port(), 0),
        };
        report.add("maxbytes", self.limit());
        report.add("maxconns", options.conn_limit);
        report.add("tcpport", tcp);
        report.add("udpport", udp);
        report.add("inter", options.listen.join(","));
        report.add("verbosity", self.verbosity());
        report.add("oldest", self.clock.oldest());
        report.add("evictions", if options.disable_evictions { "off" } else { "on" });
        report.add("domain_socket", path.as_deref().unwrap_or("NULL"));
        report.add("umask", format_args!("{:o}", options.unix_mask));
        report.add("shutdown_command", yes(options.enable_shutdown));
        report.add("growth_factor", format_args!("{:.2}", options.slab_growth_factor));
        report.add("chunk_size", options.slab_min_size);
        report.add("num_threads", self.threads);
        report.add("num_threads_per_udp", 1);
        report.add("stat_key_prefix", self.prefixes.delimiter());
        report.add("detail_enabled", yes(self.prefixes.is_on()));
        report.add("reqs_per_event", options.max_reqs_per_event);
        report.add("cas_enabled", yes(!options.disable_cas));
        report.add("tcp_backlog", options.listen_backlog);
        let protocol = match options.protocol {
            _ if options.auth_file.is_some() => "ascii",
            Protocol::Auto => "auto-negotiate",
            Protocol::Ascii => "ascii",
            Protocol::Binary => "binary",
        };
        report.add("binding_protocol", protocol);
        report.add("auth_enabled_sasl", yes(false));
        let file = options.auth_file.as_ref().map(|path| path.to_string_lossy());
        report.add("auth_enabled_ascii", file.as_deref().unwrap_or("no"));
    }

    fn items_and_classes(&self, report: &mut Report) {
        let (options, extended) = (&self.options, self.extended());
        report.add("item_size_max", options.max_item_size);
        report.add("maxconns_fast", yes(extended.maxconns_fast));
        report.add("hashpower_init", extended.hashpower);
        report.add("slab_reassign", yes(extended.slab_reassign));
        report.add("slab_automove", extended.slab_automove);
        report.add("slab_automove_ratio", format_args!("{:.2}", extended.slab_automove_ratio));
        report.add("slab_automove_window", extended.slab_automove_window);
        report.add("slab_chunk_max", extended.slab_chunk_max);
        report.add("lru_crawler", yes(extended.lru_crawler));
        report.add("lru_crawler_sleep", extended.lru_crawler_sleep);
        report.add("lru_crawler_tocrawl", extended.lru_crawler_tocrawl);
        report.add("tail_repair_time", extended.tail_repair_time);
        report.add("flush_enabled", yes(!options.disable_flush_all));
        report.add("dump_enabled", yes(!options.disable_dumping));
        report.add("hash_algorithm", extended.hash_algorithm);
    }

    fn order_of_use(&self, report: &mut Report) {
        let extended = self.extended();
        report.add("lru_maintainer_thread", yes(extended.lru_maintainer));
        report.add("lru_segmented", yes(extended.lru_segmented));
        report.add("hot_lru_pct", extended.hot_lru_pct);
        report.add("warm_lru_pct", extended.warm_lru_pct);
        report.add("hot_max_factor", format_args!("{:.2}", extended.hot_max_factor));
        report.add("warm_max_factor", format_args!("{:.2}", extended.warm_max_factor));
        report.add("temp_lru", yes(extended.temp_lru));
        report.add("temporary_ttl", extended.temporary_ttl);
        report.add("idle_timeout", extended.idle_timeout);
        report.add("watcher_logbuf_size", u64::from(extended.watcher_logbuf_size) << 10);
        report.add("worker_logbuf_size", u64::from(extended.worker_logbuf_size) << 10);
        report.add("read_buf_mem_limit", u64::from(extended.read_buf_mem_limit) << 20);
        report.add("track_sizes", yes(self.tracked_since().is_some()));
        report.add("inline_ascii_response", yes(false));
    }
}

/// Adds the settings of features that do not exist here, with memcached's values for features that
/// are not in use.
fn absent(report: &mut Report) {
    let external = [
        ("ext_item_size", "512"),
        ("ext_item_age", "4294967295"),
        ("ext_low_ttl", "0"),
        ("ext_recache_rate", "2000"),
        ("ext_wbuf_size", "4194304"),
        ("ext_compact_under", "0"),
        ("ext_drop_under", "0"),
        ("ext_max_sleep", "1000000"),
        ("ext_max_frag", "0.80"),
        ("slab_automove_freeratio", "0.010"),
        ("ext_drop_unread", "no"),
        ("ssl_enabled", "no"),
        ("ssl_chain_cert", "(null)"),
        ("ssl_key", "(null)"),
        ("ssl_verify_mode", "0"),
        ("ssl_keyformat", "1"),
        ("ssl_ciphers", "NULL"),
        ("ssl_ca_cert", "NULL"),
        ("ssl_wbuf_size", "16384"),
        ("ssl_session_cache", "no"),
        ("ssl_kernel_tls", "no"),
        ("ssl_min_version", "tlsv1.2"),
        ("num_napi_ids", "(null)"),
        ("memory_file", "(null)"),
    ];
    for (name, value) in external {
        report.add(name, value);
    }
}
