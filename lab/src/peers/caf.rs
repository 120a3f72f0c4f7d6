//! CAF, the C++ Actor Framework: its event-based actors. The sources are in `lab/peers/caf`, one
//! program that includes a header for each experiment.

use std::process::{Command, Stdio};

use super::language::Language;

/// The name of the peer.
pub const NAME: &str = "caf";

const PROGRAM: &str = "lab";

pub static CAF: Language = Language {
    name: NAME,
    title: "CAF",
    extension: "hpp",
    absent: "no g++ with the headers of CAF 0.17 is installed",
    unwritten: "not written with CAF",
    // Each header more takes a second to compile.
    build: |folder, experiments| {
        let mut command = Command::new("g++");
        let entries: Vec<String> = experiments.iter().map(|name| format!("{{\"{name}\", {name}::run}}")).collect();
        command.arg(format!("-DEXPERIMENTS={}", entries.join(", ")));
        experiments.iter().for_each(|name| {
            command.args(["-include", &format!("{name}.hpp")]);
        });
        command.args(["-std=c++17", "-O3", "-DNDEBUG", "-Wall", "-Wextra", "-o"]).arg(folder.join(PROGRAM));
        command.args(["main.cpp", "-lcaf_core", "-pthread"]);
        command
    },
    start: |folder, _| Command::new(folder.join(PROGRAM)),
    version,
};

/// Returns the version of the headers, if it is the one that the program is written for.
fn version() -> Option<String> {
    let macros = Command::new("g++")
        .args(["-dM", "-E", "-x", "c++", "-include", "caf/config.hpp", "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let macros = String::from_utf8_lossy(&macros.stdout).into_owned();
    let number: u32 = macros.lines().find_map(|line| line.strip_prefix("#define CAF_VERSION "))?.trim().parse().ok()?;
    let (major, minor, patch) = (number / 10_000, number / 100 % 100, number % 100);
    (major == 0 && minor == 17).then(|| format!("CAF {major}.{minor}.{patch}"))
}
