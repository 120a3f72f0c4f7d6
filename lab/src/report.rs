//! The report: one page that needs nothing else, with plots as SVG.

pub mod machine;
mod plot;

use std::fmt::Write;
use std::time::Duration;

use crate::experiments::{self, Experiment};
use crate::peers;
use crate::rows::Row;
use crate::run::said;
use crate::table::{Group, figure};

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
    how_to_read(&mut html, rows);
    for experiment in shown {
        section(&mut html, experiment, rows, setting);
    }
    setting.section(&mut html, refusals);
    html += "</main>\n</body>\n</html>\n";
    html
}

fn contents(html: &mut String, shown: &[&Experiment]) {
    *html += "<nav>";
    for experiment in shown {
        let _ = write!(html, "<a href=\"#{0}\">{0}</a> ", experiment.name);
    }
    *html += "<a href=\"#setting\">the machine</a></nav>\n";
}

fn how_to_read(html: &mut String, rows: &[Row]) {
    *html += "<section class=\"legend\">\n<ul class=\"peers\">\n";
    for peer in peers::ALL.iter().filter(|peer| rows.iter().any(|row| row.peer == peer.name)) {
        let (class, name, about) = (class(peer.name), peer.name, escaped(peer.about));
        let _ = writeln!(html, "<li><span class=\"chip {class}\"></span><b>{name}</b> {about}</li>");
    }
    *html += "</ul>\n<p>Bars and points are medians. Thin lines go from the least to the greatest of the runs. A bar \
              with a gap is longer than the plot has room for. Every measurement is a process of its own, with \
              one CPU for each processor, and all peers take turns. \
              <b>↑</b> more is better, <b>↓</b> less is better. <i>Did not complete</i> means that the lab \
              stopped the measurement at its limit.</p>\n</section>\n";
}

fn section(html: &mut String, experiment: &Experiment, rows: &[Row], setting: &Setting) {
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
    *html += "</div>\n<details><summary>All figures</summary>\n";
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
        let _ = write!(html, "<th>{}</th>", escaped(&metric.head()));
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
            let shown = |value: Option<f64>| value.map_or(String::new(), |value| figure(value / metric.scale));
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
