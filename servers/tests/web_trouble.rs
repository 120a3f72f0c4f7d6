//! Trouble around the web server that must not harm unrelated clients.

mod site;

use site::{PATIENCE, Process, Site, eventually, read_address};
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

fn start(site: &Site, options: &[&str]) -> Process {
    Process::start(site.command(options).stderr(Stdio::piped())).expect("the binary of this package")
}

/// Returns the addresses that the server announces.
fn addresses<const N: usize>(server: &mut Process) -> [SocketAddr; N] {
    let mut output = BufReader::new(server.output());
    [(); N].map(|()| read_address(&mut output))
}

/// Sends a request, and receives `count` bytes.
fn ask(address: SocketAddr, request: &[u8], count: usize) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(request).expect("send");
    let mut heard = vec![0; count];
    stream.read_exact(&mut heard).expect("receive");
    heard
}

#[test]
fn a_log_that_cannot_be_written_delays_no_client() {
    let site = Site::new();
    let mut server = start(&site, &["--plaintext", "--log", "/dev/full"]);
    // The server's messages cannot be written either.
    drop(server.errors());
    let [address] = addresses(&mut server);
    // These lines are more than the log keeps.
    let agent = "x".repeat(10_000);
    let request = format!("GET /plaintext HTTP/1.1\r\nHost: h\r\nUser-Agent: {agent}\r\n\r\n");
    for _ in 0..200 {
        assert_eq!(ask(address, request.as_bytes(), 15), b"HTTP/1.1 200 OK");
    }
}

#[test]
fn a_client_of_one_listener_does_not_wait_for_another_listener() {
    let site = Site::new().file("file", "content");
    let mut server = start(&site, &["--listen", "127.0.0.1:0", "--connections", "1"]);
    for address in addresses::<2>(&mut server) {
        assert_eq!(ask(address, b"GET /file HTTP/1.0\r\n\r\n", 15), b"HTTP/1.1 200 OK");
    }
}

#[test]
fn timeouts_beyond_a_century_are_refused() {
    let site = Site::new();
    for option in ["--header-timeout", "--idle-timeout", "--send-timeout"] {
        let mut server = start(&site, &[option, "1e19"]);
        assert!(!server.wait_for_end().success(), "{option}");
        let said = server.messages();
        assert!(said.contains("a number of seconds"), "{said}");
    }
}

#[test]
fn a_refusal_of_a_head_request_has_no_body() {
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
fn the_descriptor_limit_allows_for_all_forms_of_a_file() {
    let site = Site::new();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Sn 100 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_sinew")]);
    command.arg("web").arg(site.path("")).args(["--listen", "127.0.0.1:0"]);
    command.args(["--connections", "10", "--cached-files", "100"]).stdout(Stdio::piped());
    let mut server = Process::start(&mut command).expect("a shell");
    let [_] = addresses(&mut server);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).expect("the limits");
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("descriptors");
    let limit: u64 = limit.split_whitespace().next().expect("a limit").parse().expect("a number");
    assert!(limit >= 10 + 3 * 100, "{limit}");
}

#[test]
fn deleted_files_are_closed_though_no_client_asks_for_them() {
    let site = Site::new().file("a", "A").file("large", vec![0; 1 << 20]);
    (0..20).for_each(|number| site.put(&format!("other{number}"), "other"));
    let serving = site.serve(&[]);
    (0..20).for_each(|number| assert_eq!(serving.get(&format!("/other{number}")).status, 200));
    assert_eq!(serving.get("/large").status, 200);
    std::fs::remove_file(serving.site.path("large")).expect("delete");
    eventually("the file is closed", || {
        assert_eq!(serving.get("/a").text(), "A");
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", serving.pid())).expect("the descriptors");
        let mut links = descriptors.flatten().filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
        !links.any(|link| link.to_string_lossy().ends_with("large (deleted)"))
    });
}

#[test]
fn answers_that_are_cut_short_are_in_the_log() {
    let site = Site::new().file("huge", vec![0; 24 << 20]);
    let log = site.above().join("log");
    let serving = site.serve(&["--plaintext", "--log", log.to_str().expect("a path of text")]);
    assert_eq!(serving.ask("HEAD", "/plaintext", "").status, 200);
    let mut talk = serving.connect();
    talk.say("GET /huge HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(talk.hear_head().starts_with("HTTP/1.1 200 "));
    // Unread bytes make this a reset.
    drop(talk);
    let text = || std::fs::read_to_string(&log).expect("the log");
    eventually("the line is in the log", || text().lines().count() == 2);
    let (text, sent) = (text(), |line: &str| line.split(' ').nth(9).and_then(|bytes| bytes.parse::<u64>().ok()));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("\"HEAD /plaintext HTTP/1.1\" 200 0 "), "{text}");
    assert!(lines[1].contains("\"GET /huge HTTP/1.1\" 200 "), "{text}");
    assert!(sent(lines[1]).is_some_and(|bytes| bytes < 24 << 20), "{text}");
}
