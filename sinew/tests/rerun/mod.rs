//! Runs the body of a test in a process of its own, for what ends a process or
//! measures one: the test binary starts itself again, for this one test.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Runs a body in a child and gives what became of it; in the child, returns from
/// the calling test after the body.
#[allow(unused_macros)]
macro_rules! in_child {
    ($rerun:expr, $body:expr) => {
        match $rerun.run(name_of_test!(), "", $body) {
            Some(outcome) => outcome,
            None => return,
        }
    };
}

/// The name by which the test harness knows the calling test.
#[allow(unused_macros)]
macro_rules! name_of_test {
    () => {{
        fn here() {}
        let path = std::any::type_name_of_val(&here).strip_suffix("::here").unwrap();
        path.split_once("::").unwrap().1
    }};
}

/// Says to a process which test's body it is to run.
const BODY: &str = "SINEW_TEST_BODY";

/// A child that takes longer than this hangs, and is killed.
const LONGEST: Duration = Duration::from_secs(120);

pub const SIGABRT: i32 = 6;
pub const SIGSEGV: i32 = 11;

/// How a child is to be run.
#[derive(Default)]
pub struct Rerun {
    without: Option<String>,
    limit: Option<String>,
    variables: Vec<(&'static str, &'static str)>,
}

/// What became of it.
#[derive(Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Rerun {
    pub fn new() -> Rerun {
        Rerun::default()
    }

    /// Without these facilities of the machine.
    pub fn without(mut self, facilities: &str) -> Rerun {
        self.without = Some(facilities.to_owned());
        self
    }

    /// With this argument of the shell's `ulimit`.
    pub fn limit(mut self, limit: &str) -> Rerun {
        self.limit = Some(limit.to_owned());
        self
    }

    /// With this variable in its environment.
    pub fn variable(mut self, name: &'static str, value: &'static str) -> Rerun {
        self.variables.push((name, value));
        self
    }

    /// In the child runs `body`; what `body` returns from ends with status 0.
    /// Elsewhere waits for the child. `test` is the calling test's full name, and
    /// `variant` distinguishes children of one test.
    pub fn run(&self, test: &str, variant: &str, body: impl FnOnce()) -> Option<Outcome> {
        let wanted = format!("{test}/{variant}");
        match std::env::var(BODY) {
            Ok(body_of_child) if body_of_child == wanted => {
                body();
                None
            }
            Ok(_) => None,
            Err(_) => Some(self.wait_for(self.start(test, &wanted), &wanted)),
        }
    }

    fn start(&self, test: &str, wanted: &str) -> Child {
        let this = std::env::current_exe().unwrap();
        let mut command = match &self.limit {
            None => Command::new(this),
            Some(limit) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(format!("ulimit {limit} && exec \"$0\" \"$@\"")).arg(this);
                shell
            }
        };
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        command.env(BODY, wanted).env_remove("RUST_BACKTRACE").env_remove("SINEW_WITHOUT");
        command.envs(self.variables.iter().copied());
        if let Some(without) = &self.without {
            command.env("SINEW_WITHOUT", without);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn wait_for(&self, mut child: Child, wanted: &str) -> Outcome {
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        let began = Instant::now();
        let mut killed = false;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if began.elapsed() > LONGEST && !killed {
                killed = true;
                child.kill().unwrap();
            }
            thread::sleep(Duration::from_millis(2));
        };
        let outcome = Outcome { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() };
        assert!(!killed, "{wanted} took longer than {LONGEST:?}: {outcome:#?}");
        outcome
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Outcome {
    /// The child ended well, and its body was run to this word on stdout.
    #[track_caller]
    pub fn assert_success(&self, last_word: &str) {
        assert!(self.status.success() && self.stdout.contains(last_word), "{self:#?}");
    }

    /// The child was ended by `signal`, and said all of this on stderr.
    #[track_caller]
    pub fn assert_killed(&self, signal: i32, said: &[&str]) {
        assert_eq!(self.status.signal(), Some(signal), "{self:#?}");
        for words in said {
            assert!(self.stderr.contains(words), "{words:?} is missing: {self:#?}");
        }
    }
}
