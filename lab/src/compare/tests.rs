use super::*;
use crate::case::Case;
use crate::experiments::Metric;
use crate::measure::random::Random;

const PEERS: [&str; 6] = ["sinew/fair", "sinew/inverted", "sinew/shared", "tokio", "may", "threads"];
const EXPERIMENTS: [&str; 8] = ["yield", "cycle", "churn", "locality", "spawn", "channel", "mutex", "skew"];

const METRIC: Metric = Metric::higher("ops_per_s", "million/s", 1e6);

/// Returns the results of a machine whose runs scatter by `within`. Each figure is off by
/// `between` in the whole file.
fn results(seed: usize, within: f64, between: f64, slowed: impl Fn(&str, &str) -> f64) -> Vec<Row> {
    let mut random = Random::of(seed);
    // The sum of three is near enough to normal, with deviation 1.
    let mut normal = move || (0..3).map(|_| random.fraction() - 0.5).sum::<f64>() * 2.0;
    let mut rows = Vec::new();
    for experiment in EXPERIMENTS {
        for peer in PEERS {
            for processors in [1, 2] {
                let level = 1e7 * slowed(experiment, peer) * (between * normal()).exp();
                let values: Vec<f64> = (0..5).map(|_| level * (within * normal()).exp()).collect();
                let case = Case {
                    experiment: experiment.into(),
                    peer: peer.into(),
                    processors,
                    threads: 100,
                    variant: "-".into(),
                    seconds: 1.0,
                };
                rows.push(Row::new(&case, &METRIC, values));
            }
        }
    }
    rows
}

/// Two files of the same build, a hundred times, with 96 figures each.
#[test]
fn the_same_build_is_not_slower_than_itself() {
    let wrong = (0..100).filter(|seed| {
        let (old, new) = (results(2 * seed, 0.04, 0.04, |_, _| 1.0), results(2 * seed + 1, 0.04, 0.04, |_, _| 1.0));
        Comparison::of(&old, &new).unwrap().is_slower()
    });
    let wrong = wrong.count();
    assert!(wrong <= 3, "{wrong} of 100");
}

#[test]
fn a_fifth_slower_yield_is_found() {
    let slowed = |experiment: &str, peer: &str| match experiment == "yield" && peer.starts_with("sinew") {
        true => 1.0 / 1.2,
        false => 1.0,
    };
    let found = (0..100).filter(|seed| {
        let (old, new) = (results(2 * seed, 0.04, 0.04, |_, _| 1.0), results(2 * seed + 1, 0.04, 0.04, slowed));
        let comparison = Comparison::of(&old, &new).unwrap();
        comparison.slower.iter().any(|change| change.what.starts_with("yield, sinew: "))
    });
    let found = found.count();
    assert!(found >= 95, "{found} of 100");
}

/// Returns `yield` of Sinew and Tokio on a busy machine: forty runs of each, three of four of
/// them slowed by up to a half. Their costs are multiplied by `ours` and `theirs`.
fn busy(seed: usize, ours: f64, theirs: f64) -> Vec<Row> {
    let mut random = Random::of(seed);
    let mut rows = results(seed, 0.0, 0.0, |_, _| 1.0);
    rows.retain(|row| row.experiment == "yield" && ["sinew/fair", "tokio"].contains(&row.peer.as_str()));
    for row in &mut rows {
        let level = if row.peer == "tokio" { 3e6 / theirs } else { 1e7 / ours };
        let mut run = || level / (1.0 + (random.fraction() - 0.25).max(0.0) * 0.7 + 0.01 * random.fraction());
        row.values = (0..40).map(|_| run()).collect();
        row.median = median(&row.values);
    }
    rows
}

/// Multiplies the runs of this peer.
fn multiply(rows: &mut [Row], peer: &str, mut factor: impl FnMut(usize) -> f64) {
    for row in rows.iter_mut().filter(|row| row.peer == peer) {
        row.values.iter_mut().enumerate().for_each(|(round, value)| *value *= factor(round));
        row.median = median(&row.values);
    }
}

fn without(mut rows: Vec<Row>, peer: &str) -> Vec<Row> {
    rows.retain(|row| row.peer != peer);
    rows
}

fn compare(old: &[Row], new: &[Row]) -> Comparison {
    Comparison::of(old, new).unwrap()
}

#[test]
fn a_fifth_is_found_in_many_short_runs_on_a_busy_machine() {
    for seed in 0..50 {
        let same = compare(&busy(3 * seed, 1.0, 1.0), &busy(3 * seed + 1, 1.0, 1.0));
        assert!(!same.is_slower(), "seed {seed}: {same}");
        let slow = compare(&busy(3 * seed, 1.0, 1.0), &busy(3 * seed + 2, 1.2, 1.0));
        assert!(slow.is_slower(), "seed {seed}: {slow}");
    }
}

#[test]
fn a_host_that_is_slower_for_one_other_peer_too_is_no_alarm() {
    for seed in 0..50 {
        let (old, new) = (busy(2 * seed, 1.0, 1.0), busy(2 * seed + 1, 1.3, 1.3));
        let comparison = compare(&old, &new);
        assert!(!comparison.is_slower(), "seed {seed}: {comparison}");
        assert!(comparison.to_string().contains("the machine or the peer changed: slower by"), "{comparison}");
        // The reason is the other peer.
        let (old, new) = (without(old, "tokio"), without(new, "tokio"));
        assert!(compare(&old, &new).is_slower(), "seed {seed}");
    }
}

/// The machine is slower by a half, for a while, in which all peers have their turns.
#[test]
fn two_fifths_are_found_although_the_host_is_slower_for_all() {
    for seed in 0..50 {
        let (mut old, mut new) = (busy(2 * seed, 1.0, 1.0), busy(2 * seed + 1, 1.4, 1.0));
        for (rows, begin) in [(&mut old, 30), (&mut new, 2)] {
            for peer in ["sinew/fair", "tokio"] {
                multiply(rows, peer, |round| if round >= begin { 1.0 / 1.5 } else { 1.0 });
            }
        }
        let comparison = compare(&old, &new);
        assert!(comparison.is_slower(), "seed {seed}: {comparison}");
    }
}

/// Besides, Tokio's runs are slowed by up to a half each.
#[test]
fn a_control_that_scatters_hides_nothing() {
    let found = (0..100).filter(|seed| {
        let (mut old, mut new) = (busy(2 * seed, 1.0, 1.0), busy(2 * seed + 1, 1.2, 1.0));
        let mut random = Random::of(*seed);
        for rows in [&mut old, &mut new] {
            multiply(rows, "tokio", |_| 1.0 / (1.0 + 0.5 * random.fraction()));
        }
        compare(&old, &new).is_slower()
    });
    let found = found.count();
    assert!(found >= 95, "{found} of 100");
}

#[test]
fn without_a_control_a_figure_is_judged_alone_and_the_output_says_so() {
    for seed in 0..50 {
        let old = busy(3 * seed, 1.0, 1.0);
        let (same, slow) = (busy(3 * seed + 1, 1.0, 1.0), busy(3 * seed + 2, 1.2, 1.0));
        let lonely = |rows: &[Row]| without(rows.to_vec(), "tokio");
        // In neither file, in the new one only, in the old one only.
        for (old, same, slow) in [
            (lonely(&old), lonely(&same), lonely(&slow)),
            (lonely(&old), same.clone(), slow.clone()),
            (old.clone(), lonely(&same), lonely(&slow)),
        ] {
            let (same, slow) = (compare(&old, &same), compare(&old, &slow));
            assert!(!same.is_slower(), "seed {seed}: {same}");
            assert!(slow.is_slower(), "seed {seed}: {slow}");
            let said = slow.to_string();
            assert!(said.contains("no other peer is in both files"), "{said}");
            assert!(said.contains("(no other peer tells whether it was the machine)"), "{said}");
        }
    }
}

/// Tokio's `yield` did not complete; its `cycle` did.
#[test]
fn without_a_control_of_its_own_a_figure_has_the_controls_of_others() {
    for seed in 0..50 {
        let results = |seed: usize, cost: f64| {
            let cycle = busy(seed + 1000, cost, cost).into_iter().map(|row| Row { experiment: "cycle".into(), ..row });
            without(busy(seed, cost, cost), "tokio").into_iter().chain(cycle).collect::<Vec<_>>()
        };
        let comparison = compare(&results(2 * seed, 1.0), &results(2 * seed + 1, 1.3));
        assert!(!comparison.is_slower(), "seed {seed}: {comparison}");
    }
}

#[test]
fn a_control_that_changed_is_not_our_regression() {
    for seed in 0..50 {
        let old = busy(3 * seed, 1.0, 1.0);
        for (new, direction) in
            [(busy(3 * seed + 1, 1.0, 1.5), "slower"), (busy(3 * seed + 2, 1.0, 1.0 / 1.5), "faster")]
        {
            let comparison = compare(&old, &new);
            assert!(!comparison.is_slower(), "seed {seed}: {comparison}");
            let said = format!("the machine or the peer changed: {direction} by");
            assert!(comparison.to_string().contains(&said), "seed {seed}: {comparison}");
        }
    }
}

#[test]
fn a_control_that_no_longer_completes_is_not_our_regression() {
    let old = busy(1, 1.0, 1.0);
    let mut new = old.clone();
    for row in new.iter_mut().filter(|row| row.peer == "tokio") {
        *row = Row { completed: false, median: None, min: None, max: None, values: Vec::new(), ..row.clone() };
    }
    let comparison = compare(&old, &new);
    assert!(!comparison.is_slower() && comparison.to_string().contains("no longer completes: yield, tokio"));
}

/// The best of many and the middle of few are not the same thing.
#[test]
fn few_runs_are_not_slower_than_many_of_the_same_build() {
    for seed in 0..50 {
        let (old, mut new) = (busy(2 * seed, 1.0, 1.0), busy(2 * seed + 1, 1.0, 1.0));
        new.iter_mut().for_each(|row| row.values.truncate(5));
        let comparison = compare(&old, &new);
        assert!(!comparison.is_slower(), "seed {seed}: {comparison}");
    }
}

#[test]
fn a_machine_that_is_slower_for_all_peers_is_no_alarm() {
    let (old, new) = (results(1, 0.02, 0.02, |_, _| 1.0), results(2, 0.02, 0.02, |_, _| 0.7));
    let comparison = Comparison::of(&old, &new).unwrap();
    assert!(!comparison.is_slower(), "{comparison}");
}

#[test]
fn no_figure_is_slower_because_others_became_faster() {
    let faster = |_: &str, peer: &str| if peer.starts_with("sinew") { 1.3 } else { 1.0 };
    for seed in 0..20 {
        let (old, new) = (results(2 * seed, 0.03, 0.02, |_, _| 1.0), results(2 * seed + 1, 0.03, 0.02, faster));
        let comparison = Comparison::of(&old, &new).unwrap();
        assert!(!comparison.is_slower() && !comparison.faster.is_empty(), "seed {seed}: {comparison}");
    }
}

#[test]
fn a_figure_that_no_longer_completes_is_slower() {
    let old = results(1, 0.02, 0.02, |_, _| 1.0);
    let mut new = old.clone();
    new[0] = Row { completed: false, median: None, min: None, max: None, values: Vec::new(), ..new[0].clone() };
    let comparison = Comparison::of(&old, &new).unwrap();
    assert!(comparison.is_slower() && comparison.slower.is_empty());
}

#[test]
fn files_without_a_common_figure_are_an_error() {
    assert!(Comparison::of(&results(1, 0.0, 0.0, |_, _| 1.0)[..1], &[]).is_err());
}
