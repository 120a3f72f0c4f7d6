//! The command line: its messages for bad input, and its exit codes.

mod lab;

use std::path::Path;
use std::process::Stdio;

use lab::{Folder, command, lab, stderr, stdout};

/// Returns what the lab says when it refuses.
fn refusal(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stdout(&output));
    stderr(&output)
}

/// A closed pipe, and a full disk.
#[test]
fn a_closed_pipe_is_no_error_and_a_full_disk_is() {
    let to = |stdout: Stdio| {
        let list = command(&["list"]).stdout(stdout).output().expect("the lab");
        (list.status.code(), stderr(&list))
    };
    let (_, writer) = std::io::pipe().expect("a pipe");
    assert_eq!(to(writer.into()), (Some(0), String::new()));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let (code, complaint) = to(full.into());
    assert_eq!(code, Some(2), "{complaint}");
    assert!(complaint.contains("No space left"), "{complaint}");
}

#[test]
fn an_unknown_experiment_gets_the_nearest_name() {
    assert!(refusal(&["run", "yeild"]).contains("did you mean 'yield'?"));
    assert!(refusal(&["run", "qwertz"]).contains("there are yield, cycle"));
}

#[test]
fn an_unknown_peer_gets_the_nearest_name() {
    assert!(refusal(&["run", "yield", "--peers", "tokoi"]).contains("did you mean 'tokio'?"));
    assert!(refusal(&["run", "yield", "--peers", "sinew/fare"]).contains("did you mean 'sinew/fair'?"));
}

#[test]
fn impossible_numbers_are_refused() {
    assert!(refusal(&["run", "yield", "--processors", "0"]).contains("at least 1"));
    assert!(refusal(&["run", "yield", "--processors", "9999"]).contains("1024"));
    assert!(refusal(&["run", "yield", "--repeat", "0"]).contains("at least 1"));
    for seconds in ["0", "-1", "NaN", "1e9"] {
        assert!(refusal(&["run", "yield", &format!("--seconds={seconds}")]).contains("is not between"), "{seconds}");
    }
}

#[test]
fn an_experiment_that_needs_two_processors_says_so() {
    assert!(refusal(&["run", "transfer", "--processors", "1"]).contains("needs 2 processors"));
}

#[test]
fn peers_that_take_no_part_in_an_experiment_are_refused() {
    for (experiment, peer) in
        [("yield", "bare/epoll"), ("blocking", "may"), ("memcached", "sinew/tasks"), ("hyper", "go")]
    {
        assert!(
            refusal(&["run", experiment, "--peers", peer]).contains("take no part in these experiments"),
            "{experiment} {peer}"
        );
    }
}

#[test]
fn the_same_number_of_processors_twice_is_measured_once() {
    let short = ["run", "yield", "--first-variant", "--peers", "tokio", "--seconds", "0.02", "--repeat", "1"];
    let output = lab(&[&short[..], &["--processors", "1,1"]].concat());
    let said = stdout(&output);
    assert!(said.contains("\n1 measurement in"), "{said}");
}

#[test]
fn paths_that_cannot_be_written_are_refused_before_anything_runs() {
    let short = ["run", "yield", "--peers", "tokio", "--seconds", "600"];
    for output in [["--json", "/proc/no/such.json"], ["--report", "/proc/no/such"]] {
        assert!(refusal(&[&short[..], &output].concat()).contains("/proc/no"));
    }
}

#[test]
fn more_processors_than_cpus_is_a_warning() {
    let output = lab(&[
        "run",
        "yield",
        "--first-variant",
        "--peers",
        "tokio",
        "--processors",
        "64",
        "--seconds",
        "0.05",
        "--repeat",
        "1",
    ]);
    let complaint = stderr(&output);
    assert!(output.status.success() && complaint.contains("warning: 64 processors on"), "{complaint}");
}

/// No process starts and ends within 4 µs.
#[test]
fn a_bar_of_a_case_that_did_not_complete_is_missed() {
    let at_once = ["run", "transfer", "--peers", "sinew/fair", "--processors", "2", "--repeat", "1"];
    let output = lab(&[&at_once[..], &["--seconds", "0.000001", "--limit", "0.000001", "--bars"]].concat());
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let missed = said.lines().filter(|line| line.contains("missed ") && line.ends_with("did not complete"));
    assert_eq!(missed.count(), 4, "{said}");
    assert!(said.ends_with("bars: 0 met, 4 missed, 1 not measured\n"), "{said}");
}

#[test]
fn only_an_option_prints_bars_and_a_bar_without_a_figure_is_not_missed() {
    let short = ["run", "burst", "--peers", "tokio", "--variants", "10000", "--seconds", "0.01", "--repeat", "1"];
    let without = lab(&short);
    assert!(!stdout(&without).contains("bars"));
    let output = lab(&[&short[..], &["--bars"]].concat());
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.ends_with("bars: 0 met, 0 missed, 2 not measured\n"), "{said}");
}

#[test]
fn an_unknown_variant_is_named() {
    assert!(
        refusal(&["run", "cycle", "--variants", "some"]).contains("no variant of these experiments is called 'some'")
    );
}

#[test]
fn the_bash_completion_is_accepted_by_bash() {
    let folder = Folder::new("completion");
    let script = folder.file("script");
    let output = lab(&["completions", "bash"]);
    assert!(output.status.success(), "{}", stderr(&output));
    for word in ["run", "compare", "list", "--peers", "--no-such"] {
        assert_eq!(stdout(&output).contains(word), word != "--no-such", "{word}");
    }
    std::fs::write(&script, &output.stdout).expect("a file");
    let checked = std::process::Command::new("bash").args(["-n", &script]).output().expect("bash");
    assert!(checked.status.success() && checked.stderr.is_empty(), "{}", stderr(&checked));
}

#[test]
fn man_pages_name_every_command_that_is_shown() {
    let folder = Folder::new("man");
    let output = lab(&["man", folder.path().to_str().expect("a plain path")]);
    assert!(output.status.success(), "{}", stderr(&output));
    let own = std::fs::read_to_string(folder.file("sinew-lab.1")).expect("a page");
    for command in ["list", "run", "compare", "completions", "man"] {
        assert!(own.contains(&format!("sinew\\-lab\\-{command}(1)")), "{command} in {own}");
        assert!(Path::new(&folder.file(&format!("sinew-lab-{command}.1"))).exists(), "{command}");
    }
    // The commands that the lab starts itself are hidden.
    assert!(!own.contains("measure(1)") && !Path::new(&folder.file("sinew-lab-measure.1")).exists());
}

/// Writes a file of results: `yield` of two peers at these rates.
fn results(path: &str, sinew: f64, tokio: f64) {
    let row = |peer: &str, rate: f64| {
        format!(
            "{{\"experiment\":\"yield\",\"peer\":\"{peer}\",\"processors\":2,\"threads\":200,\"metric\":\"ops_per_s\",\
             \"median\":{rate},\"min\":{},\"max\":{},\"runs\":5,\"completed\":true,\"better\":\"higher\"}}\n",
            rate * 0.99,
            rate * 1.01,
        )
    };
    std::fs::write(path, row("sinew/fair", sinew) + &row("tokio", tokio)).expect("a file");
}

#[test]
fn compare_exits_with_1_when_something_became_slower() {
    let folder = Folder::new("compare");
    let (old, same, slow) = (folder.file("old"), folder.file("same"), folder.file("slow"));
    results(&old, 1e8, 3e7);
    results(&same, 0.99e8, 3.02e7);
    results(&slow, 0.7e8, 3e7);
    let unchanged = lab(&["compare", &old, &same]);
    assert_eq!(unchanged.status.code(), Some(0), "{}", stdout(&unchanged));
    let slower = lab(&["compare", &old, &slow]);
    let said = stdout(&slower);
    assert_eq!(slower.status.code(), Some(1), "{said}");
    assert!(said.contains("slower by 43 %") && said.contains("yield, sinew/fair on 2"), "{said}");
}

#[test]
fn compare_says_which_line_of_which_file_is_no_result() {
    let folder = Folder::new("garbled");
    let (good, bad) = (folder.file("good"), folder.file("bad"));
    results(&good, 1.0, 1.0);
    std::fs::write(&bad, "{}\n").expect("a file");
    let complaint = refusal(&["compare", &good, &bad]);
    assert!(complaint.contains(&bad) && complaint.contains("line 1"), "{complaint}");
    assert!(!Path::new(&folder.file("missing")).exists());
    assert!(refusal(&["compare", &good, &folder.file("missing")]).contains("missing"));
}

#[test]
fn a_peer_that_hangs_is_stopped_and_reported() {
    let folder = Folder::new("hangs");
    let json = folder.file("json");
    let output = lab(&[
        "run",
        "transfer",
        "--peers",
        "tokio",
        "--processors",
        "2",
        "--seconds",
        "0.05",
        "--repeat",
        "1",
        "--limit",
        "1",
        "--json",
        &json,
    ]);
    assert!(output.status.success());
    assert!(stdout(&output).contains("did not complete"));
    let rows = std::fs::read_to_string(&json).expect("results");
    assert!(rows.contains("\"completed\":false"), "{rows}");
}
