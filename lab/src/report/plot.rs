//! Plots as SVG: bars, bars over the slowest, lines over numbers, lines over quantiles, and letter
//! values. Colours are classes of the style sheet, which has a light and a dark scheme.

mod letters;

use std::fmt::Write;

use super::figures::{self, Unit, mark};
use super::{class, escaped, runs_of};
use crate::experiments::{Experiment, Metric, Plot};
use crate::measure::latency::QUANTILES;
use crate::rows::Row;
use crate::table::{Group, counted};

const WIDTH: f64 = 420.0;
/// The approximate width of a letter in the plots, and of a bold letter.
const LETTER: f64 = 6.3;
const BOLD_LETTER: f64 = 7.8;
/// The longest bar that is not cut, over the bar in the middle.
const CUT: f64 = 10.0;
/// The unit of quantiles.
const MICROSECONDS: Unit = Unit::Time(1_000);

pub fn draw(html: &mut String, experiment: &Experiment, plot: &Plot, groups: &[Group]) {
    match plot {
        Plot::Bars { metric } => {
            let metric = experiment.metric(metric).expect("a metric of its own");
            groups.iter().for_each(|group| bars(html, experiment, metric, group, Scale::Plain));
        }
        Plot::Normalised { metric } => {
            let metric = experiment.metric(metric).expect("a metric of its own");
            let is_own = |group: &&Group| group.variant.parse::<f64>().is_err();
            groups.iter().filter(is_own).for_each(|group| bars(html, experiment, metric, group, Scale::Normalised));
        }
        Plot::Lines { metric } => {
            let metric = experiment.metric(metric).expect("a metric of its own");
            let mut processors: Vec<usize> = groups.iter().map(|group| group.processors).collect();
            processors.dedup();
            for processors in processors {
                let own: Vec<&Group> = groups.iter().filter(|group| group.processors == processors).collect();
                lines_over_variants(html, experiment, metric, &own);
            }
        }
        Plot::Quantiles => groups.iter().for_each(|group| quantiles(html, experiment, group)),
        Plot::Letters { beside } => {
            let metric = experiment.metric(beside).expect("a metric of its own");
            groups.iter().for_each(|group| letters::draw(html, experiment, metric, group));
        }
    }
}

/// The length that bars are compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    Plain,
    /// The slowest, which is 1. No bar is cut.
    Normalised,
}

/// The words above a plot.
struct Caption {
    title: String,
    what: String,
    /// The number of runs.
    runs: String,
}

fn open(html: &mut String, experiment: &Experiment, caption: &Caption, height: f64) {
    let Caption { title, what, runs } = caption;
    let label = format!("{}: {title}: {what}", experiment.name);
    let _ = write!(
        html,
        "<figure>\n<figcaption>{}<span>{} · {runs}</span></figcaption>\n<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
         role=\"img\" aria-label=\"{}\">\n",
        escaped(title),
        escaped(what),
        escaped(&label),
    );
}

fn close(html: &mut String) {
    *html += "</svg>\n</figure>\n";
}

fn text(html: &mut String, x: f64, y: f64, class: &str, words: &str) {
    let _ = writeln!(html, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>", escaped(words));
}

fn line(html: &mut String, from: (f64, f64), to: (f64, f64), class: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(html, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>");
}

/// Draws a bar for each peer that has a figure, or a reason why it has none.
fn bars(html: &mut String, experiment: &Experiment, metric: &Metric, group: &Group, scale: Scale) {
    const ROW: f64 = 22.0;
    let rows: Vec<_> = group.peers.iter().map(|peer| (*peer, group.row(peer, metric.name))).collect();
    let rows: Vec<_> = rows.into_iter().filter(|(peer, row)| row.is_some() || group.trouble(peer).is_some()).collect();
    if rows.iter().all(|(_, row)| row.is_none_or(|row| row.median.is_none())) {
        return;
    }
    let longest = rows.iter().map(|(peer, _)| peer.len()).max().unwrap_or(0);
    let left = longest as f64 * LETTER + 10.0;
    let unit = Unit::of(metric);
    let medians: Vec<f64> = rows.iter().filter_map(|(_, row)| row.and_then(|row| row.median)).collect();
    let slowest = medians.iter().copied().fold(0.0, f64::max);
    let (bound, what, said): (f64, String, Box<dyn Fn(f64) -> String>) = match scale {
        Scale::Normalised if slowest > 0.0 => (
            f64::INFINITY,
            format!("{}, over the slowest", figures::caption(metric)),
            Box::new(move |median| format!("{:.2} ({})", median / slowest, unit.said(median))),
        ),
        _ => (longest_bar(&medians), figures::caption(metric), Box::new(move |median| unit.said(median))),
    };
    let letters = medians.iter().map(|&median| said(median).chars().count()).max().unwrap_or(0);
    let right = letters as f64 * BOLD_LETTER + 12.0;
    let is_cut = |row: &Row| row.median.is_some_and(|median| median > bound);
    let whole = rows.iter().filter_map(|(_, row)| row.filter(|row| !is_cut(row))?.max);
    let most = whole.fold(0.0, f64::max);
    let x = |value: f64| left + (WIDTH - left - right) * if most > 0.0 { (value / most).min(1.0) } else { 0.0 };
    let height = ROW * rows.len() as f64 + 4.0;
    let caption = Caption { title: group.title(), what, runs: runs_of(rows.iter().filter_map(|(_, row)| *row)) };
    open(html, experiment, &caption, height);
    line(html, (left, 0.0), (left, height), "axis");
    for (place, (peer, row)) in rows.iter().enumerate() {
        let top = ROW * place as f64 + 4.0;
        let middle = top + ROW / 2.0 - 2.0;
        text(html, left - 6.0, middle + 4.0, "name", peer);
        let Some((row, median)) = row.and_then(|row| Some((row, row.median?))) else {
            text(html, left + 6.0, middle + 4.0, "trouble", &short_trouble(group.trouble(peer).unwrap_or("")));
            continue;
        };
        let (least, greatest) = (row.min.unwrap_or(median), row.max.unwrap_or(median));
        let _ = writeln!(
            html,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\" class=\"bar {}\"><title>{}: \
             {} ({} to {})</title></rect>",
            (x(median) - left).max(1.0),
            ROW - 5.0,
            class(peer),
            escaped(peer),
            unit.said(median),
            unit.said(least),
            unit.said(greatest),
        );
        if is_cut(row) {
            let gap = x(greatest) - 24.0;
            line(html, (gap, top + ROW - 4.0), (gap + 6.0, top - 1.0), "gap");
        } else if row.runs > 1 {
            line(html, (x(least), middle), (x(greatest), middle), "spread");
        }
        text(html, x(greatest) + 6.0, middle + 4.0, "value", &said(median));
    }
    close(html);
}

/// Returns the length beyond which a bar is cut, so that the others can be told apart.
fn longest_bar(medians: &[f64]) -> f64 {
    match crate::rows::median(medians) {
        Some(middle) if middle > 0.0 => CUT * middle,
        _ => f64::INFINITY,
    }
}

fn short_trouble(trouble: &str) -> String {
    if trouble.chars().count() > 40 { trouble.chars().take(39).chain(['…']).collect() } else { trouble.to_owned() }
}

/// A line of a plot.
struct Series {
    peer: String,
    /// The place, the median, the least and the greatest value.
    points: Vec<(f64, f64, f64, f64)>,
}

/// An axis: its ends, and the values that have a mark.
struct Axis {
    from: f64,
    to: f64,
    is_log: bool,
    marks: Vec<(f64, String)>,
}

impl Axis {
    /// Returns where a value lies: 0 at the beginning of the axis, 1 at its end.
    fn place(&self, value: f64) -> f64 {
        let scaled = |value: f64| if self.is_log { value.max(1e-12).log10() } else { value };
        let width = scaled(self.to) - scaled(self.from);
        if width <= 0.0 { 0.5 } else { (scaled(value) - scaled(self.from)) / width }
    }

    /// Returns an axis from zero to a number that is round in its unit.
    fn from_zero(most: f64, unit: Unit) -> Axis {
        let most = if most > 0.0 { most } else { 1.0 };
        let (divisor, suffix) = unit.scale(most);
        let most = most / divisor;
        let power = 10_f64.powf(most.log10().floor());
        let step = [0.2, 0.25, 0.5, 1.0, 2.0, 2.5].into_iter().map(|s| s * power).find(|s| most / s <= 5.0);
        let step = step.unwrap_or(power * 2.5);
        let steps = (most * 1.02 / step).ceil() as usize;
        let at = |n: usize| n as f64 * step;
        let marks = (0..=steps).map(|n| (at(n) * divisor, format!("{}{suffix}", mark(at(n))))).collect();
        Axis { from: 0.0, to: at(steps) * divisor, is_log: false, marks }
    }

    /// Returns an axis over the powers of ten around all values.
    fn logarithmic(least: f64, most: f64, unit: Unit) -> Axis {
        let from = least.max(1e-3).log10().floor() as i32;
        let to = (most.max(1e-3).log10().ceil() as i32).max(from + 1);
        let marks = (from..=to).map(|power| (10_f64.powi(power), unit.marked(10_f64.powi(power)))).collect();
        Axis { from: 10_f64.powi(from), to: 10_f64.powi(to), is_log: true, marks }
    }
}

fn lines_over_variants(html: &mut String, experiment: &Experiment, metric: &Metric, groups: &[&Group]) {
    let mut series: Vec<Series> = Vec::new();
    let mut xs: Vec<(f64, String)> = Vec::new();
    for group in groups {
        let Ok(x) = group.variant.parse::<f64>() else { continue };
        xs.push((x, mark(x)));
        for peer in &group.peers {
            let Some(row) = group.row(peer, metric.name) else { continue };
            let Some(median) = row.median else { continue };
            let point = (x, median, row.min.unwrap_or(median), row.max.unwrap_or(median));
            match series.iter_mut().find(|series| series.peer == *peer) {
                Some(series) => series.points.push(point),
                None => series.push(Series { peer: (*peer).to_owned(), points: vec![point] }),
            }
        }
    }
    let (Some(first), Some(last)) = (xs.first().map(|x| x.0), xs.last().map(|x| x.0)) else { return };
    let most = series.iter().flat_map(|series| &series.points).map(|point| point.3).fold(0.0, f64::max);
    let x_axis = Axis { from: first, to: last, is_log: true, marks: xs };
    let own = groups.iter().flat_map(|group| group.peers.iter().filter_map(|peer| group.row(peer, metric.name)));
    let caption = Caption {
        title: counted(groups[0].processors, "processor"),
        what: format!("{} over {}", figures::head(metric), experiment.unit),
        runs: runs_of(own),
    };
    let unit = Unit::of(metric);
    lines(html, experiment, &caption, &series, &x_axis, &Axis::from_zero(most, unit), unit);
}

fn quantiles(html: &mut String, experiment: &Experiment, group: &Group) {
    let mut series: Vec<Series> = Vec::new();
    let mut used = [false; QUANTILES.len()];
    for peer in &group.peers {
        let mut points = Vec::new();
        for (place, (name, _)) in QUANTILES.iter().enumerate() {
            let Some(row) = group.row(peer, &format!("{name}_us")) else { continue };
            let Some(median) = row.median else { continue };
            used[place] = true;
            points.push((place as f64, median, row.min.unwrap_or(median), row.max.unwrap_or(median)));
        }
        if !points.is_empty() {
            series.push(Series { peer: (*peer).to_owned(), points });
        }
    }
    if series.is_empty() {
        return;
    }
    let label = |name: &str| match name {
        "max" => "max".to_owned(),
        digits if digits.len() > 3 => format!("{}.{}", &digits[..3], &digits[3..]),
        other => other.to_owned(),
    };
    let marks: Vec<(f64, String)> = QUANTILES
        .iter()
        .enumerate()
        .filter(|(place, _)| used[*place])
        .map(|(place, (name, _))| (place as f64, label(name)))
        .collect();
    let marks_shown = marks.len();
    let values = || series.iter().flat_map(|series| &series.points);
    let least = values().map(|point| point.2).fold(f64::INFINITY, f64::min);
    let most = values().map(|point| point.3).fold(0.0, f64::max);
    let x_axis = Axis { from: 0.0, to: (QUANTILES.len() - 1) as f64, is_log: false, marks };
    let y_axis = Axis::logarithmic(least, most, MICROSECONDS);
    let is_short = series.iter().any(|series| series.points.len() < marks_shown);
    let short = if is_short { ". A line leaves out quantiles that it has too few times for" } else { "" };
    let own = group.peers.iter().flat_map(|peer| QUANTILES.map(|(name, _)| group.row(peer, &format!("{name}_us"))));
    let caption = Caption {
        title: group.title(),
        what: format!("time by quantile, logarithmic ↓{short}"),
        runs: runs_of(own.flatten()),
    };
    lines(html, experiment, &caption, &series, &x_axis, &y_axis, MICROSECONDS);
}

fn lines(
    html: &mut String,
    experiment: &Experiment,
    caption: &Caption,
    series: &[Series],
    x_axis: &Axis,
    y_axis: &Axis,
    unit: Unit,
) {
    const HEIGHT: f64 = 230.0;
    const TOP: f64 = 10.0;
    const BOTTOM: f64 = 22.0;
    const LABEL: f64 = 13.0;
    let longest_mark = y_axis.marks.iter().map(|(_, mark)| mark.chars().count()).max().unwrap_or(1);
    let left = longest_mark as f64 * LETTER + 10.0;
    let longest = series.iter().map(|series| series.peer.len()).max().unwrap_or(0);
    let right = longest as f64 * BOLD_LETTER + 14.0;
    let inset = 8.0;
    let x = |value: f64| left + inset + (WIDTH - left - right - 2.0 * inset) * x_axis.place(value);
    let y = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - y_axis.place(value).clamp(0.0, 1.0));
    open(html, experiment, caption, HEIGHT);
    for (value, mark) in &y_axis.marks {
        line(html, (left, y(*value)), (WIDTH - right, y(*value)), "grid");
        text(html, left - 5.0, y(*value) + 4.0, "tick end", mark);
    }
    for (value, mark) in &x_axis.marks {
        text(html, x(*value), HEIGHT - 6.0, "tick middle", mark);
    }
    line(html, (left, HEIGHT - BOTTOM), (WIDTH - right, HEIGHT - BOTTOM), "axis");
    for series in series {
        let class = class(&series.peer);
        let path: Vec<String> = series.points.iter().map(|p| format!("{:.1},{:.1}", x(p.0), y(p.1))).collect();
        let _ = writeln!(html, "<polyline points=\"{}\" class=\"line {class}\"/>", path.join(" "));
        for &(at, median, least, most) in &series.points {
            line(html, (x(at), y(least)), (x(at), y(most)), &format!("range {class}"));
            let _ = writeln!(
                html,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" class=\"dot {class}\"><title>{}: {}</title></circle>",
                x(at),
                y(median),
                escaped(&series.peer),
                unit.said(median),
            );
        }
    }
    let ends: Vec<(f64, f64)> = series.iter().filter_map(|s| s.points.last()).map(|p| (x(p.0), y(p.1))).collect();
    let places = apart(&ends.iter().map(|end| end.1).collect::<Vec<_>>(), LABEL, TOP + 4.0, HEIGHT - BOTTOM);
    for ((series, end), place) in series.iter().zip(&ends).zip(places) {
        line(html, (end.0 + 4.0, end.1), (WIDTH - right + 8.0, place), "leader");
        text(html, WIDTH - right + 11.0, place + 4.0, &format!("label {}", class(&series.peer)), &series.peer);
    }
    close(html);
}

/// Returns the places, moved so that they are `distance` apart and within bounds.
fn apart(wanted: &[f64], distance: f64, least: f64, most: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut places = wanted.to_vec();
    let mut floor = least;
    for &place in &order {
        places[place] = places[place].max(floor);
        floor = places[place] + distance;
    }
    let mut ceiling = most;
    for &place in order.iter().rev() {
        places[place] = places[place].min(ceiling);
        ceiling = places[place] - distance;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, Outcome, Reading};
    use crate::{experiments, rows};

    #[test]
    fn normalised_bars_are_over_the_slowest() {
        let big = experiments::find("big").expect("an experiment");
        let rows_of = |peer: &str, ms: f64| {
            let case = Case {
                experiment: "big".to_owned(),
                peer: peer.to_owned(),
                processors: 2,
                threads: 120,
                variant: "-".to_owned(),
                seconds: 1.0,
            };
            rows::of_case(big, &case, &[Outcome::Measured(Reading::of([("run_ms", ms)]))])
        };
        let rows = [rows_of("sinew/default", 50.0), rows_of("ractor", 1000.0)].concat();
        let mut html = String::new();
        draw(&mut html, big, &Plot::Normalised { metric: "run_ms" }, &Group::all(big, &rows));
        assert!(html.contains(">0.05 (50.0 ms)<") && html.contains(">1.00 (1.00 s)<"), "{html}");
        assert!(!html.contains("class=\"gap\""), "no bar is cut: {html}");
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let places = apart(&[10.0, 11.0, 200.0, 12.0], 13.0, 0.0, 205.0);
        let mut sorted = places.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 12.99), "{places:?}");
        assert!(places[0] < places[1] && places[1] < places[3] && places[3] < places[2]);
    }

    #[test]
    fn an_axis_has_room_for_its_greatest_value() {
        for most in [0.93, 1.0, 1.97, 37.0, 4442.0] {
            let axis = Axis::from_zero(most, Unit::Number);
            assert!(axis.to >= most && axis.to <= 2.0 * most, "{most}: {}", axis.to);
            assert!((3..=7).contains(&axis.marks.len()), "{most}: {:?}", axis.marks);
        }
    }
}
