//! Peers in other languages: programs whose sources are in `lab/peers`. The lab builds one when
//! it is needed. The program takes a case as its argument and prints an outcome, as a child of
//! the lab does.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{caf, erlang, go};
use crate::case::{Case, Outcome};

/// The environment variable by which children find the programs: the number of the process that
/// builds them.
const BUILDER: &str = "SINEW_LAB_BUILDER";

/// A language, or a library of one, that has a program of its own.
pub struct Language {
    /// The name of the peer, and of the folder of its sources.
    pub name: &'static str,
    /// The name in sentences.
    pub title: &'static str,
    /// The end of the names of source files. An experiment has one file, with its name.
    pub extension: &'static str,
    /// Says that the language is not installed.
    pub absent: &'static str,
    /// Why it takes no part in an experiment.
    pub unwritten: &'static str,
    /// Returns the command that builds the sources of the first folder into the second one. It
    /// runs in the first.
    pub build: fn(&Path, &Path) -> Command,
    /// Returns the command that starts the program in a folder. The case follows as its last
    /// argument.
    pub start: fn(&Path, &Case) -> Command,
    pub version: fn() -> Option<String>,
}

pub static ALL: [&Language; 3] = [&go::GO, &erlang::ERLANG, &caf::CAF];

/// Returns the language of a peer, if it is one.
pub fn find(peer: &str) -> Option<&'static Language> {
    ALL.into_iter().find(|language| language.name == peer)
}

/// Returns the process that builds the programs: this one, or the one that started it.
fn builder() -> u32 {
    let told = std::env::var(BUILDER).ok().and_then(|number| number.parse().ok());
    told.unwrap_or_else(std::process::id)
}

/// Returns the folder of the programs.
pub fn programs() -> PathBuf {
    std::env::temp_dir().join(format!("sinew-lab-programs-{}", builder()))
}

/// Tells the children of a command where the programs are.
pub fn hand_down(command: &mut Command) {
    command.env(BUILDER, builder().to_string());
}

impl Language {
    fn sources(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(self.name)
    }

    /// Returns whether an experiment is written in it.
    pub fn knows(&self, experiment: &str) -> bool {
        self.sources().join(format!("{experiment}.{}", self.extension)).exists()
    }

    /// Builds the program into a folder of [`programs`].
    ///
    /// # Errors
    /// Says why it cannot be built.
    pub fn build(&self) -> Result<(), String> {
        self.build_into(&programs())
    }

    fn build_into(&self, programs: &Path) -> Result<(), String> {
        let (sources, folder) = (self.sources(), programs.join(self.name));
        if !sources.is_dir() {
            return Err(format!("its sources are not in {}", sources.display()));
        }
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        if (self.version)().is_none() {
            return Err(self.absent.to_owned());
        }
        let mut build = (self.build)(&sources, &folder);
        let built = build.current_dir(sources).stdin(Stdio::null()).output();
        let built = built.map_err(|error| format!("{}: {error}", build.get_program().display()))?;
        match built.status.success() {
            true => Ok(()),
            false => {
                let complaint = [built.stdout, built.stderr].concat();
                let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
                Err(format!("{}: {complaint}", build.get_program().display()))
            }
        }
    }

    /// Becomes the program. Called in a child that has been pinned.
    pub fn replace_process(&self, case: &Case) -> Outcome {
        let error = self.command(case).exec();
        Outcome::Failed(format!("{}: {error}", self.name))
    }

    /// Starts the program with pipes for its input and output, for an experiment that the lab
    /// watches from outside. The program ends when its input ends.
    pub fn start(&self, case: &Case) -> io::Result<Child> {
        self.command(case).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    }

    fn command(&self, case: &Case) -> Command {
        let mut command = (self.start)(&programs().join(self.name), case);
        command.arg(serde_json::to_string(case).expect("a case is plain data"));
        command
    }
}

/// Returns the first line that a command prints, if it succeeds.
pub(super) fn first_line_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::case::Reading;

    /// Far longer than a small run takes on a busy machine.
    const LIMIT: Duration = Duration::from_secs(120);

    const RUN_MS: &[&str] = &["run_ms"];

    /// The actor benchmarks, their variants, and their metrics.
    const NINE: [(&str, &str, &[&str]); 10] = [
        ("big", "-", RUN_MS),
        ("bang", "-", RUN_MS),
        ("logm", "-", RUN_MS),
        ("apsp", "-", RUN_MS),
        ("cdict", "-", RUN_MS),
        ("cdict", "64", RUN_MS),
        ("csll", "-", RUN_MS),
        ("nqn", "-", RUN_MS),
        ("trapr", "-", RUN_MS),
        ("pubsub", "-", &["deliveries_per_s", "latency_ms", "p99_ms"]),
    ];

    const CHAT: (&str, &str, &[&str]) =
        ("chat", "closed", &["deliveries_per_s", "max_ms", "p50_us", "p99_us", "resident_bytes", "sent_per_s"]);

    /// A program that has been built. Its folder is removed when this value is dropped.
    struct Built(&'static Language, PathBuf);

    impl Built {
        /// Returns `None` where the language is not installed.
        fn new(language: &'static Language) -> Option<Built> {
            if (language.version)().is_none() {
                eprintln!("skipped: {}", language.absent);
                return None;
            }
            let name = format!("sinew-lab-test-{}-{}", language.name, std::process::id());
            let built = Built(language, std::env::temp_dir().join(name));
            language.build_into(&built.1).unwrap_or_else(|why| panic!("{}: {why}", language.name));
            Some(built)
        }

        /// Runs a case at a hundredth of its size.
        fn outcome(&self, case: &Case) -> Outcome {
            let mut small = serde_json::to_value(case).expect("a case is plain data");
            small["scale"] = 100.into();
            let mut command = (self.0.start)(&self.1.join(self.0.name), case);
            let mut child = command.arg(small.to_string()).stdout(Stdio::piped()).spawn().expect("the program");
            let output = child.stdout.take().expect("a pipe");
            let (sender, said) = channel();
            thread::spawn(move || sender.send(io::read_to_string(output)));
            let said = said.recv_timeout(LIMIT);
            let _ = child.kill();
            let status = child.wait().expect("the program");
            let said = said.unwrap_or_else(|_| panic!("{case:?} did not complete")).expect("its output");
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{case:?}: {status}: {error}: {said}"))
        }
    }

    impl Drop for Built {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.1);
        }
    }

    fn case(experiment: &str, variant: &str, processors: usize) -> Case {
        Case {
            experiment: experiment.to_owned(),
            peer: "other".to_owned(),
            processors,
            threads: 500,
            variant: variant.to_owned(),
            seconds: 0.1,
        }
    }

    fn names(reading: &Reading) -> Vec<&str> {
        reading.iter().map(|(name, _)| name).collect()
    }

    fn every_result_is_right(language: &'static Language, experiments: &[(&str, &str, &[&str])]) {
        let Some(built) = Built::new(language) else { return };
        for (experiment, variant, metrics) in experiments {
            assert!(language.knows(experiment), "{experiment}");
            for processors in [1, 2] {
                match built.outcome(&case(experiment, variant, processors)) {
                    Outcome::Measured(reading) => {
                        assert_eq!(names(&reading), *metrics, "{experiment}");
                        assert!(reading.iter().all(|(_, value)| value > 0.0), "{experiment}: {reading:?}");
                    }
                    other => panic!("{experiment} of {}: {other:?}", language.name),
                }
            }
        }
    }

    #[test]
    fn actors_in_go_have_the_right_results() {
        every_result_is_right(&go::GO, &NINE);
    }

    #[test]
    fn actors_in_erlang_have_the_right_results() {
        every_result_is_right(&erlang::ERLANG, &NINE);
    }

    #[test]
    fn actors_with_caf_have_the_right_results() {
        every_result_is_right(&caf::CAF, &NINE);
    }

    #[test]
    fn the_chat_server_in_erlang_delivers_every_message() {
        let has_crypto = "halt(case code:which(crypto) of non_existing -> 1; _ -> 0 end).";
        let crypto = first_line_of(Command::new("erl").args(["-noinput", "-boot", "start_clean", "-eval", has_crypto]));
        match crypto {
            Some(_) => every_result_is_right(&erlang::ERLANG, &[CHAT]),
            None => eprintln!("skipped: erlang-crypto is not installed"),
        }
    }

    #[test]
    fn a_program_that_cannot_be_built_says_why() {
        static ABSENT: Language = Language { version: || None, ..go::GO };
        let folder = std::env::temp_dir().join(format!("sinew-lab-test-absent-{}", std::process::id()));
        let refused = ABSENT.build_into(&folder);
        let _ = std::fs::remove_dir_all(&folder);
        assert_eq!(refused, Err("no Go toolchain is installed".to_owned()));
    }
}
