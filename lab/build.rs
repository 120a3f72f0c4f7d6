//! Tells the lab which compiler made it, for the report.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc).arg("--version").output().ok();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("cargo::rustc-env=SINEW_LAB_RUSTC={}", version.unwrap_or_default());
    for name in ["PROFILE", "OPT_LEVEL"] {
        println!("cargo::rustc-env=SINEW_LAB_{name}={}", std::env::var(name).unwrap_or_default());
    }
}
