//! The same operations as text, meta and binary requests: `stats` counts them equally, and as
//! memcached does.
//!
//! memcached counts a few operations differently in its protocols. Those have three expectations.

mod frames;
mod running;

use frames::{binary_answer, frame};
use running::{Running, Talk};
use std::collections::BTreeMap;

/// The key of all requests. The part before the colon is its prefix.
const KEY: &str = "p:k";

const PROTOCOLS: [&str; 3] = ["text", "meta", "binary"];

/// The counters of `stats` that are compared. Those of `stats detail dump` are added to them.
const NAMES: [&str; 23] = [
    "cmd_get",
    "cmd_set",
    "cmd_touch",
    "cmd_meta",
    "get_hits",
    "get_misses",
    "get_expired",
    "get_flushed",
    "delete_hits",
    "delete_misses",
    "incr_hits",
    "incr_misses",
    "decr_hits",
    "decr_misses",
    "cas_hits",
    "cas_misses",
    "cas_badval",
    "touch_hits",
    "touch_misses",
    "store_too_large",
    "store_no_memory",
    "curr_items",
    "total_items",
];

/// The item that exists before the operation.
#[derive(Clone, Copy, Debug)]
enum Before {
    Nothing,
    Item,
    /// An item that has expired.
    Expired,
    /// An item that has been flushed.
    Flushed,
}

impl Before {
    /// Returns requests that remove the key and then create this state.
    fn requests(self) -> String {
        let made = match self {
            Before::Nothing => "",
            Before::Item => "set p:k 0 0 1\r\n5\r\n",
            Before::Expired => "set p:k 0 -1 1\r\n5\r\n",
            Before::Flushed => "set p:k 0 0 1\r\n5\r\nflush_all\r\n",
        };
        format!("delete {KEY}\r\n{made}")
    }
}

/// An operation in three protocols. A protocol that does not have it has an empty request.
struct Case {
    name: &'static str,
    before: Before,
    requests: [Vec<u8>; 3],
    /// What `stats` counts.
    counted: [&'static str; 3],
    /// What `stats detail` counts for the prefix.
    prefix: [&'static str; 3],
}

/// The requests of an operation, and what `stats detail` counts for the prefix. It counts no meta
/// commands.
struct Operation([Vec<u8>; 3], [&'static str; 3]);

impl Operation {
    fn new(text: &str, meta: &str, binary: Vec<u8>, prefix: &'static str) -> Operation {
        let [text, meta] = [text, meta].map(|request| request.replace('~', KEY).into_bytes());
        Operation([text, meta, binary], [prefix, "", prefix])
    }

    fn case(&self, name: &'static str, before: Before, counted: [&'static str; 3]) -> Case {
        Case { name, before, requests: self.0.clone(), counted, prefix: self.1 }
    }
}

fn binary(opcode: u8, extras: &[u8], value: &[u8], unique: u64) -> Vec<u8> {
    frame(opcode, extras, KEY.as_bytes(), value, unique)
}

fn fetches() -> Vec<Case> {
    use Before::{Expired, Flushed, Item, Nothing};
    let get = Operation::new("get ~\r\n", "mg ~ v\r\n", binary(0x00, b"", b"", 0), "get+1");
    let hit = Operation::new("get ~\r\n", "mg ~ v\r\n", binary(0x00, b"", b"", 0), "get+1 hit+1");
    let mut touch = Operation::new("touch ~ 0\r\n", "mg ~ T0\r\n", binary(0x1c, &[0; 4], b"", 0), "get+1");
    let mut touch_hit = Operation::new("touch ~ 0\r\n", "mg ~ T0\r\n", binary(0x1c, &[0; 4], b"", 0), "get+1 hit+1");
    touch.1[0] = "";
    touch_hit.1[0] = "";
    let gat = Operation::new("gat 0 ~\r\n", "mg ~ T0 v\r\n", binary(0x1d, &[0; 4], b"", 0), "get+1");
    let gat_hit = Operation::new("gat 0 ~\r\n", "mg ~ T0 v\r\n", binary(0x1d, &[0; 4], b"", 0), "get+1 hit+1");
    // The meta command is a get until it finds something to touch.
    let untouched = |text, meta| [text, meta, text];
    let missed = untouched("cmd_touch+1 touch_misses+1", "cmd_get+1 get_misses+1");
    let expired = untouched(
        "cmd_touch+1 curr_items-1 get_expired+1 touch_misses+1",
        "cmd_get+1 curr_items-1 get_expired+1 get_misses+1",
    );
    let flushed = untouched(
        "cmd_touch+1 curr_items-1 get_flushed+1 touch_misses+1",
        "cmd_get+1 curr_items-1 get_flushed+1 get_misses+1",
    );
    vec![
        hit.case("get", Item, ["cmd_get+1 get_hits+1"; 3]),
        get.case("get", Nothing, ["cmd_get+1 get_misses+1"; 3]),
        get.case("get", Expired, ["cmd_get+1 curr_items-1 get_expired+1 get_misses+1"; 3]),
        get.case("get", Flushed, ["cmd_get+1 curr_items-1 get_flushed+1 get_misses+1"; 3]),
        touch_hit.case("touch", Item, ["cmd_touch+1 touch_hits+1"; 3]),
        touch.case("touch", Nothing, missed),
        touch.case("touch", Expired, expired),
        touch.case("touch", Flushed, flushed),
        gat_hit.case("get and touch", Item, ["cmd_touch+1 touch_hits+1"; 3]),
        gat.case("get and touch", Nothing, missed),
        gat.case("get and touch", Expired, expired),
        gat.case("get and touch", Flushed, flushed),
    ]
}

fn deletions() -> Vec<Case> {
    use Before::{Expired, Flushed, Item, Nothing};
    let delete = Operation::new("delete ~\r\n", "md ~\r\n", binary(0x04, b"", b"", 0), "del+1");
    let compared = Operation::new("", "md ~ C99999\r\n", binary(0x04, b"", b"", 99999), "del+1");
    vec![
        delete.case("delete", Item, ["curr_items-1 delete_hits+1"; 3]),
        delete.case("delete", Nothing, ["delete_misses+1"; 3]),
        delete.case("delete", Expired, ["curr_items-1 delete_misses+1 get_expired+1"; 3]),
        delete.case("delete", Flushed, ["curr_items-1 delete_misses+1 get_flushed+1"; 3]),
        compared.case("delete of another unique number", Item, ["", "delete_misses+1", ""]),
        compared.case("delete of another unique number", Nothing, ["delete_misses+1"; 3]),
    ]
}

fn calculations() -> Vec<Case> {
    use Before::{Expired, Flushed, Item, Nothing};
    // The delta, the initial value, and an expiry that asks not to create an item, or asks for it.
    let extras = |expiry: u32| [&1u64.to_be_bytes()[..], &5u64.to_be_bytes(), &expiry.to_be_bytes()].concat();
    let incr = Operation::new("incr ~ 1\r\n", "ma ~\r\n", binary(0x05, &extras(u32::MAX), b"", 0), "");
    let decr = Operation::new("decr ~ 1\r\n", "ma ~ MD\r\n", binary(0x06, &extras(u32::MAX), b"", 0), "");
    let vivify = Operation::new("", "ma ~ N0 J5\r\n", binary(0x05, &extras(0), b"", 0), "");
    let compared = Operation::new("", "ma ~ C99999\r\n", binary(0x05, &extras(u32::MAX), b"", 99999), "");
    vec![
        incr.case("incr", Item, ["incr_hits+1"; 3]),
        incr.case("incr", Nothing, ["incr_misses+1"; 3]),
        incr.case("incr", Expired, ["curr_items-1 get_expired+1 incr_misses+1"; 3]),
        incr.case("incr", Flushed, ["curr_items-1 get_flushed+1 incr_misses+1"; 3]),
        decr.case("decr", Item, ["decr_hits+1"; 3]),
        decr.case("decr", Nothing, ["decr_misses+1"; 3]),
        vivify.case("incr that may create", Item, ["incr_hits+1"; 3]),
        vivify.case("incr that may create", Nothing, ["curr_items+1 total_items+1"; 3]),
        vivify.case("incr that may create", Flushed, ["get_flushed+1 total_items+1"; 3]),
        compared.case("incr of another unique number", Item, [""; 3]),
    ]
}

fn stores() -> Vec<Case> {
    use Before::{Item, Nothing};
    let store = |verb: &str, mode: &str, opcode: u8| {
        let extras: &[u8] = if opcode < 0x0e { &[0; 8] } else { b"" };
        let text = format!("{verb} ~ 0 0 1\r\n7\r\n");
        Operation::new(&text, &format!("ms ~ 1 {mode}\r\n7\r\n"), binary(opcode, extras, b"7", 0), "set+1")
    };
    let [set, add, replace] =
        [("set", "MS", 1), ("add", "ME", 2), ("replace", "MR", 3)].map(|(a, b, c)| store(a, b, c));
    let append = store("append", "MA", 0x0e);
    let compared = Operation::new(
        "cas ~ 0 0 1 99999\r\n7\r\n",
        "ms ~ 1 C99999\r\n7\r\n",
        binary(0x01, &[0; 8], b"7", 99999),
        "set+1",
    );
    let bad_end = Operation::new("set ~ 0 0 1\r\n7xx\r\n", "ms ~ 1\r\n7xx\r\n", Vec::new(), "set+1");
    let huge = "x".repeat(1_048_600);
    let large = |verb: &str, mode: &str, opcode: u8| {
        let length = huge.len();
        let text = format!("{verb} ~ 0 0 {length}\r\n{huge}\r\n");
        let meta = format!("ms ~ {length} {mode}\r\n{huge}\r\n");
        Operation::new(&text, &meta, binary(opcode, &[0; 8], huge.as_bytes(), 0), "set+1")
    };
    vec![
        set.case("set", Item, ["cmd_set+1 total_items+1"; 3]),
        set.case("set", Nothing, ["cmd_set+1 curr_items+1 total_items+1"; 3]),
        add.case("add", Item, ["cmd_set+1"; 3]),
        add.case("add", Nothing, ["cmd_set+1 curr_items+1 total_items+1"; 3]),
        replace.case("replace", Item, ["cmd_set+1 total_items+1"; 3]),
        replace.case("replace", Nothing, ["cmd_set+1"; 3]),
        append.case("append", Item, ["cmd_set+1 total_items+1"; 3]),
        append.case("append", Nothing, ["cmd_set+1"; 3]),
        compared.case("cas", Item, ["cas_badval+1 cmd_set+1"; 3]),
        compared.case("cas", Nothing, ["cas_misses+1 cmd_set+1"; 3]),
        bad_end.case("value with a wrong end", Item, ["cmd_set+1"; 3]),
        bad_end.case("value with a wrong end", Nothing, ["cmd_set+1"; 3]),
        large("set", "MS", 1).case(
            "large set",
            Item,
            ["curr_items-1 store_too_large+1", "curr_items-1 store_too_large+1", "curr_items-1"],
        ),
        // A meta command that finds no room removes the item, whatever its mode.
        large("add", "ME", 2).case("large add", Item, ["store_too_large+1", "curr_items-1 store_too_large+1", ""]),
        large("add", "ME", 2).case("large add", Nothing, ["store_too_large+1", "store_too_large+1", ""]),
    ]
}

/// Returns the answers to text requests. Unlike `Talk::ask` it asks for no key, so that nothing
/// else is counted.
fn ask(talk: &mut Talk, requests: &[u8]) -> String {
    talk.say(requests);
    talk.say(b"mn\r\n");
    String::from_utf8(talk.hear_until(b"MN\r\n")).expect("text")
}

/// Returns all counters by name: those of `stats`, and those of the prefix.
fn counters(talk: &mut Talk) -> [BTreeMap<String, i64>; 2] {
    let number = |word: &str| word.parse::<i64>().expect("a number");
    let stats = ask(talk, b"stats\r\n");
    let words = stats.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    let stats = words.filter(|(name, _)| NAMES.contains(name)).map(|(name, value)| (name.to_owned(), number(value)));
    let stats: BTreeMap<_, _> = stats.collect();
    assert_eq!(stats.len(), NAMES.len());
    let detail = ask(talk, b"stats detail dump\r\n");
    let words: Vec<&str> = detail.lines().next().expect("a line").split(' ').skip(2).collect();
    let prefix = words.chunks_exact(2).map(|pair| (pair[0].to_owned(), number(pair[1]))).collect();
    [stats, prefix]
}

/// Returns the counters that differ, with their differences.
fn difference(before: &BTreeMap<String, i64>, after: &BTreeMap<String, i64>) -> String {
    let changed = |(name, now): (&String, &i64)| {
        let by = now - before.get(name).unwrap_or(&0);
        (by != 0).then(|| format!("{name}{by:+}"))
    };
    after.iter().filter_map(changed).collect::<Vec<_>>().join(" ")
}

#[test]
fn operations_are_counted_as_memcached_counts_them_in_each_protocol() {
    // Background work of memcached would remove expired items at any time.
    let mut wrong = Vec::new();
    for server in Running::both(&["-o", "no_lru_maintainer,no_lru_crawler,no_slab_reassign"]) {
        let mut watcher = server.connect();
        // The key is counted once, so that its prefix is known.
        ask(&mut watcher, format!("stats detail on\r\nget {KEY}\r\n").as_bytes());
        for case in [fetches(), deletions(), calculations(), stores()].into_iter().flatten() {
            for protocol in (0..3).filter(|protocol| !case.requests[*protocol].is_empty()) {
                ask(&mut watcher, case.before.requests().as_bytes());
                let before = counters(&mut watcher);
                let mut talk = server.connect();
                if protocol == 2 {
                    talk.say(&case.requests[protocol]);
                    binary_answer(&mut talk);
                } else {
                    ask(&mut talk, &case.requests[protocol]);
                }
                let after = counters(&mut watcher);
                let said = [0, 1].map(|kind| difference(&before[kind], &after[kind]));
                let wanted = [case.counted[protocol], case.prefix[protocol]];
                if said != wanted {
                    let (name, state) = (case.name, case.before);
                    let protocol = PROTOCOLS[protocol];
                    wrong.push(format!("{} {protocol} {name} of {state:?}: {said:?}, not {wanted:?}", server.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
