//! Go: goroutines. Its sources are in `lab/peers/go`.

use std::process::Command;

use super::language::{Language, first_line_of};

/// The name of the peer.
pub const NAME: &str = "go";

const PROGRAM: &str = "lab";

pub static GO: Language = Language {
    name: NAME,
    title: "Go",
    extension: "go",
    absent: "no Go toolchain is installed",
    unwritten: "not written in Go",
    build: |folder, _| {
        let mut command = Command::new("go");
        command.args(["build", "-o"]).arg(folder.join(PROGRAM)).arg(".");
        command
    },
    start: |folder, _| {
        let mut command = Command::new(folder.join(PROGRAM));
        // The program takes the number from the case.
        command.env("GOMAXPROCS", "");
        command
    },
    version: || first_line_of(Command::new("go").arg("version")),
};
