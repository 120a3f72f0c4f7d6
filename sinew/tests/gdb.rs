//! The script for gdb: it is in the program, finds all strands of a process and of a core file, and shows their stacks.
#![allow(unsafe_code)]

mod fixture;

use fixture::{LONG, Patience, SOON, Scratch, rerun, wait_until};
use sinew::actor::{self, Actor, Context, Handle};
use sinew::sync::{Mutex, mpsc};
use sinew::{FibreBuilder, Runtime, task, time};
use std::future::pending;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// Environment variable: the process is the one that gdb looks at, and has this number of further fibres.
const PATIENT: &str = "SINEW_TEST_PATIENT";

/// gdb that takes longer than this is taken to hang.
const LONGEST: Duration = Duration::from_secs(120);

/// The line that the process prints when its fibres are about to wait.
const SAID: &str = "look at me";

struct Clerk;

struct File;

impl Actor for Clerk {}

impl Handle<File> for Clerk {
    type Reply = ();

    fn handle(&mut self, _: File, _: &mut Context<'_, Self>) {
        wait_in_a_handler();
    }
}

#[inline(never)]
fn wait_in_a_handler() {
    sinew::sleep(LONG);
    black_box(());
}

/// Parks below `depth` calls of itself.
#[inline(never)]
fn descend(depth: u32) {
    if depth == 0 {
        sinew::park()
    } else {
        descend(depth - 1)
    }
    black_box(depth);
}

#[inline(never)]
fn hold_and_park(mutex: &Mutex<u32>, is_held: &AtomicBool) {
    let guard = mutex.lock();
    is_held.store(true, SeqCst);
    sinew::park();
    black_box(&guard);
}

#[inline(never)]
fn contend(mutex: &Mutex<u32>) {
    let answer: u64 = black_box(4711);
    let guard = mutex.lock();
    black_box((&guard, answer));
}

async fn wait_in_a_task() {
    time::sleep_async(LONG).await;
}

fn named(name: &str) -> FibreBuilder {
    FibreBuilder::new().name(name)
}

/// Waits in many ways, until its parent has gone.
fn be_patient(further: usize) {
    // SAFETY: plain settings of the process: any process may look at this one, and it may leave a core file.
    unsafe {
        libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY);
        let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        libc::setrlimit(libc::RLIMIT_CORE, &limit);
    }
    let build = || Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
    let (runtime, busy) = (build(), build());
    named("busy").cluster(busy.main_cluster()).spawn(spin).unwrap();
    runtime.run(move || {
        let mutex = Arc::new(Mutex::new(0));
        let is_held = Arc::new(AtomicBool::new(false));
        let holder = {
            let (mutex, is_held) = (Arc::clone(&mutex), Arc::clone(&is_held));
            named("holder").spawn(move || hold_and_park(&mutex, &is_held)).unwrap()
        };
        wait_until(|| is_held.load(SeqCst));
        named("contender").spawn(move || contend(&mutex)).unwrap();
        named("sleeper").spawn(|| sinew::sleep(LONG)).unwrap();
        let (sender, receiver) = mpsc::channel::<u32>();
        named("receiver").spawn(move || receiver.recv().is_err()).unwrap();
        named("joiner").spawn(move || drop(holder.join())).unwrap();
        named("deep").spawn(|| descend(5)).unwrap();
        drop(task::spawn(wait_in_a_task()));
        drop(task::spawn(pending::<()>()));
        let clerk = actor::spawn(Clerk);
        clerk.tell(File).unwrap();
        let idle = actor::spawn(Clerk);
        let begun = Arc::new(AtomicUsize::new(0));
        for _ in 0..further {
            let begun = Arc::clone(&begun);
            drop(sinew::spawn(move || {
                begun.fetch_add(1, SeqCst);
                descend(2);
            }));
        }
        wait_until(|| begun.load(SeqCst) == further);
        println!("{SAID}");
        sinew::blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).unwrap();
        drop((sender, clerk, idle));
        std::process::exit(0);
    });
}

#[inline(never)]
fn spin() {
    while !black_box(false) {
        std::hint::spin_loop();
    }
}

/// A process that waits in many ways.
struct Patient(Child);

impl Patient {
    /// Starts the process. `place` is where the kernel puts its core file.
    fn start(place: &Path, without: &str) -> Patient {
        let mut command = rerun::command(TEST, PATIENT, "20");
        command.current_dir(place).env("SINEW_WITHOUT", without);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let patient = Patient(child);
        assert!(said.take(20).any(|line| line.contains(SAID)), "the process has not come so far");
        patient
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }

    /// Lets the kernel end the process. Returns the core file, if it has written one there.
    fn dump(mut self, place: &Path) -> Option<PathBuf> {
        // SAFETY: the child has not been waited for, so the number is its own.
        assert_eq!(unsafe { libc::kill(self.0.id().try_into().unwrap(), libc::SIGABRT) }, 0);
        let patience = Patience::new(SOON);
        while self.0.try_wait().unwrap().is_none() {
            assert!(!patience.is_over(), "the kernel takes too long for a core file");
            thread::sleep(Duration::from_millis(2));
        }
        let mut files = std::fs::read_dir(place).unwrap().map(|file| file.unwrap());
        files.find(|file| file.file_name().to_str().unwrap().starts_with("core")).map(|file| file.path())
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Runs gdb with these commands, after these arguments. Returns what it printed.
fn gdb(arguments: &[&str], commands: &[&str]) -> String {
    let mut command = Command::new("gdb");
    command.args(["-nx", "-batch", "-iex", "set auto-load safe-path /", "-iex", "set debuginfod enabled off"]);
    command.args(arguments);
    for each in commands {
        // So that a test finds what a command printed.
        command.arg("-ex").arg(format!("echo \\n== {each}\\n")).arg("-ex").arg(each);
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let collect = |mut pipe: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let output = collect(Box::new(child.stdout.take().unwrap()));
    let errors = collect(Box::new(child.stderr.take().unwrap()));
    let patience = Patience::new(LONGEST);
    while child.try_wait().unwrap().is_none() {
        if patience.is_over() {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("gdb took longer than {LONGEST:?}");
        }
        thread::sleep(Duration::from_millis(2));
    }
    output.join().unwrap() + &errors.join().unwrap()
}

/// Returns what gdb printed for a command.
#[track_caller]
fn said<'a>(output: &'a str, command: &str) -> &'a str {
    let title = format!("\n== {command}\n");
    let (_, behind) = output.split_once(&title).unwrap_or_else(|| panic!("no {command} in {output}"));
    behind.split("\n== ").next().unwrap()
}

/// Asserts that one of the lines has all of these parts, in this order.
#[track_caller]
fn assert_line(output: &str, parts: &[&str]) {
    let has_all = |line: &str| {
        let rest = parts.iter().try_fold(line, |rest, part| rest.split_once(part).map(|(_, rest)| rest));
        rest.is_some()
    };
    assert!(output.lines().any(has_all), "no line with {parts:?} in {output}");
}

/// Asserts that these functions come in a backtrace, in this order, and that it has no others of the program.
#[track_caller]
fn assert_frames(backtrace: &str, functions: &[&str]) {
    let frames = backtrace.lines().filter(|line| line.starts_with('#') && line.contains(" gdb::"));
    let frames: Vec<_> = frames.collect();
    assert_eq!(frames.len(), functions.len(), "{backtrace}");
    for (frame, function) in frames.iter().zip(functions) {
        assert!(frame.contains(function), "{frame} is not {function}: {backtrace}");
    }
}

const COMMANDS: [&str; 16] = [
    "info fibres",
    "info fibres waiting mutex barrier",
    "info fibres idle",
    "fibre deep bt",
    "fibre holder bt",
    "fibre busy bt",
    "fibre contender",
    "frame function gdb::contend",
    "info locals",
    "up",
    "bt 1",
    "fibre none",
    "fibre apply sleeper receiver bt",
    "fibre apply park bt",
    "fibre groups",
    "fibre nobody bt",
];

/// Looks at all that gdb printed for [`COMMANDS`].
fn check(output: &str) {
    let all = said(output, "info fibres");
    assert_line(all, &["busy", "running", "on thread "]);
    assert_line(all, &["holder", "parked", " park ", "tests/gdb.rs:"]);
    assert_line(all, &["contender", "waiting", "mutex 0x", ", held by fibre ", " 'holder'", "tests/gdb.rs:"]);
    assert_line(all, &["sleeper", "waiting", "s  ", "sleep ", "tests/gdb.rs:"]);
    assert_line(all, &["receiver", "waiting", "channel_receive 0x", "tests/gdb.rs:"]);
    assert_line(all, &["joiner", "waiting", "join_fibre: fibre ", " 'holder'"]);
    assert_line(all, &["task gdb::wait_in_a_task", "parked", "sleep", "tests/gdb.rs:"]);
    assert_line(all, &["mailbox gdb::Clerk", "carried", "on fibre "]);
    assert_line(all, &["29 fibres, 2 tasks, 2 mailboxes, of which 1 idle not shown"]);

    let contenders = said(output, "info fibres waiting mutex barrier");
    assert!(contenders.contains("contender") && contenders.contains("\n1 fibre\n"), "{contenders}");
    assert_line(said(output, "info fibres idle"), &["mailbox gdb::Clerk", "idle"]);

    let descent = ["descend (depth=0)", "(depth=1)", "(depth=2)", "(depth=3)", "(depth=4)", "(depth=5)", "be_patient"];
    let deep = said(output, "fibre deep bt");
    assert_frames(deep, &descent);
    assert!(deep.lines().next().unwrap().contains("sinew::fibre::park ()"), "{deep}");
    assert_frames(said(output, "fibre holder bt"), &["hold_and_park", "be_patient"]);
    assert_frames(said(output, "fibre busy bt"), &["spin"]);

    let contender = said(output, "fibre contender");
    assert_line(contender, &["waits for", "mutex 0x", "held by fibre"]);
    assert_line(contender, &["stack", "KiB", "bytes in use"]);
    assert!(said(output, "info locals").contains("answer = 4711"), "{output}");
    assert_line(said(output, "up"), &["#", "gdb::be_patient"]);
    assert!(said(output, "bt 1").contains("sinew::sync::raw_mutex"), "{output}");

    let two = said(output, "fibre apply sleeper receiver bt");
    assert_eq!(two.matches("\nfibre ").count(), 2, "{two}");
    assert_line(two, &["fibre ", "'sleeper': waiting for ", ", sleep"]);
    assert_line(two, &["sinew::time::sleep"]);
    assert_line(two, &["sinew::sync::mpsc::Receiver", "recv"]);
    let parked = said(output, "fibre apply park bt");
    assert_eq!(parked.matches("descend (depth=0)").count(), 21, "{parked}");
    assert_line(parked, &["fibre ", "'holder'", "parked", "park"]);

    let groups = said(output, "fibre groups");
    assert_line(groups, &["20 fibres (", ", ...): park"]);
    assert_line(groups, &["1 fibre (", "'deep'): park"]);
    assert!(output.contains("There is no fibre 'nobody'"), "{output}");
    assert!(!output.contains("Python Exception") && !output.contains("Traceback"), "{output}");
}

/// Runs commands on the process when all its strands wait. They are about to, but may still be on their way. Returns
/// `None` if gdb may not attach.
fn when_all_wait(patient: &Patient, commands: &[&str]) -> Option<String> {
    for _ in 0..20 {
        let output = gdb(&["-p", &patient.id()], commands);
        if output.contains("ptrace: Operation not permitted") {
            return None;
        }
        let all = said(&output, "info fibres");
        assert!(all.contains("mailboxes"), "{output}");
        if all.matches(" waiting ").count() == 6 && all.matches(" parked ").count() == 24 {
            return Some(output);
        }
    }
    panic!("the strands do not wait");
}

const TEST: &str = "gdb_shows_the_fibres_of_a_process_and_of_its_core";

#[test]
fn gdb_shows_the_fibres_of_a_process_and_of_its_core() {
    if let Ok(further) = std::env::var(PATIENT) {
        return be_patient(further.parse().unwrap());
    }
    let Ok(version) = Command::new("gdb").arg("--version").output() else {
        return println!("skipped: there is no gdb");
    };
    if !cfg!(target_arch = "x86_64") || !gdb(&[], &["python print('py' + 'thon')"]).contains("python\n") {
        return println!("skipped: {:?} has no Python, or the machine is another one", version.stdout);
    }
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    let place = Scratch::new();

    let patient = Patient::start(place.path(), "");
    let Some(output) = when_all_wait(&patient, &COMMANDS) else {
        return println!("skipped: gdb may not attach to a process");
    };
    check(&output);

    // The kernel's core file.
    match patient.dump(place.path()) {
        Some(core) => check(&gdb(&[program, core.to_str().unwrap()], &COMMANDS)),
        None => println!("skipped: the kernel writes no core file here"),
    }

    // The one that gdb writes, which does not get over guard pages.
    let patient = Patient::start(place.path(), "madvise-guards");
    let core = place.at("copy");
    let core = core.to_str().unwrap();
    let written = when_all_wait(&patient, &["info fibres", &format!("gcore {core}")]).unwrap();
    assert!(written.contains("Saved corefile"), "{written}");
    check(&gdb(&[program, core], &COMMANDS));
}
