//! `sinew dump`: what it finds in a process that is brought into known states. The process is this test's own program,
//! started once more.

#[path = "../examples/inspected.rs"]
#[allow(dead_code)]
mod inspected;
mod process;

use process::{PATIENCE, Process};
use serde_json::Value;
use sinew_inspect::{Deadlock, Dump, Group, Options, OwnerReport, State, StrandReport, Target, What};
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The process that the other tests look at.
#[test]
#[ignore = "the other tests start it"]
fn the_program() {
    let Ok(mode) = std::env::var("INSPECTED") else { return };
    let (mode, count) = mode.split_once(' ').expect("a mode and a number");
    inspected::run(mode, count.parse().expect("a number"));
}

/// A process that is looked at, and ends with the test.
struct Subject {
    process: Process,
    /// Open until the process has ended: it writes its last line there.
    _output: BufReader<ChildStdout>,
}

impl Subject {
    fn start(mode: &str) -> Subject {
        Subject::start_by(&mut Command::new(std::env::current_exe().expect("this program")), mode)
    }

    /// Starts this test's program by a command, and waits until it is ready.
    fn start_by(command: &mut Command, mode: &str) -> Subject {
        command.args(["--exact", "the_program", "--ignored", "--nocapture"]).env("INSPECTED", mode);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process::start(command).expect("the program");
        let mut output = BufReader::new(process.output());
        let mut line = String::new();
        while line.trim_end() != "ready" {
            line.clear();
            assert_ne!(output.read_line(&mut line).expect("a line"), 0, "the program has ended");
        }
        Subject { process, _output: output }
    }

    fn dump(&self, options: Options) -> Dump {
        let target = Target::process(self.process.pid()).expect("a process that can be read");
        Dump::take(&target, options).expect("a dump")
    }

    /// Returns the first dump in which all fibres are where they stay.
    fn settled(&self) -> Dump {
        let begin = Instant::now();
        loop {
            let dump = self.dump(Options::default());
            if is_settled(&dump) {
                return dump;
            }
            assert!(begin.elapsed() < PATIENCE, "{dump}");
        }
    }
}

/// Says whether the strands of `mixed` are where they stay: one fibre computes, four have not begun, and all others
/// have stopped.
fn is_settled(dump: &Dump) -> bool {
    let count = |what, state| dump.strands.iter().filter(|strand| (strand.what, strand.state) == (what, state)).count();
    (count(What::Fibre, State::Stopped), count(What::Task, State::Stopped)) == (26, 4)
        && count(What::Fibre, State::New) == 4
}

fn named<'a>(dump: &'a Dump, name: &str) -> &'a StrandReport {
    let mut found = dump.strands.iter().filter(|strand| strand.name.as_deref() == Some(name));
    let strand = found.next().unwrap_or_else(|| panic!("no {name} in {dump}"));
    assert!(found.next().is_none(), "{name} is there twice");
    strand
}

/// Returns the names of functions on a strand's stack.
fn functions<'a>(dump: &'a Dump, strand: &StrandReport) -> Vec<&'a str> {
    let stack = strand.stack.unwrap_or_else(|| panic!("no stack: {strand:?}"));
    dump.stacks[stack].frames.iter().map(|frame| frame.function.as_str()).collect()
}

/// Returns the line of `inspected.rs` with this text.
fn line_of(text: &str) -> u32 {
    let source = include_str!("../examples/inspected.rs");
    let number = source.lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("no line {text}"));
    number as u32 + 1
}

fn check_mixed(dump: &Dump) {
    for (name, state, waits_for) in [
        ("parked-0", State::Stopped, Some("park")),
        ("sleeper-2", State::Stopped, Some("sleep")),
        ("plato", State::Stopped, Some("mutex")),
        ("joiner-1", State::Stopped, Some("join_fibre")),
        ("holder", State::Stopped, Some("park")),
        ("waiter-3", State::Stopped, Some("mutex")),
        ("reader", State::Stopped, Some("rwlock_read")),
        ("receiver", State::Stopped, Some("channel_receive")),
        ("sender", State::Stopped, Some("channel_send")),
        ("client", State::Stopped, Some("ask")),
        ("unbegun-2", State::New, None),
        ("computing", State::Running, None),
    ] {
        let strand = named(dump, name);
        assert_eq!((strand.state, strand.waits_for.as_deref()), (state, waits_for), "{name}: {strand:?}");
        assert!(strand.id > 0 && strand.what == What::Fibre);
        let site = strand.spawned_at.as_deref().expect("a place");
        assert!(site.starts_with("servers/") && site.contains("inspected.rs:"), "{name}: {site}");
        assert!(!strand.is_cancelled && !strand.has_deadline);
    }
    assert_eq!(&*named(dump, "parked-0").cluster, "main");
    let computing = named(dump, "computing");
    assert_eq!((&*computing.cluster, computing.processor), ("stuck", Some(0)));
    let posts: Vec<_> = dump.processors.iter().map(|post| (&*post.cluster, post.index, post.runs.is_some())).collect();
    assert_eq!(posts, [("main", 0, false), ("main", 1, false), ("stuck", 0, true)]);
    // Owners of locks.
    for (waiter, holder) in [("waiter-0", "holder"), ("waiter-3", "holder"), ("reader", "writer"), ("plato", "kant")] {
        let (owner, holder) = (named(dump, waiter).owner.as_deref(), named(dump, holder));
        let owner: &OwnerReport = owner.unwrap_or_else(|| panic!("nobody holds what {waiter} waits for"));
        assert_eq!((owner.what, owner.id, &owner.name), (Some(What::Fibre), holder.id, &holder.name));
    }
    let lock = &dump.locks[0];
    assert_eq!((lock.waiters, lock.address), (4, named(dump, "waiter-1").object));
    // Stacks: the program's own code, from the call of the runtime on.
    let at_table = functions(dump, named(dump, "hume"));
    assert!(at_table[0].ends_with("lock") && at_table[1].ends_with("inspected::dine"), "{at_table:?}");
    let line = dump.stacks[named(dump, "hume").stack.expect("a stack")].frames[1].line;
    assert_eq!(line, Some(line_of("let _next = next.lock();")));
    assert!(dump.stacks.iter().all(|stack| stack.is_complete), "{dump}");
    // Tasks and actors, by type.
    let sizes = |groups: &[Group]| -> Vec<(String, State, usize)> {
        let of =
            |group: &Group| (group.type_name.as_deref().unwrap_or("").to_owned(), group.state, group.strands.len());
        groups.iter().map(of).collect()
    };
    let tasks = sizes(&dump.tasks);
    assert!(tasks.iter().any(|(name, _, count)| name.ends_with("doze::{{closure}}") && *count == 3), "{tasks:?}");
    let mailboxes = sizes(&dump.mailboxes);
    assert!(
        mailboxes.iter().all(|(name, _, count)| name.ends_with("inspected::Clerk") && *count == 1),
        "{mailboxes:?}"
    );
    let states: Vec<State> = mailboxes.iter().map(|(_, state, _)| *state).collect();
    assert!(states.contains(&State::Idle) && states.contains(&State::InHandler), "{mailboxes:?}");
}

/// Returns who is in a deadlock, in the order of waiting: names, or types of actors.
fn members(dump: &Dump, deadlock: &Deadlock) -> Vec<String> {
    let who = |&place: &usize| {
        let strand = &dump.strands[place];
        let name = strand.name.as_deref().or(strand.type_name.as_deref()).unwrap_or("nobody");
        name.rsplit("::").next().unwrap_or_default().to_owned()
    };
    deadlock.strands.iter().map(who).collect()
}

fn check_deadlocks(dump: &Dump) {
    let mut found: Vec<Vec<String>> = dump.deadlocks.iter().map(|deadlock| members(dump, deadlock)).collect();
    // Where a circle begins depends on who was spawned first.
    for circle in &mut found {
        let first = (0..circle.len()).min_by_key(|&number| circle[number].clone()).unwrap_or(0);
        circle.rotate_left(first);
    }
    found.sort();
    let expected: [&[&str]; 5] =
        [&["Clerk", "client"], &["echo"], &["hume", "plato", "kant"], &["joiner-0", "joiner-1"], &["narcissus"]];
    assert_eq!(found, expected, "{dump}");
    // A wait with a time limit ends.
    for deadlock in &dump.deadlocks {
        assert_eq!(deadlock.is_certain, members(dump, deadlock) != ["echo"], "{dump}");
    }
    assert!(named(dump, "echo").has_time_limit && !named(dump, "plato").has_time_limit);
    let text = dump.to_string();
    let echo = format!("PROBABLE DEADLOCK: fibre {} \"echo\"", named(dump, "echo").id);
    assert!(text.contains(&echo), "no `{echo}` in {text}");
    let (plato, kant) = (named(dump, "plato"), named(dump, "kant"));
    let site = plato.spawned_at.as_deref().expect("a place");
    let line = format!("fibre {} \"plato\" (spawned at {site}) waits for the mutex {:#x}", plato.id, plato.object);
    assert!(text.contains(&line), "no `{line}` in {text}");
    assert!(text.contains(&format!("held by fibre {} \"kant\"", kant.id)), "{text}");
    let [deadlock, fibres] = ["DEADLOCK", "FIBRES"].map(|title| text.find(title).expect(title));
    assert!(deadlock < fibres);
}

#[test]
fn a_process_that_lives_shows_its_strands_and_its_deadlocks() {
    let subject = Subject::start("mixed 0");
    let dump = subject.settled();
    assert!(dump.is_live);
    check_mixed(&dump);
    check_deadlocks(&dump);
    let plato = named(&dump, "plato").for_ms.expect("a time");
    let later = subject.dump(Options::default());
    assert!(named(&later, "plato").for_ms.expect("a time") > plato, "time goes on");
}

/// A directory of its own, which is removed with its contents.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sinew-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Ends a subject, and returns its core file, which the kernel writes into the folder that the subject was started in.
/// Returns `None` if it is set up to do something else.
fn core_of(subject: &mut Subject, folder: &Path) -> Option<PathBuf> {
    subject.process.signal("-ABRT");
    subject.process.wait_for_end();
    let mut files = fs::read_dir(folder).expect("the directory").flatten();
    files.next().map(|file| file.path())
}

#[test]
fn a_core_file_shows_the_same() {
    let folder = Folder::new("core");
    let mut shell = Command::new("sh");
    let program = std::env::current_exe().expect("this program");
    shell.args(["-c", "ulimit -c unlimited; exec \"$0\" \"$@\""]).arg(program).current_dir(&folder.0);
    let mut subject = Subject::start_by(&mut shell, "mixed 0");
    let live = subject.settled();
    let Some(path) = core_of(&mut subject, &folder.0) else {
        eprintln!("skipped: the kernel has written no core file here (core_pattern, or a limit)");
        return;
    };
    let target = Target::core(&path, None).expect("a core file that can be read");
    let dump = Dump::take(&target, Options::default()).expect("a dump");
    assert!(!dump.is_live && dump.pid == live.pid);
    assert!(is_settled(&dump), "{dump}");
    check_mixed(&dump);
    check_deadlocks(&dump);
    // The core has the registers of a fibre that ran.
    let computing = functions(&dump, named(&dump, "computing"));
    assert!(computing.iter().any(|function| function.contains("mixed")), "{computing:?}");
    // The program may have moved.
    let moved = folder.0.join("moved");
    fs::copy(std::env::current_exe().expect("this program"), &moved).expect("a copy");
    let output = sinew(&["dump", path.to_str().expect("a path"), "--exe", moved.to_str().expect("a path")]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("inspected::dine"), "{text}");
    // A core that is cut off is an error or a poor dump, and no crash.
    let mut bytes = Vec::new();
    File::open(&path).expect("the core").take(1 << 20).read_to_end(&mut bytes).expect("the core");
    for length in [10, 100, 5000, 1 << 20] {
        let short = folder.0.join("short");
        fs::write(&short, &bytes[..length.min(bytes.len())]).expect("a file");
        if let Ok(target) = Target::core(&short, None) {
            let _ = Dump::take(&target, Options::default());
        }
    }
}

fn sinew(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinew")).args(arguments).output().expect("the command")
}

#[test]
fn the_command_prints_text_or_json() {
    let subject = Subject::start("mixed 0");
    subject.settled();
    let pid = subject.process.pid().to_string();
    let text = sinew(&["dump", &pid]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.starts_with(&format!("process {pid}, ")) && text.contains("inspected::dine"), "{text}");
    assert!(!text.contains("corosensei"), "frames of the runtime: {text}");
    let all = sinew(&["dump", &pid, "--all-frames"]);
    let all = String::from_utf8(all.stdout).expect("text");
    assert!(all.contains("corosensei") && all.contains("fibre::record"), "{all}");
    let none = sinew(&["dump", &pid, "--no-backtraces"]);
    let none = String::from_utf8(none.stdout).expect("text");
    assert!(none.contains("DEADLOCK") && !none.contains("inspected::dine"), "{none}");
    let json = sinew(&["dump", &pid, "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["deadlocks"].as_array().map(Vec::len), Some(5));
    let strands = json["strands"].as_array().expect("strands");
    let plato = strands.iter().find(|strand| strand["name"] == "plato").expect("plato");
    assert_eq!(
        (&plato["what"], &plato["state"], &plato["waits_for"]),
        (&"fibre".into(), &"stopped".into(), &"mutex".into())
    );
    assert_eq!(plato["owner"]["name"], "kant");
}

#[test]
fn what_cannot_be_read_is_said() {
    let refused = |arguments: &[&str]| {
        let output = sinew(arguments);
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    assert!(refused(&["dump", "999999999"]).contains("there is no process 999999999"));
    assert!(refused(&["dump", "/nowhere/core"]).contains("/nowhere/core"));
    let program = env!("CARGO_BIN_EXE_sinew");
    assert!(refused(&["dump", program]).contains("no core file, but a program"));
    let mut sleeper = Command::new("sleep");
    let sleeper = Process::start(sleeper.arg("1000")).expect("sleep");
    // It may not have become `sleep` yet.
    let begin = Instant::now();
    let pid = sleeper.pid().to_string();
    while !fs::read_link(format!("/proc/{pid}/exe"))
        .is_ok_and(|path| path.ends_with("sleep") || path.ends_with("coreutils"))
    {
        if begin.elapsed() > Duration::from_secs(5) {
            eprintln!("skipped: `sleep` is another program here");
            return;
        }
    }
    assert!(refused(&["dump", &pid]).contains("no description of Sinew was found"));
}

#[test]
fn backtraces_reach_the_function_that_fibres_begin_with() {
    const COUNT: usize = 2000;
    let subject = Subject::start(&format!("many {COUNT}"));
    let options = Options { has_backtraces: true, has_all_frames: true };
    let begin = Instant::now();
    let dump = loop {
        let dump = subject.dump(options);
        let stopped = dump.strands.iter().filter(|strand| strand.waits_for.as_deref() == Some("park")).count();
        if stopped == COUNT {
            break dump;
        }
        assert!(begin.elapsed() < PATIENCE);
    };
    let mut complete = 0;
    for strand in dump.strands.iter().filter(|strand| strand.waits_for.as_deref() == Some("park")) {
        let functions = functions(&dump, strand);
        let is_complete = dump.stacks[strand.stack.expect("a stack")].is_complete;
        let is_whole = functions.iter().any(|name| name.contains("fibre::record"))
            && functions.last().is_some_and(|name| name.contains("stack_init_trampoline"));
        assert!(!is_complete || is_whole, "{functions:?}");
        complete += usize::from(is_complete);
    }
    assert!(complete * 100 >= COUNT * 99, "{complete} of {COUNT}");
    assert_eq!(dump.fibres.len(), 8, "eight depths");
}

/// Fibres that fight for locks while dumps are taken. The fibres of a family share a lock that nobody else uses, and
/// never end. So every dump has each of them once, and the holder of a lock is of the waiter's family.
#[test]
fn dumps_of_a_busy_process_name_no_wrong_owner_and_no_deadlock() {
    const FAMILIES: usize = 20;
    // For a soak: SINEW_DUMPS=10000.
    let dumps: usize = std::env::var("SINEW_DUMPS").map_or(200, |number| number.parse().expect("a number"));
    let subject = Subject::start(&format!("busy {FAMILIES}"));
    let family = |name: &str| name.rsplit_once('-').map(|(family, _)| family.to_owned());
    let expected: BTreeSet<String> =
        (0..FAMILIES).flat_map(|family| (0..4).map(move |member| format!("family-{family}-{member}"))).collect();
    let begin = Instant::now();
    while named_in(&subject.dump(Options::default())).len() < expected.len() {
        assert!(begin.elapsed() < PATIENCE);
    }
    let (mut number, mut owners, mut stacks) = (0, 0, 0);
    let target = Target::process(subject.process.pid()).expect("a process that can be read");
    // On a busy machine fewer fibres wait at the moment of a dump. Then it takes more dumps.
    while number < dumps || owners < dumps || stacks < dumps / 2 {
        let options = Options { has_backtraces: number % 20 == 0 || number > dumps, has_all_frames: false };
        number += 1;
        assert!(number < 10 * dumps, "{owners} owners and {stacks} stacks in {number} dumps");
        let dump = Dump::take(&target, options).expect("a dump");
        assert!(dump.deadlocks.is_empty(), "{dump}");
        let names = named_in(&dump);
        assert!(names.values().all(|count| *count == 1), "a fibre is there twice: {names:?}");
        assert_eq!(names.into_keys().collect::<BTreeSet<String>>(), expected);
        for strand in dump.strands.iter().filter(|strand| strand.name.is_some()) {
            let name = strand.name.as_deref().unwrap_or_default();
            stacks += usize::from(strand.stack.is_some());
            if let Some(owner) = &strand.owner {
                owners += 1;
                let holder = owner.name.as_deref().unwrap_or_else(|| panic!("no such fibre: {owner:?}"));
                assert_eq!(family(holder), family(name), "{name} waits for {holder}");
                assert_ne!(owner.id, strand.id, "{name} waits for itself");
            }
        }
    }
    println!("{owners} owners and {stacks} stacks in {number} dumps");
}

fn named_in(dump: &Dump) -> HashMap<String, usize> {
    let mut names = HashMap::new();
    for name in
        dump.strands.iter().filter(|strand| strand.state != State::Finished).filter_map(|strand| strand.name.as_deref())
    {
        *names.entry(name.to_owned()).or_default() += 1;
    }
    names
}

/// A process that ends while it is read gives an error, or a dump of what was there.
#[test]
fn a_process_may_end_while_it_is_read() {
    for round in 0..20 {
        let mut subject = Subject::start("busy 5");
        let pid = subject.process.pid();
        let target = Target::process(pid).expect("a process that can be read");
        let reader = std::thread::spawn(move || {
            for _ in 0..50 {
                let _ = Dump::take(&target, Options::default());
            }
        });
        std::thread::sleep(Duration::from_millis(round));
        subject.process.signal("-KILL");
        subject.process.wait_for_end();
        reader.join().expect("no panic");
    }
}
