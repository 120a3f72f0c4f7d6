//! `sinew trace`: traces of a process that runs and of a core, read by a decoder of their own.

mod process;

use process::Process;
use sinew::sync::{Mutex, mpsc};
use sinew::{FibreBuilder, Runtime};
use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Says what the program under test is to do. It is this binary.
const MODE: &str = "SINEW_TRACED";

const SHORT: Duration = Duration::from_micros(200);

/// The names of its fibres.
const FIBRES: [&str; 7] = ["sleeper", "fork", "knife", "talker", "listener", "parent", "yielder"];

/// Is the program under test, if the environment says so: fibres that wait for known reasons, again and again, until
/// standard input ends.
#[test]
fn program_under_test() {
    let Ok(mode) = std::env::var(MODE) else { return };
    let entries = match &mode[..] {
        "off" => 0,
        "small" => 1024,
        _ => 1 << 16,
    };
    let runtime = Runtime::builder().processors(2).spares(0).name("traced").record(entries).build().expect("a runtime");
    let [sleeper, fork, knife, talker, listener, parent, yielder] = FIBRES;
    runtime.spawn(move || {
        again(sleeper, || sinew::sleep(SHORT));
        let lock = Arc::new(Mutex::new(()));
        for name in [fork, knife] {
            let lock = lock.clone();
            again(name, move || {
                let _held = lock.lock();
                sinew::sleep(SHORT);
            });
        }
        let (sender, receiver) = mpsc::sync_channel::<u8>(1);
        again(talker, move || {
            sinew::sleep(SHORT);
            let _ = sender.send(1);
        });
        again(listener, move || _ = receiver.recv());
        again(parent, || {
            let child = sinew::spawn(|| sinew::sleep(SHORT));
            let _ = child.join();
        });
        again(yielder, move || {
            (0..100).for_each(|_| sinew::yield_now());
            if mode != "small" {
                sinew::sleep(SHORT);
            }
        });
        drop(sinew::task::spawn(async {
            loop {
                sinew::time::sleep_async(SHORT).await;
            }
        }));
    });
    while TURNS.iter().any(|turns| turns.load(Relaxed) < 3) {
        std::thread::yield_now();
    }
    println!("\nready");
    let _ = io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}

/// The number of turns that each fibre has done.
static TURNS: [AtomicU64; FIBRES.len()] = [const { AtomicU64::new(0) }; FIBRES.len()];

/// Spawns a fibre that does the same for ever.
fn again(name: &'static str, mut f: impl FnMut() + Send + 'static) {
    let turns = &TURNS[FIBRES.iter().position(|known| *known == name).expect("a known name")];
    let forever = move || {
        loop {
            f();
            turns.fetch_add(1, Relaxed);
        }
    };
    FibreBuilder::new().name(name).spawn(forever).expect("a fibre");
}

/// Starts the program under test, and waits until all of its fibres have done some turns.
fn program(mode: &str) -> Process {
    start(&mut Command::new(std::env::current_exe().expect("this program")), mode)
}

/// As [`program`], by a command that has no arguments yet.
fn start(command: &mut Command, mode: &str) -> Process {
    command.args(["--exact", "program_under_test", "--nocapture"]).env(MODE, mode).env_remove("SINEW_RECORD");
    let mut process = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped())).expect("this program");
    let lines = BufReader::new(process.output()).lines();
    let is_ready = lines.map(|line| line.expect("a line")).any(|line| line == "ready");
    assert!(is_ready, "the program has ended");
    process
}

fn sinew(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinew")).args(arguments).output().expect("the command")
}

/// A file that is removed when the test ends.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        Temporary(std::env::temp_dir().join(format!("sinew-trace-{}-{name}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A directory that is removed when the test ends.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A field of a protobuf message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (first, rest) = bytes.split_first().expect("a byte");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        shift += 7;
        if first & 0x80 == 0 {
            return value;
        }
    }
}

/// Reads the fields of a message.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let length = match tag & 7 {
            0 => {
                fields.push((tag >> 3, Field::Number(varint(&mut bytes))));
                continue;
            }
            1 => 8,
            2 => varint(&mut bytes) as usize,
            other => panic!("wire type {other}"),
        };
        let (own, rest) = bytes.split_at(length);
        bytes = rest;
        fields.push(match tag & 7 {
            1 => (tag >> 3, Field::Number(u64::from_le_bytes(own.try_into().expect("8 bytes")))),
            _ => (tag >> 3, Field::Bytes(own)),
        });
    }
    fields
}

fn number(fields: &[(u64, Field<'_>)], field: u64) -> Option<u64> {
    fields.iter().find_map(|(own, value)| match value {
        Field::Number(number) if *own == field => Some(*number),
        _ => None,
    })
}

fn bytes<'a>(fields: &[(u64, Field<'a>)], field: u64) -> Option<&'a [u8]> {
    fields.iter().find_map(|(own, value)| match value {
        Field::Bytes(bytes) if *own == field => Some(*bytes),
        _ => None,
    })
}

fn text(fields: &[(u64, Field<'_>)], field: u64) -> Option<String> {
    bytes(fields, field).map(|bytes| String::from_utf8(bytes.to_vec()).expect("text"))
}

/// A track of a trace.
#[derive(Default)]
struct Track {
    name: String,
    /// The process, and the kernel thread if it is one.
    pid: Option<u64>,
    thread: Option<u64>,
    parent: Option<u64>,
    /// The slices that are open.
    open: Vec<(String, u64)>,
    /// The names of its slices and instants.
    slices: HashSet<String>,
    instants: HashSet<String>,
    /// The annotations of its slices: name and text.
    texts: HashSet<(String, String)>,
}

/// Reads a trace, and checks what every trace keeps to.
fn tracks(trace: &[u8]) -> HashMap<u64, Track> {
    let mut tracks: HashMap<u64, Track> = HashMap::new();
    let (mut last, mut flows, mut ended) = (0, HashSet::new(), HashSet::new());
    for (field, packet) in fields(trace) {
        let Field::Bytes(packet) = packet else { panic!("no packet") };
        assert_eq!(field, 1);
        let packet = fields(packet);
        assert!(number(&packet, 10).is_some(), "a packet without a sequence");
        if let Some(descriptor) = bytes(&packet, 60) {
            let descriptor = fields(descriptor);
            let (process, thread) = (bytes(&descriptor, 3).map(fields), bytes(&descriptor, 4).map(fields));
            let own = text(&descriptor, 2);
            let of_process = process.as_ref().and_then(|process| text(process, 6));
            let name = own.or(of_process).or_else(|| text(thread.as_ref()?, 5)).expect("a name");
            let track = Track {
                name,
                pid: thread.as_ref().or(process.as_ref()).and_then(|of| number(of, 1)),
                thread: thread.as_ref().and_then(|thread| number(thread, 2)),
                parent: number(&descriptor, 5),
                ..Track::default()
            };
            assert!(tracks.insert(number(&descriptor, 1).expect("a number"), track).is_none(), "a track twice");
        }
        let Some(event) = bytes(&packet, 11) else { continue };
        let event = fields(event);
        let at = number(&packet, 8).expect("a time");
        assert!(at >= last, "time goes back");
        last = at;
        let track = tracks.get_mut(&number(&event, 11).expect("a track")).expect("a track that is described");
        let name = text(&event, 23);
        let values = event.iter().filter_map(|(field, value)| match value {
            Field::Bytes(value) if *field == 4 => Some(fields(value)),
            _ => None,
        });
        track.texts.extend(values.filter_map(|value| Some((text(&value, 10)?, text(&value, 6)?))));
        match number(&event, 9) {
            Some(1) => {
                let name = name.expect("a name");
                // One thing at a time.
                assert!(track.open.is_empty(), "{name} within {:?} on {}", track.open, track.name);
                track.slices.insert(name.clone());
                track.open.push((name, at));
            }
            Some(2) => _ = track.open.pop().unwrap_or_else(|| panic!("an end without a begin on {}", track.name)),
            Some(3) => _ = track.instants.insert(name.expect("a name")),
            other => panic!("an event of type {other:?}"),
        }
        flows.extend(number(&event, 47));
        ended.extend(number(&event, 48));
    }
    for track in tracks.values() {
        assert!(track.open.is_empty(), "{:?} has no end on {}", track.open, track.name);
        assert!(track.parent.is_none_or(|parent| tracks.contains_key(&parent)));
    }
    assert!(ended.iter().all(|flow| flows.contains(flow)), "an arrow from nowhere");
    tracks
}

/// Returns what a trace tells of a fibre.
fn fibre<'a>(tracks: &'a HashMap<u64, Track>, name: &str) -> &'a Track {
    let is_named = |track: &&Track| track.name.starts_with("fibre ") && track.name.ends_with(&format!(" {name}"));
    let found: Vec<_> = tracks.values().filter(is_named).collect();
    assert_eq!(found.len(), 1, "{name}: {:?}", found.iter().map(|track| &track.name).collect::<Vec<_>>());
    found[0]
}

/// Checks that a trace tells of the program under test what it did.
fn check(trace: &Path, pid: u32) {
    let tracks = tracks(&std::fs::read(trace).expect("a trace"));
    let has = |name: &str, slice: &str| {
        let track = fibre(&tracks, name);
        assert!(track.slices.contains(slice), "{slice}: {:?}", track.slices);
    };
    FIBRES.iter().for_each(|name| has(name, "runs"));
    has("sleeper", "waits: sleep");
    has("fork", "waits: mutex");
    has("knife", "waits: mutex");
    has("listener", "waits: channel_receive");
    has("parent", "waits: join_fibre");
    has("yielder", "ready");
    let waits = ("reason".to_owned(), "mutex".to_owned());
    assert!(fibre(&tracks, "fork").texts.contains(&waits));
    let wakes = fibre(&tracks, "talker").instants.iter().any(|name| name.starts_with("wakes fibre "));
    assert!(wakes, "the talker wakes the listener");
    assert!(fibre(&tracks, "parent").instants.iter().any(|name| name.starts_with("spawns fibre ")));
    let is_task = |track: &&Track| track.name.starts_with("task ") && track.name.contains("trace.rs:");
    let task = tracks.values().find(is_task).expect("a task");
    assert!(task.slices.contains("waits: sleep"), "{:?}", task.slices);
    let is_child = |track: &Track| track.name.starts_with("fibre ") && track.name.contains("trace.rs:");
    assert!(tracks.values().any(is_child), "fibres without a name have the place that spawned them");
    let processors: Vec<&Track> = tracks.values().filter(|track| track.name.starts_with("traced-")).collect();
    assert!(!processors.is_empty());
    for processor in &processors {
        assert!(processor.pid == Some(u64::from(pid)) && processor.thread.is_some(), "{}", processor.name);
    }
    let ran: HashSet<&String> = processors.iter().flat_map(|track| &track.slices).collect();
    assert!(FIBRES.iter().all(|name| ran.contains(&fibre(&tracks, name).name)));
    assert!(ran.contains(&"asleep".to_owned()));
}

#[test]
fn a_trace_of_a_process_tells_what_its_fibres_did_and_waited_for() {
    let program = program("on");
    let trace = Temporary::new("live");
    let output = sinew(&["trace", &program.pid().to_string(), "--seconds", "0.2", "--output", trace.path()]);
    assert!(output.status.success(), "{output:?}");
    check(&trace.0, program.pid());
    // The past that the recorder has kept, on standard output.
    let output = sinew(&["trace", &program.pid().to_string(), "--seconds", "0"]);
    assert!(output.status.success(), "{output:?}");
    std::fs::write(&trace.0, &output.stdout).expect("a file");
    check(&trace.0, program.pid());
}

#[test]
fn a_trace_of_a_core_tells_the_last_moments() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("the pattern");
    if pattern.starts_with('|') || pattern.contains('/') {
        return eprintln!("skipped: the kernel does not write cores to the directory of the process, but to {pattern}");
    }
    let folder = Folder(std::env::temp_dir().join(format!("sinew-trace-core-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).expect("a folder");
    let this = std::env::current_exe().expect("this program");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c unlimited; exec \"$0\" \"$@\""]).arg(this).current_dir(&folder.0);
    let mut program = start(&mut command, "on");
    program.signal("-ABRT");
    program.wait_for_end();
    let core = std::fs::read_dir(&folder.0).expect("the folder").next();
    let Some(core) = core else { return eprintln!("skipped: the kernel has written no core") };
    let core = core.expect("a file").path();
    let trace = Temporary::new("of-core");
    let output = sinew(&["trace", core.to_str().expect("text"), "--output", trace.path()]);
    assert!(output.status.success(), "{output:?}");
    check(&trace.0, program.pid());
}

#[test]
fn entries_that_were_lost_are_said_and_shown() {
    let program = program("small");
    let trace = Temporary::new("small");
    let is_said = || {
        let output = sinew(&["trace", &program.pid().to_string(), "--seconds", "0.1", "--output", trace.path()]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).contains("entries were overwritten before they were read")
    };
    // On a machine without time for the program it may be read in time.
    while !is_said() {}
    let tracks = tracks(&std::fs::read(&trace.0).expect("a trace"));
    assert!(tracks.values().any(|track| track.instants.contains("entries lost")));
}

#[test]
fn a_process_whose_recorder_is_off_has_no_trace_and_says_how_to_switch_it_on() {
    let program = program("off");
    let output = sinew(&["trace", &program.pid().to_string(), "--seconds", "0"]);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("is off") && said.contains("SINEW_RECORD=1"), "{said}");
}

#[test]
fn a_trace_is_not_written_to_a_terminal() {
    let command = format!("{} trace {}", env!("CARGO_BIN_EXE_sinew"), std::process::id());
    let Ok(output) = Command::new("script").args(["-qec", &command, "/dev/null"]).stdin(Stdio::null()).output() else {
        return eprintln!("skipped: script is not installed");
    };
    assert!(!output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("not for a terminal"), "{output:?}");
}
