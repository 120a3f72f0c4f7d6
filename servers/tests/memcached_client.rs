//! A client that others wrote, pymemcache, where it is installed.

mod running;

use running::Running;
use std::process::Command;

#[test]
fn pymemcache_works_with_the_server() {
    let is_installed = Command::new("python3").args(["-c", "import pymemcache"]).output();
    if !is_installed.is_ok_and(|output| output.status.success()) {
        eprintln!("pymemcache is not installed: nothing to test with");
        return;
    }
    let server = Running::sinew(&["-t", "2"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/memcached_client.py");
    let output = Command::new("python3").arg(script).arg(server.address.port().to_string()).output();
    let output = output.expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "done");
}
