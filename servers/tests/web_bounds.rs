//! Files that the web server must not send, and requests that it must refuse.

mod site;

use site::Site;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::Command;

const SECRET: &str = "nobody is to see this";

fn guarded() -> Site {
    let site = Site::new().file("index.html", "home").file("dir/file", "file").file(".git/config", SECRET);
    fs::write(site.above().join("secret"), SECRET).unwrap();
    fs::create_dir(site.above().join("beside")).unwrap();
    fs::write(site.above().join("beside/secret"), SECRET).unwrap();
    symlink("../secret", site.path("out")).unwrap();
    symlink(site.above().join("secret"), site.path("absolute")).unwrap();
    symlink("../beside", site.path("directory")).unwrap();
    symlink("dir", site.path("inside")).unwrap();
    symlink("/proc/self/root", site.path("magic")).unwrap();
    site
}

const ATTEMPTS: [&str; 34] = [
    "/../secret",
    "/dir/../../secret",
    "/dir/..%2f..%2fsecret",
    "/%2e%2e/secret",
    "/%2E%2E/secret",
    "/.%2e/secret",
    "/%2e./secret",
    "/..%2fsecret",
    "/..%5csecret",
    "/..\\secret",
    "/%252e%252e/secret",
    "/....//secret",
    "/./../secret",
    "//../secret",
    "/dir/./../../secret",
    "/%c0%ae%c0%ae/secret",
    "/..;/secret",
    "/../secret%00.html",
    "/dir/file%00",
    "/../beside/secret",
    "/out",
    "/absolute",
    "/directory/secret",
    "/magic/etc/passwd",
    "/magic/",
    "/.git/config",
    "/%2egit/config",
    "/dir/../.git/config",
    "http://localhost/../secret",
    "http://localhost/%2e%2e/secret",
    "file:///etc/passwd",
    "/etc/passwd",
    "//etc/passwd",
    "/proc/self/environ",
];

#[test]
fn no_path_leaves_the_directory() {
    let serving = guarded().serve(&["--list"]);
    for target in ATTEMPTS {
        let answer = serving.get(target);
        assert!(matches!(answer.status, 400 | 403 | 404), "{target}: {answer:?}");
        assert!(!String::from_utf8_lossy(&answer.body).contains(SECRET), "{target}");
    }
    assert_eq!(serving.get("/dir/../dir/./file").text(), "file");
    assert_eq!(serving.get("http://localhost/dir/file").text(), "file");
    assert_eq!(serving.get("/inside/file").status, 403);
}

#[test]
fn with_follow_links_links_are_followed_inside_only() {
    let serving = guarded().serve(&["--follow-links", "--hidden"]);
    for target in ATTEMPTS.iter().filter(|target| !target.contains("git")) {
        let answer = serving.get(target);
        assert!(matches!(answer.status, 400 | 403 | 404), "{target}: {answer:?}");
    }
    assert_eq!(serving.get("/inside/file").text(), "file");
    assert_eq!(serving.get("/.git/config").text(), SECRET);
}

#[test]
fn names_may_contain_every_byte() {
    let site = Site::new();
    let mut names: Vec<Vec<u8>> = Vec::new();
    for byte in (1..=255u8).filter(|&byte| byte != b'/') {
        let name = [b"x", &[byte][..], b"y"].concat();
        fs::write(site.path("").join(std::ffi::OsStr::from_bytes(&name)), [b"<", &name[..], b">"].concat()).unwrap();
        names.push(name);
    }
    let serving = site.serve(&["--list"]);
    let mut talk = serving.connect();
    for name in &names {
        let target: String = name.iter().map(|byte| format!("%{byte:02x}")).collect();
        let answer = talk.ask("GET", &format!("/{target}"), "");
        assert_eq!((answer.status, &answer.body), (200, &[b"<", &name[..], b">"].concat()), "{target}");
    }
    let listing = talk.ask("GET", "/", "");
    let links = listing.text().matches("href=\"./").count();
    assert_eq!(links, names.len());
    for byte in [0, b'/'] {
        assert_eq!(talk.ask("GET", &format!("/x%{byte:02x}y"), "").status, 400);
    }
    // The names are sent raw, without percent signs. Bytes that a target may not contain are
    // refused.
    for name in &names {
        let mut raw = serving.connect();
        raw.say([b"GET /", &name[..], b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"].concat());
        let answer = raw.hear(true);
        let is_safe = answer.body == [b"<", &name[..], b">"].concat() || answer.status >= 400;
        assert!(is_safe, "{name:?}: {answer:?}");
    }
}

#[test]
fn only_regular_files_are_sent() {
    let site = Site::new();
    let made = Command::new("mkfifo").arg(site.path("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()));
    let _socket = std::os::unix::net::UnixListener::bind(site.path("socket")).unwrap();
    let serving = site.serve(&[]);
    assert_eq!(serving.get("/pipe").status, 403);
    assert_eq!(serving.get("/socket").status, 403);
}

#[test]
fn smuggled_requests_are_not_answered() {
    let serving = Site::new().file("hidden.txt", SECRET).serve(&[]);
    let inner = "GET /hidden.txt HTTP/1.1\r\nHost: h\r\n\r\n";
    let length = inner.len();
    for shape in [
        format!(
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{inner}"
        ),
        format!(
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n{inner}"
        ),
        format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: {length}\r\n\r\n{inner}"),
        format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0, {length}\r\n\r\n{inner}"),
        format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n{inner}"),
        format!(
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n{inner}"
        ),
        format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n{inner}"),
        format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: x, chunked\r\n\r\n0\r\n\r\n{inner}"),
        format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n{inner}"),
        format!("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{inner}"),
        format!("GET / HTTP/1.1\r\nHost: h\r\nX: y\n\n{inner}"),
        format!("GET / HTTP/1.1\r\nHost: h\r\nX: y\r\r\n\r\n{inner}"),
        format!("GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n{inner}"),
        format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\n\n{inner}"),
        format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\n{inner}"),
        format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx0\r\n\r\n{inner}"),
    ] {
        let mut talk = serving.connect();
        talk.say(&shape);
        // Some shapes are incomplete: the server may wait for more.
        let _ = talk.stream.shutdown(std::net::Shutdown::Write);
        let said = String::from_utf8_lossy(&talk.hear_all()).into_owned();
        let is_refused = said.starts_with("HTTP/1.1 400") || said.starts_with("HTTP/1.1 501");
        assert!(is_refused && !said.contains(SECRET), "{shape:?} gave {said:?}");
        assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{shape:?} gave {said:?}");
    }
}
