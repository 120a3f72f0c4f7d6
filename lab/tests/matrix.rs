//! Every experiment with every peer that is compiled in or installed, for 50 ms each. All of
//! them end, or are known not to, and their figures are possible.

mod lab;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lab::{Folder, command, lab, stderr, stdout};
use serde_json::Value;

/// Experiments and peers that cannot do them, by design.
const CANNOT: [(&str, &str); 10] = [
    ("migrate", "sinew/default"),
    ("migrate", "tokio"),
    ("migrate", "may"),
    ("migrate", "threads"),
    ("migrate", "sinew/tasks"),
    ("migrate", "sinew/tasks/inverted"),
    ("migrate", "sinew/tasks/shared"),
    ("placement", "threads"),
    ("waiters", "may"),
    ("waiters", "threads"),
];

/// Sinew's fibres, which some experiments are made for.
const FIBRES: [&str; 5] = ["sinew/default", "sinew/fair", "sinew/threads", "sinew/inverted", "sinew/shared"];

/// Peers that are servers only, and the experiments that have them.
const SERVERS: [(&str, &[&str]); 19] = [
    ("sinew/default/epoll", &["web"]),
    ("sinew/fair/epoll", &["web"]),
    ("bare/epoll", &["web", "connections"]),
    ("bare/ring", &["web"]),
    ("bare/ring/both", &["web"]),
    ("tokio-uring", &["web"]),
    ("monoio", &["web"]),
    ("tokio/current", &["web", "connections", "hyper"]),
    ("sinew/coloured", &[]),
    ("sinew/coloured/off", &[]),
    ("sinew/coloured/base", &[]),
    ("sinew/coloured/time", &[]),
    ("sinew/random", &[]),
    ("sinew/locality/l", &[]),
    ("sinew/locality/a", &[]),
    ("tokio/actors", &[]),
    ("ractor", &[]),
    ("kameo", &[]),
    ("actix", &[]),
];

/// The peers of experiments that name them.
const BATCHES: [&str; 8] = [
    "sinew/default",
    "sinew/fair",
    "sinew/default/epoll",
    "sinew/fair/epoll",
    "tokio/current",
    "bare/epoll",
    "bare/ring",
    "bare/ring/both",
];
const LATENCY: [&str; 6] =
    ["sinew/default", "sinew/fair", "sinew/default/epoll", "sinew/fair/epoll", "tokio", "tokio/current"];
const EVENTS: [&str; 5] =
    ["sinew/default", "sinew/coloured", "sinew/coloured/off", "sinew/coloured/base", "sinew/coloured/time"];
const ACTORS: [&str; 8] = [
    "sinew/default",
    "sinew/random",
    "sinew/locality/l",
    "sinew/locality/a",
    "tokio/actors",
    "ractor",
    "kameo",
    "actix",
];
const READING: [&str; 4] = ["sinew/default", "sinew/default/epoll", "tokio", "threads"];

/// Benchmarks of actors with a fixed amount of work. They are also written in other languages.
const NINE: [&str; 9] = ["big", "bang", "logm", "apsp", "cdict", "csll", "nqn", "trapr", "pubsub"];

/// Experiments whose every server is another program.
const OF_PROGRAMS: [&str; 6] = ["files", "slow", "memcached", "memcached-beside", "memcached-skew", "memcached-memory"];

/// Programs that are not compiled in: measured where they are installed or built.
const PROGRAMS: [&str; 7] = ["go", "erlang", "caf", "nginx", "memcached", "sinew/web", "sinew/web/epoll"];

/// Peers that are measured where the kernel permits io_uring.
const BY_RING: [&str; 4] = ["bare/ring", "bare/ring/both", "tokio-uring", "monoio"];

/// Peers that need not complete: they have no answer to the spinning leader. Kernel threads do,
/// but a busy machine does not let 200 of them run within the limit.
const MAY_NOT_COMPLETE: [(&str, &str); 9] = [
    ("transfer", "sinew/default"),
    ("transfer", "threads"),
    ("transfer", "tokio"),
    ("transfer", "may"),
    ("transfer", "sinew/tasks"),
    ("transfer", "sinew/tasks/inverted"),
    ("transfer", "sinew/tasks/shared"),
    ("transfer", "sinew/inverted"),
    ("transfer", "sinew/shared"),
];

/// The lab says this if the servers are not built.
const HOW_TO_BUILD: &str = "cargo build -p sinew-servers";

/// Runs the lab, which must succeed. Returns its output.
fn said_by(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

/// Returns the names in one part of `list`.
fn listed(part: &str) -> Vec<String> {
    let list = said_by(&["list"]);
    let lines = list.lines().skip_while(|line| *line != part).skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

/// Runs an experiment with these options and returns its results.
fn rows_of(experiment: &str, options: &[&str]) -> Vec<Value> {
    let folder = Folder::new(&format!("matrix-{experiment}{}", options.len()));
    let file = folder.file("results.jsonl");
    let limit = if experiment == "transfer" { "1" } else { "20" };
    let short = ["--processors", "2", "--seconds", "0.05", "--repeat", "1", "--limit", limit, "--json", &file];
    said_by(&[&["run", experiment], &short[..], options].concat());
    let text = std::fs::read_to_string(&file).expect("results");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Checks an experiment, and once more if that fails: a machine that stands still for a while
/// makes counts impossible, and peers late.
fn check(experiment: &str) {
    if catch_unwind(|| check_once(experiment)).is_err() {
        check_once(experiment);
    }
}

/// Returns whether a peer takes part in an experiment.
fn takes_part(experiment: &str, peer: &str) -> bool {
    match experiment {
        "blocking" => FIBRES.contains(&peer) || ["sinew/tasks", "tokio"].contains(&peer),
        "pollers" => FIBRES.contains(&peer),
        "batches" => BATCHES.contains(&peer),
        "latency" => LATENCY.contains(&peer),
        "reading" => READING.contains(&peer),
        "post" | "colours" => ["sinew/default", "sinew/coloured", "tokio"].contains(&peer),
        "unbalanced" => EVENTS.contains(&peer) || peer == "tokio",
        "annotations" => ["sinew/coloured", "sinew/coloured/time"].contains(&peer),
        "penalty" | "cache-efficient" => EVENTS.contains(&peer),
        "tell" | "ask" | "spawn-actors" | "actors" => ACTORS.contains(&peer),
        "chat" => ACTORS.contains(&peer) || peer == "erlang",
        nine if NINE.contains(&nine) => ACTORS.contains(&peer) || ["go", "erlang", "caf"].contains(&peer),
        "hyper" => ["sinew/default", "sinew/tasks", "tokio", "tokio/current"].contains(&peer),
        _ => SERVERS.iter().find(|(server, _)| *server == peer).is_none_or(|(_, own)| own.contains(&experiment)),
    }
}

fn check_once(experiment: &str) {
    let mut rows: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    // The programs in other languages have tests of their own.
    let actors = ACTORS.join(",");
    let options: &[&str] = match experiment {
        nine if NINE.contains(&nine) => &["--variants", "short", "--peers", &actors],
        "chat" => &["--variants", "short"],
        _ => &["--first-variant"],
    };
    for row in rows_of(experiment, options) {
        assert_eq!(row["experiment"], experiment);
        rows.entry(row["peer"].as_str().expect("a name").to_owned()).or_default().push(row);
    }
    for peer in listed("Peers:") {
        let pair = (experiment, peer.as_str());
        if !takes_part(experiment, &peer) {
            assert!(!rows.contains_key(&peer), "{pair:?}");
            continue;
        }
        let Some(rows) = rows.get(&peer) else {
            if PROGRAMS.contains(&peer.as_str()) || BY_RING.contains(&peer.as_str()) {
                continue;
            }
            assert!(CANNOT.contains(&pair), "{pair:?} was not measured");
            continue;
        };
        assert!(!CANNOT.contains(&pair), "{pair:?} was measured after all");
        for row in rows {
            if row["completed"] == false {
                assert_eq!(row["trouble"], "did not complete", "{row}");
                assert!(MAY_NOT_COMPLETE.contains(&pair), "{row}");
                continue;
            }
            let number = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} of {row}"));
            assert!(number("min") >= 0.0 && number("min") <= number("median") && number("median") <= number("max"));
            assert!(number("runs") >= 1.0 && number("threads") >= 1.0, "{row}");
        }
    }
}

/// Measures a peer in the first variant, unless the lab refuses with these words.
fn measured_or_refused(experiment: &str, peer: &str, refusal: &str) {
    measured_with(experiment, peer, refusal, &["--first-variant"]);
}

fn measured_with(experiment: &str, peer: &str, refusal: &str, options: &[&str]) {
    let arguments = ["run", experiment, "--peers", peer, "--processors", "1", "--seconds", "0.1", "--repeat", "1"];
    let output = lab(&[&arguments[..], options].concat());
    let (said, complaint) = (stdout(&output), stderr(&output));
    match output.status.code() {
        Some(0) => {
            let own = format!("{peer}  ");
            let lines: Vec<_> = said.lines().filter(|line| line.trim_start().starts_with(&own)).collect();
            assert!(!lines.is_empty(), "no {peer} in {said}");
            let bad = lines.iter().find(|line| line.contains("failed") || line.contains("did not complete"));
            assert!(bad.is_none(), "{experiment}: {bad:?}");
        }
        _ => assert!(complaint.contains(refusal), "{complaint}"),
    }
}

#[test]
fn programs_are_measured_where_they_are_installed() {
    for experiment in ["memcached", "memcached-beside", "memcached-skew", "memcached-memory"] {
        measured_or_refused(experiment, "memcached", "not installed");
    }
    for experiment in ["web", "connections", "files", "slow"] {
        measured_or_refused(experiment, "nginx", "not installed");
    }
    measured_with("chat", "erlang", "erlang is skipped: Erlang is not installed", &["--variants", "short"]);
    for experiment in ["yield", "idle", "web", "connections"] {
        measured_or_refused(experiment, "go", "go is skipped: no Go toolchain is installed");
    }
}

#[test]
fn every_variant_of_a_servers_experiment_is_possible() {
    for (experiment, peer) in [
        ("web", "bare/epoll"),
        ("web", "sinew/fair"),
        ("hyper", "tokio/current"),
        ("batches", "sinew/fair"),
        ("latency", "sinew/fair/epoll"),
    ] {
        measured_with(experiment, peer, "compiled in", &[]);
    }
    for (experiment, peer) in [("web", "bare/ring/both"), ("batches", "bare/ring")] {
        measured_with(experiment, peer, "does not permit io_uring", &[]);
    }
    for (experiment, peer) in [("web", "sinew/web"), ("files", "sinew/web"), ("memcached", "sinew/fair")] {
        measured_with(experiment, peer, HOW_TO_BUILD, &[]);
    }
}

/// Returns the processes whose working directory is the folder.
fn processes_in(folder: &Path) -> Vec<OsString> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let is_there =
        |entry: &std::fs::DirEntry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|at| at == folder);
    processes.filter(is_there).map(|entry| entry.file_name()).collect()
}

/// Waits until the condition holds, for at most ten seconds.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(10), "never so: {what}");
        std::thread::yield_now();
    }
}

/// With several processors, nginx has a master and workers, whose working directory is the lab's.
const WITH_NGINX: [&str; 7] = ["run", "web", "--peers", "nginx", "--processors", "2", "--first-variant"];

#[test]
fn nginx_leaves_no_worker_behind() {
    let folder = Folder::new("nginx");
    let mut lab = command(&WITH_NGINX);
    let lab = lab.args(["--seconds", "0.05", "--repeat", "1"]).current_dir(folder.path());
    let output = lab.output().expect("the lab");
    let left = processes_in(folder.path());
    assert!(left.is_empty(), "{left:?} after {}", stdout(&output));
}

/// Only the lab gets the signal, not the processes that it has started.
#[test]
fn an_interrupted_lab_leaves_neither_processes_nor_files_behind() {
    let folder = Folder::new("interrupted");
    let folder = folder.path();
    let mut lab = command(&WITH_NGINX);
    let lab = lab.args(["--seconds", "60", "--repeat", "1"]).current_dir(folder);
    let mut lab = lab.env("TMPDIR", folder).stderr(Stdio::null()).spawn().expect("the lab");
    let files = || std::fs::read_dir(folder).expect("the folder").flatten().map(|entry| entry.path());
    // The lab, its child, the master and two workers.
    eventually("nginx serves", || {
        lab.try_wait().expect("the lab").is_some() || processes_in(folder).len() >= 5 && files().count() > 0
    });
    if lab.try_wait().expect("the lab").is_some() {
        eprintln!("skipped: nginx is not installed");
    } else {
        let sent = Command::new("kill").arg("-TERM").arg(lab.id().to_string()).status().expect("kill");
        assert!(sent.success());
        assert_eq!(lab.wait().expect("the lab").code(), Some(128 + 15));
        eventually("all have ended", || processes_in(folder).is_empty());
        assert_eq!(files().collect::<Vec<_>>(), Vec::<PathBuf>::new());
    }
}

#[test]
fn the_sinew_commands_servers_are_measured_where_they_are_built() {
    for experiment in ["memcached", "memcached-beside", "memcached-skew", "memcached-memory"] {
        measured_or_refused(experiment, "sinew/fair", HOW_TO_BUILD);
        measured_or_refused(experiment, "sinew/default", HOW_TO_BUILD);
    }
    for experiment in ["web", "connections", "files", "slow"] {
        measured_or_refused(experiment, "sinew/web", HOW_TO_BUILD);
    }
}

/// Variants that only some peers have, and that are not the first.
const ONLY_SOME: [(&str, &str, &[&str]); 10] = [
    ("cycle", "mixed", &FIBRES),
    ("uncontended", "thread", &["sinew/default", "sinew/fair"]),
    ("memory", "bare", &["sinew/tasks", "tokio"]),
    ("waiters", "cancelled-50000", &["sinew/default", "sinew/fair", "sinew/tasks", "tokio"]),
    ("post", "single-100", &["sinew/default", "sinew/coloured", "tokio"]),
    ("post", "batches-100", &["sinew/default", "sinew/coloured", "tokio"]),
    ("annotations", "wrong", &["sinew/coloured"]),
    ("penalty", "all", &["sinew/default", "sinew/coloured", "sinew/coloured/base"]),
    ("chat", "short timed", &["sinew/default", "sinew/locality/l", "ractor"]),
    ("chat", "short open", &["sinew/default", "sinew/locality/l", "ractor"]),
];

#[test]
fn variants_that_only_some_peers_have_are_possible() {
    for (experiment, variant, peers) in ONLY_SOME {
        let rows = rows_of(experiment, &["--peers", &peers.join(","), "--variants", variant]);
        for peer in peers {
            let of_peer: Vec<_> = rows.iter().filter(|row| row["peer"] == *peer).collect();
            let is_measured = |row: &&Value| row["completed"] == true && row["variant"] == variant;
            assert!(!of_peer.is_empty() && of_peer.iter().all(is_measured), "{experiment}, {peer}: {of_peer:?}");
        }
    }
}

/// A file system in memory has no device to read from.
#[test]
fn blocks_are_read_from_the_device_if_there_is_one() {
    let peers = ["--peers", "sinew/default,tokio,threads"];
    let rows = rows_of("reading", &[&peers[..], &["--variants", "metadata,open and close,cold"]].concat());
    assert!(rows.len() >= 9, "{rows:?}");
    for row in rows.iter().filter(|row| row["completed"] == false) {
        let trouble = row["trouble"].as_str().unwrap_or_default();
        assert!(row["variant"] == "cold" && trouble.contains("keeps the file in memory"), "{row}");
    }
}

macro_rules! matrix {
    ($($test:ident: $($experiment:literal),+;)+) => {
        $(#[test]
        fn $test() {
            for experiment in [$($experiment),+] {
                check(experiment);
            }
        })+

        #[test]
        fn no_experiment_is_left_out() {
            let mut known = vec![$($($experiment),+),+];
            known.extend(OF_PROGRAMS);
            let mut all = listed("Experiments:");
            known.sort();
            all.sort();
            assert_eq!(all, known);
        }
    };
}

matrix! {
    switching_is_possible: "yield", "cycle", "churn", "locality";
    fairness_is_possible: "transfer";
    balance_is_possible: "placement", "skew", "migrate";
    idling_is_possible: "idle";
    spawning_is_possible: "spawn", "burst", "memory";
    synchronising_is_possible: "uncontended", "mutex", "channel", "timers";
    many_waiters_are_possible: "waiters";
    the_models_loops_are_possible: "scalability", "efficiency", "utilisation";
    calls_that_block_are_possible: "blocking", "reading";
    events_are_possible: "post", "colours";
    stealing_is_possible: "unbalanced", "annotations", "penalty", "cache-efficient";
    messages_are_possible: "tell", "ask", "spawn-actors", "actors";
    actors_that_send_at_random_or_to_one_are_possible: "big", "bang", "logm";
    actors_that_compute_are_possible: "apsp", "nqn", "trapr";
    actors_that_serve_are_possible: "cdict", "csll", "pubsub";
    a_chat_is_possible: "chat";
    serving_is_possible: "web", "pollers", "hyper";
    turns_of_servers_are_possible: "batches", "latency";
    idle_connections_are_possible: "connections";
}
