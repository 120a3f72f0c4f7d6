//! The commands of `sinew files` that a person uses.

mod vault;

use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use vault::{Site, Vault, make_keys, noise, said, sinew};

/// Sizes around those of a record.
const SIZES: [usize; 8] = [0, 1, 61_439, 61_440, 61_441, 122_880, 245_760, 1_000_000];

#[test]
fn files_arrive_as_they_are_with_both_ciphers() {
    let site = Site::new();
    SIZES.iter().for_each(|size| site.put(&format!("dir/{size}"), noise(*size)));
    let vault = Vault::serve(site, &[]);
    for cipher in ["aes", "chacha"] {
        for size in SIZES {
            let output = vault.ask("get", &[&format!("dir/{size}"), "--cipher", cipher]);
            assert!(output.status.success() && output.stdout.is_empty(), "{}", said(&output));
            let copy = vault.key(&size.to_string());
            assert!(fs::read(&copy).expect("the copy") == noise(size), "{cipher}, {size} bytes");
            fs::remove_file(copy).expect("remove");
        }
    }
}

#[test]
fn many_clients_are_served_at_the_same_time() {
    for options in [&["-t", "1"][..], &["-t", "2"], &["-t", "4", "--no-migration"]] {
        let vault = Vault::serve(Site::new().file("file", noise(1_000_000)), options);
        let read = |more: &[&str]| {
            let output = vault.ask("read", &[&["file", "-c", "8", "--times", "2"], more].concat());
            assert!(output.status.success(), "{}", said(&output));
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(said.starts_with("8 connections, 16000000 bytes in "), "{said}");
        };
        read(&[]);
        read(&["--skip", "--cipher", "chacha"]);
        assert_eq!(vault.messages(), "");
    }
}

#[test]
fn a_failed_copy_leaves_the_old_file() {
    let vault = Vault::serve(Site::new().file("file", "new"), &[]);
    fs::write(vault.key("copy"), "old").expect("write");
    assert!(!vault.ask("get", &["nothing", "--output", "copy"]).status.success());
    assert_eq!(fs::read_to_string(vault.key("copy")).expect("the copy"), "old");
    assert!(vault.ask("get", &["file", "--output", "copy"]).status.success());
    assert_eq!(fs::read_to_string(vault.key("copy")).expect("the copy"), "new");
    let output = vault.ask("get", &["file", "--output", "no/such/copy"]);
    assert!(!output.status.success() && said(&output).contains("no/such/copy"), "{output:?}");
    assert!(vault.ask("get", &["file", "--output", "/dev/null"]).status.success());
    assert!(!vault.ask("get", &["file", "--output", "/dev/full"]).status.success());
    assert!(!vault.ask("get", &["file", "--output", "site"]).status.success());
}

#[test]
fn a_listing_has_sizes_times_and_names() {
    let site = Site::new().file("b", "four").file("a/x", "").file(".hidden", "");
    fs::write(site.path("").join(std::ffi::OsStr::from_bytes(b"bell\x07\xff")), "").unwrap();
    let vault = Vault::serve(site, &[]);
    let output = vault.ask("ls", &[]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    let names: Vec<&str> = text.lines().map(|line| line.rsplit("  ").next().expect("a name")).collect();
    assert_eq!(names, ["a/", "b", "bell?\u{fffd}"]);
    let line = text.lines().nth(1).expect("a line");
    assert!(line.trim_start().starts_with("4  20"), "{line}");
    for path in ["a", "a/", "."] {
        assert!(vault.ask("ls", &[path]).status.success(), "{path}");
    }
    let output = vault.ask("ls", &["b"]);
    assert!(said(&output).contains("b: it is not a directory"), "{output:?}");
    let output = vault.ask("ls", &["nothing"]);
    assert!(said(&output).contains("nothing: there is no such file"), "{output:?}");
    drop(vault);
    let vault = Vault::serve(Site::new().file(".hidden", ""), &["--hidden"]);
    assert!(String::from_utf8_lossy(&vault.ask("ls", &[]).stdout).contains(".hidden"));
}

#[test]
fn a_large_listing_is_complete() {
    let site = Site::new();
    fs::create_dir(site.path("many")).expect("a directory");
    for number in 0..1200 {
        fs::write(site.path(&format!("many/a-rather-long-name-{number:05}")), "").expect("a file");
    }
    let vault = Vault::serve(site, &[]);
    let text = String::from_utf8(vault.ask("ls", &["many"]).stdout).expect("text");
    let names = text.lines().map(|line| line.rsplit('-').next().expect("a number").parse::<u32>().expect("a number"));
    assert!(names.eq(0..1200), "{text}");
}

#[test]
fn a_server_that_cannot_be_reached_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let site = Site::new();
    make_keys(site.above(), &["server", "alice"]);
    let ask = |address: &str| sinew(site.above(), &["ls", address, "--key", "alice", "--server", "server.pub"]);
    let output = ask(&free.to_string());
    assert!(!output.status.success() && said(&output).contains(&format!("cannot connect to {free}")), "{output:?}");
    let output = ask("no port");
    assert!(!output.status.success() && said(&output).contains("cannot connect to no port"), "{output:?}");
}

#[test]
fn a_server_that_says_nothing_is_left() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = silent.local_addr().expect("an address").to_string();
    let site = Site::new();
    make_keys(site.above(), &["server", "alice"]);
    let arguments = ["ls", &address, "--key", "alice", "--server", "server.pub", "--timeout", "0.1"];
    let output = sinew(site.above(), &arguments);
    assert!(!output.status.success() && said(&output).contains("did not answer in time"), "{output:?}");
}

#[test]
fn every_command_has_help() {
    let site = Site::new();
    for command in ["serve", "keys", "get", "ls", "read"] {
        let output = sinew(site.above(), &[command, "--help"]);
        assert!(output.status.success() && output.stdout.len() > 100, "{command}: {output:?}");
    }
}
