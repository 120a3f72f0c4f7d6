//! The version of the command, and what it finds on this machine.

use crate::message;
use clap::CommandFactory;
use rustix::system::uname;
use sinew::Runtime;
use std::fmt::Write;
use std::{io, thread};

/// Prints the version of the command `C`. If `is_verbose`, prints lines about the machine, too.
///
/// # Errors
/// A runtime cannot be built, or the output cannot be written. A closed pipe is no error.
pub fn print<C: CommandFactory>(is_verbose: bool) -> io::Result<()> {
    let mut text = C::command().render_version();
    if is_verbose {
        let runtime = Runtime::builder().processors(1).build()?;
        let kernel = uname();
        let [system, release, machine] =
            [kernel.sysname(), kernel.release(), kernel.machine()].map(|name| name.to_string_lossy());
        // Writing to a string does not fail.
        let _ = writeln!(text, "kernel: {system} {release} {machine}");
        let _ = writeln!(text, "CPUs: {}", thread::available_parallelism()?);
        let _ = writeln!(text, "io: {}", runtime.main_cluster().io());
    }
    message::print(text.as_bytes())
}
