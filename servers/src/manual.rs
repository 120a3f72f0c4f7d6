//! Shell completions and man pages, made from the command line's own description.

use crate::message;
use clap::{CommandFactory, Subcommand};
use clap_complete::{Shell, generate};
use std::fs;
use std::io;
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum Manual {
    /// Print the script that completes this command's arguments in a shell
    ///
    /// For bash: sinew completions bash > ~/.local/share/bash-completion/completions/sinew
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write man pages into a directory: one for this command, and one for each of its commands
    ///
    /// To read them: sinew man /tmp/man && man /tmp/man/sinew-web.1
    Man {
        /// The directory; it is made if there is none
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// Prints or writes what is asked for about the command `C`.
///
/// # Errors
/// The output cannot be written. A closed pipe is no error.
pub fn run<C: CommandFactory>(manual: Manual) -> io::Result<()> {
    let mut command = C::command();
    match manual {
        Manual::Completions { shell } => {
            let name = command.get_name().to_owned();
            // Generating into a pipe would panic when the reader leaves.
            let mut script = Vec::new();
            generate(shell, &mut command, name, &mut script);
            message::print(&script)
        }
        Manual::Man { directory } => {
            let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", directory.display()));
            fs::create_dir_all(&directory).map_err(named)?;
            clap_mangen::generate_to(command, &directory).map_err(named)
        }
    }
}
