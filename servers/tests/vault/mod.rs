//! A directory with keys beside it, the built binary that serves it, and its clients.

// Each test binary uses its own part of this.
#![allow(dead_code)]
#![allow(unused_imports)]

mod raw;
#[path = "../site/mod.rs"]
mod site;
mod tamper;

pub use raw::{FIRST, HELLO, Raw, SECOND, TAG};
pub use site::{PATIENCE, Process, Site, eventually, noise};
pub use tamper::{Tamper, Way};

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};

/// Runs `sinew files` with these arguments in this directory.
pub fn sinew(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
    command.arg("files").args(arguments).current_dir(directory).output().expect("the binary of this package")
}

/// Returns what a command has written to standard error.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Makes key pairs in a directory.
pub fn make_keys(directory: &Path, names: &[&str]) {
    for name in names {
        let made = sinew(directory, &["keys", name]);
        assert!(made.status.success(), "{made:?}");
    }
}

/// A running server. It is killed when this value is dropped. Its keys are beside the served
/// directory: `server`, and `alice`, who may use it.
pub struct Vault {
    pub address: SocketAddr,
    pub site: Site,
    process: Process,
    messages: Arc<Mutex<String>>,
}

impl Vault {
    pub fn serve(site: Site, options: &[&str]) -> Vault {
        make_keys(site.above(), &["server", "alice"]);
        std::fs::copy(site.above().join("alice.pub"), site.above().join("clients")).expect("a file of clients");
        Vault::serve_with_keys(site, options)
    }

    /// Starts a server whose keys are there already.
    pub fn serve_with_keys(site: Site, options: &[&str]) -> Vault {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.args(["files", "serve", "site", "--key", "server", "--clients", "clients"]);
        command.args(["--listen", "127.0.0.1:0"]).args(options).current_dir(site.above());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::start(&mut command).expect("the binary of this package");
        let (messages, mut errors) = (Arc::<Mutex<String>>::default(), BufReader::new(process.errors()));
        let kept = Arc::clone(&messages);
        std::thread::spawn(move || {
            let mut line = String::new();
            while errors.read_line(&mut line).is_ok_and(|count| count > 0) {
                kept.lock().unwrap().push_str(&std::mem::take(&mut line));
            }
        });
        let mut line = String::new();
        BufReader::new(process.output()).read_line(&mut line).expect("the first line");
        let address = line.trim().rsplit(' ').next().and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("the server says: {line}{}", messages.lock().unwrap()));
        Vault { address, site, process, messages }
    }

    /// Returns what the server has written to standard error. A debug build of the runtime may add
    /// messages of its own about a machine that is busy; these are left out.
    pub fn messages(&self) -> String {
        let messages = self.messages.lock().unwrap();
        messages.split_inclusive('\n').filter(|line| line.starts_with("sinew: files: ")).collect()
    }

    /// Waits until the server has written a line with all of these words.
    pub fn has_said(&self, words: &[&str]) {
        let holds = || self.messages().lines().any(|line| words.iter().all(|word| line.contains(word)));
        eventually(&format!("the server says {words:?}"), holds);
    }

    /// Runs a command of alice's at this address, in the directory above the served one.
    pub fn ask_at(&self, address: SocketAddr, command: &str, arguments: &[&str]) -> Output {
        let address = address.to_string();
        let arguments = [&[command, &address, "--key", "alice", "--server", "server.pub"], arguments].concat();
        sinew(self.site.above(), &arguments)
    }

    /// Runs a command of alice's.
    pub fn ask(&self, command: &str, arguments: &[&str]) -> Output {
        self.ask_at(self.address, command, arguments)
    }

    /// Returns the content of a file, as alice gets it.
    pub fn get(&self, path: &str) -> Vec<u8> {
        let output = self.ask("get", &["--output", "-", "--", path]);
        assert!(output.status.success(), "{path}: {}", said(&output));
        output.stdout
    }

    /// Returns the reason why alice does not get a file.
    pub fn get_refusal(&self, path: &str) -> String {
        let output = self.ask("get", &["--output", "-", "--", path]);
        assert!(!output.status.success() && output.stdout.is_empty(), "{path}: {output:?}");
        said(&output)
    }

    pub fn key(&self, name: &str) -> PathBuf {
        self.site.above().join(name)
    }

    /// Connects as alice, without the client's code.
    pub fn raw(&self) -> Raw {
        Raw::connect(self.address, &self.key("alice"), &self.key("server.pub"))
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a write timeout");
        stream
    }

    /// Waits for the end of the server, and returns its exit status.
    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait_for_end()
    }
}

impl Deref for Vault {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

/// Returns whether the server closes this connection, after whatever it still sends.
pub fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}
