//! `sinew top`, on a server that knows nothing of it.

mod running;

use running::{PATIENCE, Running, Talk};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

fn top(process: u32) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    command.args(["top", &process.to_string()]);
    command
}

/// Returns one picture; `None` if this user may not read the process here.
fn picture(process: u32) -> Option<String> {
    let Output { status, stdout, stderr } =
        top(process).args(["--once", "--interval", "0.2"]).output().expect("the binary of this package");
    let said = String::from_utf8_lossy(&stderr).into_owned();
    if !status.success() && said.contains("ptrace") {
        eprintln!("skipped: {said}");
        return None;
    }
    assert!(status.success(), "{said}");
    Some(String::from_utf8(stdout).expect("text"))
}

fn busy(talk: &mut Talk) {
    talk.say(b"set key 0 0 5\r\nvalue\r\n");
    assert_eq!(talk.hear(8), b"STORED\r\n");
}

#[test]
fn a_picture_shows_processors_sites_and_sockets() {
    let server = Running::sinew(&["-t", "2"]);
    let mut talk = server.connect();
    let port = server.address.port();
    let is_session = |line: &str| line.contains(&format!("tcp 127.0.0.1:{port} - ")) && line.contains("read");
    let begun = Instant::now();
    let shown = loop {
        // A session that is silent for long has no fibre.
        busy(&mut talk);
        let Some(shown) = picture(server.pid()) else { return };
        if shown.lines().any(is_session) {
            break shown;
        }
        assert!(begun.elapsed() < PATIENCE, "{shown}");
    };
    assert!(shown.contains(&format!("sinew {}", server.pid())), "{shown}");
    let processors = shown.lines().filter(|line| line.starts_with("memcached-") || line.starts_with("sinew-")).count();
    assert!(processors >= 2, "{shown}");
    assert!(shown.contains("fibres:"), "{shown}");
    assert!(shown.contains("servers/src/"), "spawn sites are missing: {shown}");
    assert!(shown.contains(&format!("tcp 127.0.0.1:{port}, listening")), "{shown}");
    assert!(!shown.contains("DEADLOCK"), "{shown}");
}

/// In a terminal of its own: it draws, and `q` ends it.
#[test]
fn it_follows_in_a_terminal_until_q() {
    let server = Running::sinew(&["-t", "1"]);
    if picture(server.pid()).is_none() {
        return;
    }
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("a terminal");
    unlockpt(&terminal).expect("a terminal");
    let name = ptsname(&terminal, Vec::new()).expect("a terminal").into_string().expect("a path");
    let other_side = || Stdio::from(File::options().read(true).write(true).open(&name).expect("its other side"));
    // A terminal that nobody has sized has no room to draw in.
    let size = Command::new("stty").args(["rows", "40", "cols", "100"]).stdin(other_side()).status();
    assert!(size.expect("stty").success());
    let mut child =
        top(server.pid()).stdin(other_side()).stdout(other_side()).stderr(other_side()).spawn().expect("the binary");
    let mut terminal = File::from(terminal);
    let (mut seen, mut room) = (String::new(), [0; 4096]);
    while !seen.contains("Processors") {
        let count = terminal.read(&mut room).expect("it draws");
        seen.push_str(&String::from_utf8_lossy(&room[..count]));
    }
    terminal.write_all(b"q").expect("a key");
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill().expect("a child");
            panic!("`q` does not end it");
        }
        std::thread::yield_now();
    };
    assert!(status.success());
}

#[test]
fn what_cannot_be_read_is_said() {
    let own = picture_error(std::process::id());
    assert!(own.contains("no description") || own.contains("Sinew") || own.contains("sinew"), "{own}");
    let nobody = picture_error(u32::MAX / 2);
    assert!(nobody.contains("no process") || nobody.contains("No such process"), "{nobody}");
}

fn picture_error(process: u32) -> String {
    let output = top(process).arg("--once").output().expect("the binary of this package");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}
