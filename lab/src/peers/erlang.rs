//! Erlang: processes of its virtual machine. Its sources are in `lab/peers/erlang`.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::language::{Language, first_line_of};

/// The name of the peer.
pub const NAME: &str = "erlang";

/// More processes than the largest case has.
const MOST_PROCESSES: &str = "4000000";

pub static ERLANG: Language = Language {
    name: NAME,
    title: "Erlang",
    extension: "erl",
    absent: "Erlang is not installed",
    unwritten: "not written in Erlang",
    build: |sources, folder| {
        let mut command = Command::new("erlc");
        command.arg("-o").arg(folder).args(modules(sources));
        command
    },
    start: |folder, case| {
        let mut command = Command::new("erl");
        command.env_remove("ERL_FLAGS").env_remove("ERL_AFLAGS").env_remove("ERL_ZFLAGS");
        command.args(["+S", &format!("{0}:{0}", case.processors), "+P", MOST_PROCESSES]);
        command.args(["-boot", "start_clean", "-noinput", "-pa"]).arg(folder);
        command.args(["-s", "lab", "main", "-extra"]);
        command
    },
    version: || {
        let release = "io:format(\"Erlang/OTP ~s, ERTS ~s~n\", [erlang:system_info(otp_release), erlang:system_info(version)]), halt().";
        first_line_of(Command::new("erl").args(["-noinput", "-boot", "start_clean", "-eval", release]))
    },
};

/// Returns the files that are modules, in order.
fn modules(sources: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(sources).into_iter().flatten().flatten();
    let mut names: Vec<OsString> = entries.map(|entry| entry.file_name()).collect();
    names.retain(|name| Path::new(name).extension().is_some_and(|end| end == ERLANG.extension));
    names.sort();
    names
}
