//! The access log of the web server: read by nobody, full, or renamed.

mod site;

use site::{Site, eventually};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The time that the server says it takes at most to end, with a second for the log.
const STATED: Duration = Duration::from_secs(11);

/// A server that ends with this value. Nobody reads what it says unless a test does.
struct Started {
    child: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Started {
    fn with(site: &Site, log: &str) -> Started {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.arg("web").arg(site.path("")).args(["--listen", "127.0.0.1:0", "--plaintext", "--log", log]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary");
        // One byte at a time: the log is behind the first line.
        let mut output = BufReader::with_capacity(1, child.stdout.take().expect("it was piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("its line");
        let address = line.trim().rsplit("//").next().expect("an address").to_owned();
        Started { child, output, address }
    }

    /// Asks `count` times on a connection, many at once, and hears all answers.
    fn ask(&self, count: usize) {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(site::PATIENCE)).expect("a timeout");
        let request = format!("GET /plaintext HTTP/1.1\r\nHost: h\r\nUser-Agent: {}\r\n\r\n", "u".repeat(400));
        let mut left = count;
        while left > 0 {
            let now = left.min(20);
            stream.write_all(request.repeat(now).as_bytes()).expect("to send");
            let (mut heard, mut buffer) = (0, [0; 16 * 1024]);
            let mut text = Vec::new();
            while heard < now {
                let count = stream.read(&mut buffer).expect("to receive");
                assert!(count > 0, "closed");
                text.extend_from_slice(&buffer[..count]);
                heard = text.windows(13).filter(|part| part == b"Hello, World!").count();
            }
            left -= now;
        }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }

    /// Tells it to stop. Gives what it said on standard error.
    fn end(&mut self) -> String {
        self.signal("-TERM");
        let begin = Instant::now();
        eventually("it ends", || self.child.try_wait().expect("its state").is_some());
        assert!(begin.elapsed() < STATED, "{:?}", begin.elapsed());
        assert!(self.child.try_wait().expect("its state").is_some_and(|status| status.success()));
        let mut said = String::new();
        self.child.stderr.take().expect("it was piped").read_to_string(&mut said).expect("what it said");
        said
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The numbers of lines of which a text says that they were lost.
fn lost(text: &str) -> Vec<u64> {
    let count =
        |line: &str| line.strip_prefix("sinew: web: ")?.split_once(" lines of the log were lost")?.0.parse().ok();
    text.lines().filter_map(count).collect()
}

fn lines(text: &str) -> u64 {
    text.lines().filter(|line| line.contains("\"GET /plaintext HTTP/1.1\" 200 13 ")).count() as u64
}

/// More lines than the log keeps for a reader who comes late: 500 bytes each.
const MANY: usize = 8_000;

#[test]
fn a_log_that_nobody_reads_stops_no_request_and_not_the_end() {
    let site = Site::new();
    let mut started = Started::with(&site, "-");
    started.ask(MANY);
    let said = started.end();
    let [lost] = lost(&said)[..] else { panic!("{said}") };
    let mut log = String::new();
    started.output.read_to_string(&mut log).expect("what is in the pipe");
    // Of those that the writer had in hand some may have been written.
    assert!(lost + lines(&log) >= MANY as u64 && lost <= MANY as u64, "{lost} and {}", lines(&log));
}

#[test]
fn lost_lines_are_counted_where_they_are_missing() {
    let site = Site::new();
    let mut started = Started::with(&site, "-");
    started.ask(MANY);
    // Somebody reads after all, until all that was kept has come.
    let mut log = String::new();
    while lost(&log).is_empty() {
        let mut line = String::new();
        assert!(started.output.read_line(&mut line).expect("the log") > 0);
        log.push_str(&line);
    }
    started.ask(10);
    let said = started.end();
    started.output.read_to_string(&mut log).expect("the rest");
    let missing = lost(&log);
    assert!(missing.len() == 1 && missing[0] > 0, "{missing:?}");
    assert_eq!(lines(&log) + missing[0], MANY as u64 + 10);
    assert_eq!(lost(&said), missing, "{said}");
}

#[test]
fn lines_that_cannot_be_written_are_counted() {
    let site = Site::new();
    let mut started = Started::with(&site, "/dev/full");
    started.ask(100);
    let said = started.end();
    assert_eq!(lost(&said), [100], "{said}");
    assert_eq!(said.matches("cannot be written").count(), 1, "{said}");
}

#[test]
fn a_log_that_was_renamed_is_opened_again_and_no_line_is_lost() {
    for signal in ["-HUP", "-USR1"] {
        let site = Site::new();
        let (log, old) = (site.above().join("log"), site.above().join("log.1"));
        let mut started = Started::with(&site, log.to_str().expect("a path of text"));
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        started.ask(100);
        fs::rename(&log, &old).expect("to rename it");
        // While others go on.
        std::thread::scope(|scope| {
            scope.spawn(|| started.ask(1000));
            started.signal(signal);
            eventually("there is a new file", || log.exists());
        });
        let before = lines(&text(&old));
        started.ask(100);
        assert_eq!(started.end(), "");
        assert_eq!(lines(&text(&old)), before, "nothing goes to the old file any more");
        assert!(before >= 100 && lines(&text(&log)) >= 100);
        assert_eq!(lines(&text(&old)) + lines(&text(&log)), 1200);
    }
}

#[test]
fn a_log_that_cannot_be_opened_again_goes_on_where_it_is() {
    let site = Site::new();
    let directory = site.above().join("logs");
    fs::create_dir(&directory).expect("a directory");
    let log = directory.join("log");
    let mut started = Started::with(&site, log.to_str().expect("a path of text"));
    let moved = site.above().join("moved");
    fs::rename(&directory, &moved).expect("to rename it");
    started.signal("-HUP");
    let mut errors = BufReader::new(started.child.stderr.take().expect("it was piped"));
    let mut line = String::new();
    errors.read_line(&mut line).expect("what it says");
    assert!(line.contains("the log is not opened again"), "{line}");
    started.child.stderr = Some(errors.into_inner());
    started.ask(10);
    assert_eq!(started.end(), "");
    assert_eq!(lines(&fs::read_to_string(moved.join("log")).expect("the log")), 10);
}

#[test]
fn a_named_pipe_without_a_reader_is_refused_at_once() {
    let site = Site::new();
    let pipe = site.above().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    command.arg("web").arg(site.path("")).args(["--listen", "127.0.0.1:0", "--log"]).arg(&pipe);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary");
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("its state") {
            break Some(status);
        }
        if begin.elapsed() > site::PATIENCE {
            // It would wait for ever.
            let _ = child.kill().and_then(|()| child.wait());
            break None;
        }
        std::thread::yield_now();
    };
    assert!(status.is_some_and(|status| !status.success()));
}
