//! `sinew trace`: what the processors of a process do, as a picture over time.

use crate::message;
use crate::runtime::seconds;
use clap::Args;
use sinew_inspect::Target;
use sinew_inspect::trace::Tracer;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Record what the processors and fibres of a process do, as a trace for Perfetto
///
/// Reads the flight recorder of a process that uses Sinew, or of a core file of one: which fibre ran where and when, what
/// it waited for, and who woke it. The process is not stopped. The trace also has what the recorder has kept of the
/// time before. Of a core file it has the last moments.
///
/// Open the trace at https://ui.perfetto.dev: it stays in the browser.
///
/// The recorder has to be on: start the program with SINEW_RECORD=1 in its environment, or let it call
/// sinew::inspect::record(true).
#[derive(Args)]
#[command(after_help = "Examples:
  SINEW_RECORD=1 sinew web DIR &
  sinew trace $! > trace                  the next 5 seconds
  sinew trace $! --seconds 1 -o trace     the next second
  sinew trace core -o trace               the last moments before a crash")]
pub struct Options {
    /// The number of a process, or the path of a core file
    #[arg(value_name = "PID|CORE")]
    target: String,

    /// How long to read a process; 0 reads only what the recorder has
    #[arg(short, long, value_name = "SECONDS", value_parser = some_seconds, default_value = "5")]
    seconds: Duration,

    /// Write the trace to a file; without this, to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The program that a core file is of, if it has moved
    #[arg(long, value_name = "PATH")]
    exe: Option<PathBuf>,
}

fn some_seconds(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { seconds(text) }
}

/// Writes a trace.
///
/// # Errors
/// The process or core file cannot be read, its recorder is off, or the output cannot be written. A closed pipe is no
/// error.
pub fn run(options: Options) -> io::Result<()> {
    if options.output.is_none() && io::stdout().is_terminal() {
        return Err(io::Error::other("a trace is not for a terminal: write it to a file with --output FILE"));
    }
    let target = match options.target.parse() {
        Ok(pid) => Target::process(pid)?,
        Err(_) => Target::core(Path::new(&options.target), options.exe.as_deref())?,
    };
    let mut tracer = Tracer::new(target.memory(), target.layout())?;
    match target.memory().is_live() {
        true => tracer.watch(options.seconds)?,
        false => _ = tracer.read()?,
    }
    let program = target.modules().first().and_then(|module| module.path.rsplit('/').next());
    let trace = tracer.finish(target.pid(), program.unwrap_or("process"))?;
    if trace.entries + trace.lost == 0 {
        return Err(io::Error::other(format!(
            "the flight recorder of {} is off: start the program with SINEW_RECORD=1 in its environment, or let it call \
             sinew::inspect::record(true)",
            options.target
        )));
    }
    if !trace.is_recording {
        message::say(format_args!("sinew: the flight recorder is off by now: the trace has what it kept"));
    }
    if trace.is_cut {
        message::say(format_args!("sinew: the trace ends early: more would be too large to look at"));
    }
    if trace.lost > 0 {
        message::say(format_args!(
            "sinew: {} slots of entries were overwritten before they were read, {} entries were read; a larger ring loses fewer \
             (SINEW_RECORD=1000000)",
            trace.lost, trace.entries
        ));
    }
    match &options.output {
        Some(path) => fs::write(path, &trace.bytes)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        None => message::print(&trace.bytes),
    }
}
