//! The version of the command.

use std::process::{Command, Output};

fn sinew(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    command.env_remove("SINEW_IO").env_remove("SINEW_WITHOUT").envs(variables.iter().copied());
    command.args(arguments).output().expect("the command")
}

/// Returns the lines that the command prints.
fn lines(arguments: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    let output = sinew(arguments, variables);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

const VERSION: &str = concat!("sinew ", env!("CARGO_PKG_VERSION"));

#[test]
fn the_version_is_one_line() {
    for option in ["--version", "-V"] {
        assert_eq!(lines(&[option], &[]), [VERSION]);
    }
}

#[test]
fn a_verbose_version_tells_of_the_machine() {
    for options in [&["--version", "-v"][..], &["-v", "--version"], &["--version", "--verbose"], &["-Vv"]] {
        let lines = lines(options, &[]);
        let starts = [VERSION, "kernel: Linux ", "CPUs: ", "io: epoll"];
        assert_eq!(lines.len(), starts.len(), "{lines:?}");
        for (line, start) in lines.iter().zip(starts) {
            assert!(line.starts_with(start), "{options:?}: {line}");
        }
    }
}

#[test]
fn a_verbose_version_says_why_io_uring_is_not_used() {
    let io = |name, value| lines(&["--version", "-v"], &[(name, value)]).pop().expect("the last line");
    assert_eq!(io("SINEW_IO", "epoll"), "io: epoll");
    let refused = "io: epoll (no io_uring: Function not implemented (os error 38))";
    assert_eq!(io("SINEW_WITHOUT", "io-uring"), refused);
}

#[test]
fn a_command_is_needed_without_the_version_and_not_allowed_with_it() {
    for (arguments, words) in
        [(&[][..], "Usage: sinew"), (&["-v"], "--version"), (&["--version", "web"], "cannot be used with")]
    {
        let output = sinew(arguments, &[]);
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(output.status.code() == Some(2) && output.stdout.is_empty() && said.contains(words), "{said}");
    }
}
