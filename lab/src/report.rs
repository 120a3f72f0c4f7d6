//! The report: one page that needs nothing else, with plots as SVG.

mod figures;
pub mod machine;
mod notes;
mod plot;
mod summary;

use std::fmt::Write;
use std::time::Duration;

use crate::experiments::{self, Experiment};
use crate::peers;
use crate::rows::Row;
use crate::run::said;
use crate::table::Group;

use figures::Unit;
use machine::Setting;

const STYLE: &str = include_str!("report/style.css");

/// Escapes the characters that mean something in HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the class of the style sheet for a peer.
pub fn class(peer: &str) -> String {
    format!("peer-{}", peer.replace('/', "-"))
}

/// Returns the page.
pub fn page(rows: &[Row], setting: &Setting, refusals: &[String], took: Duration) -> String {
    let shown: Vec<&Experiment> =
        experiments::ALL.iter().copied().filter(|e| rows.iter().any(|row| row.experiment == e.name)).collect();
    let mut html = String::new();
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Sinew lab</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<header>\n<h1>Sinew lab</h1>\n<p class=\"lead\">The papers’ experiments, peers side by \
         side, on this machine: {} experiments in {}.</p>\n",
        shown.len(),
        said(took),
    );
    contents(&mut html, &shown);
    html += "</header>\n<main>\n";
    let present: Vec<&str> =
        peers::ALL.iter().map(|peer| peer.name).filter(|name| rows.iter().any(|row| row.peer == *name)).collect();
    summarise(&mut html, &shown, rows, setting);
    how_to_read(&mut html, &present);
    for experiment in shown {
        section(&mut html, experiment, rows, setting, refusals, &present);
    }
    setting.section(&mut html, refusals);
    html += "</main>\n</body>\n</html>\n";
    html
}

fn contents(html: &mut String, shown: &[&Experiment]) {
    *html += "<nav><a href=\"#summary\">summary</a> ";
    for experiment in shown {
        let _ = write!(html, "<a href=\"#{0}\">{0}</a> ", experiment.name);
    }
    *html += "<a href=\"#setting\">the machine</a></nav>\n";
}

/// Appends the winners, and what makes the figures doubtful.
fn summarise(html: &mut String, shown: &[&Experiment], rows: &[Row], setting: &Setting) {
    *html += "<section id=\"summary\">\n<h2>Summary</h2>\n";
    setting.caveats(html);
    let level = setting.level();
    let _ = write!(
        html,
        "<p>A ratio says how many times better a runtime of Sinew’s is than the best peer that is not Sinew’s: 2× is \
         twice as fast, or needs half the time or memory. It is the mean over the experiment’s variants and numbers \
         of processors, with the least and the greatest beside it. <i>Level</i> is within {:.0} %. ",
        100.0 * level
    );
    *html += "<b>Default</b> is the runtime that <code>sinew::run</code> gives: safe, and a fibre stays on the \
              processor where it began. <b>Migrating</b> is the same runtime after one <code>unsafe</code> line: \
              fibres that have begun move, too.</p>\n";
    summary::table(html, shown, rows, level);
    *html += "</section>\n";
}

/// Returns from how many runs the figures of these rows are.
fn runs_of<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> String {
    // A model is computed, not run.
    let runs = rows.filter(|row| row.completed && peers::find(&row.peer).is_some()).map(|row| row.runs);
    match (runs.clone().min(), runs.max()) {
        (Some(1), Some(1)) => "one run each, no median".to_owned(),
        (Some(least), Some(most)) if least == most => format!("median of {most} runs"),
        (Some(least), Some(most)) => format!("median of {least} to {most} runs"),
        _ => String::new(),
    }
}

fn how_to_read(html: &mut String, present: &[&str]) {
    *html += "<section class=\"legend\">\n<h2>How to read the plots</h2>\n<ul class=\"peers\">\n";
    for peer in present.iter().filter_map(|name| peers::find(name)) {
        let (class, name, about) = (class(peer.name), peer.name, escaped(peer.about));
        let _ = writeln!(html, "<li><span class=\"chip {class}\"></span><b>{name}</b> {about}</li>");
    }
    *html += "</ul>\n<p>Bars and points are medians, if there is more than one run: each plot says how many. Thin \
              lines go from the least to the greatest of the runs. A bar with a gap is longer than the plot has room \
              for. <b>↑</b> more is better, <b>↓</b> less is better. <i>Did not complete</i> means that the lab \
              stopped the measurement at its limit; a sentence below the plots says why. Every measurement is a \
              process of its own, with one CPU for each processor, and all peers take turns.</p>\n\
              <dl class=\"words\">\n\
              <dt>strand</dt><dd>what a runtime schedules: a fibre, a task, a coroutine, or a kernel thread</dd>\n\
              <dt>fibre</dt><dd>a strand with a stack of its own: a thread as programmers know it, without a kernel \
              thread of its own</dd>\n\
              <dt>task</dt><dd>a strand without a stack: a Rust future</dd>\n\
              <dt>processor</dt><dd>a kernel thread that runs strands; here each has one CPU</dd>\n\
              <dt>migrate</dt><dd>go on, after a wait, on another processor</dd>\n\
              <dt>p99</dt><dd>99 of 100 times are no longer than this</dd>\n\
              </dl>\n</section>\n";
}

fn section(
    html: &mut String,
    experiment: &Experiment,
    rows: &[Row],
    setting: &Setting,
    refusals: &[String],
    present: &[&str],
) {
    let groups = Group::all(experiment, rows);
    let _ = write!(
        html,
        "<section class=\"experiment\" id=\"{name}\">\n<h2>{name} <small>{source}</small></h2>\n<p>{measures}</p>\n\
         <p class=\"good\"><b>Good:</b> {good}</p>\n",
        name = experiment.name,
        source = escaped(experiment.source),
        measures = escaped(experiment.measures),
        good = escaped(experiment.good),
    );
    *html += "<div class=\"plots\">\n";
    for drawn in experiment.plots {
        plot::draw(html, experiment, drawn, &groups);
    }
    *html += "</div>\n";
    notes::list(html, experiment, &groups, refusals, present);
    *html += "<details><summary>All figures</summary>\n";
    for group in &groups {
        table(html, experiment, group);
    }
    let _ = writeln!(
        html,
        "</details>\n<p class=\"command\"><code>{}</code></p>\n</section>",
        escaped(&setting.command(experiment.name))
    );
}

fn table(html: &mut String, experiment: &Experiment, group: &Group) {
    let metrics = group.metrics(experiment);
    let _ = write!(html, "<div class=\"wide\"><table>\n<caption>{}</caption>\n<tr><th></th>", escaped(&group.title()));
    for metric in &metrics {
        let _ = write!(html, "<th>{}</th>", escaped(&figures::head(metric)));
    }
    *html += "</tr>\n";
    for peer in &group.peers {
        let _ = write!(html, "<tr><th>{peer}</th>");
        if let Some(trouble) = group.trouble(peer) {
            let _ = writeln!(
                html,
                "<td class=\"trouble\" colspan=\"{}\">{}</td></tr>",
                metrics.len().max(1),
                escaped(trouble)
            );
            continue;
        }
        for metric in &metrics {
            let unit = Unit::of(metric);
            let shown = |value: Option<f64>| value.map_or(String::new(), |value| unit.said(value));
            match group.row(peer, metric.name) {
                Some(row) if row.runs > 1 => {
                    let _ = write!(
                        html,
                        "<td>{} <small>{} to {}</small></td>",
                        shown(row.median),
                        shown(row.min),
                        shown(row.max)
                    );
                }
                Some(row) => {
                    let _ = write!(html, "<td>{}</td>", shown(row.median));
                }
                None => *html += "<td></td>",
            }
        }
        *html += "</tr>\n";
    }
    *html += "</table></div>\n";
}
