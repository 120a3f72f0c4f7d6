//! Letter values: for each peer a row of boxes that hold half of its times, four fifths, and nearly all, and a dot for the
//! longest. Another figure of the peer stands behind its row.

use std::fmt::Write;

use super::{
    Axis, BOLD_LETTER, Caption, LETTER, MICROSECONDS, WIDTH, class, close, escaped, line, open, runs_of, text,
};
use crate::experiments::{Experiment, Metric};
use crate::measure::latency::{LETTERS, QUANTILES};
use crate::report::figures::{Unit, head};
use crate::table::Group;

/// The quantiles at both ends of a box, and the box's share of a row's height. A box that is drawn later covers others.
const BOXES: [(&str, &str, f64); 4] =
    [("p99", "p999", 0.15), ("p1", "p99", 0.3), ("p10", "p90", 0.6), ("p25", "p75", 1.0)];

pub fn draw(html: &mut String, experiment: &Experiment, beside: &Metric, group: &Group) {
    const ROW: f64 = 26.0;
    const BOTTOM: f64 = 18.0;
    let time = |peer: &str, name: &str| group.row(peer, &format!("{name}_us")).and_then(|row| row.median);
    let all = || LETTERS.iter().chain(&QUANTILES).map(|(name, _)| *name);
    let peers: Vec<&str> = group.peers.iter().copied().filter(|peer| time(peer, "p50").is_some()).collect();
    let times = || peers.iter().flat_map(|peer| all().filter_map(|name| time(peer, name)));
    let (least, most) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
    if peers.is_empty() {
        return;
    }
    let unit = Unit::of(beside);
    let said = |peer: &str| group.row(peer, beside.name).and_then(|row| row.median).map(|median| unit.said(median));
    let left = peers.iter().map(|peer| peer.len()).max().unwrap_or(0) as f64 * LETTER + 10.0;
    let letters = peers.iter().filter_map(|peer| said(peer)).map(|said| said.chars().count()).max().unwrap_or(0);
    let right = letters as f64 * BOLD_LETTER + 14.0;
    let axis = Axis::logarithmic(least, most, MICROSECONDS);
    let x = |value: f64| left + 6.0 + (WIDTH - left - right - 12.0) * axis.place(value);
    let bottom = ROW * peers.len() as f64 + 4.0;
    let caption = Caption {
        title: group.title(),
        what: format!(
            "times, logarithmic ↓: boxes from p25 to p75, p10 to p90, p1 to p99, and to p99.9, with a line at the median and a dot at \
             the longest; behind them {}",
            head(beside)
        ),
        runs: runs_of(peers.iter().flat_map(|peer| all().filter_map(|name| group.row(peer, &format!("{name}_us"))))),
    };
    open(html, experiment, &caption, bottom + BOTTOM);
    // There is room for six marks.
    let step = axis.marks.len().div_ceil(6);
    for (value, mark) in axis.marks.iter().step_by(step) {
        line(html, (x(*value), 0.0), (x(*value), bottom), "grid");
        text(html, x(*value), bottom + BOTTOM - 5.0, "tick middle", mark);
    }
    for (place, peer) in peers.iter().enumerate() {
        let middle = ROW * (place as f64 + 0.5) + 2.0;
        text(html, left - 6.0, middle + 4.0, "name", peer);
        for (from, to, height) in BOXES {
            let (Some(from), Some(to)) = (time(peer, from), time(peer, to)) else { continue };
            let height = height * (ROW - 8.0);
            let _ = writeln!(
                html,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" class=\"dot {}\"><title>{}: {} to {}</title></rect>",
                x(from),
                middle - height / 2.0,
                (x(to) - x(from)).max(1.0),
                class(peer),
                escaped(peer),
                MICROSECONDS.said(from),
                MICROSECONDS.said(to),
            );
        }
        if let Some(median) = time(peer, "p50") {
            line(html, (x(median), middle - ROW / 2.0 + 4.0), (x(median), middle + ROW / 2.0 - 4.0), "gap");
        }
        if let Some(longest) = time(peer, "max") {
            let _ = writeln!(
                html,
                "<circle cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"2.5\" class=\"dot {}\"><title>{}: {}</title></circle>",
                x(longest),
                class(peer),
                escaped(peer),
                MICROSECONDS.said(longest),
            );
        }
        text(html, WIDTH - right + 8.0, middle + 4.0, "value", &said(peer).unwrap_or_default());
    }
    close(html);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::rows::Row;

    #[test]
    fn a_peer_has_a_box_for_each_pair_that_was_measured_and_its_other_figure() {
        let experiment = crate::experiments::find("chat").expect("chat");
        let case = |peer: &str| Case {
            experiment: "chat".to_owned(),
            peer: peer.to_owned(),
            processors: 1,
            threads: 100,
            variant: "closed".to_owned(),
            seconds: 1.0,
        };
        let row = |peer, name, value| Row::new(&case(peer), experiment.metric(name).expect("a metric"), vec![value]);
        let times = [("p1_us", 3.0), ("p25_us", 10.0), ("p50_us", 30.0), ("p75_us", 90.0), ("p99_us", 900.0)];
        let mut rows: Vec<Row> = times.iter().map(|&(name, time)| row("ractor", name, time)).collect();
        rows.push(row("ractor", "deliveries_per_s", 1.5e6));
        rows.push(row("erlang", "deliveries_per_s", 1.0));
        let mut html = String::new();
        draw(&mut html, experiment, &experiment.metrics[0], &Group::all(experiment, &rows)[0]);
        assert_eq!(html.matches("<rect").count(), 2, "{html}");
        assert!(html.contains("ractor: 3.00 µs to 900 µs") && html.contains("ractor: 10.0 µs to 90.0 µs"), "{html}");
        assert!(html.contains(">1.50 M/s<") && !html.contains("<circle") && !html.contains("erlang"), "{html}");
    }
}
