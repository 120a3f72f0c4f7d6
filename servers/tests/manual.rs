//! Shell completions and man pages.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The commands that have a man page.
const COMMANDS: [&str; 9] = ["memcached", "web", "files", "chat", "dump", "top", "trace", "completions", "man"];

/// The commands of `sinew files`, which have man pages, too.
const OF_FILES: [&str; 5] = ["serve", "keys", "get", "ls", "read"];

fn sinew(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sinew")).args(arguments).output().expect("the command")
}

/// Returns the script for a shell.
fn script(shell: &str) -> String {
    let output = sinew(&["completions", shell]);
    assert!(output.status.success(), "{shell}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn every_shell_gets_a_script_that_names_the_commands_and_their_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = script(shell);
        for word in COMMANDS.into_iter().chain(["no-migration", "scheduler", "epoll"]) {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    assert!(!sinew(&["completions", "abacus"]).status.success());
}

#[test]
fn shells_accept_their_scripts() {
    for (shell, arguments) in [("bash", &["-n"][..]), ("zsh", &["-n"]), ("fish", &["--no-execute"])] {
        let child = Command::new(shell).args(arguments).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let Ok(mut child) = child else {
            eprintln!("skipped: {shell} is not installed");
            continue;
        };
        child.stdin.take().expect("a pipe").write_all(script(shell).as_bytes()).expect("a shell that reads");
        let output = child.wait_with_output().expect("the shell");
        assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
    }
}

/// The bash completion offers what can follow.
#[test]
fn bash_completes_a_command() {
    let asked = "COMP_WORDS=(sinew we); COMP_CWORD=1; _sinew sinew we sinew; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").arg("-c").arg(format!("{}\n{asked}", script("bash"))).output();
    let output = output.expect("bash");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "web", "{output:?}");
}

#[test]
fn man_pages_name_every_command() {
    let folder = std::env::temp_dir().join(format!("sinew-man-{}", std::process::id()));
    let output = sinew(&["man", folder.to_str().expect("a plain path")]);
    let read = |name: &str| std::fs::read_to_string(Path::new(&folder).join(name)).unwrap_or_default();
    let own = read("sinew.1");
    let pages = COMMANDS.map(|command| (command, read(&format!("sinew-{command}.1"))));
    let of_files = OF_FILES.map(|command| (command, read(&format!("sinew-files-{command}.1"))));
    let _ = std::fs::remove_dir_all(&folder);
    assert!(output.status.success(), "{output:?}");
    for (command, page) in pages {
        // A hyphen is written as `\-` in a man page.
        assert!(own.contains(&format!("sinew\\-{command}(1)")), "{command} in {own}");
        assert!(page.contains(".SH NAME") && page.contains(".SH OPTIONS"), "{command}: {page}");
        let is_server = ["memcached", "web", "chat"].contains(&command);
        assert_eq!(page.contains("\\-\\-io"), is_server, "{command}: {page}");
    }
    for (command, page) in of_files {
        assert!(page.contains(&format!("sinew\\-files\\-{command}")), "{command}: {page}");
        assert_eq!(page.contains("\\-\\-clients"), command == "serve", "{command}: {page}");
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error() {
    let output = sinew(&["man", "/proc/no/such"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/proc/no/such"), "{output:?}");
}
