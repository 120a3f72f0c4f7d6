//! Erlang: processes of its virtual machine. Its sources are in `lab/peers/erlang`.

use std::process::Command;

use super::language::{Language, first_line_of};

/// The name of the peer.
pub const NAME: &str = "erlang";

/// The modules that experiments share.
const SHARED: [&str; 2] = ["lab", "histogram"];

/// More processes than the largest case has.
const MOST_PROCESSES: &str = "4000000";

pub static ERLANG: Language = Language {
    name: NAME,
    title: "Erlang",
    extension: "erl",
    absent: "Erlang is not installed",
    unwritten: "not written in Erlang",
    build: |folder, experiments| {
        let mut command = Command::new("erlc");
        command.arg("-o").arg(folder);
        command.args(SHARED.iter().chain(experiments).map(|module| format!("{module}.erl")));
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
        let release = "io:format(\"Erlang/OTP ~s~n\", [erlang:system_info(otp_release)]), halt().";
        first_line_of(Command::new("erl").args(["-noinput", "-boot", "start_clean", "-eval", release]))
    },
};
