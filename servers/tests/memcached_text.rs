//! Requests and answers of the text protocol. Each test runs against this server and, where it is
//! installed, against memcached: memcached's answers are expected.

mod running;

use running::{Running, Talk};

/// Sends requests over one connection to each server, and checks their answers.
fn expect(options: &[&str], exchanges: &[(&[u8], &[u8])]) {
    for server in Running::both(options) {
        let mut talk = server.connect();
        for (request, answer) in exchanges {
            let heard = talk.ask(request);
            let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
            assert_eq!(shown(&heard), shown(answer), "{}: {}", server.name, shown(request));
            assert_eq!(heard.len(), answer.len());
        }
    }
}

#[test]
fn stored_values_are_returned() {
    expect(
        &[],
        &[
            (b"set a 5 0 3\r\nabc\r\n", b"STORED\r\n"),
            (b"get a\r\n", b"VALUE a 5 3\r\nabc\r\nEND\r\n"),
            (b"get a b a\r\n", b"VALUE a 5 3\r\nabc\r\nVALUE a 5 3\r\nabc\r\nEND\r\n"),
            (b"gets a\r\n", b"VALUE a 5 3 1\r\nabc\r\nEND\r\n"),
            (b"set empty 0 0 0\r\n\r\nget empty\r\n", b"STORED\r\nVALUE empty 0 0\r\n\r\nEND\r\n"),
            (b"set crlf 0 0 4\r\n\r\n\r\n\r\nget crlf\r\n", b"STORED\r\nVALUE crlf 0 4\r\n\r\n\r\n\r\nEND\r\n"),
            (b"  get   a  \r\n", b"VALUE a 5 3\r\nabc\r\nEND\r\n"),
            (b"get a\n", b"VALUE a 5 3\r\nabc\r\nEND\r\n"),
        ],
    );
}

#[test]
fn each_verb_has_its_condition() {
    expect(
        &[],
        &[
            (b"replace a 0 0 1\r\nx\r\n", b"NOT_STORED\r\n"),
            (b"append a 0 0 1\r\nx\r\n", b"NOT_STORED\r\n"),
            (b"cas a 0 0 1 1\r\nx\r\n", b"NOT_FOUND\r\n"),
            (b"add a 7 0 1\r\nx\r\n", b"STORED\r\n"),
            (b"add a 0 0 1\r\ny\r\n", b"NOT_STORED\r\n"),
            (b"append a 1 1 2\r\nyz\r\nprepend a 1 1 1\r\nw\r\n", b"STORED\r\nSTORED\r\n"),
            (b"gets a\r\n", b"VALUE a 7 4 3\r\nwxyz\r\nEND\r\n"),
            (b"cas a 0 0 1 1\r\nq\r\n", b"EXISTS\r\n"),
            (b"cas a 0 0 1 3\r\nq\r\n", b"STORED\r\n"),
            (b"replace a 0 0 1\r\nr\r\ngets a\r\n", b"STORED\r\nVALUE a 0 1 5\r\nr\r\nEND\r\n"),
            (b"delete a\r\ndelete a\r\n", b"DELETED\r\nNOT_FOUND\r\n"),
        ],
    );
}

#[test]
fn noreply_hides_answers_and_most_errors() {
    expect(
        &[],
        &[
            (b"set a 0 0 1 noreply\r\nx\r\nget a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n"),
            (b"set a 0 b 1 noreply\r\n", b""),
            (b"set a 0 0 1 noreply\r\nxyz\r\n", b"ERROR\r\n"),
            (
                b"set n 0 0 1 noreply\r\n1\r\nincr n 1 noreply\r\nincr n x noreply\r\nget n\r\n",
                b"VALUE n 0 1\r\n2\r\nEND\r\n",
            ),
            (b"touch n 0 noreply\r\ndelete n noreply\r\nflush_all noreply\r\nverbosity 0 noreply\r\n", b""),
            (b"delete n 0 noreply\r\nflush_all 0 noreply\r\n", b""),
            (b"cache_memlimit 0 noreply\r\ncache_memlimit x noreply\r\n", b""),
        ],
    );
}

#[test]
fn numbers_are_parsed_like_the_c_library_does() {
    let malformed = b"CLIENT_ERROR bad command line format\r\n".as_slice();
    expect(
        &[],
        &[
            (b"set a -1 0 1\r\n", malformed),
            (b"set a x 0 1\r\n", malformed),
            (b"set a 1x 0 1\r\n", malformed),
            (b"set a 0 x 1\r\n", malformed),
            (b"set a 0 0 -1\r\n", malformed),
            (b"set a 0 0 2147483646\r\n", malformed),
            (b"set a 0 0 2147483648\r\n", malformed),
            (b"set a 0 0 99999999999999999999\r\n", malformed),
            (b"set a 0 0 4294967297\r\nx\r\n", b"STORED\r\n"),
            (b"set a 4294967295 0 1\r\nx\r\nget a\r\n", b"STORED\r\nVALUE a 4294967295 1\r\nx\r\nEND\r\n"),
            (b"set a 4294967298 0 1\r\nx\r\nget a\r\n", b"STORED\r\nVALUE a 2 1\r\nx\r\nEND\r\n"),
            (b"set a +5 -0 +1\r\nx\r\nget a\r\n", b"STORED\r\nVALUE a 5 1\r\nx\r\nEND\r\n"),
            (b"set a -0 0 1\r\nx\r\nget a\r\n", b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"),
            (b"set a \t 0 1\r\n", malformed),
            (b"cas a 0 0 1 x\r\n", malformed),
            (b"cas a 0 0 1 18446744073709551616\r\n", malformed),
            (b"touch a x\r\n", b"CLIENT_ERROR invalid exptime argument\r\n"),
            (b"gat x a\r\n", b"CLIENT_ERROR invalid exptime argument\r\n"),
            (b"flush_all x\r\n", b"CLIENT_ERROR invalid exptime argument\r\n"),
        ],
    );
}

#[test]
fn arithmetic_wraps_and_stops_at_zero() {
    let not_numeric = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n".as_slice();
    let invalid = b"CLIENT_ERROR invalid numeric delta argument\r\n".as_slice();
    expect(
        &[],
        &[
            (b"incr n 1\r\ndecr n 1\r\n", b"NOT_FOUND\r\nNOT_FOUND\r\n"),
            (b"set n 3 0 2\r\n99\r\nincr n 1\r\ngets n\r\n", b"STORED\r\n100\r\nVALUE n 3 3 2\r\n100\r\nEND\r\n"),
            (b"decr n 1\r\n", b"99\r\n"),
            (b"decr n 100\r\n", b"0\r\n"),
            (b"set n 0 0 20\r\n18446744073709551615\r\nincr n 2\r\n", b"STORED\r\n1\r\n"),
            (b"incr n -1\r\n", invalid),
            (b"incr n 18446744073709551616\r\n", invalid),
            (b"incr n\r\n", b"ERROR\r\n"),
            (b"set n 0 0 1\r\nx\r\nincr n 1\r\n", &[b"STORED\r\n", not_numeric].concat()),
            (b"set n 0 0 0\r\n\r\nincr n 1\r\n", &[b"STORED\r\n", not_numeric].concat()),
            (b"set n 0 0 4\r\n 5 x\r\nincr n 1\r\n", b"STORED\r\n6\r\n"),
            (b"set n 0 0 21\r\n118446744073709551615\r\nincr n 1\r\n", &[b"STORED\r\n", not_numeric].concat()),
            (b"set n 0 0 1\r\n \r\nincr n 1\r\n", &[b"STORED\r\n", not_numeric].concat()),
            (b"set n 0 0 2\r\n x\r\nincr n 1\r\n", &[b"STORED\r\n", not_numeric].concat()),
            (b"set n 0 0 2\r\n7\0\r\nincr n 1\r\n", b"STORED\r\n8\r\n"),
        ],
    );
}

/// memcached does so, too, but not while another request holds the item.
#[test]
fn a_number_that_gets_shorter_is_padded_with_blanks() {
    let server = Running::sinew(&[]);
    let mut talk = server.connect();
    assert_eq!(
        talk.ask(b"set n 3 0 3\r\n100\r\ndecr n 1\r\ngets n\r\n"),
        b"STORED\r\n99\r\nVALUE n 3 3 2\r\n99 \r\nEND\r\n"
    );
    assert_eq!(talk.ask(b"decr n 100\r\nget n\r\nincr n 7\r\n"), b"0\r\nVALUE n 3 3\r\n0  \r\nEND\r\n7\r\n");
}

#[test]
fn keys_have_at_most_250_bytes_and_no_blanks() {
    let (fits, long) = ("k".repeat(250), "k".repeat(251));
    let malformed = b"CLIENT_ERROR bad command line format\r\n".as_slice();
    let request = |before: &str, key: &str, after: &str| format!("{before} {key}{after}\r\n").into_bytes();
    expect(
        &[],
        &[
            (&request("set", &fits, " 0 0 1\r\nx"), b"STORED\r\n"),
            (&request("get", &fits, ""), &[b"VALUE ", fits.as_bytes(), b" 0 1\r\nx\r\nEND\r\n"].concat()),
            (&request("get", &long, ""), malformed),
            (&request("get a b", &long, " c"), malformed),
            (&request("gat 0", &long, ""), malformed),
            (&request("set", &long, " 0 0 1"), malformed),
            (&request("incr", &long, " 1"), malformed),
            (&request("touch", &long, " 1"), malformed),
            (&request("delete", &long, ""), malformed),
            (&request("mg", &long, " v"), malformed),
            (&request("ms", &long, " 1"), malformed),
            (&request("md", &long, ""), malformed),
            (&request("ma", &long, ""), malformed),
            (&request("me", &long, ""), malformed),
            (b"set a\x01\t\x7f\xff 0 0 1\r\nx\r\n", b"STORED\r\n"),
            (b"get a\x01\t\x7f\xff\r\n", b"VALUE a\x01\t\x7f\xff 0 1\r\nx\r\nEND\r\n"),
            (b"set b 0 0 1\r\ny\r\nget b\x00nonsense\r\n", b"STORED\r\nVALUE b 0 1\r\ny\r\nEND\r\n"),
        ],
    );
}

#[test]
fn unknown_commands_get_an_error_and_nothing_else() {
    let error = b"ERROR\r\n".as_slice();
    let usage = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n".as_slice();
    let bare: &[&[u8]] = &[
        b"",
        b" ",
        b"GET a",
        b"get",
        b"gets",
        b"gat",
        b"set",
        b"set a 0 0",
        b"set a 0 0 1 noreply x",
        b"cas a 0 0 1",
        b"incr a",
        b"incr a 1 2 3",
        b"touch a",
        b"delete",
        b"delete a 0 1 2",
        b"flush_all 1 2 3",
        b"verbosity",
        b"verbosity 1 2 3",
        b"mg",
        b"ms",
        b"md",
        b"ma",
        b"mx a",
        b"m",
        b"stats nothing",
        b"slabs",
        b"lru",
    ];
    let requests: Vec<Vec<u8>> = bare.iter().map(|line| [line, b"\r\n".as_slice()].concat()).collect();
    let exchanges: Vec<(&[u8], &[u8])> = requests.iter().map(|request| (request.as_slice(), error)).collect();
    expect(&[], &exchanges);
    expect(&[], &[(b"delete a 1\r\n", usage), (b"delete a x y\r\n", usage), (b"gat 10\r\n", b"END\r\n")]);
    expect(&[], &[(b"quit\r\n", b"<closed>")]);
    expect(&[], &[(b"shutdown\r\n", b"ERROR: shutdown not enabled\r\n"), (b"version\r\n", b"VERSION 1.6.18\r\n")]);
}

#[test]
fn data_with_a_wrong_end_is_refused() {
    let bad = b"CLIENT_ERROR bad data chunk\r\n".as_slice();
    expect(
        &[],
        &[
            (b"set a 0 0 1\r\nx\r\n", b"STORED\r\n"),
            (b"set a 0 0 1\r\nxyz\r\nget a\r\n", &[bad, b"ERROR\r\nVALUE a 0 1\r\nx\r\nEND\r\n"].concat()),
            (b"set a 0 0 1\nx\nget a\r\nget a\r\n", &[bad, b"ERROR\r\nVALUE a 0 1\r\nx\r\nEND\r\n"].concat()),
            (b"ms a 1 q\r\nxyz\r\n", &[bad, b"ERROR\r\n"].concat()),
        ],
    );
}

#[test]
fn oversized_values_are_refused_and_the_connection_stays_usable() {
    let large = b"SERVER_ERROR object too large for cache\r\n".as_slice();
    // 1048516 bytes is the longest value in memcached, with a key of one byte.
    let store = |line: &str, length: usize| [line.as_bytes(), b"\r\n", &vec![b'x'; length], b"\r\n"].concat();
    expect(
        &[],
        &[
            (&store("set a 0 0 1048516", 1_048_516), b"STORED\r\n"),
            (&store("set a 0 0 1048517", 1_048_517), large),
            (b"get a\r\n", b"END\r\n"),
            (&store("set a 1 0 1048513", 1_048_513), large),
            (&store("set a 1 0 1048512", 1_048_512), b"STORED\r\n"),
            (&store("add b 0 0 1048517 noreply", 1_048_517), b""),
            (&store("ms a 1048517 q", 1_048_517), large),
            (b"get a b\r\n", b"END\r\n"),
            (b"set a 0 0 1\r\nx\r\nget a\r\n", b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"),
        ],
    );
    let fits = (store("set a 0 0 2097092", 2_097_092), store("set a 0 0 2097093", 2_097_093));
    expect(&["-I", "2m"], &[(&fits.0, b"STORED\r\n"), (&fits.1, large)]);
    let (first, second) = (store("set a 0 0 600000", 600_000), store("append a 0 0 600000", 600_000));
    expect(&[], &[(&first, b"STORED\r\n"), (&second, b"NOT_STORED\r\n")]);
}

#[test]
fn a_line_without_end_closes_the_connection_unless_it_asks_for_keys() {
    for server in Running::both(&[]) {
        let mut talk = server.connect();
        talk.say(&[b'x'; 2048]);
        assert_eq!(talk.ask(b"\r\n"), b"ERROR\r\n", "{}", server.name);
        talk.say(&[b'x'; 2049]);
        assert_eq!(talk.hear(1), b"", "{}", server.name);
        let mut talk = server.connect();
        let keys: String = (0..20_000).map(|number| format!(" key{number}")).collect();
        talk.ask(b"set key19999 0 0 1\r\nx\r\n");
        assert_eq!(
            talk.ask(format!("get{keys}\r\n").as_bytes()),
            b"VALUE key19999 0 1\r\nx\r\nEND\r\n",
            "{}",
            server.name
        );
    }
}

#[test]
fn items_expire_by_duration_and_by_date() {
    let date = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a date").as_secs();
    for server in Running::both(&[]) {
        let mut talk = server.connect();
        assert_eq!(talk.ask(b"set past 0 -1 1\r\nx\r\nget past\r\n"), b"STORED\r\nEND\r\n", "{}", server.name);
        assert_eq!(talk.ask(b"set past 0 2592001 1\r\nx\r\nget past\r\n"), b"STORED\r\nEND\r\n", "{}", server.name);
        for expiry in [0, 1000, 2_592_000, date + 1000] {
            let request = format!("set later 0 {expiry} 1\r\nx\r\nget later\r\n");
            assert_eq!(talk.ask(request.as_bytes()), b"STORED\r\nVALUE later 0 1\r\nx\r\nEND\r\n", "{}", server.name);
        }
        talk.ask(b"set soon 0 1 1\r\nx\r\nset touched 0 0 1\r\ny\r\nset kept 0 1 1\r\nz\r\n");
        assert_eq!(talk.ask(b"touch kept 0\r\n"), b"TOUCHED\r\n");
        assert_eq!(talk.ask(format!("touch touched {}\r\n", date + 1).as_bytes()), b"TOUCHED\r\n");
        until(&mut talk, b"get soon touched\r\n", b"END\r\n");
        assert_eq!(talk.ask(b"gat 1 kept\r\n"), b"VALUE kept 0 1\r\nz\r\nEND\r\n", "{}", server.name);
        until(&mut talk, b"get kept\r\n", b"END\r\n");
        assert_eq!(talk.ask(b"add kept 0 0 1\r\nn\r\n"), b"STORED\r\n", "{}", server.name);
    }
}

/// Repeats a request until it gets this answer.
fn until(talk: &mut Talk, request: &[u8], answer: &[u8]) {
    let begin = std::time::Instant::now();
    while talk.ask(request) != answer {
        assert!(begin.elapsed() < running::PATIENCE, "the server never answers {}", String::from_utf8_lossy(answer));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_flush_removes_items_now_or_later() {
    for server in Running::both(&[]) {
        let mut talk = server.connect();
        talk.ask(b"set a 0 0 1\r\nx\r\n");
        assert_eq!(talk.ask(b"flush_all\r\nget a\r\n"), b"OK\r\nEND\r\n", "{}", server.name);
        assert_eq!(
            talk.ask(b"set a 0 0 1\r\nx\r\nget a\r\n"),
            b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
            "{}",
            server.name
        );
        assert_eq!(talk.ask(b"flush_all 2\r\nget a\r\n"), b"OK\r\nVALUE a 0 1\r\nx\r\nEND\r\n", "{}", server.name);
        until(&mut talk, b"get a\r\n", b"END\r\n");
        assert_eq!(talk.ask(b"add a 0 0 1\r\ny\r\n"), b"STORED\r\n", "{}", server.name);
    }
    let refused = b"CLIENT_ERROR flush_all not allowed\r\n";
    expect(
        &["-F"],
        &[(
            b"set a 0 0 1\r\nx\r\nflush_all\r\nget a\r\n",
            &[b"STORED\r\n", refused.as_slice(), b"VALUE a 0 1\r\nx\r\nEND\r\n"].concat(),
        )],
    );
}

#[test]
fn meta_commands_do_what_their_flags_say() {
    expect(
        &[],
        &[
            (b"mg a v\r\nmg a v k Oq\r\nmg a v q\r\n", b"EN\r\nEN ka Oq\r\n"),
            (b"ms a 2 T0 F7 c k O1\r\nxy\r\n", b"HD c1 ka O1\r\n"),
            (
                b"mg a\r\nmg a v\r\nmg a h t s f c k O2 v\r\n",
                b"HD\r\nVA 2\r\nxy\r\nVA 2 h1 t-1 s2 f7 c1 ka O2\r\nxy\r\n",
            ),
            (b"ms b 1\r\nx\r\nmg b u h\r\nmg b h\r\nmg b h\r\n", b"HD\r\nHD h0\r\nHD h0\r\nHD h1\r\n"),
            (
                b"ms a 1 ME\r\nz\r\nms c 1 MR\r\nz\r\nms a 1 MA q\r\nz\r\nms a 1 MP\r\nw\r\nmg a v\r\n",
                b"NS\r\nNS\r\nHD\r\nVA 4\r\nwxyz\r\n",
            ),
            (b"ms a 1 C99\r\nz\r\nms c 1 C1\r\nz\r\nms a 1 C4 c\r\nz\r\n", b"EX\r\nNF\r\nHD c5\r\n"),
            (
                b"md a I\r\nmg a v c\r\nmg a v\r\nms a 1 I C1\r\ny\r\nmg a v\r\n",
                b"HD\r\nVA 1 c6 X W\r\nz\r\nVA 1 Z X\r\nz\r\nHD\r\nVA 1 Z X\r\ny\r\n",
            ),
            (b"md a C1\r\nmd a q\r\nmd a q k O3\r\n", b"EX\r\nNF ka O3\r\n"),
            (
                b"mg v N100 v\r\nmg v N100 v\r\nms v 1\r\nx\r\nmg v v\r\n",
                b"VA 0 W\r\n\r\nVA 0 Z\r\n\r\nHD\r\nVA 1\r\nx\r\n",
            ),
            (b"ms r 1 T100\r\nx\r\nmg r R30\r\nmg r R500\r\nmg r R500\r\n", b"HD\r\nHD\r\nHD W\r\nHD Z\r\n"),
            (
                b"ma n\r\nma n N0 J9 v\r\nma n v D11 k\r\nma n MD D50 v\r\nma n q\r\nma n Oo c\r\n",
                b"NF\r\nVA 1\r\n9\r\nVA 2 kn\r\n20\r\nVA 1\r\n0\r\nHD Oo c15\r\n",
            ),
            (
                b"ms YWJj 1 b k\r\nx\r\nmg abc k v\r\nmg YWJj b k\r\nmd YWJj b k\r\n",
                b"HD kYWJj b\r\nVA 1 kYWJj b\r\nx\r\nHD kYWJj b\r\nHD kYWJj b\r\n",
            ),
        ],
    );
}

#[test]
fn meta_errors_equal_those_of_memcached() {
    expect(
        &[],
        &[
            (b"ms a\r\n", b"CLIENT_ERROR bad command line format\r\n"),
            (b"ms a x\r\n", b"CLIENT_ERROR bad command line format\r\n"),
            (b"ms a -1\r\n", b"CLIENT_ERROR bad command line format\r\n"),
            (b"ms a 1 v v\r\nx\r\n", b"CLIENT_ERROR duplicate flag\r\n"),
            (b"ms a 1 z\r\nx\r\n", b"CLIENT_ERROR invalid flag\r\n"),
            (b"ms a 1 MZ\r\nx\r\n", b"CLIENT_ERROR invalid mode for ms M token\r\n"),
            (b"ms a 1 Mset\r\nx\r\n", b"CLIENT_ERROR incorrect length for M token\r\n"),
            (b"ms a 1 Tx Mset\r\nx\r\n", b"CLIENT_ERROR incorrect length for M token\r\n"),
            (b"ms a 1 Fx\r\nx\r\n", b"CLIENT_ERROR bad command line format\r\n"),
            (b"mg a Tx\r\n", b"CLIENT_ERROR bad token in command line format\r\n"),
            (b"mg a \xff\r\n", b"CLIENT_ERROR duplicate flag\r\n"),
            (b"mg !! b\r\n", b"CLIENT_ERROR error decoding key\r\n"),
            (b"mg abc b\r\n", b"CLIENT_ERROR error decoding key\r\n"),
            (
                b"md a z\r\nma a z\r\n",
                b"CLIENT_ERROR invalid or duplicate flag\r\nCLIENT_ERROR invalid or duplicate flag\r\n",
            ),
            (b"ma a MZ\r\n", b"CLIENT_ERROR invalid mode for ma M token\r\n"),
            (b"mg a O12345678901234567890123456789012\r\n", b"CLIENT_ERROR opaque token too long\r\n"),
            (b"mg a O1234567890123456789012345678901\r\n", b"EN O1234567890123456789012345678901\r\n"),
            (b"mg a 1 2 3 4 5 6 7 8 9 0 a b c d e f g h\r\n", b"CLIENT_ERROR options flags are too long\r\n"),
            (b"me a\r\nme\r\n", b"EN\r\nCLIENT_ERROR bad command line format\r\n"),
        ],
    );
}

#[test]
fn an_http_request_closes_the_connection_and_its_body_is_not_read() {
    const BODY: &[u8] = b"set from_a_page 0 0 1\r\nx\r\n";
    let closing: [&[u8]; 6] = [
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 28\r\n\r\n",
        b"GET / HTTP/1.1\r\n",
        b"OPTIONS * HTTP/1.0\n",
        b"post   /   HTTP/  \r\n",
        b"PUT /a b c d e f g h i j k l m n o p q HTTP/1.1\r\n",
        b"HTTP/1.1 200 HTTP/1.1\r\n",
    ];
    let harmless: [(&[u8], &[u8]); 6] = [
        (b"get / HTTP/1.1\r\n", b"END\r\n"),
        (b"delete HTTP/1.1\r\n", b"NOT_FOUND\r\n"),
        (b"mg HTTP/1.1\r\n", b"EN\r\n"),
        (b"POST / http/1.1\r\n", b"ERROR\r\n"),
        (b"POST HTTP/1.1 /\r\n", b"ERROR\r\n"),
        (b"set / HTTP/1.1\r\n", b"ERROR\r\n"),
    ];
    expect(&[], &harmless);
    for server in Running::both(&[]) {
        for head in closing {
            let mut talk = server.connect();
            // The connection may be closed before everything has been sent.
            let _ = std::io::Write::write_all(&mut talk.stream, &[head, BODY].concat());
            let shown = String::from_utf8_lossy(head);
            assert_eq!(talk.hear(1), b"", "{}: {shown}", server.name);
            assert_eq!(server.connect().ask(b"get from_a_page\r\n"), b"END\r\n", "{}: {shown}", server.name);
        }
    }
}
