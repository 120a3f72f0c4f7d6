//! How a picture is drawn.

use super::picture::{Picture, RATES};
use super::watch::grouped;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table};

const TITLE: Style = Style::new().add_modifier(Modifier::BOLD);
const HEAD: Style = Style::new().fg(Color::Cyan);
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// A list with its title, its columns, and its rows.
struct List {
    title: &'static str,
    columns: Vec<(&'static str, Constraint)>,
    rows: Vec<Vec<String>>,
}

impl List {
    /// Returns the number of lines that it takes: a title, the columns, the rows, and space.
    fn height(&self) -> u16 {
        self.rows.len().min(usize::from(u16::MAX) - 3) as u16 + 3
    }

    fn draw(self, frame: &mut Frame<'_>, area: Rect) {
        let [title, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        frame.render_widget(Paragraph::new(Line::styled(self.title, TITLE)), title);
        let widths: Vec<Constraint> = self.columns.iter().map(|(_, width)| *width).collect();
        let head = Row::new(self.columns.into_iter().map(|(name, _)| name)).style(HEAD);
        frame.render_widget(Table::new(self.rows.into_iter().map(Row::new), widths).header(head), body);
    }
}

/// Returns the lines that a picture takes if there is no limit.
pub fn height_of(picture: &Picture) -> u16 {
    let lists: u16 = lists(picture).iter().map(List::height).sum();
    head(picture).len() as u16 + 1 + lists
}

pub fn draw(frame: &mut Frame<'_>, picture: &Picture) {
    let (head, lists) = (head(picture), lists(picture));
    let mut heights = vec![Constraint::Length(head.len() as u16 + 1)];
    // The first lists are the most important ones: if there is too little space, the last ones are cut.
    heights.extend(lists.iter().map(|list| Constraint::Length(list.height())));
    heights.push(Constraint::Fill(1));
    let areas = Layout::vertical(heights).split(frame.area());
    frame.render_widget(Paragraph::new(head), areas[0]);
    for (list, area) in lists.into_iter().zip(&areas[1..]) {
        list.draw(frame, *area);
    }
}

fn head(picture: &Picture) -> Vec<Line<'static>> {
    let state = if picture.is_paused { "paused" } else { "q ends, p pauses, + and - change the interval" };
    let mut lines = vec![
        Line::from(vec![
            Span::styled(format!("{} {}", picture.program, picture.process), TITLE),
            Span::raw(format!("   read in {:.1} ms   {state}", picture.took_ms)),
        ]),
        Line::raw(picture.counts.join("   ")),
    ];
    lines.extend(picture.deadlocks.iter().map(|text| Line::styled(format!("DEADLOCK: {text}"), ALARM)));
    lines
}

fn lists(picture: &Picture) -> Vec<List> {
    use Constraint::{Fill, Length};
    let seconds = |seconds: f64| format!("{seconds:.1} s");
    let or_dash = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
    let mut processor_columns = vec![("processor", Length(16)), ("thread", Length(9)), ("CPU", Length(6))];
    processor_columns.extend(RATES.into_iter().map(|(_, name)| (name, Length(12))));
    processor_columns.push(("runs", Fill(1)));
    let processor_row = |row: &super::picture::ProcessorRow| {
        let mut cells = vec![row.name.clone(), row.thread.to_string()];
        cells.push(or_dash(row.cpu.map(|cpu| format!("{cpu:.0} %"))));
        cells.extend(row.rates.iter().map(|rate| or_dash(rate.map(grouped))));
        cells.push(row.runs.clone());
        cells
    };
    let all = [
        List {
            title: "Processors",
            columns: processor_columns,
            rows: picture.processors.iter().map(processor_row).collect(),
        },
        List {
            title: "Spawn sites, by the time that their strands run",
            columns: vec![("time", Length(6)), ("live", Length(11)), ("ready", Length(11)), ("spawned at", Fill(1))],
            rows: picture
                .sites
                .iter()
                .map(|row| {
                    let (live, ready) = (grouped(row.live as f64), grouped(row.ready as f64));
                    vec![format!("{:.0} %", row.share), live, ready, row.site.clone()]
                })
                .collect(),
        },
        List {
            title: "Locks, by the number of waiters",
            columns: vec![("waiters", Length(11)), ("longest", Length(11)), ("lock", Length(28)), ("held by", Fill(1))],
            rows: picture
                .locks
                .iter()
                .map(|row| {
                    let waiters = grouped(row.waiters as f64);
                    vec![waiters, seconds(row.longest_s), row.lock.clone(), row.owner.clone()]
                })
                .collect(),
        },
        List {
            title: "Longest waits",
            columns: vec![("for", Length(11)), ("strand", Fill(2)), ("waits for", Fill(3)), ("spawned at", Fill(3))],
            rows: picture
                .waits
                .iter()
                .map(|row| vec![seconds(row.seconds), row.strand.clone(), row.waits_for.clone(), row.site.clone()])
                .collect(),
        },
        List {
            title: "Descriptors, by the number of waiters",
            columns: vec![
                ("waiters", Length(11)),
                ("longest", Length(11)),
                ("number", Length(7)),
                ("to", Length(6)),
                ("what", Fill(1)),
            ],
            rows: picture
                .sockets
                .iter()
                .map(|row| {
                    vec![
                        grouped(row.strands as f64),
                        seconds(row.longest_s),
                        row.descriptor.to_string(),
                        row.waits_to.to_owned(),
                        row.name.clone(),
                    ]
                })
                .collect(),
        },
    ];
    all.into_iter().filter(|list| !list.rows.is_empty()).collect()
}
