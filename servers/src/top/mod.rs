//! `sinew top`: what a Sinew program does, live. It reads the program's memory, so the program need not be prepared
//! and does not notice.

mod cpu;
mod picture;
mod sockets;
mod view;
mod watch;

use clap::Args;
use picture::Picture;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use sinew_inspect::Target;
use std::io;
use std::time::{Duration, Instant};
use watch::Watch;

/// The distance between two samples of what the processors run: not a divisor of a second, so that a program which
/// does something every 10 ms is not always seen at the same moment.
const SAMPLE_EVERY: Duration = Duration::from_micros(9_700);

/// Show what the fibres of a running program do, live
///
/// Processors, the spawn sites whose fibres run most, the longest waits, locks by the number of their waiters, and
/// sockets. The program can be any that runs on Sinew, and need not be prepared. q ends it, p pauses, + and - change
/// the interval.
#[derive(Args)]
pub struct Options {
    /// The process
    #[arg(value_name = "PID")]
    process: u32,

    /// The time between two pictures, in seconds
    #[arg(short, long, default_value_t = 1.0, value_parser = seconds)]
    interval: f64,

    /// Print one picture as text after one interval, and end
    #[arg(long)]
    once: bool,

    /// With --once: the width of the picture in characters
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u16).range(40..=1000), requires = "once")]
    width: u16,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("not between 0.1 and 3600".to_owned()) }
}

/// # Errors
/// The process cannot be read, or the terminal cannot be used.
pub fn run(options: Options) -> io::Result<()> {
    let target = Target::process(options.process).map_err(io::Error::other)?;
    let mut watch = Watch::new(&target).map_err(io::Error::other)?;
    let interval = Duration::from_secs_f64(options.interval);
    if options.once {
        let begun = Instant::now();
        watch.begin();
        while begun.elapsed() < interval {
            watch.sample();
            std::thread::sleep(SAMPLE_EVERY);
        }
        let picture = watch.picture().map_err(io::Error::other)?;
        return print(&picture, options.width);
    }
    let mut terminal = ratatui::try_init()?;
    let outcome = follow(&mut terminal, &mut watch, interval);
    // The terminal is given back before anything is said.
    let restored = ratatui::try_restore();
    outcome?;
    restored
}

/// Prints a picture as text.
fn print(picture: &Picture, width: u16) -> io::Result<()> {
    let height = view::height_of(picture);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).map_err(io::Error::other)?;
    terminal.draw(|frame| view::draw(frame, picture)).map_err(io::Error::other)?;
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in buffer.content().chunks(width.into()) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    crate::message::print(text.as_bytes())
}

/// Draws pictures until the user has seen enough, or the process has ended.
fn follow(terminal: &mut ratatui::DefaultTerminal, watch: &mut Watch<'_>, mut interval: Duration) -> io::Result<()> {
    watch.begin();
    let mut picture = watch.picture().map_err(io::Error::other)?;
    let (mut paused, mut next) = (false, Instant::now() + interval);
    loop {
        picture.is_paused = paused;
        terminal.draw(|frame| view::draw(frame, &picture))?;
        let redraw = loop {
            if event::poll(SAMPLE_EVERY)? {
                match event::read()? {
                    Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                        KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
                        KeyCode::Char('p' | ' ') => paused = !paused,
                        KeyCode::Char('+') => interval = (interval * 2).min(Duration::from_secs(60)),
                        KeyCode::Char('-') => interval = (interval / 2).max(Duration::from_millis(250)),
                        _ => continue,
                    },
                    Event::Resize(..) => {}
                    _ => continue,
                }
                break false;
            }
            if !paused {
                watch.sample();
                if Instant::now() >= next {
                    break true;
                }
            }
        };
        if redraw && !paused {
            picture = watch.picture().map_err(io::Error::other)?;
            next = Instant::now() + interval;
        }
    }
}
