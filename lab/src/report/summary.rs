//! The summary at the top of the page: for each experiment the best peer, and how far Sinew's
//! default and migrating runtimes are from the best other peer.

use std::fmt::Write;

use super::figures::{self, Unit};
use super::{class, escaped};
use crate::experiments::{Better, Experiment, Metric, Plot};
use crate::peers::{self, DEFAULT};
use crate::rows::Row;
use crate::table::Group;

/// Sinew's runtime with the default scheduler, whose fibres migrate.
const MIGRATING: &str = "sinew/fair";

/// Ratios beyond this say no more than that they are large.
const GREATEST: f64 = 1000.0;

/// How a runtime of Sinew's stands in one group of figures, or in all of an experiment.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Standing {
    /// The ratio to the best other peer: more than 1 is better than that peer.
    Ratio(f64),
    DidNotComplete,
    /// The runtime, or any other peer, takes no part.
    Absent,
}

/// One variant on one number of processors.
struct Match<'a> {
    title: String,
    metric: &'static Metric,
    /// The best peer, and its figure.
    best: Option<(&'a str, f64)>,
    default: Standing,
    migrating: Standing,
}

impl<'a> Match<'a> {
    fn of(experiment: &Experiment, group: &Group<'a>) -> Option<Match<'a>> {
        let metric = headline(experiment, group)?;
        let better = figures::better(metric);
        let figure_of = |peer: &str| group.row(peer, metric.name).and_then(|row| row.median);
        let ranked = |is_one: &dyn Fn(&str) -> bool| {
            let own = group.peers.iter().copied().filter(|peer| peers::find(peer).is_some() && is_one(peer));
            let with = own.filter_map(|peer| Some((peer, figure_of(peer)?)));
            with.reduce(|best, next| if advantage(better, next.1, best.1) > 1.0 { next } else { best })
        };
        let best_other = ranked(&|peer| peers::family(peer) != "sinew");
        let standing = |peer: &str| match (figure_of(peer), best_other) {
            _ if group.trouble(peer).is_some() => Standing::DidNotComplete,
            (Some(own), Some((_, other))) => Standing::Ratio(advantage(better, own, other)),
            _ => Standing::Absent,
        };
        Some(Match {
            title: group.title(),
            metric,
            best: ranked(&|_| true),
            default: standing(DEFAULT),
            migrating: standing(MIGRATING),
        })
    }
}

/// Returns the metric that decides a group: that of the experiment's first plot, or else the first
/// one with a better side.
fn headline(experiment: &Experiment, group: &Group) -> Option<&'static Metric> {
    let metrics = group.metrics(experiment);
    let plotted = experiment.plots.iter().find_map(|plot| match plot {
        Plot::Bars { metric } | Plot::Normalised { metric } | Plot::Lines { metric } => Some(*metric),
        Plot::Quantiles | Plot::Letters { .. } => None,
    });
    let has_side = |metric: &&&'static Metric| figures::better(metric) != Better::Neither;
    let first = metrics.iter().filter(has_side).find(|metric| Some(metric.name) == plotted);
    first.or_else(|| metrics.iter().find(has_side)).copied()
}

/// Returns how many times `own` is better than `other`.
fn advantage(better: Better, own: f64, other: f64) -> f64 {
    let (above, below) = if better == Better::Lower { (other, own) } else { (own, other) };
    let ratio = if above == below { 1.0 } else { above / below };
    ratio.clamp(1.0 / GREATEST, GREATEST)
}

fn times(ratio: f64) -> String {
    match ratio {
        _ if ratio >= GREATEST => format!("over {GREATEST}×"),
        _ if ratio <= 1.0 / GREATEST => format!("under {}×", 1.0 / GREATEST),
        _ if ratio < 0.1 => format!("{ratio:.3}×"),
        _ if ratio < 10.0 => format!("{ratio:.2}×"),
        _ => format!("{ratio:.0}×"),
    }
}

/// Returns the mean of the ratios, and their words.
fn together(standings: &[Standing]) -> (Standing, String) {
    let ratios: Vec<f64> =
        standings.iter().filter_map(|s| if let Standing::Ratio(r) = s { Some(*r) } else { None }).collect();
    let incomplete = standings.iter().filter(|standing| **standing == Standing::DidNotComplete).count();
    if ratios.is_empty() {
        return match incomplete {
            0 => (Standing::Absent, "–".to_owned()),
            _ => (Standing::DidNotComplete, "did not complete".to_owned()),
        };
    }
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let (least, most) = ratios.iter().fold((f64::MAX, 0.0_f64), |(least, most), &r| (least.min(r), most.max(r)));
    let mut words = format!("<b>{}</b>", times(mean));
    if ratios.len() > 1 {
        let _ = write!(words, " <small>{} to {}</small>", times(least), times(most));
    }
    if incomplete > 0 {
        let _ = write!(words, " <small>{incomplete} of {} did not complete</small>", ratios.len() + incomplete);
        return (Standing::DidNotComplete, words);
    }
    (Standing::Ratio(mean), words)
}

/// Returns the class of the style sheet and the words of a verdict. Ratios within `level` of 1 are
/// level.
fn verdict(default: Standing, migrating: Standing, level: f64) -> (&'static str, &'static str) {
    let is_ahead = |standing| matches!(standing, Standing::Ratio(ratio) if ratio > 1.0 + level);
    match default {
        Standing::Ratio(ratio) if ratio > 1.0 + level => ("ahead", "the default is ahead"),
        Standing::Ratio(ratio) if ratio >= 1.0 / (1.0 + level) => ("level", "the default is level"),
        Standing::Ratio(_) if is_ahead(migrating) => ("mixed", "only migrating is ahead"),
        Standing::Ratio(_) => ("behind", "the default is behind"),
        Standing::DidNotComplete if is_ahead(migrating) => ("mixed", "only migrating completes"),
        Standing::DidNotComplete => ("behind", "the default does not complete"),
        Standing::Absent => ("", "no comparison"),
    }
}

/// Appends the table, with a row for each experiment. Ratios within `level` of 1 are level.
pub fn table(html: &mut String, shown: &[&Experiment], rows: &[Row], level: f64) {
    *html += "<div class=\"wide\"><table class=\"summary\">\n<tr><th>Experiment</th><th>Verdict</th><th>Best \
              peer</th><th>Default over the best other</th><th>Migrating over the best other</th></tr>\n";
    let mut details = String::new();
    for experiment in shown {
        let groups = Group::all(experiment, rows);
        let matches: Vec<Match> = groups.iter().filter_map(|group| Match::of(experiment, group)).collect();
        let of = |side: fn(&Match) -> Standing| together(&matches.iter().map(side).collect::<Vec<_>>());
        let ((default, default_words), (migrating, migrating_words)) = (of(|m| m.default), of(|m| m.migrating));
        let (kind, verdict) = verdict(default, migrating, level);
        let name = experiment.name;
        let _ = writeln!(
            html,
            "<tr><th><a href=\"#{name}\">{name}</a></th><td class=\"{kind}\">{verdict}</td><td>{}</td>\
             <td>{default_words}</td><td>{migrating_words}</td></tr>",
            best_of(&matches)
        );
        matches.iter().for_each(|one| detail(&mut details, name, one));
    }
    *html += "</table></div>\n<details><summary>Every variant and number of processors</summary>\n<div \
              class=\"wide\"><table class=\"summary\">\n<tr><th>Experiment</th><th>Measured by</th><th>Best peer</th>\
              <th>Default over the best other</th><th>Migrating over the best other</th></tr>\n";
    *html += &details;
    *html += "</table></div>\n</details>\n";
}

/// Returns the peer that is best in most groups.
fn best_of(matches: &[Match]) -> String {
    let winners: Vec<&str> = matches.iter().filter_map(|one| Some(one.best?.0)).collect();
    let wins = |peer: &str| winners.iter().filter(|winner| **winner == peer).count();
    // Of those with the same number of wins, the first one.
    let Some(best) = winners.iter().rev().copied().max_by_key(|peer| wins(peer)) else { return "–".to_owned() };
    let of = if winners.len() > 1 {
        format!(" <small>in {} of {}</small>", wins(best), winners.len())
    } else {
        String::new()
    };
    format!("{}{of}", named(best))
}

fn named(peer: &str) -> String {
    format!("<span class=\"chip {}\"></span>{}", class(peer), escaped(peer))
}

fn detail(html: &mut String, name: &str, one: &Match) {
    let unit = Unit::of(one.metric);
    let best = one
        .best
        .map_or("–".to_owned(), |(peer, value)| format!("{} <small>{}</small>", named(peer), unit.said(value)));
    let words = |standing| together(&[standing]).1;
    let _ = writeln!(
        html,
        "<tr><th>{name} <small>{}</small></th><td>{}</td><td>{best}</td><td>{}</td><td>{}</td></tr>",
        escaped(&one.title),
        escaped(&figures::head(one.metric)),
        words(one.default),
        words(one.migrating),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, Outcome, Reading};
    use crate::experiments;
    use crate::rows;

    fn rows_of(experiment: &str, peer: &str, outcome: Outcome) -> Vec<Row> {
        let case = Case {
            experiment: experiment.to_owned(),
            peer: peer.to_owned(),
            processors: 2,
            threads: 200,
            variant: "many".to_owned(),
            seconds: 1.0,
        };
        rows::of_case(experiments::find(experiment).expect("an experiment"), &case, &[outcome])
    }

    fn measured(experiment: &str, metric: &str, figures: &[(&str, f64)]) -> Vec<Row> {
        let one =
            |(peer, value): &(&str, f64)| rows_of(experiment, peer, Outcome::Measured(Reading::of([(metric, *value)])));
        figures.iter().flat_map(one).collect()
    }

    fn summary(experiment: &str, rows: &[Row]) -> String {
        let mut html = String::new();
        table(&mut html, &[experiments::find(experiment).expect("an experiment")], rows, 0.05);
        html
    }

    #[test]
    fn more_of_a_rate_and_less_of_a_time_are_better() {
        let html =
            summary("yield", &measured("yield", "ops_per_s", &[(DEFAULT, 6e7), (MIGRATING, 9e7), ("tokio", 3e7)]));
        assert!(html.contains("<b>2.00×</b>") && html.contains("<b>3.00×</b>"), "{html}");
        assert!(html.contains("the default is ahead") && html.contains("</span>sinew/fair"), "{html}");
        let html = summary(
            "spawn",
            &measured("spawn", "spawn_join_ns", &[(DEFAULT, 100.0), (MIGRATING, 100.0), ("may", 50.0)]),
        );
        assert!(html.contains("<b>0.50×</b>") && html.contains("the default is behind"), "{html}");
        assert!(html.contains("</span>may"), "{html}");
    }

    #[test]
    fn a_default_that_does_not_complete_is_no_winner() {
        let mut rows = rows_of("transfer", DEFAULT, Outcome::DidNotComplete);
        rows.extend(measured("transfer", "mean_us", &[(MIGRATING, 50.0), ("threads", 5000.0)]));
        let html = summary("transfer", &rows);
        assert!(html.contains("did not complete") && html.contains("only migrating completes"), "{html}");
    }

    #[test]
    fn what_is_level_depends_on_the_machine() {
        let verdicts = |ratio| [0.05, 0.33].map(|level| verdict(Standing::Ratio(ratio), Standing::Absent, level).0);
        assert_eq!(verdicts(1.2), ["ahead", "level"]);
        assert_eq!(verdicts(0.8), ["behind", "level"]);
        assert_eq!(verdicts(0.7), ["behind", "behind"]);
        assert_eq!(verdicts(0.97), ["level", "level"]);
    }

    #[test]
    fn without_another_peer_there_is_no_comparison() {
        let html = summary("migrate", &measured("migrate", "ops_per_s", &[(MIGRATING, 1e6)]));
        assert!(html.contains("no comparison"), "{html}");
    }

    #[test]
    fn zero_beside_zero_is_level() {
        let html = summary("idle", &measured("idle", "cpu_us_per_s", &[(DEFAULT, 0.0), ("tokio", 0.0)]));
        assert!(html.contains("the default is level"), "{html}");
    }
}
