//! Go: a program of its own, whose sources are in `lab/peers/go`. The lab builds it when it is
//! needed. It takes a case as its argument and prints an outcome, as a child of the lab does.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::case::{Case, Outcome};

/// The name of the peer.
pub const NAME: &str = "go";

/// The environment variable by which children find the program.
const VARIABLE: &str = "SINEW_LAB_GO";

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/go")
}

/// Returns whether an experiment is written in Go.
pub fn knows(experiment: &str) -> bool {
    sources().join(format!("{experiment}.go")).exists()
}

/// Returns the path of the program that this process builds.
pub fn program() -> PathBuf {
    std::env::temp_dir().join(format!("sinew-lab-go-{}", std::process::id()))
}

/// Builds the program.
///
/// # Errors
/// Says why it cannot be built.
pub fn build() -> Result<PathBuf, String> {
    if !sources().is_dir() {
        return Err(format!("its sources are not in {}", sources().display()));
    }
    let program = program();
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(sources())
        .stdin(Stdio::null())
        .output()
        .map_err(|_| "no Go toolchain is installed".to_owned())?;
    match built.status.success() {
        true => Ok(program),
        false => Err(format!("go build: {}", String::from_utf8_lossy(&built.stderr).trim())),
    }
}

pub fn version() -> Option<String> {
    let output = Command::new("go").arg("version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Tells the children of a command where the program is.
pub fn hand_down(command: &mut Command, program: &Path) {
    command.env(VARIABLE, program);
}

/// Becomes the program. Called in a child that has been pinned.
pub fn replace_process(case: &Case) -> Outcome {
    let error = command(case).map_or_else(|error| error, |mut command| command.exec());
    Outcome::Failed(format!("go: {error}"))
}

/// Starts the program with pipes for its input and output, for an experiment that the lab
/// watches from outside. The program ends when its input ends.
pub fn start(case: &Case) -> io::Result<Child> {
    command(case)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

fn command(case: &Case) -> io::Result<Command> {
    let program = std::env::var_os(VARIABLE).ok_or_else(|| io::Error::other(format!("{VARIABLE} is not set")))?;
    let mut command = Command::new(program);
    command.arg(serde_json::to_string(case).expect("a case is plain data")).env("GOMAXPROCS", "");
    Ok(command)
}
