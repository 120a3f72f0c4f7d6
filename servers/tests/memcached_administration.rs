//! Commands for operators, and the memory that items get. Each test runs against this server and,
//! where it is installed, against memcached.

mod running;

use running::{PATIENCE, Running, Talk};
use std::io::Write;
use std::time::{Duration, Instant};

/// Sends requests over one connection to each server, and checks their answers.
fn expect(options: &[&str], exchanges: &[(&str, &str)]) {
    for server in Running::both(options) {
        let mut talk = server.connect();
        for (request, answer) in exchanges {
            let heard = String::from_utf8_lossy(&talk.ask(request.as_bytes())).into_owned();
            assert_eq!(heard, *answer, "{}: {request}", server.name);
        }
    }
}

const MALFORMED: &str = "CLIENT_ERROR bad command line format\r\n";

#[test]
fn settings_are_checked_and_reported() {
    expect(
        &[],
        &[
            ("lru tune 10 25 0.1 2.5\r\n", "OK\r\n"),
            ("lru tune 50 31 0.1 2\r\n", "ERROR hot and warm pcts must not exceed 80\r\n"),
            ("lru tune 10 20 0 2\r\n", "ERROR hot/warm age factors must be greater than 0\r\n"),
            ("lru tune x 20 0.1 2\r\nlru tune 1 2 3\r\n", "ERROR\r\nERROR\r\n"),
            ("lru mode flat\r\nlru mode round\r\nlru mode\r\n", "OK\r\nERROR\r\nERROR\r\n"),
            ("lru temp_ttl 30\r\nlru temp_ttl x\r\nlru\r\nlru nothing\r\n", "OK\r\nERROR\r\nERROR\r\nERROR\r\n"),
            ("lru temp_ttl 30 noreply\r\n", ""),
            ("slabs automove 2\r\nslabs automove 3\r\n", "OK\r\nERROR\r\n"),
            ("slabs automove x\r\n", MALFORMED),
            ("slabs automove ratio 0.5\r\nslabs automove ratio x\r\nslabs automove\r\n", "OK\r\nERROR\r\nERROR\r\n"),
            ("slabs reassign 1 1\r\n", "SAME src and dst class are identical\r\n"),
            ("slabs reassign 1 2\r\n", "NOSPARE source class has no spare pages\r\n"),
            ("slabs reassign x 2\r\n", MALFORMED),
            ("slabs reassign 1\r\nslabs\r\n", "ERROR\r\nERROR\r\n"),
            ("lru_crawler tocrawl 9\r\nlru_crawler sleep 8\r\n", "OK\r\nOK\r\n"),
            ("lru_crawler tocrawl x\r\n", MALFORMED),
            ("lru_crawler sleep x\r\n", MALFORMED),
            ("lru_crawler sleep 1000001\r\n", "CLIENT_ERROR sleep must be one second or less\r\n"),
            (
                "lru_crawler crawl x\r\nlru_crawler crawl 0\r\n",
                "BADCLASS invalid class id\r\nBADCLASS invalid class id\r\n",
            ),
            ("lru_crawler\r\nlru_crawler nothing\r\n", "ERROR\r\nERROR\r\n"),
        ],
    );
    expect(
        &["-o", "no_slab_reassign,no_lru_crawler,no_lru_maintainer"],
        &[
            ("slabs reassign 1 2\r\n", "CLIENT_ERROR slab reassignment disabled\r\n"),
            ("lru_crawler crawl all\r\n", "CLIENT_ERROR lru crawler disabled\r\n"),
            ("lru mode flat\r\nlru temp_ttl 5\r\n", "ERROR\r\nERROR\r\n"),
        ],
    );
    for server in Running::both(&[]) {
        let mut talk = server.connect();
        talk.ask(
            b"lru tune 10 25 0.1 2.5\r\nlru temp_ttl 30\r\nslabs automove 2\r\nlru_crawler sleep 8\r\nverbosity 2\r\n",
        );
        let settings = String::from_utf8(talk.ask(b"stats settings\r\n")).expect("text");
        for line in [
            "hot_lru_pct 10",
            "warm_lru_pct 25",
            "hot_max_factor 0.10",
            "warm_max_factor 2.50",
            "temp_lru yes",
            "temporary_ttl 30",
            "slab_automove 2",
            "lru_crawler_sleep 8",
            "verbosity 2",
        ] {
            assert!(settings.contains(&format!("STAT {line}\r\n")), "{}: {line}", server.name);
        }
    }
}

#[test]
fn faulty_numbers_and_extra_words_are_refused() {
    expect(
        &[],
        &[
            ("verbosity x\r\n", MALFORMED),
            ("verbosity -1\r\n", MALFORMED),
            ("stats cachedump x 1\r\n", MALFORMED),
            ("stats cachedump 1 x\r\n", MALFORMED),
            ("stats cachedump 1\r\n", "CLIENT_ERROR bad command line\r\n"),
            ("stats cachedump 64 1\r\n", "CLIENT_ERROR Illegal slab id\r\n"),
            ("stats cachedump 63 1\r\n", "END\r\n"),
            ("stats detail\r\nstats detail x\r\n", &"CLIENT_ERROR usage: stats detail on|off|dump\r\n".repeat(2)),
            ("stats extstore\r\nstats nothing\r\n", "END\r\nERROR\r\n"),
            ("cache_memlimit\r\ncache_memlimit x\r\ncache_memlimit 9 9 9\r\n", "ERROR\r\nERROR\r\nERROR\r\n"),
            ("cache_memlimit 7\r\n", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n"),
            ("cache_memlimit 1000000001\r\n", "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n"),
            ("extstore item_size 5\r\nextstore item_size x\r\nextstore\r\n", "OK\r\nERROR\r\nERROR\r\n"),
            ("refresh_certs\r\n", "Error TLS not enabled\r\n"),
            ("misbehave\r\ndebugtime 1\r\n", "ERROR\r\nERROR\r\n"),
            ("set a 0 0 1\r\nx\r\nbget a b\r\nbget\r\n", "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nERROR\r\n"),
        ],
    );
}

#[test]
fn a_flush_at_a_past_date_flushes_nothing() {
    expect(
        &[],
        &[
            ("set a 0 0 1\r\nx\r\nflush_all 2592001\r\nget a\r\n", "STORED\r\nOK\r\nVALUE a 0 1\r\nx\r\nEND\r\n"),
            ("flush_all -1\r\nget a\r\n", "OK\r\nEND\r\n"),
            ("set a 0 0 1\r\nx\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"),
        ],
    );
    // A delay of one second begins with the current second.
    for server in Running::both(&[]) {
        let mut talk = server.connect();
        let begin = Instant::now();
        talk.ask(b"set a 0 0 1\r\nx\r\n");
        assert_eq!(talk.ask(b"flush_all 1\r\nget a\r\n"), b"OK\r\nEND\r\n", "{}", server.name);
        while talk.ask(b"set a 0 0 1\r\nx\r\nget a\r\n") == b"STORED\r\nEND\r\n" {
            assert!(begin.elapsed() < PATIENCE, "{}", server.name);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    // Without unique numbers, items stored in the second of a flush are flushed, too.
    for server in Running::both(&["-C"]) {
        let mut talk = server.connect();
        let is_flushed = |_| talk.ask(b"flush_all\r\nset a 0 0 1\r\nx\r\nget a\r\n").ends_with(b"STORED\r\nEND\r\n");
        assert!((0..50).any(is_flushed), "{}", server.name);
    }
}

/// Options that keep memcached's background threads from touching items.
const QUIET: [&str; 2] = ["-o", "no_lru_maintainer,no_lru_crawler,no_slab_reassign"];

#[test]
fn a_number_is_not_padded_while_an_answer_about_it_is_unsent() {
    expect(
        &QUIET,
        &[
            ("set n 0 0 3\r\n100\r\nmg n\r\ndecr n 1\r\nmg n v\r\n", "STORED\r\nHD\r\n99\r\nVA 2\r\n99\r\n"),
            ("set n 0 0 3\r\n100\r\nmg n v\r\nma n MD\r\nmg n v\r\n", "STORED\r\nVA 3\r\n100\r\nHD\r\nVA 2\r\n99\r\n"),
            // These requests send the answer.
            (
                "set n 0 0 3\r\n100\r\nmg n\r\nmn\r\ndecr n 1\r\nmg n v\r\n",
                "STORED\r\nHD\r\nMN\r\n99\r\nVA 3\r\n99 \r\n",
            ),
            (
                "set n 0 0 3\r\n100\r\nmg n\r\nget n\r\ndecr n 1\r\nget n\r\n",
                "STORED\r\nHD\r\nVALUE n 0 3\r\n100\r\nEND\r\n99\r\nVALUE n 0 3\r\n99 \r\nEND\r\n",
            ),
            ("set n 0 0 3\r\n100\r\nmg other\r\ndecr n 1\r\nmg n v\r\n", "STORED\r\nEN\r\n99\r\nVA 3\r\n99 \r\n"),
        ],
    );
}

#[test]
fn a_value_in_several_chunks_is_not_a_number() {
    for server in Running::both(&QUIET) {
        let mut talk = server.connect();
        for (length, answer) in
            [(400_000, "6\r\n"), (600_000, "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n")]
        {
            talk.say(format!("set n 0 0 {length}\r\n5{}\r\n", " ".repeat(length - 1)).as_bytes());
            let expected = format!("STORED\r\n{answer}HD s{length}\r\n");
            let heard = String::from_utf8_lossy(&talk.ask(b"incr n 1\r\nmg n s\r\n")).into_owned();
            assert_eq!(heard, expected, "{}", server.name);
        }
    }
}

#[test]
fn unique_numbers_that_are_disabled_are_zero() {
    expect(
        &["-C"],
        &[
            ("set a 0 0 1\r\nx\r\ngets a\r\n", "STORED\r\nVALUE a 0 1 0\r\nx\r\nEND\r\n"),
            ("cas a 0 0 1 77\r\ny\r\ncas a 0 0 1 0\r\nz\r\n", "EXISTS\r\nEXISTS\r\n"),
            ("mg a v c\r\nmd a C5\r\nmd a C0\r\n", "VA 1 c0\r\nx\r\nEX\r\nHD\r\n"),
        ],
    );
}

#[test]
fn sixty_four_megabytes_hold_63_values_of_one_megabyte() {
    let value = vec![b'v'; (1 << 20) - 250];
    for server in Running::both(&["-m", "64", "-M"]) {
        let mut talk = server.connect();
        let mut store = |number: u32| {
            talk.say(format!("set k{number} 0 0 {}\r\n", value.len()).as_bytes());
            talk.say(&value);
            talk.ask(b"\r\n")
        };
        let stored = (0..100).take_while(|number| store(*number) == b"STORED\r\n").count();
        assert!((63..=64).contains(&stored), "{}: {stored}", server.name);
        // One more value evicts another one.
        assert_eq!(server.connect().ask(b"delete k5\r\n"), b"DELETED\r\n");
        assert_eq!(store(200), b"STORED\r\n", "{}", server.name);
    }
}

#[test]
fn the_oldest_large_values_are_evicted_first_in_all_shards() {
    let server = Running::sinew(&["-m", "64"]);
    let value = vec![b'v'; (1 << 20) - 250];
    let mut talk = server.connect();
    for number in 0..150 {
        talk.say(format!("set k{number} 0 0 {}\r\n", value.len()).as_bytes());
        talk.say(&value);
        assert_eq!(talk.ask(b"\r\n"), b"STORED\r\n");
    }
    let mut is_there = |number: u32| talk.ask(format!("mg k{number}\r\n").as_bytes()) == b"HD\r\n";
    let first = (0..150).find(|number| is_there(*number)).expect("some are left");
    assert!((first..150).all(&mut is_there) && 150 - first >= 63, "{first} went");
}

#[test]
fn the_memory_limit_can_be_changed() {
    // Two pages.
    let value = vec![b'v'; 130_000];
    let server = Running::sinew(&["-m", "8"]);
    let mut talk = server.connect();
    let fill = |talk: &mut Talk, count: u32| {
        for number in 0..count {
            talk.say(format!("set k{number} 0 0 {}\r\n", value.len()).as_bytes());
            talk.say(&value);
            assert_eq!(talk.ask(b"\r\n"), b"STORED\r\n");
        }
        talk.stat("evictions").parse::<u64>().expect("a number")
    };
    let malloced = |talk: &mut Talk| {
        let slabs = String::from_utf8(talk.ask(b"stats slabs\r\n")).expect("text");
        let line =
            slabs.lines().find_map(|line| line.strip_prefix("STAT total_malloced ")).expect("the line").to_owned();
        line.parse::<u64>().expect("a number")
    };
    let evicted = fill(&mut talk, 100);
    assert!(evicted > 0);
    assert_eq!(talk.ask(b"cache_memlimit 16\r\n"), b"OK\r\n");
    assert_eq!(talk.stat("limit_maxbytes"), (16 << 20).to_string());
    assert_eq!(fill(&mut talk, 120), evicted);
    let before = malloced(&mut talk);
    assert_eq!(talk.ask(b"cache_memlimit 8\r\n"), b"OK\r\n");
    (0..120).for_each(|number| drop(talk.ask(format!("delete k{number}\r\n").as_bytes())));
    assert!(malloced(&mut talk) < before - (4 << 20));
}

#[test]
fn with_temporary_ttl_items_that_expire_soon_are_not_evicted() {
    let value = "v".repeat(66_560);
    for server in Running::both(&["-m", "2", "-o", "lru_maintainer,lru_crawler,temporary_ttl=61"]) {
        let mut talk = server.connect();
        assert_eq!(talk.ask(format!("set soon 0 50 66560\r\n{value}\r\n").as_bytes()), b"STORED\r\n");
        for number in 0..100 {
            let request = format!("set k{number} 0 3600 66560\r\n{value}\r\n");
            assert_eq!(talk.ask(request.as_bytes()), b"STORED\r\n", "{}", server.name);
        }
        assert_eq!(talk.ask(b"mg soon\r\nmg k0\r\n"), b"HD\r\nEN\r\n", "{}", server.name);
        let items = String::from_utf8(talk.ask(b"stats items\r\n")).expect("text");
        assert!(items.contains("STAT items:31:number_temp 1\r\n"), "{}: {items}", server.name);
    }
}

#[test]
fn clients_can_crawl_expired_items_and_dump_all_items() {
    for server in Running::both(&["-o", "no_modern,lru_crawler"]) {
        let mut talk = server.connect();
        let mut requests = Vec::new();
        for number in 0..30 {
            write!(requests, "set gone{number} 0 1 2 noreply\r\nok\r\nset kept{number} 0 0 2 noreply\r\nok\r\n")
                .expect("memory");
        }
        talk.ask(&requests);
        let begin = Instant::now();
        // Nothing searches for expired items until a client asks for it.
        while talk.ask(b"lru_crawler crawl 1\r\n") != b"OK\r\n" || talk.stat("crawler_reclaimed") != "30" {
            assert!(begin.elapsed() < PATIENCE, "{}: {}", server.name, talk.stat("crawler_reclaimed"));
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(talk.stat("curr_items"), "30", "{}", server.name);
        for which in ["all", "hash", "1"] {
            let begin = Instant::now();
            let lines = loop {
                talk.say(format!("lru_crawler metadump {which}\r\n").as_bytes());
                let dump = talk.hear_until(b"\r\n");
                if dump.ends_with(b"END\r\n") {
                    break String::from_utf8(dump).expect("text");
                }
                assert!(begin.elapsed() < PATIENCE, "{}: {}", server.name, String::from_utf8_lossy(&dump));
            };
            let lines: Vec<&str> = lines.lines().collect();
            assert_eq!(lines.len(), 31, "{}: {which}", server.name);
            assert!(lines.iter().any(|line| line.starts_with("key=kept7 exp=-1 la=")), "{}", server.name);
            assert!(lines[0].contains(" cas=") && lines[0].contains(" fetch=no cls=1 size="), "{}", lines[0]);
        }
        let pipelined = b"EN\r\nERROR cannot pipeline other commands before metadump\r\n";
        assert_eq!(talk.ask(b"mg none\r\nlru_crawler metadump all\r\n"), pipelined, "{}", server.name);
        assert_eq!(talk.ask(b"lru_crawler disable\r\n"), b"OK\r\n", "{}", server.name);
    }
}
