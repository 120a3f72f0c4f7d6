//! The machine, the versions, and the command that measures again.

use std::fmt::Write;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use super::escaped;
use crate::experiments::{Depth, Experiment};
use crate::load::server;
use crate::peers::{self, language};
use crate::run::plan::Wish;

const LOCK: &str = include_str!("../../../Cargo.lock");

const SINEW: &str = "sinew";

/// The command of the experiments with memcached servers.
const MEMCACHED: Option<&str> = Some("memcached");

/// Above this load, other programs were at work when the lab began.
const BUSY: f64 = 0.5;

pub struct Setting {
    facts: Vec<(&'static str, String)>,
    /// The arguments of `run` that repeat one experiment.
    arguments: String,
    load: Option<f64>,
}

fn first_field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn version_of(package: &str) -> Option<&'static str> {
    let mut lines = LOCK.lines().skip_while(|line| *line != format!("name = \"{package}\""));
    let version = lines.nth(1)?;
    version.strip_prefix("version = \"")?.strip_suffix('"')
}

fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the programs that these experiments use if they are installed, each with the
/// argument that prints its version.
fn programs_of(experiments: &[&Experiment]) -> Vec<(&'static str, &'static str)> {
    let serving = || experiments.iter().filter(|experiment| experiment.serve.is_some());
    let mut programs = Vec::new();
    if serving().any(|experiment| experiment.command != MEMCACHED) {
        programs.extend([("nginx", "-v"), ("wrk", "-v")]);
    }
    if serving().any(|experiment| experiment.command == MEMCACHED) {
        programs.extend([("memcached", "-V"), ("memcaslap", "-V")]);
    }
    programs
}

/// Returns the first line that a program prints, to standard output or to standard error. The
/// program may fail: `wrk` does.
fn first_line_of(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(server::path_of(program)?).arg(argument).stdin(Stdio::null()).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&said).lines().next().map(|line| line.trim().to_owned())
}

impl Setting {
    pub fn now(wish: &Wish) -> Setting {
        let mut facts: Vec<(&str, String)> = Vec::new();
        let mut add = |name, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                facts.push((name, value));
            }
        };
        let cpus = crate::kernel::allowed_cpus().map_or(0, |cpus| cpus.len());
        let model = first_field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        add("CPU", Some(format!("{model}, {cpus} that the lab may use")));
        add("Memory", first_field("/proc/meminfo", "MemTotal"));
        add(
            "Kernel",
            fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|release| format!("Linux {}", release.trim())),
        );
        let governor = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        add("Governor", governor.ok().map(|governor| governor.trim().to_owned()));
        let load = fs::read_to_string("/proc/loadavg").ok();
        let load = load.and_then(|load| load.split_whitespace().next()?.parse::<f64>().ok());
        add("Load at the beginning", load.map(|load| load.to_string()));
        add(
            "Time",
            said_by("date", &["--utc", "+%Y-%m-%d %H:%M UTC"]).or_else(|| {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
                Some(format!("{} s since 1970", since.as_secs()))
            }),
        );
        add(
            "Compiler",
            Some(format!(
                "{}, profile {}, opt-level {}",
                env!("SINEW_LAB_RUSTC"),
                env!("SINEW_LAB_PROFILE"),
                env!("SINEW_LAB_OPT_LEVEL")
            )),
        );
        add("Sinew", Some(env!("CARGO_PKG_VERSION").to_owned()));
        let runtime = sinew::Runtime::builder().processors(1).build().ok();
        add("Sinew’s I/O", runtime.map(|runtime| runtime.main_cluster().io().to_string()));
        add("Tokio", version_of("tokio").map(str::to_owned));
        add("may", version_of("may").map(str::to_owned));
        for name in ["tokio-uring", "monoio", "ractor", "kameo", "actix"] {
            let is_peer = wish.peers.iter().any(|peer| peer.name == name);
            add(name, version_of(name).filter(|_| is_peer).map(str::to_owned));
        }
        for language in wish.peers.iter().filter_map(|peer| language::find(peer.name)) {
            add(language.title, (language.version)());
        }
        for (name, argument) in programs_of(&wish.experiments) {
            add(name, first_line_of(name, argument));
        }
        let command: Vec<String> = std::env::args().collect();
        add("Command", Some(command.join(" ")));
        let processors: Vec<String> = wish.processors.iter().map(usize::to_string).collect();
        let mut peers: Vec<&str> = wish.peers.iter().map(|peer| peer.name).collect();
        // One name stands for all of Sinew's peers.
        let all: Vec<&str> =
            peers::ALL.iter().map(|peer| peer.name).filter(|name| peers::family(name) == SINEW).collect();
        if all.iter().all(|name| peers.contains(name)) {
            peers.retain(|name| !all.contains(name));
            peers.insert(0, SINEW);
        }
        let seconds = if wish.depth == Depth::Tour { 1.0 } else { wish.seconds };
        let repeats = if wish.depth == Depth::Tour { 5 } else { wish.repeats };
        let is_default = wish.peers.len() == peers::ALL.len() || wish.depth == Depth::Tour;
        let peers = if is_default { String::new() } else { format!("--peers {} ", peers.join(",")) };
        let mut arguments =
            format!("{peers}--processors {} --seconds {seconds} --repeat {repeats}", processors.join(","));
        if let Some(limit) = wish.limit {
            let _ = write!(arguments, " --limit {}", limit.as_secs_f64());
        }
        if wish.only_first {
            arguments += " --first-variant";
        }
        Setting { facts, arguments, load }
    }

    /// Returns the command that measures one experiment again, in full.
    pub fn command(&self, experiment: &str) -> String {
        format!("cargo run --release -p sinew-lab -- run {experiment} {}", self.arguments)
    }

    /// Returns the difference between two figures, over one of them, that says nothing on this
    /// machine.
    pub fn level(&self) -> f64 {
        if self.load.is_some_and(|load| load > BUSY) { 0.33 } else { 0.05 }
    }

    /// Appends what a reader has to know before the figures.
    pub fn caveats(&self, html: &mut String) {
        match self.load {
            Some(load) if load > BUSY => {
                let _ = writeln!(
                    html,
                    "<p class=\"warning\">The machine was busy: its load was {load} when the lab began. Other \
                     programs took part of the CPUs. Compare only figures within this page, and ignore differences \
                     below a third.</p>"
                );
            }
            Some(load) => {
                let _ = writeln!(html, "<p>The machine was quiet when the lab began: its load was {load}.</p>");
            }
            None => {}
        }
        if env!("SINEW_LAB_PROFILE") != "release" {
            *html += "<p class=\"warning\">The lab was not built with <code>--release</code>: no figure on this page \
                      means anything.</p>\n";
        }
    }

    pub fn section(&self, html: &mut String, refusals: &[String]) {
        *html += "<section id=\"setting\">\n<h2>The machine</h2>\n";
        *html += "<dl>\n";
        for (name, value) in &self.facts {
            let _ = writeln!(html, "<dt>{name}</dt><dd>{}</dd>", escaped(value));
        }
        *html += "</dl>\n";
        if !refusals.is_empty() {
            *html += "<h3>Not measured</h3>\n<ul>\n";
            refusals.iter().for_each(|refusal| {
                let _ = writeln!(html, "<li>{}</li>", escaped(refusal));
            });
            *html += "</ul>\n";
        }
        *html += "</section>\n";
    }
}

#[cfg(test)]
mod tests {
    use super::version_of;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        assert!(version_of("tokio").is_some_and(|version| version.starts_with("1.")));
        assert_eq!(version_of("no-such-package"), None);
    }
}
