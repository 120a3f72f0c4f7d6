//! Peers in other languages: programs whose sources are in `lab/peers`. The lab builds one when
//! it is needed. The program takes a case as its argument and prints an outcome, as a child of
//! the lab does.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{caf, erlang, go};
use crate::case::{Case, Outcome};
use crate::experiments::actors::{SCALE, SHORT, WHOLE};

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
    /// Returns the command that builds the program into a folder. It runs in the folder of the
    /// sources. Other experiments than these may be left out.
    pub build: fn(&Path, &[&str]) -> Command,
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

    /// Builds the program for these experiments, into a folder of [`programs`].
    ///
    /// # Errors
    /// Says why it cannot be built.
    pub fn build(&self, experiments: &[&str]) -> Result<(), String> {
        self.build_into(&programs(), experiments)
    }

    fn build_into(&self, programs: &Path, experiments: &[&str]) -> Result<(), String> {
        let (sources, folder) = (self.sources(), programs.join(self.name));
        if !sources.is_dir() {
            return Err(format!("its sources are not in {}", sources.display()));
        }
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        if (self.version)().is_none() {
            return Err(self.absent.to_owned());
        }
        let mut build = (self.build)(&folder, experiments);
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
        command.arg(told(case).to_string());
        command
    }
}

/// Returns the case as a program is told it: a short variant is the whole one, with a scale.
fn told(case: &Case) -> serde_json::Value {
    let mut told = serde_json::to_value(case).expect("a case is plain data");
    if case.variant == SHORT {
        told["variant"] = WHOLE.into();
        told["scale"] = SCALE.into();
    }
    told
}

/// Returns the first line that a command prints, if it succeeds.
pub(super) fn first_line_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(|| text.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests;
