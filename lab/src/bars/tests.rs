use super::*;
use crate::case::Case;
use crate::experiments::{self, Depth, PLAIN};
use crate::peers;

static METRICS: [Metric; 2] =
    [Metric::higher("ops_per_s", "million/s", 1e6), Metric::lower("wait_us", "µs waited", 1.0)];

/// Twice Tokio's rate, 1.8 times the own rate on 1, never more than 10 µs.
static BARS: [Bar; 3] = [
    Bar::of("sinew/fair", "many", 1).at_least(2.0).over_peers(&["tokio", "may"]),
    Bar::of("sinew/fair", "many", 2).at_least(1.8).over_processors(1),
    Bar::of("sinew/fair", "many", 1).metric("wait_us").at_most(10.0).in_every_run(),
];

static EXPERIMENT: Experiment = Experiment { name: "test", metrics: &METRICS, bars: &BARS, ..PLAIN };

fn row(peer: &str, processors: usize, metric: &str, values: [f64; 3]) -> Row {
    let case = Case {
        experiment: "test".into(),
        peer: peer.into(),
        processors,
        threads: 1,
        variant: "many".into(),
        seconds: 1.0,
    };
    Row::new(&case, EXPERIMENT.metric(metric).expect("a metric of its own"), values.to_vec())
}

/// Sinew's rates on 1 and on 2 processors and its waits, beside Tokio's rate on 1.
fn rows(one: f64, two: f64, waits: [f64; 3], tokio: f64) -> Vec<Row> {
    vec![
        row("sinew/fair", 1, "ops_per_s", [one * 1e6; 3]),
        row("sinew/fair", 2, "ops_per_s", [two * 1e6; 3]),
        row("sinew/fair", 1, "wait_us", waits),
        row("tokio", 1, "ops_per_s", [tokio * 1e6; 3]),
    ]
}

fn judge(rows: &[Row]) -> (String, Judgement) {
    let mut judgement = Judgement::default();
    let text = judgement.judge(&EXPERIMENT, rows);
    (text, judgement)
}

#[test]
fn a_bar_that_is_reached_is_met() {
    let (text, judgement) = judge(&rows(30.0, 54.0, [1.0, 2.0, 10.0], 10.0));
    assert_eq!(
        text,
        "\n  bars\n    \
         met           sinew/fair, many, on 1: million/s at least 2 times tokio's or may's: 3.00\n    \
         met           sinew/fair, many, on 2: million/s at least 1.8 times its own on 1: 1.80\n    \
         met           sinew/fair, many, on 1: µs waited in every run at most 10: 10.0\n"
    );
    assert!(!judgement.is_missed());
    assert_eq!(judgement.total(), "bars: 3 met, 0 missed, 0 not measured\n");
}

#[test]
fn a_bar_that_is_not_reached_is_missed() {
    let (text, judgement) = judge(&rows(19.0, 34.0, [1.0, 2.0, 10.1], 10.0));
    let missed = text.lines().filter(|line| line.trim_start().starts_with("missed ")).count();
    assert_eq!(missed, 3, "{text}");
    assert!(judgement.is_missed());
    assert_eq!(judgement.total(), "bars: 0 met, 3 missed, 0 not measured\n");
}

#[test]
fn a_bar_that_is_just_missed_does_not_read_as_met() {
    let (text, _) = judge(&rows(20.0, 40.0, [1.0, 2.0, 10.001], 10.0));
    assert!(text.ends_with("in every run at most 10: 10.001000\n"), "{text}");
}

#[test]
fn the_best_of_several_peers_counts() {
    let mut rows = rows(25.0, 50.0, [1.0; 3], 10.0);
    rows.push(row("may", 1, "ops_per_s", [13e6; 3]));
    assert_eq!(judge(&rows).1.missed, 1);
}

#[test]
fn a_bar_without_its_figures_is_neither_met_nor_missed() {
    let mut rows = rows(20.0, 40.0, [1.0; 3], 10.0);
    rows.retain(|row| row.peer != "tokio" && row.processors == 1);
    let (text, judgement) = judge(&rows);
    assert_eq!(text.matches("not measured").count(), 2, "{text}");
    assert!(!judgement.is_missed());
}

#[test]
fn a_run_that_did_not_complete_misses_its_bars() {
    let mut rows = rows(20.0, 40.0, [1.0; 3], 10.0);
    rows.retain(|row| row.processors == 1 && row.metric == "ops_per_s");
    rows[0] = Row { completed: false, median: None, min: None, max: None, ..rows[0].clone() };
    let (text, judgement) = judge(&rows);
    assert_eq!(text.matches("did not complete").count(), 2, "{text}");
    assert!(judgement.is_missed());
}

#[test]
fn every_bar_is_about_something_that_a_full_run_measures() {
    for experiment in experiments::ALL {
        let measures = |peer: &str, variant: &str, processors: usize| {
            let peer = peers::find(peer).unwrap_or_else(|| panic!("{}: no peer {peer}", experiment.name));
            (experiment.concerns)(peer)
                && experiment.inability(peer).is_none()
                && processors >= experiment.least_processors
                && (experiment.variants)(Depth::Full, processors, peer).iter().any(|known| known.name == variant)
        };
        // The number of connections depends on the descriptors that a process may have here.
        let are_fewer = experiment.name == "connections" && experiments::connections::most_connections() < 10_000;
        for bar in experiment.bars.iter().filter(|_| !are_fewer) {
            let claim = bar.claim(experiment);
            assert!(measures(bar.peer, bar.variant, bar.processors), "{}: {claim}", experiment.name);
            let Some(other) = bar.over else { continue };
            let peers = if other.peers.is_empty() { std::slice::from_ref(&bar.peer) } else { other.peers };
            for peer in peers {
                let (variant, processors) =
                    (other.variant.unwrap_or(bar.variant), other.processors.unwrap_or(bar.processors));
                assert!(measures(peer, variant, processors), "{}: {claim}", experiment.name);
            }
        }
    }
}
