//! Ctrl-C: what the lab has started ends with it, and what was put down is taken away.

use std::{fs, io, process, thread};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::kernel;
use crate::load::server;
use crate::peers::go;

/// Watches from now on.
pub fn watch() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            for descendant in kernel::kill_descendants() {
                let _ = fs::remove_dir_all(server::folder_of(descendant));
            }
            let _ = fs::remove_file(go::program());
            eprintln!("\ninterrupted");
            process::exit(128 + signal);
        }
    });
    Ok(())
}
