//! Rows of results. A file has one JSON object per line.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::case::{Case, Outcome};
use crate::experiments::{Better, Experiment, Metric};

/// One metric of one case, over all its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub experiment: String,
    pub peer: String,
    pub processors: usize,
    pub threads: usize,
    #[serde(default = "nothing_varies")]
    pub variant: String,
    pub metric: String,
    /// `null` if nothing was measured. The same holds for `min` and `max`.
    pub median: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub runs: usize,
    pub completed: bool,
    #[serde(default = "neither")]
    pub better: Better,
    /// The figure of each run, in the order of the runs. `compare` judges these.
    #[serde(default)]
    pub values: Vec<f64>,
    /// Why the case did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

fn nothing_varies() -> String {
    "-".to_owned()
}

fn neither() -> Better {
    Better::Neither
}

pub const DID_NOT_COMPLETE: &str = "did not complete";

/// Returns the median; `None` if there are no figures.
pub fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

impl Row {
    /// Returns the row of a case that completed.
    pub fn new(case: &Case, metric: &Metric, values: Vec<f64>) -> Row {
        Row {
            experiment: case.experiment.clone(),
            peer: case.peer.clone(),
            processors: case.processors,
            threads: case.threads,
            variant: case.variant.clone(),
            metric: metric.name.to_owned(),
            median: median(&values),
            min: values.iter().copied().reduce(f64::min),
            max: values.iter().copied().reduce(f64::max),
            runs: values.len(),
            completed: true,
            better: metric.better,
            values,
            trouble: None,
        }
    }

    /// Identifies the figure: rows of the same figure in two files have the same key.
    pub fn key(&self) -> (&str, &str, usize, usize, &str, &str) {
        (&self.experiment, &self.peer, self.processors, self.threads, &self.variant, &self.metric)
    }
}

/// Returns the rows of one case. If any run did not complete, there is one row, that of the
/// first metric. A metric that only some runs measured has no row: a quantile that only the
/// longest run had enough times for would come from other runs than the rest.
pub fn of_case(experiment: &Experiment, case: &Case, outcomes: &[Outcome]) -> Vec<Row> {
    let trouble = outcomes.iter().find_map(|outcome| match outcome {
        Outcome::Measured(_) => None,
        Outcome::DidNotComplete => Some(DID_NOT_COMPLETE.to_owned()),
        Outcome::Failed(how) => Some(format!("failed: {how}")),
    });
    if trouble.is_some() {
        let row = Row::new(case, &experiment.metrics[0], Vec::new());
        return vec![Row { completed: false, trouble, runs: outcomes.len(), ..row }];
    }
    let values = |metric: &Metric| -> Vec<f64> {
        let readings = outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Measured(reading) => reading.get(metric.name),
            _ => None,
        });
        readings.collect()
    };
    let rows = experiment.metrics.iter().map(|metric| Row::new(case, metric, values(metric)));
    rows.filter(|row| row.runs > 0 && row.runs == outcomes.len()).collect()
}

/// Returns the rows that the experiment's models compute for a case.
pub fn of_models(experiment: &Experiment, case: &Case) -> Vec<Row> {
    let metric = &experiment.metrics[0];
    let row = |model: &crate::experiments::Model| {
        let case = Case { peer: model.name.to_owned(), ..case.clone() };
        Row { better: Better::Neither, ..Row::new(&case, metric, vec![(model.value)(&case)]) }
    };
    experiment.models.iter().map(row).collect()
}

pub fn to_lines(rows: &[Row]) -> String {
    let line = |row| serde_json::to_string(row).expect("a row is plain data") + "\n";
    rows.iter().map(line).collect()
}

pub fn read(path: &Path) -> io::Result<Vec<Row>> {
    let text = fs::read_to_string(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("line {}: {error}", number + 1)))
    };
    lines.map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Reading;

    fn case() -> Case {
        Case {
            experiment: "cycle".into(),
            peer: "sinew/fair".into(),
            processors: 2,
            threads: 1000,
            variant: "many".into(),
            seconds: 1.0,
        }
    }

    #[test]
    fn a_row_has_the_fields_that_are_documented() {
        let experiment = crate::experiments::find("cycle").unwrap();
        let outcomes = [3.0, 1.0, 2.0].map(|rate| Outcome::Measured(Reading::of([("ops_per_s", rate)])));
        let rows = of_case(experiment, &case(), &outcomes);
        assert_eq!(
            to_lines(&rows),
            "{\"experiment\":\"cycle\",\"peer\":\"sinew/fair\",\"processors\":2,\"threads\":1000,\
             \"variant\":\"many\",\"metric\":\"ops_per_s\",\"median\":2.0,\"min\":1.0,\"max\":3.0,\"runs\":3,\
             \"completed\":true,\"better\":\"higher\",\"values\":[3.0,1.0,2.0]}\n"
        );
    }

    #[test]
    fn a_metric_that_only_some_runs_measured_is_left_out() {
        let experiment = crate::experiments::find("transfer").unwrap();
        let short = Reading::of([("mean_us", 9000.0), ("p50_us", 9000.0)]);
        let long = Reading::of([("mean_us", 40.0), ("p50_us", 30.0), ("p90_us", 43.0)]);
        let rows = of_case(experiment, &case(), &[short, long].map(Outcome::Measured));
        let metrics: Vec<&str> = rows.iter().map(|row| row.metric.as_str()).collect();
        assert_eq!(metrics, ["mean_us", "p50_us"]);
    }

    #[test]
    fn a_case_did_not_complete_if_one_run_did_not() {
        let experiment = crate::experiments::find("cycle").unwrap();
        let outcomes = [Outcome::Measured(Reading::of([("ops_per_s", 1.0)])), Outcome::DidNotComplete];
        let rows = of_case(experiment, &case(), &outcomes);
        assert_eq!(rows.len(), 1);
        assert!(!rows[0].completed && rows[0].median.is_none());
        assert_eq!(rows[0].trouble.as_deref(), Some(DID_NOT_COMPLETE));
    }
}
