//! One measurement: the case that a child process is given, and the outcome that it prints.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The measurement of one child process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub experiment: String,
    pub peer: String,
    pub processors: usize,
    /// The number of strands.
    pub threads: usize,
    /// The experiment's own name for what it varies; `-` if nothing varies.
    pub variant: String,
    /// The length of the window.
    pub seconds: f64,
}

impl Case {
    pub fn window(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Returns the variant of an experiment whose variants are numbers.
    ///
    /// # Panics
    /// The variant is no number.
    pub fn amount(&self) -> usize {
        self.variant.parse().unwrap_or_else(|_| panic!("not a number: {}", self.variant))
    }
}

/// Returns the words for a case in messages.
pub fn named(experiment: &str, variant: &str, peer: &str, processors: usize) -> String {
    let variant = if variant == "-" { String::new() } else { format!(" {variant}") };
    format!("{experiment}{variant}, {peer} on {processors}")
}

/// The named figures of one measurement. A figure that could not be measured is missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading(BTreeMap<String, f64>);

impl Reading {
    pub fn of<const N: usize>(figures: [(&str, f64); N]) -> Reading {
        let mut reading = Reading::default();
        figures.into_iter().for_each(|(name, value)| reading.set(name, value));
        reading
    }

    pub fn set(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.0.insert(name.to_owned(), value);
        }
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Measured(Reading),
    /// The lab stopped it at its limit.
    DidNotComplete,
    /// It ended without a result, or its result is impossible.
    Failed(String),
}

impl From<io::Result<Reading>> for Outcome {
    fn from(result: io::Result<Reading>) -> Outcome {
        result.map_or_else(|error| Outcome::Failed(error.to_string()), Outcome::Measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_json_carries_an_outcome() {
        let outcome = Outcome::Measured(Reading::of([("ops_per_s", 1.5e6), ("unknown", f64::NAN)]));
        let line = serde_json::to_string(&outcome).unwrap();
        assert_eq!(line, r#"{"measured":{"ops_per_s":1500000.0}}"#);
        assert_eq!(serde_json::from_str::<Outcome>(&line).unwrap(), outcome);
    }
}
