use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::*;
use crate::case::Reading;

/// Far longer than a small run takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

const RUN_MS: &[&str] = &["cpu_ms", "run_ms"];

/// The actor benchmarks, their variants, and their metrics.
const NINE: [(&str, &str, &[&str]); 10] = [
    ("big", "-", RUN_MS),
    ("bang", "-", RUN_MS),
    ("logm", "-", RUN_MS),
    ("apsp", "-", RUN_MS),
    ("cdict", "-", RUN_MS),
    ("cdict", "64", RUN_MS),
    ("csll", "-", RUN_MS),
    ("nqn", "-", RUN_MS),
    ("trapr", "-", RUN_MS),
    ("pubsub", "-", &["deliveries_per_s", "latency_ms", "p99_ms"]),
];

const CHAT: (&str, &str, &[&str]) = (
    "chat",
    "closed",
    &[
        "deliveries_per_s",
        "max_us",
        "p10_us",
        "p1_us",
        "p25_us",
        "p50_us",
        "p75_us",
        "p90_us",
        "p999_us",
        "p99_us",
        "resident_bytes",
        "sent_per_s",
    ],
);

/// A program that has been built. Its folder is removed when this value is dropped.
struct Built(&'static Language, PathBuf);

impl Built {
    /// Builds the experiments. Returns `None` where the language is not installed.
    fn new(language: &'static Language, experiments: &[&str]) -> Option<Built> {
        if (language.version)().is_none() {
            eprintln!("skipped: {}", language.absent);
            return None;
        }
        let name = format!("sinew-lab-test-{}-{}-{}", language.name, experiments[0], std::process::id());
        let built = Built(language, std::env::temp_dir().join(name));
        language.build_into(&built.1, experiments).unwrap_or_else(|why| panic!("{}: {why}", language.name));
        Some(built)
    }

    /// Runs a case at a hundredth of its size.
    fn outcome(&self, case: &Case) -> Outcome {
        let mut small = serde_json::to_value(case).expect("a case is plain data");
        small["scale"] = 100.into();
        let mut command = (self.0.start)(&self.1.join(self.0.name), case);
        let mut child = command.arg(small.to_string()).stdout(Stdio::piped()).spawn().expect("the program");
        let output = child.stdout.take().expect("a pipe");
        let (sender, said) = channel();
        thread::spawn(move || sender.send(io::read_to_string(output)));
        let said = said.recv_timeout(LIMIT);
        let _ = child.kill();
        let status = child.wait().expect("the program");
        let said = said.unwrap_or_else(|_| panic!("{case:?} did not complete")).expect("its output");
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{case:?}: {status}: {error}: {said}"))
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

fn case(experiment: &str, variant: &str, processors: usize) -> Case {
    Case {
        experiment: experiment.to_owned(),
        peer: "other".to_owned(),
        processors,
        threads: 2000,
        variant: variant.to_owned(),
        seconds: 0.3,
    }
}

fn names(reading: &Reading) -> Vec<&str> {
    reading.iter().map(|(name, _)| name).collect()
}

fn every_result_is_right(language: &'static Language, experiments: &[(&str, &str, &[&str])]) {
    let mut needed: Vec<_> = experiments.iter().map(|(name, ..)| *name).collect();
    needed.dedup();
    let Some(built) = Built::new(language, &needed) else { return };
    for (experiment, variant, metrics) in experiments {
        assert!(language.knows(experiment), "{experiment}");
        for processors in [1, 2] {
            match built.outcome(&case(experiment, variant, processors)) {
                Outcome::Measured(reading) => {
                    assert_eq!(names(&reading), *metrics, "{experiment}");
                    // A short run may use less CPU time than a language can tell.
                    let is_possible = |(name, value)| value > 0.0 || name == "cpu_ms" && value == 0.0;
                    assert!(reading.iter().all(is_possible), "{experiment}: {reading:?}");
                }
                other => panic!("{experiment} of {}: {other:?}", language.name),
            }
        }
    }
}

#[test]
fn actors_in_go_have_the_right_results() {
    every_result_is_right(&go::GO, &NINE);
}

#[test]
fn actors_in_erlang_have_the_right_results() {
    every_result_is_right(&erlang::ERLANG, &NINE);
}

#[test]
fn actors_with_caf_have_the_right_results() {
    every_result_is_right(&caf::CAF, &NINE);
}

#[test]
fn the_chat_server_in_erlang_delivers_every_message() {
    let has_crypto = "halt(case code:which(crypto) of non_existing -> 1; _ -> 0 end).";
    let crypto = first_line_of(Command::new("erl").args(["-noinput", "-boot", "start_clean", "-eval", has_crypto]));
    match crypto {
        Some(_) => every_result_is_right(&erlang::ERLANG, &[CHAT]),
        None => eprintln!("skipped: erlang-crypto is not installed"),
    }
}

#[test]
fn a_program_that_cannot_be_built_says_why() {
    static ABSENT: Language = Language { version: || None, ..go::GO };
    let folder = std::env::temp_dir().join(format!("sinew-lab-test-absent-{}", std::process::id()));
    let refused = ABSENT.build_into(&folder, &["big"]);
    let _ = std::fs::remove_dir_all(&folder);
    assert_eq!(refused, Err("no Go toolchain is installed".to_owned()));
}

#[test]
fn a_short_case_is_told_as_the_whole_one_with_a_scale() {
    let mut case = case("big", SHORT, 2);
    let short = told(&case);
    assert_eq!((&short["variant"], &short["scale"]), (&WHOLE.into(), &SCALE.into()));
    case.variant = "1024".to_owned();
    assert_eq!(told(&case), serde_json::to_value(&case).unwrap());
}
