//! The statistics of the server: memcached's names, in its order, with true values.

mod running;

use running::{PATIENCE, Running, Talk};
use std::time::Instant;

/// Returns the names and values of a report, in their order.
fn report(talk: &mut Talk, kind: &str) -> Vec<(String, String)> {
    let text = String::from_utf8(talk.ask(format!("stats {kind}\r\n").as_bytes())).expect("text");
    let lines = text.strip_suffix("END\r\n").unwrap_or_else(|| panic!("the report has no end: {text}")).lines();
    let parts = |line: &str| {
        let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
        Some((name.to_owned(), value.to_owned()))
    };
    lines.map(|line| parts(line).unwrap_or_else(|| panic!("not a line of a report: {line}"))).collect()
}

fn names(report: &[(String, String)]) -> Vec<&str> {
    report.iter().map(|(name, _)| name.as_str()).collect()
}

fn value<'a>(report: &'a [(String, String)], name: &str) -> &'a str {
    let found = report.iter().find(|(other, _)| other == name);
    found.map_or_else(|| panic!("no {name} among {:?}", names(report)), |(_, value)| value)
}

const SOME_REQUESTS: &[u8] = b"set a 0 0 1\r\nx\r\nget a b\r\nset large 0 0 3000\r\n";

#[test]
fn stats_have_memcacheds_names_in_its_order() {
    for (options, count) in [
        (&[][..], 92),
        (&["-o", "no_lru_crawler,no_lru_maintainer"], 83),
        (&["-o", "no_modern"], 74),
        (&["-o", "idle_timeout=1000"], 93),
    ] {
        let reports: Vec<_> = Running::both(options).iter().map(|server| report(&mut server.connect(), "")).collect();
        assert_eq!(reports[0].len(), count, "{options:?}");
        assert_eq!(names(&reports[0]), names(reports.last().expect("ours")), "{options:?}");
    }
}

#[test]
fn settings_have_memcacheds_names_and_values() {
    let options = [
        "-m",
        "100",
        "-c",
        "333",
        "-R",
        "7",
        "-b",
        "99",
        "-f",
        "1.5",
        "-n",
        "64",
        "-t",
        "2",
        "-A",
        "-F",
        "-X",
        "-C",
        "-M",
        "-D",
        "/",
        "-o",
        "lru_crawler_sleep=5,tail_repair_time=77,hot_lru_pct=33,temporary_ttl=9,hashpower=17",
    ];
    for options in [&[][..], &options, &["-o", "no_modern"]] {
        let reports: Vec<_> =
            Running::both(options).iter().map(|server| report(&mut server.connect(), "settings")).collect();
        assert_eq!(reports[0].len(), 76, "{options:?}");
        // The address differs, and so does the default number of threads.
        let differs = ["tcpport", "num_threads", "num_threads_per_udp"];
        for ((name, ours), (their_name, theirs)) in reports[0].iter().zip(reports.last().expect("ours")) {
            assert_eq!(name, their_name, "{options:?}");
            assert!(ours == theirs || differs.contains(&name.as_str()), "{name}: {ours}, memcached {theirs}");
        }
    }
}

#[test]
fn items_and_slabs_are_reported_by_memcacheds_classes() {
    let lengths = [1usize, 30, 100, 1000, 9000, 66_560, 400_000, 700_000];
    let mut all = Vec::new();
    for server in Running::both(&["-o", "no_lru_maintainer,no_lru_crawler,no_slab_reassign"]) {
        let mut talk = server.connect();
        for length in lengths {
            talk.say(format!("set key{length} 0 0 {length}\r\n").as_bytes());
            talk.say(&vec![b'v'; length]);
            assert_eq!(talk.ask(b"\r\n"), b"STORED\r\n", "{}", server.name);
            talk.ask(format!("get key{length}\r\n").as_bytes());
        }
        talk.ask(b"incr key1 1\r\ntouch key30 0\r\ndelete key100\r\ndelete key100\r\n");
        let (items, slabs) = (report(&mut talk, "items"), report(&mut talk, "slabs"));
        let is_told = |line: &&(String, String)| {
            let kind = line.0.rsplit(':').next().unwrap_or_default();
            let kinds = ["number", "mem_requested", "evicted", "outofmemory", "get_hits", "cmd_set", "chunk_size"];
            let hits = ["delete_hits", "incr_hits", "touch_hits", "cas_hits", "chunks_per_page", "reclaimed"];
            kinds.contains(&kind) || hits.contains(&kind)
        };
        // memcached keeps a large value in a chunk of another class, too.
        let has_item = |line: &&(String, String)| {
            let class = format!("items:{}:number", line.0.split(':').next().unwrap_or_default());
            line.0.starts_with("items") || items.iter().any(|(name, _)| *name == class)
        };
        let told: Vec<_> = items.iter().chain(&slabs).filter(is_told).filter(has_item).cloned().collect();
        assert_eq!(value(&items, "items:31:number"), "1", "{}", server.name);
        assert_eq!(value(&slabs, "1:get_hits"), "2", "{}", server.name);
        all.push((told, names(&items).iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()));
    }
    assert_eq!(all.first(), all.last());
}

#[test]
fn bytes_are_counted_as_memcached_counts_them() {
    for (options, bytes) in [(&[][..], "61"), (&["-C"], "53")] {
        for server in Running::both(options) {
            let mut talk = server.connect();
            assert_eq!(talk.ask(b"set a 0 0 1\r\nx\r\n"), b"STORED\r\n");
            assert_eq!(talk.stat("bytes"), bytes, "{}", server.name);
            talk.ask(b"delete a\r\n");
            assert_eq!(talk.stat("bytes"), "0", "{}", server.name);
        }
    }
}

#[test]
fn sizes_are_counted_since_tracking_began() {
    for server in Running::both(&[]) {
        let mut talk = server.connect();
        let exchanges: [(&[u8], &[u8]); 7] = [
            (b"set before 0 0 1\r\nx\r\nstats sizes\r\n", b"STORED\r\nSTAT sizes_status disabled\r\nEND\r\n"),
            (b"stats sizes_enable\r\n", b"STAT sizes_status enabled\r\n"),
            (b"stats sizes\r\n", b"END\r\n"),
            (b"set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\nset c 0 0 60\r\n", b"STORED\r\nSTORED\r\n"),
            (&[b'v'; 60], b""),
            (b"\r\nstats sizes\r\n", b"STORED\r\nSTAT 64 2\r\nSTAT 128 1\r\nEND\r\n"),
            (
                b"stats sizes_disable\r\nstats sizes\r\n",
                b"STAT sizes_status disabled\r\nSTAT sizes_status disabled\r\nEND\r\n",
            ),
        ];
        for (request, answer) in &exchanges[..3] {
            assert_eq!(talk.ask(request), *answer, "{}", server.name);
        }
        talk.say(&[exchanges[3].0, exchanges[4].0].concat());
        assert_eq!(talk.ask(exchanges[5].0), [exchanges[3].1, exchanges[5].1].concat(), "{}", server.name);
        assert_eq!(talk.ask(exchanges[6].0), exchanges[6].1, "{}", server.name);
    }
}

#[test]
fn requests_are_counted_by_the_prefixes_of_their_keys() {
    for (options, between) in [(&[][..], ":"), (&["-D", "/"], "/")] {
        for server in Running::both(options) {
            let mut talk = server.connect();
            let key = |name: &str| format!("user{between}{name}");
            if options.is_empty() {
                assert_eq!(talk.ask(b"get user:0\r\nstats detail dump\r\n"), b"END\r\nEND\r\n", "{}", server.name);
                assert_eq!(talk.ask(b"stats detail on\r\n"), b"OK\r\n");
            }
            let requests =
                format!("set {0} 0 0 1\r\nx\r\nget {0} {1} none\r\nmg {0} v\r\ndelete {1}\r\n", key("1"), key("2"));
            talk.ask(requests.as_bytes());
            let dump = "PREFIX user get 2 hit 1 set 1 del 1\r\nEND\r\n";
            assert_eq!(String::from_utf8_lossy(&talk.ask(b"stats detail dump\r\n")), dump, "{}", server.name);
            assert_eq!(talk.ask(b"stats detail off\r\n"), b"OK\r\n");
            talk.ask(requests.as_bytes());
            assert_eq!(talk.ask(b"stats detail dump\r\n"), dump.as_bytes(), "{}", server.name);
            assert_eq!(talk.ask(b"stats reset\r\nstats detail dump\r\n"), b"RESET\r\nEND\r\n", "{}", server.name);
        }
    }
}

#[test]
fn reset_sets_counters_to_zero_and_keeps_items() {
    for server in Running::both(&[]) {
        let mut talk = server.connect();
        talk.ask(b"set a 0 0 1\r\nx\r\nget a b\r\nflush_all 1000\r\nincr n 1\r\ncas a 0 0 1 99\r\ny\r\n");
        assert_eq!(talk.ask(b"stats reset\r\n"), b"RESET\r\n");
        let stats = report(&mut talk, "");
        for name in ["cmd_set", "cmd_flush", "get_hits", "incr_misses", "cas_badval", "total_items"] {
            assert_eq!(value(&stats, name), "0", "{}: {name}", server.name);
        }
        assert_eq!(value(&stats, "curr_items"), "1", "{}", server.name);
        assert_eq!(value(&stats, "bytes"), "61", "{}", server.name);
    }
}

#[test]
fn items_of_a_class_are_dumped_unless_dumping_is_disabled() {
    for server in Running::both(&["-o", "no_lru_maintainer,no_lru_crawler"]) {
        let mut talk = server.connect();
        talk.say(b"set a 0 0 1\r\nx\r\nset b 0 1000 2\r\nxy\r\nms YQE= 1 b\r\nz\r\nset other 0 0 100\r\n");
        talk.say(&[b'v'; 100]);
        talk.ask(b"\r\n");
        let dump = String::from_utf8(talk.ask(b"stats cachedump 1 0\r\n")).expect("text");
        let mut lines: Vec<&str> = dump.lines().collect();
        assert_eq!(lines.pop(), Some("END"));
        lines.sort_unstable();
        assert_eq!(lines[0], "ITEM a [1 b; 0 s]", "{}", server.name);
        assert!(lines[1].starts_with("ITEM b [2 b; ") && lines.len() == 2, "{}: {lines:?}", server.name);
        let limited = talk.ask(b"stats cachedump 1 1\r\n");
        assert_eq!(limited.iter().filter(|byte| **byte == b'\n').count(), 2, "{}", server.name);
    }
    for server in Running::both(&["-X"]) {
        let mut talk = server.connect();
        let refused = b"CLIENT_ERROR stats cachedump not allowed\r\nERROR metadump not allowed\r\n";
        let answer = talk.ask(b"stats cachedump 1 1\r\nlru_crawler metadump all\r\n");
        assert_eq!(answer, refused, "{}", server.name);
    }
}

/// Returns the state and address of each connection, without their numbers.
fn connections(server: &Running) -> Vec<(String, String)> {
    let report = report(&mut server.connect(), "conns");
    let part = |name: &str| name.split_once(':').map_or(String::new(), |(_, part)| part.to_owned());
    report.into_iter().map(|(name, value)| (part(&name), value)).collect()
}

#[test]
fn connections_are_reported_with_their_states() {
    for server in Running::both(&["-t", "1"]) {
        let _silent = server.connect();
        let mut waiting = server.connect();
        assert_eq!(waiting.ask(b"version\r\n"), b"VERSION 1.6.18\r\n");
        let mut sending = server.connect();
        sending.say(b"set a 0 0 10\r\nhalf");
        let mut watching = server.connect();
        watching.say(b"watch\r\n");
        assert_eq!(watching.hear(4), b"OK\r\n");
        let begin = Instant::now();
        loop {
            let told = connections(&server);
            let states: Vec<&str> =
                told.iter().filter(|(name, _)| name == "state").map(|(_, state)| state.as_str()).collect();
            let wanted = ["conn_listening", "conn_new_cmd", "conn_read", "conn_nread", "conn_watch", "conn_parse_cmd"];
            if states == wanted {
                let doors = told.iter().filter(|(name, _)| name == "listen_addr");
                assert_eq!(doors.clone().count(), 5, "{}", server.name);
                assert!(doors.clone().all(|(_, door)| *door == format!("tcp:{}", server.address)), "{}", server.name);
                assert!(told.contains(&("addr".into(), format!("tcp:{}", server.address))), "{}", server.name);
                assert!(told.iter().any(|(name, _)| name == "secs_since_last_cmd"));
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{}: {states:?}", server.name);
        }
    }
}

#[test]
fn a_session_yields_after_its_number_of_requests() {
    for server in Running::both(&["-R", "1", "-t", "1"]) {
        let mut talk = server.connect();
        talk.ask(&b"set a 0 0 1\r\nx\r\n".repeat(20));
        let yields: u64 = talk.stat("conn_yields").parse().expect("a number");
        assert!(yields >= 19, "{}: {yields}", server.name);
    }
}

#[test]
fn stats_runtime_reports_what_memcached_does_not_have() {
    let server = Running::sinew(&["--scheduler", "shared", "--io", "epoll"]);
    let mut talk = server.connect();
    talk.say(SOME_REQUESTS);
    talk.ask(&[vec![b'v'; 3000], b"\r\n".to_vec()].concat());
    let runtime = report(&mut talk, "runtime");
    assert_eq!(value(&runtime, "scheduler"), "shared");
    assert_eq!(value(&runtime, "engine"), "epoll");
    assert_eq!((value(&runtime, "io_uring_sends"), value(&runtime, "io_uring_error")), ("no", "0"));
    let memory: u64 = value(&runtime, "item_memory").parse().expect("a number");
    assert!((3000..4000).contains(&memory), "{memory}");
}
