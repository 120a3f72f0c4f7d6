//! A memcached server.

mod options;

pub use options::Options;

use crate::{runtime, stop::StopSignal};
use std::io;

/// Serves until it is told to stop.
pub fn run(options: Options) -> io::Result<()> {
    let runtime = runtime::build(&options.runtime)?;
    let mut stop = StopSignal::catch()?;
    runtime.run(move || stop.wait())
}
