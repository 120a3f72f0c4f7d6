//! Child processes: this program, started again with a hidden command and a case as JSON.
//!
//! A child ends when its parent ends. Dropping a [`Process`] ends the child and all that the
//! child has started.

use std::io::{self, BufReader, Read};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};

use crate::case::Case;
use crate::kernel;
use crate::peers::language;

pub struct Process {
    child: Child,
    /// Reads standard error until the child ends.
    complaints: Option<JoinHandle<String>>,
}

impl Process {
    /// Starts the child.
    pub fn start(command: &str, case: &Case) -> io::Result<Process> {
        let case = serde_json::to_string(case).expect("a case is plain data");
        let mut started = Command::new(std::env::current_exe()?);
        started.args([command, &std::process::id().to_string(), &case]);
        started.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        language::hand_down(&mut started);
        let mut child = started.spawn()?;
        let mut stderr = child.stderr.take().expect("a pipe");
        let complaints = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        Ok(Process { child, complaints: Some(complaints) })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the child's standard output.
    ///
    /// # Panics
    /// On the second call.
    pub fn output(&mut self) -> BufReader<ChildStdout> {
        BufReader::new(self.child.stdout.take().expect("standard output is taken once"))
    }

    /// Waits until the child ends.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Returns how the child ended, if it has.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Returns what the child wrote to standard error. Waits until the child ends.
    pub fn complaints(&mut self) -> String {
        self.complaints.take().and_then(|reader| reader.join().ok()).unwrap_or_default()
    }

    /// Ends the child and all that it has started, unless it has ended.
    pub fn end(&mut self) {
        // A process that has been waited for has no family any more.
        if let Ok(None) = self.child.try_wait() {
            kernel::kill_family(&self.child);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
