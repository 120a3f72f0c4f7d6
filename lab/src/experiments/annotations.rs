//! `annotations`: `unbalanced`, with handlers that say how long they take. What they say is
//! right, wrong by a factor of a hundred, or nothing.
//!
//! Rounds count after 100 ms. By then the runtime has measured the handlers, and what they
//! said is forgotten.

use std::time::Duration;

use super::unbalanced::{EVENTS, METRICS, NONE, RIGHT, WRONG, on_sinew};
use super::{Bar, Experiment, PLAIN, Plot, Variant};
use crate::case::Outcome;
use crate::peers::events::{COLOURED, TIME};

const SETTLE: Duration = Duration::from_millis(100);

pub static ANNOTATIONS: Experiment = Experiment {
    name: "annotations",
    source: "Sinew, after Gaud et al. 2010 (Mely), 3.2",
    measures: "As unbalanced, by what the handlers say of the time that they take: it is right, wrong by a factor of 100, or they say nothing (none). Rounds count after 100 ms.",
    good: "Wrong annotations cost at most 5 % after 100 ms: the scheduler goes by what it has measured. In Mely they were all that it knew.",
    metrics: METRICS,
    plots: &[Plot::Bars { metric: "ops_per_s" }],
    least_processors: 2,
    concerns: |peer| [COLOURED, TIME].contains(&peer.name),
    others: "they have no handlers to annotate",
    variants: |_, _, _| ["right", "wrong", "none"].map(|name| Variant::new(name, EVENTS)).to_vec(),
    measure: |case| {
        let hints = match case.variant.as_str() {
            "right" => &RIGHT,
            "wrong" => &WRONG,
            _ => &NONE,
        };
        Outcome::Measured(on_sinew(case, hints, SETTLE))
    },
    bars: &[
        Bar::of(COLOURED, "wrong", 2).at_least(0.95).over_variant("right"),
        Bar::of(COLOURED, "none", 2).at_least(0.95).over_variant("right"),
    ],
    ..PLAIN
};
