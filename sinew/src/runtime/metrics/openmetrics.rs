//! Metrics as text: the exposition format of OpenMetrics 1.0.

use super::{ClusterMetrics, Metrics, ProcessorMetrics, WAIT_BUCKETS};
use std::fmt::{self, Display, Write};
use std::time::Duration;

/// The name of a counter without `sinew_` and `_total`, what it counts, and its value. The names are those of the
/// counters in memory.
type Counter = (&'static str, &'static str, fn(&ProcessorMetrics) -> u64);

const DISPATCHES: Counter = ("dispatches", "Times that a strand was run.", |processor| processor.dispatches);
const STOPS: Counter = ("stops", "Strands that stopped.", |processor| processor.stops);
const WAKEUPS: Counter = ("wakeups", "Stopped strands that became ready.", |processor| processor.wakeups);
const SPAWNED: Counter = ("spawned", "Strands that were spawned.", |processor| processor.spawned);
const LOOKS: Counter = ("looks", "Calls of the kernel that asked for events.", |processor| processor.looks.looks);
const EVENTS: Counter = ("events", "Events that the kernel reported.", |processor| processor.looks.events);

/// The counters that processors alone have.
const PLAIN: [Counter; 8] = [
    DISPATCHES,
    STOPS,
    ("finished", "Strands that finished.", |processor| processor.finished),
    ("steals", "Strands taken from a processor that had more.", |processor| processor.steals),
    ("rescues", "Strands taken from a processor that did not get to them.", |processor| processor.rescues),
    ("relieved", "New fibres taken away because their processor was held up.", |processor| processor.relieved),
    ("spins", "Searches for work before a sleep.", |processor| processor.spins),
    ("sleeps", "Sleeps of the kernel thread.", |processor| processor.sleeps),
];

impl Metrics {
    /// The media type of [`to_openmetrics`](Metrics::to_openmetrics), for the header `Content-Type`.
    pub const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Returns the metrics as text in the format of OpenMetrics 1.0, which Prometheus collects.
    ///
    /// All names begin with `sinew_`. Counters have the labels `cluster` and `processor`. The label `processor` is
    /// `outside` for what kernel threads and other runtimes have done, and `poller` for a polling thread.
    pub fn to_openmetrics(&self) -> String {
        let mut text = String::with_capacity(16 * 1024);
        // A `String` takes everything.
        let _ = self.write_openmetrics(&mut text);
        text.push_str("# EOF\n");
        text
    }

    /// Writes the text of [`to_openmetrics`](Metrics::to_openmetrics) without its last line, `# EOF`. A program may
    /// add metrics of its own before it writes that line.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_openmetrics(&self, out: &mut impl Write) -> fmt::Result {
        self.write_strands(out)?;
        PLAIN.into_iter().try_for_each(|counter| self.write_counter(out, counter, &[]))?;
        let outside = |cluster: &ClusterMetrics| Some(("outside", cluster.wakeups_from_outside));
        self.write_counter(out, WAKEUPS, &self.of_clusters(outside))?;
        self.write_counter(out, SPAWNED, &[(None, "outside", self.spawned_from_outside)])?;
        let looks = |cluster: &ClusterMetrics| Some(("poller", cluster.polling_thread?.looks));
        self.write_counter(out, LOOKS, &self.of_clusters(looks))?;
        let events = |cluster: &ClusterMetrics| Some(("poller", cluster.polling_thread?.events));
        self.write_counter(out, EVENTS, &self.of_clusters(events))?;
        family(out, "idle_seconds", "counter", "Time without a strand to run.")?;
        for (cluster, processor) in self.labelled() {
            let labels = Labels(&cluster.name, processor.id.index());
            writeln!(out, "sinew_idle_seconds_total{{{labels}}} {}", Seconds(processor.idle))?;
        }
        self.write_waits(out)?;
        self.write_clusters(out)?;
        self.write_process(out)
    }

    fn write_strands(&self, out: &mut impl Write) -> fmt::Result {
        let strands = self.strands;
        family(out, "live_strands", "gauge", "Fibres, tasks and busy actors that have not finished.")?;
        writeln!(out, "sinew_live_strands {}", strands.live)?;
        let states = [("ready", strands.ready), ("running", strands.running), ("stopped", strands.stopped)];
        gauges(out, "strands", "Live strands by state.", "state", states)
    }

    fn write_clusters(&self, out: &mut impl Write) -> fmt::Result {
        family(out, "residents", "gauge", "Fibres that live on a processor and may not leave.")?;
        for (cluster, processor) in self.labelled() {
            let labels = Labels(&cluster.name, processor.id.index());
            writeln!(out, "sinew_residents{{{labels}}} {}", processor.residents)?;
        }
        family(out, "clusters", "gauge", "Clusters of the runtime.")?;
        writeln!(out, "sinew_clusters {}", self.clusters.len())?;
        let each =
            |f: fn(&ClusterMetrics) -> usize| self.clusters.iter().map(move |cluster| (&*cluster.name, f(cluster)));
        gauges(out, "processors", "Processors that serve a cluster.", "cluster", each(|cluster| cluster.serving))?;
        gauges(out, "spares", "Spare processors that serve a cluster.", "cluster", each(|cluster| cluster.spares))?;
        gauges(out, "timers", "Armed timers.", "cluster", each(|cluster| cluster.timers))
    }

    /// Writes what all runtimes of the process share.
    fn write_process(&self, out: &mut impl Write) -> fmt::Result {
        let (stacks, blocking) = (self.stacks, self.blocking);
        let states = [("in_use", stacks.in_use), ("pooled", stacks.pooled)];
        gauges(out, "stacks", "Stacks of the process.", "state", states)?;
        let kinds = [("carved", stacks.carved_bytes), ("reserved", stacks.reserved_bytes)];
        gauges(out, "stack_bytes", "Addresses for stacks, made and reserved.", "kind", kinds)?;
        family(out, "record_bytes", "gauge", "Memory for records of strands.")?;
        writeln!(out, "sinew_record_bytes {}", self.record_bytes)?;
        let busy = blocking.threads.saturating_sub(blocking.idle_threads);
        let states = [("busy", busy), ("idle", blocking.idle_threads)];
        gauges(out, "blocking_threads", "Threads of the pool for blocking calls.", "state", states)?;
        family(out, "blocking_queued", "gauge", "Blocking calls that wait for a thread.")?;
        writeln!(out, "sinew_blocking_queued {}", blocking.queued_calls)?;
        family(out, "blocking_longest_queued_seconds", "gauge", "The wait of the first of these.")?;
        writeln!(out, "sinew_blocking_longest_queued_seconds {}", Seconds(blocking.longest_queued))
    }

    fn labelled(&self) -> impl Iterator<Item = (&ClusterMetrics, &ProcessorMetrics)> {
        self.clusters.iter().flat_map(|cluster| cluster.processors.iter().map(move |processor| (cluster, processor)))
    }

    /// Returns what `f` returns for each cluster, with the cluster's name.
    fn of_clusters(
        &self,
        f: impl Fn(&ClusterMetrics) -> Option<(&'static str, u64)>,
    ) -> Vec<(Option<&str>, &'static str, u64)> {
        let row = |cluster| f(cluster).map(|(who, value)| (Some(&*cluster.name), who, value));
        self.clusters.iter().filter_map(row).collect()
    }

    /// Writes a counter of all processors, and of `others`: a cluster, who counts, and the value.
    fn write_counter(
        &self,
        out: &mut impl Write,
        (name, help, value): Counter,
        others: &[(Option<&str>, &'static str, u64)],
    ) -> fmt::Result {
        family(out, name, "counter", help)?;
        for (cluster, processor) in self.labelled() {
            let labels = Labels(&cluster.name, processor.id.index());
            writeln!(out, "sinew_{name}_total{{{labels}}} {}", value(processor))?;
        }
        for (cluster, who, value) in others {
            match cluster {
                Some(cluster) => writeln!(out, "sinew_{name}_total{{{}}} {value}", Labels(cluster, who))?,
                None => writeln!(out, "sinew_{name}_total{{processor=\"{who}\"}} {value}")?,
            }
        }
        Ok(())
    }

    fn write_waits(&self, out: &mut impl Write) -> fmt::Result {
        family(out, "ready_wait_seconds", "histogram", "Time from ready to dispatch.")?;
        for (cluster, processor) in self.labelled() {
            let labels = Labels(&cluster.name, processor.id.index());
            let mut sum = 0;
            for (bound, count) in processor.waits.buckets() {
                sum += count;
                write!(out, "sinew_ready_wait_seconds_bucket{{{labels},le=\"")?;
                match bound {
                    Some(bound) => write!(out, "{}", Seconds(bound))?,
                    None => out.write_str("+Inf")?,
                }
                writeln!(out, "\"}} {sum}")?;
            }
            writeln!(out, "sinew_ready_wait_seconds_count{{{labels}}} {sum}")?;
            writeln!(out, "sinew_ready_wait_seconds_sum{{{labels}}} {}", Seconds(processor.waits.sum()))?;
        }
        Ok(())
    }
}

const _: () = assert!(WAIT_BUCKETS > 1, "the last bucket has no bound");

/// Writes the lines that describe a family of metrics.
fn family(out: &mut impl Write, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(out, "# TYPE sinew_{name} {kind}")?;
    for unit in ["seconds", "bytes"].into_iter().filter(|unit| name.ends_with(&format!("_{unit}"))) {
        writeln!(out, "# UNIT sinew_{name} {unit}")?;
    }
    writeln!(out, "# HELP sinew_{name} {help}")
}

/// Writes a family of gauges that differ in one label.
fn gauges<'a, T: Display>(
    out: &mut impl Write,
    name: &str,
    help: &str,
    label: &str,
    rows: impl IntoIterator<Item = (&'a str, T)>,
) -> fmt::Result {
    family(out, name, "gauge", help)?;
    rows.into_iter()
        .try_for_each(|(value, number)| writeln!(out, "sinew_{name}{{{label}=\"{}\"}} {number}", Escaped(value)))
}

/// The labels of what a processor counts.
struct Labels<'a, T>(&'a str, T);

impl<T: Display> Display for Labels<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cluster=\"{}\",processor=\"{}\"", Escaped(self.0), self.1)
    }
}

/// The value of a label.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            c => f.write_char(c),
        })
    }
}

/// A time as a number of seconds, written as Go does: the values of `le` are compared as text.
struct Seconds(Duration);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        if seconds == 0.0 || seconds >= 1e-4 {
            return write!(f, "{seconds:?}");
        }
        let text = format!("{seconds:e}");
        let (digits, exponent) = text.split_once("e-").unwrap_or((&text, "0"));
        write!(f, "{digits}e-{exponent:0>2}")
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;
    use crate::processor::METERS;
    use crate::runtime::Runtime;

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(Escaped("a\\b\"c\nd é").to_string(), "a\\\\b\\\"c\\nd é");
    }

    #[test]
    fn seconds_are_written_as_go_does() {
        let cases = [(0, "0.0"), (1, "1e-06"), (64, "6.4e-05"), (128, "0.000128"), (1 << 20, "1.048576")];
        for (us, text) in cases {
            assert_eq!(Seconds(Duration::from_micros(us)).to_string(), text);
        }
        assert_eq!(Seconds(Duration::from_secs(2)).to_string(), "2.0");
    }

    #[test]
    fn counters_in_memory_have_the_names_of_the_text() {
        let text = Runtime::builder().processors(1).build().unwrap().metrics().to_openmetrics();
        for (name, _) in METERS {
            let name = match name {
                "idle_cycles" => "sinew_idle_seconds_total".to_owned(),
                "waited_us" => "sinew_ready_wait_seconds_sum".to_owned(),
                name => format!("sinew_{name}_total"),
            };
            assert!(text.contains(&format!("\n{name}{{")), "{name}");
        }
    }
}
