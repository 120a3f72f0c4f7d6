//! The printed tables: one for each experiment and configuration, with a line for each peer.

use std::fmt::Write;

use crate::experiments::{Better, Experiment, Metric};
use crate::rows::Row;

/// The rows of one experiment with one variant and one number of processors.
pub struct Group<'a> {
    pub variant: &'a str,
    unit: &'static str,
    pub processors: usize,
    pub threads: usize,
    /// In the order in which they were measured.
    pub peers: Vec<&'a str>,
    rows: Vec<&'a Row>,
}

impl<'a> Group<'a> {
    /// Returns all groups of an experiment, in order.
    pub fn all(experiment: &Experiment, rows: &'a [Row]) -> Vec<Group<'a>> {
        let mut groups: Vec<Group> = Vec::new();
        for row in rows.iter().filter(|row| row.experiment == experiment.name) {
            let known = groups.iter_mut().find(|g| g.variant == row.variant && g.processors == row.processors);
            let group = match known {
                Some(group) => group,
                None => {
                    let (variant, processors, threads) = (&*row.variant, row.processors, row.threads);
                    let unit = experiment.unit;
                    groups.push(Group { variant, unit, processors, threads, peers: Vec::new(), rows: Vec::new() });
                    groups.last_mut().expect("just pushed")
                }
            };
            if !group.peers.contains(&&*row.peer) {
                group.peers.push(&row.peer);
            }
            group.rows.push(row);
        }
        groups
    }

    pub fn title(&self) -> String {
        let variant = match self.variant.parse::<usize>() {
            Ok(number) if number == self.threads => String::new(),
            Ok(number) => format!("{}: {number}, ", self.unit),
            Err(_) if self.variant == "-" => String::new(),
            Err(_) => format!("{}, ", self.variant),
        };
        format!("{variant}{}, {}", counted(self.processors, "processor"), counted(self.threads, "strand"))
    }

    pub fn row(&self, peer: &str, metric: &str) -> Option<&'a Row> {
        self.rows.iter().copied().find(|row| row.peer == peer && row.metric == metric)
    }

    pub fn trouble(&self, peer: &str) -> Option<&'a str> {
        self.rows.iter().find(|row| row.peer == peer && !row.completed).and_then(|row| row.trouble.as_deref())
    }

    /// Returns the metrics that at least one peer has.
    pub fn metrics(&self, experiment: &Experiment) -> Vec<&'static Metric> {
        let has = |metric: &&Metric| self.rows.iter().any(|row| row.metric == metric.name && row.completed);
        experiment.metrics.iter().filter(has).collect()
    }
}

/// Returns the tables of one experiment.
pub fn tables(experiment: &Experiment, rows: &[Row]) -> String {
    let groups = Group::all(experiment, rows);
    let mut text = String::new();
    if groups.is_empty() {
        return text;
    }
    let _ = writeln!(text, "\n{}  ({})\n{}", experiment.name, experiment.source, experiment.measures);
    for group in groups {
        let metrics = group.metrics(experiment);
        let mut lines = vec![header(&metrics)];
        for peer in &group.peers {
            let mut cells = vec![(*peer).to_owned()];
            match group.trouble(peer) {
                Some(trouble) => cells.push(trouble.to_owned()),
                None => cells.extend(metrics.iter().map(|metric| match group.row(peer, metric.name) {
                    Some(row) => cell(row, metric),
                    None => String::new(),
                })),
            }
            lines.push(cells);
        }
        let _ = writeln!(text, "\n  {}", group.title());
        // Words in place of figures make no column wider.
        let widths: Vec<usize> = (0..=metrics.len())
            .map(|column| {
                let whole = lines.iter().filter(|cells| column == 0 || cells.len() == metrics.len() + 1);
                whole.map(|cells| cells[column].chars().count()).max().unwrap_or(0)
            })
            .collect();
        for cells in &lines {
            let width = |column: usize| widths.get(column).copied().unwrap_or(0);
            let padded = cells.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}", width(column)));
            let padded: Vec<String> = padded.collect();
            let _ = writeln!(text, "    {}", padded.join("   ").trim_end());
        }
    }
    text
}

fn header(metrics: &[&Metric]) -> Vec<String> {
    std::iter::once(String::new()).chain(metrics.iter().map(|metric| metric.head())).collect()
}

fn cell(row: &Row, metric: &Metric) -> String {
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| figure(value / metric.scale));
    match metric.better {
        Better::Neither => shown(row.median),
        _ if row.runs < 2 => shown(row.median),
        _ => format!("{} ({} to {})", shown(row.median), shown(row.min), shown(row.max)),
    }
}

/// Returns the value with about three significant digits.
pub fn figure(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "-".to_owned(),
        // Each bound is the least value that the next finer form would round up to it.
        v if v >= 9_999.5 => thousands(value.round() as usize),
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.9995 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        v if v >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

/// Returns a number and its noun.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number), if number == 1 { "" } else { "s" })
}

fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{figure, thousands};

    #[test]
    fn figures_have_three_digits_or_so() {
        let said = [0.0, 0.00012, 0.0512, 1.234, 56.78, 789.4, 12345.6].map(figure);
        assert_eq!(said, ["0", "1.2e-4", "0.051", "1.23", "56.8", "789", "12,346"]);
        assert_eq!([0.99999, 9.999, 99.99, 9999.9].map(figure), ["1.00", "10.0", "100", "10,000"]);
        assert_eq!(thousands(1_000_000), "1,000,000");
    }
}
