//! Libraries that compute, or that wait for nothing: they work in fibres as they are.

mod beside;
#[path = "../../sinew/tests/fixture/mod.rs"]
mod fixture;

use beside::{STACK, assert_blocks_its_fibre, wherever_fibres_stay};
use indicatif::{ProgressBar, ProgressDrawTarget};
use regex::Regex;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use sinew::FibreBuilder;
use sinew::net::UnixStream;
use sinew::sync::Mutex;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const FIBRES: usize = 20;

/// Runs `f` in fibres that take turns, in every set-up whose fibres stay on their processor.
#[track_caller]
fn in_fibres(f: impl Fn(usize) + Sync) {
    wherever_fibres_stay(|| {
        sinew::scope(|scope| {
            for fibre in 0..FIBRES {
                let f = &f;
                FibreBuilder::new().stack_size(STACK).spawn_scoped(scope, move || f(fibre)).unwrap();
            }
        });
    });
}

#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Letter {
    sender: String,
    copies: Vec<u32>,
    enclosed: Option<Box<Letter>>,
}

#[test]
fn serde_reads_what_it_wrote() {
    in_fibres(|fibre| {
        let mut letter = Letter { sender: format!("fibre {fibre}"), copies: vec![1, 2, 3], enclosed: None };
        for _ in 0..30 {
            letter = Letter { sender: "an envelope".to_owned(), copies: vec![], enclosed: Some(Box::new(letter)) };
        }
        let text = serde_json::to_string(&letter).unwrap();
        sinew::yield_now();
        assert_eq!(serde_json::from_str::<Letter>(&text).unwrap(), letter);
    });
}

#[test]
fn regex_compiles_and_matches() {
    in_fibres(|fibre| {
        let words = Regex::new(r"(?<name>\pL+) (?<number>\d+)").unwrap();
        sinew::yield_now();
        let text = format!("and fibre {fibre} ends");
        let found = words.captures(&text).unwrap();
        assert_eq!((&found["name"], &found["number"]), ("fibre", &*fibre.to_string()));
    });
}

/// Collects what is logged.
struct Collector(Mutex<BTreeMap<String, usize>>);

impl log::Log for Collector {
    fn enabled(&self, _metadata: &log::Metadata<'_>) -> bool {
        true
    }

    /// A logger may wait: here for a lock of Sinew's.
    fn log(&self, record: &log::Record<'_>) {
        if record.target() == "sinew" {
            *self.0.lock().unwrap().entry(record.args().to_string()).or_default() += 1;
        }
    }

    fn flush(&self) {}
}

#[test]
fn log_passes_lines_of_all_fibres() {
    static COLLECTOR: Collector = Collector(Mutex::new(BTreeMap::new()));
    log::set_logger(&COLLECTOR).unwrap();
    log::set_max_level(log::LevelFilter::Info);
    in_fibres(|fibre| {
        log::info!(target: "sinew", "fibre {fibre} begins");
        sinew::yield_now();
        log::info!(target: "sinew", "fibre {fibre} ends");
        log::debug!(target: "sinew", "below the level");
    });
    let lines = COLLECTOR.0.lock().unwrap();
    assert_eq!(lines.len(), 2 * FIBRES);
    assert!(lines.values().all(|&count| count == lines["fibre 0 begins"]));
}

#[test]
fn rusqlite_keeps_a_database_in_each_fibre_and_one_for_all() {
    let shared = Mutex::new(Connection::open_in_memory().unwrap());
    shared.lock().unwrap().execute_batch("CREATE TABLE fibres (number INTEGER)").unwrap();
    in_fibres(|fibre| {
        let own = Connection::open_in_memory().unwrap();
        own.execute_batch("CREATE TABLE words (word TEXT)").unwrap();
        own.execute("INSERT INTO words VALUES (?1)", [format!("fibre {fibre}")]).unwrap();
        sinew::yield_now();
        let word: String = own.query_row("SELECT word FROM words", [], |row| row.get(0)).unwrap();
        assert_eq!(word, format!("fibre {fibre}"));
        // A lock of Sinew's may be held while its fibre waits. A long query belongs on the pool.
        let locked = shared.lock().unwrap();
        locked.execute("INSERT INTO fibres VALUES (?1)", [fibre as i64]).unwrap();
        sinew::yield_now();
        let sum = || locked.query_row("SELECT count(*) FROM fibres", [], |row| row.get::<_, i64>(0)).unwrap();
        assert!(sum() > 0);
    });
}

#[test]
fn rusqlite_on_the_pool_blocks_its_fibre_only() {
    let (sender, receiver) = std::sync::mpsc::channel::<i64>();
    let query = move || {
        let connection = Connection::open_in_memory().unwrap();
        connection.query_row("SELECT 41 + 1", [], |row| row.get::<_, i64>(0)).unwrap() + receiver.recv().unwrap()
    };
    assert_blocks_its_fibre(move || assert_eq!(sinew::blocking(query), 50), move || sender.send(8).unwrap());
}

#[test]
fn indicatif_counts_the_steps_of_all_fibres() {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    // The bar is drawn by a thread of its own.
    bar.enable_steady_tick(Duration::from_millis(1));
    let steps = AtomicU64::new(0);
    in_fibres(|_| {
        for _ in 0..10 {
            bar.inc(1);
            steps.fetch_add(1, Ordering::Relaxed);
            sinew::yield_now();
        }
    });
    assert_eq!(bar.position(), steps.into_inner());
    bar.finish();
}

#[test]
fn signal_hook_writes_to_a_socket_that_a_fibre_reads() {
    let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
    let signals = signal_hook::low_level::pipe::register(signal_hook::consts::SIGUSR1, there).unwrap();
    here.set_nonblocking(true).unwrap();
    let wait = move || {
        let mut here = UnixStream::from(std::os::fd::OwnedFd::from(here));
        here.read_exact(&mut [0]).unwrap();
    };
    let raise = || signal_hook::low_level::raise(signal_hook::consts::SIGUSR1).unwrap();
    assert_blocks_its_fibre(wait, raise);
    signal_hook::low_level::unregister(signals);
}
