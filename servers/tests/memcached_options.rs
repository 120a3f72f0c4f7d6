//! Options. Each test runs against this server and, where it is installed, against memcached.

mod running;

use running::{PATIENCE, Running, Talk};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn only_authenticated_clients_are_served() {
    let path = std::env::temp_dir().join(format!("sinew-memcached-users-{}", std::process::id()));
    std::fs::write(&path, "me:secret\nyou:other\n").expect("a file");
    let options = ["-Y", path.to_str().expect("a path in text")];
    for server in Running::both(&options) {
        let mut talk = server.connect();
        let mut exchange = |request: &[u8], answer: &str| {
            talk.say(request);
            assert_eq!(String::from_utf8_lossy(&talk.hear(answer.len())), answer, "{}", server.name);
        };
        exchange(b"get a\r\n", "CLIENT_ERROR unauthenticated\r\n");
        exchange(b"set k 0 0 9\r\nme wrong!\r\n", "CLIENT_ERROR authentication failure\r\n");
        exchange(b"set k 0 0 2\r\nme\r\n", "CLIENT_ERROR bad authentication token format\r\n");
        exchange(b"set k 0 0 9\r\nme secretXX", "CLIENT_ERROR bad command line termination\r\n");
        exchange(b"set k 0 0 9\r\n", "");
        exchange(b"me secret\r\n", "STORED\r\n");
        exchange(b"get k\r\nset a 0 0 1\r\nx\r\n", "END\r\nSTORED\r\n");
        let mut other = server.connect();
        other.say(b"set k 0 0 9\r\nyou other\r\nget a\r\n");
        assert_eq!(other.hear(29), b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n", "{}", server.name);
    }
    std::fs::remove_file(&path).expect("to remove the file");
    let missing = Command::new(env!("CARGO_BIN_EXE_sinew")).args(["memcached", "-p", "0"]).args(options).output();
    assert!(!missing.expect("the binary of this package").status.success());
}

#[test]
fn only_the_chosen_protocol_is_served() {
    let noop = [&[0x80, 0x0a][..], &[0; 22]].concat();
    for server in Running::both(&["-B", "ascii"]) {
        let mut talk = server.connect();
        talk.say(&[&noop[..], b"\r\n"].concat());
        assert_eq!(talk.hear(7), b"ERROR\r\n", "{}", server.name);
    }
    for server in Running::both(&["-B", "binary"]) {
        let mut talk = server.connect();
        talk.say(&noop);
        assert_eq!(talk.hear(2), [0x81, 0x0a], "{}", server.name);
        let mut talk = server.connect();
        talk.say(b"this is not the binary protocol\r\n");
        assert_eq!(talk.hear(1), b"", "{}", server.name);
    }
}

/// The server says more by itself if the kernel permits io_uring.
#[test]
fn a_verbose_server_says_how_it_does_io() {
    for (io, expected) in [("auto", "epoll"), ("ring", "epoll"), ("epoll", "epoll\n")] {
        let (server, errors) = Running::unread(&["-v", "--io", io]);
        let mut line = String::new();
        BufReader::new(errors).read_line(&mut line).expect("a line");
        assert!(line.starts_with(&format!("sinew: memcached: I/O by {expected}")), "{io}: {line}");
        let mut talk = server.connect();
        let has_ring = line.contains("by io_uring");
        assert_eq!(talk.stat("engine"), if has_ring { "epoll+io_uring" } else { "epoll" }, "{io}: {line}");
        assert_eq!(talk.ask(b"set a 0 0 1\r\nx\r\nget a\r\n"), b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    }
}

#[test]
fn a_client_can_shut_the_server_down_if_that_is_enabled() {
    for server in Running::both(&[]) {
        let refused = "ERROR: shutdown not enabled\r\n".repeat(2);
        let heard = server.connect().ask(b"shutdown\r\nshutdown graceful\r\n");
        assert_eq!(heard, refused.as_bytes(), "{}", server.name);
    }
    for server in Running::both(&["-A"]) {
        let mut talk = server.connect();
        assert_eq!(talk.ask(b"shutdown now\r\n"), b"CLIENT_ERROR invalid shutdown mode\r\n", "{}", server.name);
        talk.say(b"shutdown\r\n");
        assert_eq!(talk.hear(1), b"", "{}", server.name);
        server.wait();
    }
}

#[test]
fn a_client_that_is_silent_for_too_long_is_disconnected() {
    for server in Running::both(&["-o", "idle_timeout=1"]) {
        let (mut silent, mut speaking) = (server.connect(), server.connect());
        assert_eq!(silent.ask(b"version\r\n"), b"VERSION 1.6.18\r\n");
        let begin = Instant::now();
        while speaking.stat("idle_kicks") == "0" {
            assert!(begin.elapsed() < PATIENCE, "{}", server.name);
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(silent.hear(1), b"", "{}", server.name);
        assert_eq!(speaking.ask(b"version\r\n"), b"VERSION 1.6.18\r\n", "{}", server.name);
    }
}

#[test]
fn without_maxconns_fast_an_extra_connection_waits() {
    let server = Running::sinew(&["-c", "3", "-o", "no_maxconns_fast"]);
    let mut talks: Vec<Talk> = (0..3).map(|_| server.connect()).collect();
    for talk in &mut talks {
        assert_eq!(talk.ask(b"version\r\n"), b"VERSION 1.6.18\r\n");
    }
    let mut waiting = server.connect();
    waiting.say(b"version\r\n");
    assert_eq!(talks[0].stat("listen_disabled_num"), "1");
    assert_eq!(talks[0].stat("accepting_conns"), "0");
    drop(talks.pop());
    assert_eq!(waiting.hear(16), b"VERSION 1.6.18\r\n");
    assert_ne!(talks[0].stat("time_in_listen_disabled_us"), "0");
}

#[test]
fn datagrams_are_answered_with_datagrams() {
    for start in [|options: &[&str]| Some(Running::sinew(options)), Running::memcached] {
        let free = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("its address").port().to_string();
        drop(free);
        let Some(server) = start(&["-U", &port]) else { return };
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.connect(("127.0.0.1", port.parse().expect("a port"))).expect("an address");
        let value = "v".repeat(20_000);
        server.connect().ask(format!("set large 0 0 20000\r\n{value}\r\n").as_bytes());
        let ask = |number: u16, request: &[u8]| {
            let header = [number, 0, 1, 0].map(u16::to_be_bytes).concat();
            socket.send(&[&header, request].concat()).expect("to send");
            let (mut pieces, mut total) = (std::collections::BTreeMap::new(), 1);
            while pieces.len() < total {
                let mut packet = [0; 2000];
                let count = socket.recv(&mut packet).expect("an answer");
                let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
                assert_eq!((word(0), word(6)), (number, 0), "{}", server.name);
                total = word(4).into();
                pieces.insert(word(2), packet[8..count].to_vec());
            }
            String::from_utf8(pieces.into_values().flatten().collect()).expect("text")
        };
        assert_eq!(ask(7, b"set a 0 0 1\r\nx\r\n"), "STORED\r\n", "{}", server.name);
        assert_eq!(ask(8, b"get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n", "{}", server.name);
        assert_eq!(ask(9, b"get large\r\n"), format!("VALUE large 0 20000\r\n{value}\r\nEND\r\n"), "{}", server.name);
    }
}

#[test]
fn the_server_runs_in_the_background_and_writes_its_process_number() {
    let directory = std::env::temp_dir().join(format!("sinew-memcached-background-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let (pid_file, ports) = (directory.join("pid"), directory.join("ports"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    command.args(["memcached", "-d", "-p", "-1", "-P"]).arg(&pid_file).env("MEMCACHED_PORT_FILENAME", &ports);
    assert!(command.status().expect("the binary of this package").success());
    let begin = Instant::now();
    while !pid_file.exists() || !ports.exists() {
        assert!(begin.elapsed() < PATIENCE, "the server has written no files");
        std::thread::yield_now();
    }
    let ports = std::fs::read_to_string(&ports).expect("the ports");
    let port: u16 = ports.trim().strip_prefix("TCP INET: ").expect("a line").parse().expect("a port");
    let mut talk = Talk::over(std::net::TcpStream::connect(("127.0.0.1", port)).expect("a connection"));
    let pid = talk.stat("pid");
    assert_eq!(std::fs::read_to_string(&pid_file).expect("the file").trim(), pid);
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    while pid_file.exists() {
        assert!(begin.elapsed() < PATIENCE, "the server does not end");
        std::thread::yield_now();
    }
    std::fs::remove_dir_all(&directory).expect("to remove the directory");
}

#[test]
fn options_with_faulty_or_too_large_numbers_are_refused() {
    for options in [
        &["-m", "99999999999999999999"][..],
        // A number of megabytes whose bytes wrap around to 64 megabytes in 64 bits.
        &["-m", "17592186044480"],
        &["-m", "0"],
        &["-I", "5000m"],
        &["-c", "-1"],
        &["-c", "0"],
        &["-b", "99999999999"],
        &["-R", "x"],
        &["-f", "1"],
        &["-B", "http"],
        &["-o", "idle_timeout=99999999999"],
        &["-o", "no_such_thing"],
        &["-U", "65536"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.args(["memcached", "-p", "0"]).args(options).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary of this package");
        let mut line = String::new();
        BufReader::new(child.stderr.take().expect("it was piped")).read_line(&mut line).expect("its first line");
        let is_serving = line.starts_with("listening");
        if is_serving {
            child.kill().expect("to end it");
        }
        let status = child.wait().expect("its state");
        assert!(!is_serving && !status.success() && !line.is_empty(), "{options:?}: {line}");
    }
}
