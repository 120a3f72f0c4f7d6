//! What goes wrong around the web server, and must not harm those who have nothing to do with
//! it.

mod site;

use site::{PATIENCE, Site, eventually};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A server that ends with this value.
struct Started(Child);

impl Started {
    fn with(site: &Site, options: &[&str]) -> Started {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.arg("web").arg(site.path("")).args(["--listen", "127.0.0.1:0"]).args(options);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Started(command.spawn().expect("the binary of this package"))
    }

    /// Where it says that it serves.
    fn addresses<const N: usize>(&mut self) -> [String; N] {
        let mut output = BufReader::new(self.0.stdout.take().expect("it was piped"));
        [(); N].map(|()| {
            let mut line = String::new();
            output.read_line(&mut line).expect("its line");
            line.trim().rsplit("//").next().expect("an address").to_owned()
        })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Says this, and hears as many bytes.
fn ask(address: &str, request: &[u8], count: usize) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(request).expect("to send");
    let mut heard = vec![0; count];
    stream.read_exact(&mut heard).expect("to receive");
    heard
}

#[test]
fn a_log_that_cannot_be_written_stops_nobody() {
    let site = Site::new();
    let mut started = Started::with(&site, &["--plaintext", "--log", "/dev/full"]);
    // Nor can anybody be told.
    drop(started.0.stderr.take());
    let [address] = started.addresses();
    // More than the log keeps.
    let agent = "x".repeat(10_000);
    let request = format!("GET /plaintext HTTP/1.1\r\nHost: h\r\nUser-Agent: {agent}\r\n\r\n");
    for _ in 0..200 {
        assert_eq!(ask(&address, request.as_bytes(), 15), b"HTTP/1.1 200 OK");
    }
}

#[test]
fn who_comes_in_by_one_door_does_not_wait_for_another() {
    let site = Site::new().file("file", "content");
    let mut started = Started::with(&site, &["--listen", "127.0.0.1:0", "--connections", "1"]);
    for address in started.addresses::<2>() {
        assert_eq!(ask(&address, b"GET /file HTTP/1.0\r\n\r\n", 15), b"HTTP/1.1 200 OK");
    }
}

#[test]
fn times_that_no_clock_shows_are_refused() {
    let site = Site::new();
    for option in ["--header-timeout", "--idle-timeout", "--send-timeout"] {
        let mut started = Started::with(&site, &[option, "1e19"]);
        eventually(option, || started.0.try_wait().expect("its state").is_some_and(|status| !status.success()));
        let mut said = String::new();
        started.0.stderr.take().expect("it was piped").read_to_string(&mut said).expect("what it said");
        assert!(said.contains("a number of seconds"), "{said}");
    }
}

#[test]
fn what_is_refused_has_no_body_if_only_the_head_was_asked_for() {
    let serving = Site::new().serve(&[]);
    for request in [
        "HEAD / HTTP/1.1\r\n\r\n".to_owned(),
        "HEAD / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n".to_owned(),
        format!("HEAD /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(9000)),
        format!("HEAD / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(20_000)),
    ] {
        let mut talk = serving.connect();
        talk.say(&request);
        assert!(talk.hear_head().starts_with("HTTP/1.1 4"));
        assert!(talk.is_closed(), "{}", &request[..request.len().min(60)]);
    }
}

#[test]
fn there_are_descriptors_for_all_forms_of_a_file() {
    let site = Site::new();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Sn 100 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_sinew")]);
    command.arg("web").arg(site.path("")).args(["--listen", "127.0.0.1:0"]);
    command.args(["--connections", "10", "--cached-files", "100"]).stdout(Stdio::piped());
    let mut started = Started(command.spawn().expect("a shell"));
    let [_] = started.addresses();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", started.0.id())).expect("its limits");
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("descriptors");
    let limit: u64 = limit.split_whitespace().next().expect("a limit").parse().expect("a number");
    assert!(limit >= 10 + 3 * 100, "{limit}");
}

#[test]
fn files_that_are_gone_are_let_go_though_nobody_asks_for_them() {
    let site = Site::new().file("a", "A").file("large", vec![0; 1 << 20]);
    (0..20).for_each(|number| site.put(&format!("other{number}"), "other"));
    let serving = site.serve(&[]);
    (0..20).for_each(|number| assert_eq!(serving.get(&format!("/other{number}")).status, 200));
    assert_eq!(serving.get("/large").status, 200);
    std::fs::remove_file(serving.site.path("large")).expect("to delete it");
    eventually("the file is closed", || {
        assert_eq!(serving.get("/a").text(), "A");
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", serving.pid())).expect("its descriptors");
        let mut links = descriptors.flatten().filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
        !links.any(|link| link.to_string_lossy().ends_with("large (deleted)"))
    });
}

#[test]
fn answers_that_break_off_are_in_the_log() {
    let site = Site::new().file("huge", vec![0; 24 << 20]);
    let log = site.above().join("log");
    let serving = site.serve(&["--plaintext", "--log", log.to_str().expect("a path of text")]);
    assert_eq!(serving.ask("HEAD", "/plaintext", "").status, 200);
    let mut talk = serving.connect();
    talk.say("GET /huge HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(talk.hear_head().starts_with("HTTP/1.1 200 "));
    // Bytes that it has not received make this a reset.
    drop(talk);
    let text = || std::fs::read_to_string(&log).expect("the log");
    eventually("there is a line", || text().lines().count() == 2);
    let (text, sent) = (text(), |line: &str| line.split(' ').nth(9).and_then(|bytes| bytes.parse::<u64>().ok()));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("\"HEAD /plaintext HTTP/1.1\" 200 0 "), "{text}");
    assert!(lines[1].contains("\"GET /huge HTTP/1.1\" 200 "), "{text}");
    assert!(sent(lines[1]).is_some_and(|bytes| bytes < 24 << 20), "{text}");
}
