//! `examples/ported.rs` is `examples/threaded.rs` with other `use` lines, and does the same.

#[macro_use]
mod fixture;

// The tests only use `demonstrate`.
#[allow(dead_code)]
#[path = "../examples/ported.rs"]
mod ported;
#[allow(dead_code)]
#[path = "../examples/threaded.rs"]
mod threaded;

use fixture::everywhere;
use fixture::rerun::Rerun;

const ORIGINAL: &str = include_str!("../examples/threaded.rs");
const PORT: &str = include_str!("../examples/ported.rs");

/// Returns the sorted `use` lines of a program, and its other lines without the comment at its
/// head.
fn parts(program: &str) -> (Vec<&str>, Vec<&str>) {
    let code = program.lines().filter(|line| !line.starts_with("//!"));
    let (mut uses, rest): (Vec<_>, Vec<_>) = code.partition(|line| line.starts_with("use "));
    uses.sort_unstable();
    (uses, rest)
}

#[test]
fn only_use_lines_differ_and_the_comment_of_the_port_lists_them() {
    let ((before, original), (after, port)) = (parts(ORIGINAL), parts(PORT));
    assert!(original.len() > 100, "{} lines", original.len());
    assert_eq!(original, port);
    let gone = before.iter().filter(|line| !after.contains(line)).map(|line| format!("//! -{line}"));
    let come = after.iter().filter(|line| !before.contains(line)).map(|line| format!("//! +{line}"));
    let diff: Vec<_> = gone.chain(come).collect();
    assert!(PORT.contains(&diff.join("\n")), "the comment at the head says something else:\n{}", diff.join("\n"));
    let told = PORT.lines().filter(|line| line.starts_with("//! -use") || line.starts_with("//! +use")).count();
    assert_eq!(told, diff.len());
}

#[test]
fn the_port_does_the_same_as_the_original() {
    let outcome = in_child!(Rerun::new(), || {
        let (original, port) = (threaded::demonstrate().unwrap(), ported::demonstrate().unwrap());
        assert_eq!(original, port);
        println!("{port}");
    });
    outcome.assert_success("100 clients asked 2300 questions; the sum is 99000");
    outcome.assert_success("100 said goodbye, 1 fell silent and was told: too slow");
}

#[test]
fn the_port_also_runs_in_a_runtime_built_by_the_caller() {
    everywhere(|rt, _| {
        let report = rt.run(ported::demonstrate).unwrap();
        assert!(report.contains("100 said goodbye, 1 fell silent"), "{report}");
    });
}
