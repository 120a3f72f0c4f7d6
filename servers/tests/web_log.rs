//! The access log of the web server: without a reader, full, or renamed.

mod site;

use site::{Process, Site, eventually, read_address};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time that the server takes to end by its documentation, with a second for the log.
const STATED: Duration = Duration::from_secs(11);

/// A running server. Nothing reads its output unless a test does.
struct Started {
    process: Process,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Started {
    fn with(site: &Site, log: &str) -> Started {
        let mut command = site.command(&["--plaintext", "--log", log]);
        let mut process = Process::start(command.stderr(Stdio::piped())).expect("the binary of this package");
        // One byte at a time: the log is behind the first line.
        let mut output = BufReader::with_capacity(1, process.output());
        let address = read_address(&mut output);
        Started { process, output, address }
    }

    /// Sends `count` requests on one connection, 20 at once, and receives all answers.
    fn ask(&self, count: usize) {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(site::PATIENCE)).expect("a timeout");
        let request = format!("GET /plaintext HTTP/1.1\r\nHost: h\r\nUser-Agent: {}\r\n\r\n", "u".repeat(400));
        let mut left = count;
        while left > 0 {
            let now = left.min(20);
            stream.write_all(request.repeat(now).as_bytes()).expect("send");
            let (mut heard, mut buffer) = (0, [0; 16 * 1024]);
            let mut text = Vec::new();
            while heard < now {
                let count = stream.read(&mut buffer).expect("receive");
                assert!(count > 0, "closed");
                text.extend_from_slice(&buffer[..count]);
                heard = text.windows(13).filter(|part| part == b"Hello, World!").count();
            }
            left -= now;
        }
    }

    /// Stops the server, and returns its messages.
    fn end(&mut self) -> String {
        self.process.terminate();
        let begin = Instant::now();
        assert!(self.process.wait_for_end().success());
        assert!(begin.elapsed() < STATED, "{:?}", begin.elapsed());
        self.process.messages()
    }
}

/// Returns the numbers of lost lines that a text mentions.
fn lost(text: &str) -> Vec<u64> {
    let count =
        |line: &str| line.strip_prefix("sinew: web: ")?.split_once(" lines of the log were lost")?.0.parse().ok();
    text.lines().filter_map(count).collect()
}

fn lines(text: &str) -> u64 {
    text.lines().filter(|line| line.contains("\"GET /plaintext HTTP/1.1\" 200 13 ")).count() as u64
}

/// More lines of 500 bytes than the log keeps.
const MANY: usize = 8_000;

#[test]
fn a_log_without_a_reader_delays_no_request_and_not_the_end() {
    let site = Site::new();
    let mut started = Started::with(&site, "-");
    started.ask(MANY);
    let said = started.end();
    let [lost] = lost(&said)[..] else { panic!("{said}") };
    let mut log = String::new();
    started.output.read_to_string(&mut log).expect("the rest of the log");
    // Some lines that the writer held may have been written.
    assert!(lost + lines(&log) >= MANY as u64 && lost <= MANY as u64, "{lost} and {}", lines(&log));
}

#[test]
fn the_number_of_lost_lines_is_in_the_log_where_they_are_missing() {
    let site = Site::new();
    let mut started = Started::with(&site, "-");
    started.ask(MANY);
    // Now the test reads, until everything that was kept has come.
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
fn a_renamed_log_is_opened_again_and_no_line_is_lost() {
    for signal in ["-HUP", "-USR1"] {
        let site = Site::new();
        let (log, old) = (site.above().join("log"), site.above().join("log.1"));
        let mut started = Started::with(&site, log.to_str().expect("a path of text"));
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        started.ask(100);
        fs::rename(&log, &old).expect("rename");
        // Requests go on meanwhile.
        std::thread::scope(|scope| {
            scope.spawn(|| started.ask(1000));
            started.process.signal(signal);
            eventually("the new file appears", || log.exists());
        });
        let before = lines(&text(&old));
        started.ask(100);
        assert_eq!(started.end(), "");
        assert_eq!(lines(&text(&old)), before, "lines still go to the old file");
        assert!(before >= 100 && lines(&text(&log)) >= 100);
        assert_eq!(lines(&text(&old)) + lines(&text(&log)), 1200);
    }
}

#[test]
fn a_log_that_cannot_be_opened_again_goes_on_in_the_old_file() {
    let site = Site::new();
    let directory = site.above().join("logs");
    fs::create_dir(&directory).expect("a directory");
    let log = directory.join("log");
    let mut started = Started::with(&site, log.to_str().expect("a path of text"));
    let moved = site.above().join("moved");
    fs::rename(&directory, &moved).expect("rename");
    started.process.signal("-HUP");
    let mut errors = BufReader::new(started.process.errors());
    let mut line = String::new();
    errors.read_line(&mut line).expect("a message");
    assert!(line.contains("the log is not opened again"), "{line}");
    started.process.return_errors(errors.into_inner());
    started.ask(10);
    assert_eq!(started.end(), "");
    assert_eq!(lines(&fs::read_to_string(moved.join("log")).expect("the log")), 10);
}

#[test]
fn a_named_pipe_without_a_reader_is_refused_at_once() {
    let site = Site::new();
    let pipe = site.above().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
    let mut command = site.command(&["--log", pipe.to_str().expect("a path of text")]);
    let mut process = Process::start(command.stdout(Stdio::null()).stderr(Stdio::null())).expect("the binary");
    assert!(!process.wait_for_end().success());
}
