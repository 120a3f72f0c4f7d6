//! Files that `sinew files` must not send, and requests that it must refuse.

mod vault;

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;
use vault::{Site, Vault};

const SECRET: &str = "nobody is to see this";

fn guarded() -> Site {
    let site = Site::new().file("dir/file", "file").file(".git/config", SECRET);
    fs::write(site.above().join("secret"), SECRET).unwrap();
    fs::create_dir(site.above().join("beside")).unwrap();
    fs::write(site.above().join("beside/secret"), SECRET).unwrap();
    symlink("../secret", site.path("out")).unwrap();
    symlink(site.above().join("secret"), site.path("absolute")).unwrap();
    symlink("../beside", site.path("directory")).unwrap();
    symlink("dir", site.path("inside")).unwrap();
    symlink("/proc/self/root", site.path("magic")).unwrap();
    symlink("loop", site.path("loop")).unwrap();
    site
}

const ATTEMPTS: [&[u8]; 28] = [
    b"../secret",
    b"..",
    b"dir/..",
    b"dir/../../secret",
    b"dir/../dir/file",
    b"./../secret",
    b"./dir/file",
    b"dir/./file",
    b"dir//file",
    b"dir/",
    b"/",
    b"/etc/passwd",
    b"//etc/passwd",
    b"../beside/secret",
    b"out",
    b"absolute",
    b"directory/secret",
    b"directory",
    b"magic/etc/passwd",
    b"magic",
    b"loop",
    b".git/config",
    b".git",
    b"dir/file\0",
    b"\0",
    b"out\0/../dir/file",
    b"dir/file/more",
    b"nothing",
];

/// Returns whether an answer is a refusal.
fn is_sorry(answer: &[u8]) -> bool {
    answer.len() == 2 && answer[0] == b's'
}

#[test]
fn no_path_leaves_the_directory() {
    let vault = Vault::serve(guarded(), &[]);
    let mut raw = vault.raw();
    for attempt in ATTEMPTS {
        for kind in [b"g", b"l"] {
            let answer = raw.ask(&[&kind[..], attempt].concat());
            assert!(is_sorry(&answer), "{attempt:?}: {answer:?}");
        }
    }
    for length in [255, 256, 4095 - 4, 4095] {
        let name = vec![b'n'; length];
        assert!(is_sorry(&raw.ask(&[b"g", &name[..]].concat())), "{length}");
        let names = [&b"dir/"[..], &name].concat();
        assert!(is_sorry(&raw.ask(&[b"l", &names[..names.len().min(4095)]].concat())), "{length}");
    }
    assert!(is_sorry(&raw.ask(&[b"g", &b"d/".repeat(2047)[..]].concat())));
    assert!(is_sorry(&raw.ask(b"ginside/file")));
    assert!(raw.ask(b"gdir/file").ends_with(b"file"), "the connection has survived all this");
    // A name without links, but with every kind of byte.
    let strange = b"dir/\x01\xff\"'$(x)\n";
    use std::os::unix::ffi::OsStrExt;
    fs::write(vault.site.path("").join(std::ffi::OsStr::from_bytes(strange)), "odd").unwrap();
    assert!(raw.ask(&[b"g", &strange[..]].concat()).ends_with(b"odd"));
}

#[test]
fn with_follow_links_links_are_followed_inside_only() {
    let vault = Vault::serve(guarded(), &["--follow-links", "--hidden"]);
    let mut raw = vault.raw();
    for attempt in ATTEMPTS.iter().filter(|attempt| !attempt.starts_with(b".git")) {
        assert!(is_sorry(&raw.ask(&[b"g", *attempt].concat())), "{attempt:?}");
    }
    assert!(raw.ask(b"ginside/file").ends_with(b"file"));
    assert!(raw.ask(b"g.git/config").ends_with(SECRET.as_bytes()));
}

#[test]
fn only_regular_files_are_sent() {
    let site = guarded();
    let made = Command::new("mkfifo").arg(site.path("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()));
    let _socket = UnixListener::bind(site.path("socket")).unwrap();
    let vault = Vault::serve(site, &[]);
    for name in ["pipe", "socket"] {
        assert!(vault.get_refusal(name).contains(&format!("{name}: the server does not show it")));
    }
    assert!(vault.get_refusal("dir").contains("it is a directory"));
    assert!(vault.get_refusal("nothing").contains("there is no such file"));
    assert!(vault.get_refusal("../secret").contains("the server does not show it"));
    assert!(vault.get_refusal("/etc/passwd").contains("the server does not show it"));
}

#[test]
fn requests_that_are_none_are_refused_and_too_long_ones_end_the_connection() {
    let vault = Vault::serve(guarded(), &[]);
    let mut raw = vault.raw();
    for request in [&b"x"[..], b"Gdir/file", b"\0", b"pppp", b"GET / HTTP/1.1\r\n\r\n"] {
        assert!(is_sorry(&raw.ask(request)), "{request:?}");
    }
    assert!(raw.ask(b"gdir/file").ends_with(b"file"));
    raw.say(&vec![b'g'; 4097]);
    assert!(raw.hear().is_err());
    vault.has_said(&["(alice)", "a record has the wrong length, 4113 bytes"]);
    // An empty record says nothing.
    let mut raw = vault.raw();
    raw.say(b"");
    assert!(raw.hear().is_err());
    vault.has_said(&["(alice)", "a record has the wrong length, 16 bytes"]);
}
