//! `pollers`: the plaintext server of `web` on Sinew's fibres, with each way to poll: one poller
//! that the processors share, one for each processor, and a kernel thread that polls.

use std::io;

use sinew::io::Polling;

use super::serving::METRICS;
use super::web::{self, Serve};
use super::{Experiment, PLAIN, Plot, Variant};
use crate::case::Case;
use crate::peers::fibres::Fibres;
use crate::peers::{Body, Contender};

const CONNECTIONS: usize = 64;

/// The ways to poll, and their names.
const POLLINGS: [(&str, Polling); 3] =
    [("shared", Polling::Shared), ("per-processor", Polling::PerProcessor), ("thread", Polling::Thread)];

pub static POLLERS: Experiment = Experiment {
    name: "pollers",
    source: "Barghi’s thesis, 4.2; Sinew",
    measures: "As web, by Sinew’s fibres with 64 connections: with one poller that all processors share, one poller for each processor, and a kernel thread that does nothing but poll.",
    good: "The shared poller, which is the default, is no worse than the others.",
    metrics: METRICS,
    plots: &[Plot::Bars { metric: "ops_per_cpu_s" }, Plot::Bars { metric: "ops_per_s" }],
    is_pinned: false,
    others: "the experiment compares Sinew’s own ways to poll",
    concerns: Contender::is_fibres,
    variants: |_, _, _| POLLINGS.map(|(name, _)| Variant::new(name, CONNECTIONS)).to_vec(),
    measure: |case| web::measure(case).into(),
    serve: Some(serve),
    ..PLAIN
};

/// Runs in the server's process.
fn serve(case: &Case) -> io::Result<()> {
    let polling = POLLINGS.into_iter().find(|(name, _)| *name == case.variant);
    let (_, polling) = polling.ok_or_else(|| io::Error::other(format!("no way to poll: {}", case.variant)))?;
    Serve::measure(Fibres::with_polling(case.processors, &case.peer, polling), case);
    Ok(())
}
