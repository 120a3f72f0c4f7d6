//! Ctrl-C: ends the processes that the lab has started, and removes their files.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::{fs, io, process, thread};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::kernel;
use crate::load::server;
use crate::peers::language;

/// Whether the lab is about to end.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Watches for signals from now on.
pub fn watch() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // Pairs with the load in `stand_aside`.
            INTERRUPTED.store(true, Release);
            for descendant in kernel::kill_descendants() {
                let _ = fs::remove_dir_all(server::folder_of(descendant));
            }
            let _ = fs::remove_dir_all(language::programs());
            eprintln!("\ninterrupted");
            process::exit(128 + signal);
        }
    });
    Ok(())
}

/// Blocks for ever if the lab is about to end. The result of a child that it killed must not be
/// reported.
pub fn stand_aside() {
    // Pairs with the store in `watch`.
    while INTERRUPTED.load(Acquire) {
        thread::park();
    }
}
