#![doc = include_str!("../README.md")]

mod bars;
mod case;
mod cli;
mod compare;
mod experiments;
mod kernel;
mod load;
mod manual;
mod measure;
mod names;
mod peers;
mod process;
mod report;
mod rows;
mod run;
mod table;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use case::Case;
use cli::{Cli, Command, Output};
use peers::language;
use run::plan::{Plan, Planned, Wish};

/// The exit code if the arguments or a file are wrong.
const WRONG_USE: u8 = 2;
/// The exit code if `compare` finds a slower figure, or if `run --bars` finds a missed bar.
const SLOWER: u8 = 1;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        None => tour(cli.tour),
        Some(Command::List) => say(&list()).map(|()| ExitCode::SUCCESS),
        Some(Command::Run(run)) => run.wish(cpus()).and_then(|wish| conduct(wish, &run.output, run.bars)),
        Some(Command::Compare { old, new }) => compare(&old, &new),
        Some(Command::Measure { parent, case }) => measure(parent, &case),
        Some(Command::Manual(asked)) => {
            manual::run::<Cli>(asked).map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
        }
        Some(Command::Serve { parent, case }) => serve(parent, &case),
    };
    result.unwrap_or_else(|complaint| {
        eprintln!("sinew-lab: {complaint}");
        ExitCode::from(WRONG_USE)
    })
}

fn cpus() -> usize {
    kernel::allowed_cpus().map_or(1, |cpus| cpus.len())
}

fn tour(output: Output) -> Result<ExitCode, String> {
    let report = output.report.unwrap_or_else(|| PathBuf::from("lab-report"));
    let json = output.json.unwrap_or_else(|| report.join("results.jsonl"));
    conduct(cli::tour(cpus()), &Output { json: Some(json), report: Some(report) }, false)
}

fn conduct(wish: Wish, output: &Output, with_bars: bool) -> Result<ExitCode, String> {
    let cpus = cpus();
    if let Some(many) = wish.processors.iter().find(|&&processors| processors > cpus) {
        eprintln!("warning: {many} processors on {cpus} CPUs: the processors will wait for each other");
    }
    // A file that cannot be written is reported before the measurements, not after.
    let page = output.report.as_deref().map(|directory| {
        fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        create(&directory.join("index.html"))
    });
    let page = page.transpose()?;
    let json = output.json.as_deref().map(create).transpose()?;

    run::interruption::watch().map_err(|error| error.to_string())?;
    let setting = report::machine::Setting::now(&wish);
    let mut plan = Plan::of(wish);
    if let Some(Planned { experiment, case }) = plan.cases.iter().find(|planned| planned.shares_cpus(cpus)) {
        let (name, processors) = (experiment.name, case.processors);
        eprintln!("warning: {name} on {processors} of {cpus} CPUs: the load has no CPU of its own");
    }
    for language in language::ALL {
        let experiments = plan.experiments_of(language.name);
        if experiments.is_empty() {
            continue;
        }
        if let Err(why) = language.build(&experiments) {
            eprintln!("{} is skipped: {why}", language.name);
            plan.leave_out(language.name, &why);
        }
    }
    if plan.cases.is_empty() {
        let why = match plan.refusals.join("; ") {
            why if why.is_empty() => "these peers take no part in these experiments (see sinew-lab list)".to_owned(),
            why => why,
        };
        return Err(format!("nothing to measure: {why}"));
    }
    let begun = Instant::now();
    let run::Results { rows, measurements } = run::conduct(&plan);
    let _ = fs::remove_dir_all(language::programs());
    // The files come first: the reader of the tables may stop reading.
    let written = json.map_or(Ok(()), |path| write(&path, &rows::to_lines(&rows)));
    let written = written.and(match &page {
        Some(path) => write(path, &report::page(&rows, &setting, &plan.refusals, begun.elapsed())),
        None => Ok(()),
    });
    let measured =
        |experiment: &&&experiments::Experiment| plan.cases.iter().any(|p| p.experiment.name == experiment.name);
    let mut judgement = bars::Judgement::default();
    let mut text = String::new();
    for experiment in experiments::ALL.iter().filter(measured) {
        text += &table::tables(experiment, &rows);
        if with_bars {
            text += &judgement.judge(experiment, &rows);
        }
    }
    text.push('\n');
    plan.refusals.iter().for_each(|refusal| text += &format!("not measured: {refusal}\n"));
    text += &format!("{} in {}\n", table::counted(measurements, "measurement"), run::said(begun.elapsed()));
    if let (Some(path), Ok(())) = (page, &written) {
        text += &format!("report: {}\n", path.display());
    }
    if with_bars {
        text += &judgement.total();
    }
    let code = if judgement.is_missed() { ExitCode::from(SLOWER) } else { ExitCode::SUCCESS };
    say(&text).and(written).map(|()| code)
}

/// Prints the text. A closed pipe is no error.
fn say(text: &str) -> Result<(), String> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}

fn create(path: &Path) -> Result<PathBuf, String> {
    let opened = fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map(|_| path.to_owned()).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn compare(old: &Path, new: &Path) -> Result<ExitCode, String> {
    let read = |path: &Path| rows::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let comparison = compare::Comparison::of(&read(old)?, &read(new)?)?;
    say(&comparison.to_string())?;
    Ok(if comparison.is_slower() { ExitCode::from(SLOWER) } else { ExitCode::SUCCESS })
}

fn parse(parent: u32, case: &str) -> Result<(Case, &'static experiments::Experiment), String> {
    let case: Case = serde_json::from_str(case).map_err(|error| format!("cannot read the case: {error}"))?;
    let experiment =
        experiments::find(&case.experiment).ok_or_else(|| format!("unknown experiment: {}", case.experiment))?;
    peers::find(&case.peer).ok_or_else(|| format!("unknown peer: {}", case.peer))?;
    kernel::end_with_parent(parent).map_err(|error| error.to_string())?;
    Ok((case, experiment))
}

fn pin(case: &Case) -> Result<(), String> {
    kernel::pin_to(0..case.processors).map_err(|error| format!("cannot pin the process: {error}"))
}

/// Measures one case. Runs in a child.
fn measure(parent: u32, case: &str) -> Result<ExitCode, String> {
    let (case, experiment) = parse(parent, case)?;
    if experiment.is_pinned {
        pin(&case)?;
    }
    let outcome = (experiment.measure)(&case);
    println!("{}", serde_json::to_string(&outcome).expect("an outcome is plain data"));
    Ok(ExitCode::SUCCESS)
}

/// Serves one case. Runs in a child of a child.
fn serve(parent: u32, case: &str) -> Result<ExitCode, String> {
    let (case, experiment) = parse(parent, case)?;
    pin(&case)?;
    let serve = experiment.serve.ok_or_else(|| format!("{} has no server", experiment.name))?;
    serve(&case).map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
}

fn list() -> String {
    let mut text = String::from("Experiments:\n");
    for experiment in experiments::ALL {
        text += &format!("  {:<18}{}\n  {:<18}{}\n", experiment.name, experiment.source, "", experiment.measures);
    }
    text += "\nPeers:\n";
    for peer in peers::ALL {
        text += &format!("  {:<22}{}\n", peer.name, peer.about);
    }
    text
}
