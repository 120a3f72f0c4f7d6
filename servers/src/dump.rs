//! `sinew dump`: what the fibres, tasks and actors of a process do.

use crate::message;
use clap::Args;
use sinew_inspect::{Dump, Options as Contents, Target};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Show what the fibres, tasks and actors of a process wait for, and its deadlocks
///
/// Reads the memory of a process that uses Sinew, or a core file of one. The process is not stopped and does nothing for
/// it, so this works if all of its processors are stuck.
///
/// Deadlocks come first. Then come the processors, the locks that strands wait for, and the fibres, grouped by their
/// stacks. Those that there are most of come last.
///
/// Another process can be read by its user, unless the kernel forbids it (ptrace_scope); root can always read it.
#[derive(Args)]
pub struct Options {
    /// The number of a process, or the path of a core file
    #[arg(value_name = "PID|CORE")]
    target: String,

    /// Print JSON, with all strands
    #[arg(long)]
    json: bool,

    /// Also show the frames of the runtime around those of the program
    #[arg(long)]
    all_frames: bool,

    /// Read no stacks
    #[arg(long)]
    no_backtraces: bool,

    /// The program that a core file is of, if it has moved
    #[arg(long, value_name = "PATH")]
    exe: Option<PathBuf>,
}

/// Prints a dump.
///
/// # Errors
/// The process or core file cannot be read, or the output cannot be written. A closed pipe is no error.
pub fn run(options: Options) -> io::Result<()> {
    let target = match options.target.parse() {
        Ok(pid) => Target::process(pid)?,
        Err(_) => Target::core(Path::new(&options.target), options.exe.as_deref())?,
    };
    let contents = Contents { has_backtraces: !options.no_backtraces, has_all_frames: options.all_frames };
    let dump = Dump::take(&target, contents)?;
    let text = if options.json {
        serde_json::to_string(&dump).map_err(|error| io::Error::new(ErrorKind::OutOfMemory, error))? + "\n"
    } else {
        dump.to_string()
    };
    message::print(text.as_bytes())
}
