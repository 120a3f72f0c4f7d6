//! `Command`: how a child is started.

use super::{Child, orphans};
use crate::fs::File;
use crate::io::{blocking, blocking_async};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{CommandArgs, CommandEnvs, ExitStatus, Output, Stdio};

/// A program to start, with its arguments, environment and standard streams: std's `Command`.
///
/// ```
/// use sinew::process::Command;
/// sinew::run(|| {
///     let status = Command::new("sh").args(["-c", "exit $CODE"]).env("CODE", "3").status().unwrap();
///     assert_eq!(status.code(), Some(3));
///
///     let task = sinew::task::spawn(async { Command::new("pwd").current_dir("/").output_async().await });
///     assert_eq!(task.join().unwrap().unwrap().stdout, b"/\n");
/// });
/// ```
pub struct Command {
    std: std::process::Command,
    /// The standard streams that the program has set: input, output, errors.
    is_set: [bool; 3],
    kill_on_drop: bool,
    /// Whether `std` is gone: a future that had it was dropped.
    is_lost: bool,
}

impl Command {
    /// Makes a command that starts `program` with no arguments, in the environment and the directory
    /// of the caller.
    pub fn new(program: impl AsRef<OsStr>) -> Command {
        Command::from(std::process::Command::new(program))
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Command {
        self.std.arg(argument);
        self
    }

    /// Adds several arguments.
    pub fn args(&mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Command {
        self.std.args(arguments);
        self
    }

    /// Sets a variable of the child's environment.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Command {
        self.std.env(name, value);
        self
    }

    /// Sets several variables of the child's environment.
    pub fn envs(
        &mut self,
        variables: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>,
    ) -> &mut Command {
        self.std.envs(variables);
        self
    }

    /// Removes a variable from the child's environment.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Command {
        self.std.env_remove(name);
        self
    }

    /// Starts the child's environment empty.
    pub fn env_clear(&mut self) -> &mut Command {
        self.std.env_clear();
        self
    }

    /// Sets the directory in which the child begins.
    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Command {
        self.std.current_dir(directory);
        self
    }

    /// Sets the child's standard input. By default the child inherits the caller's; with
    /// [`output`](Command::output) it has none.
    pub fn stdin(&mut self, stream: impl Into<Stdio>) -> &mut Command {
        self.std.stdin(stream);
        self.is_set[0] = true;
        self
    }

    /// Sets the child's standard output. By default the child inherits the caller's; with
    /// [`output`](Command::output) it is a pipe.
    pub fn stdout(&mut self, stream: impl Into<Stdio>) -> &mut Command {
        self.std.stdout(stream);
        self.is_set[1] = true;
        self
    }

    /// Sets the child's standard error output. By default the child inherits the caller's; with
    /// [`output`](Command::output) it is a pipe.
    pub fn stderr(&mut self, stream: impl Into<Stdio>) -> &mut Command {
        self.std.stderr(stream);
        self.is_set[2] = true;
        self
    }

    /// Sets whether a [`Child`] that is dropped while it runs is killed, with SIGKILL. By default it
    /// runs on. Processes that the child has started are not killed.
    pub fn kill_on_drop(&mut self, kill: bool) -> &mut Command {
        self.kill_on_drop = kill;
        self
    }

    /// Sets the user that the child runs as.
    pub fn uid(&mut self, id: u32) -> &mut Command {
        self.std.uid(id);
        self
    }

    /// Sets the group that the child runs as.
    pub fn gid(&mut self, id: u32) -> &mut Command {
        self.std.gid(id);
        self
    }

    /// Sets the first argument, which is otherwise the name of the program.
    pub fn arg0(&mut self, argument: impl AsRef<OsStr>) -> &mut Command {
        self.std.arg0(argument);
        self
    }

    /// Sets the process group of the child. With 0 it has a new one, of its own number: Ctrl-C at
    /// the terminal does not reach it then.
    pub fn process_group(&mut self, group: i32) -> &mut Command {
        self.std.process_group(group);
        self
    }

    /// Starts the child. Its standard streams are the caller's, unless they were set.
    ///
    /// ```
    /// use sinew::process::{Command, Stdio};
    /// use std::io::{BufRead, BufReader};
    /// sinew::run(|| {
    ///     let mut child = Command::new("printf").arg(r"one\ntwo\n").stdout(Stdio::piped()).spawn().unwrap();
    ///     let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    ///     assert_eq!(lines.map(Result::unwrap).collect::<Vec<_>>(), ["one", "two"]);
    ///     assert!(child.wait().unwrap().success());
    /// });
    /// ```
    ///
    /// # Errors
    /// The kernel's: `NotFound` if there is no such program.
    ///
    /// # Panics
    /// In a task, whose processor it would block.
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.refuse_if_lost()?;
        let Command { std, kill_on_drop, .. } = self;
        blocking(|| spawn(std, *kill_on_drop))
    }

    /// As [`spawn`](Command::spawn), for tasks.
    ///
    /// A future that is dropped before its end drops the child, and loses the command: it cannot
    /// start another child.
    ///
    /// # Errors
    /// As `spawn`; and if the command is lost.
    pub async fn spawn_async(&mut self) -> io::Result<Child> {
        self.refuse_if_lost()?;
        self.is_lost = true;
        let placeholder = std::process::Command::new(self.std.get_program());
        let (mut std, kill_on_drop) = (std::mem::replace(&mut self.std, placeholder), self.kill_on_drop);
        let spawned = blocking_async(move || {
            let child = spawn(&mut std, kill_on_drop);
            (std, child)
        });
        let (std, child) = spawned.await;
        (self.std, self.is_lost) = (std, false);
        child
    }

    /// Starts the child and waits until it has ended. Returns what it has written to its outputs.
    ///
    /// If the caller is [cancelled](crate::cancel) or overdue, the child is dropped; see
    /// [`kill_on_drop`](Command::kill_on_drop).
    ///
    /// # Errors
    /// As [`spawn`](Command::spawn) and [`Child::wait_with_output`].
    pub fn output(&mut self) -> io::Result<Output> {
        self.capture();
        let child = self.spawn();
        self.stop_capturing();
        child?.wait_with_output()
    }

    /// As [`output`](Command::output), for tasks. A future that is dropped drops the child.
    ///
    /// # Errors
    /// As [`spawn_async`](Command::spawn_async) and [`Child::wait_with_output_async`].
    pub async fn output_async(&mut self) -> io::Result<Output> {
        self.capture();
        let child = self.spawn_async().await;
        self.stop_capturing();
        child?.wait_with_output_async().await
    }

    /// Starts the child and waits until it has ended. Limits are as for [`output`](Command::output).
    ///
    /// # Errors
    /// As [`spawn`](Command::spawn) and [`Child::wait`].
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// As [`status`](Command::status), for tasks. A future that is dropped drops the child.
    ///
    /// # Errors
    /// As [`spawn_async`](Command::spawn_async) and [`Child::wait_async`].
    pub async fn status_async(&mut self) -> io::Result<ExitStatus> {
        self.spawn_async().await?.wait_async().await
    }

    /// Gives the streams that were not set the values for [`output`](Command::output).
    fn capture(&mut self) {
        self.set_others(Stdio::null, Stdio::piped);
    }

    /// Gives the streams that were not set their usual values.
    fn stop_capturing(&mut self) {
        self.set_others(Stdio::inherit, Stdio::inherit);
    }

    fn set_others(&mut self, input: fn() -> Stdio, outputs: fn() -> Stdio) {
        if !self.is_set[0] {
            self.std.stdin(input());
        }
        if !self.is_set[1] {
            self.std.stdout(outputs());
        }
        if !self.is_set[2] {
            self.std.stderr(outputs());
        }
    }

    fn refuse_if_lost(&self) -> io::Result<()> {
        if self.is_lost {
            return Err(io::Error::other("the command was lost when a future that started it was dropped"));
        }
        Ok(())
    }

    /// Returns the program.
    #[must_use]
    pub fn get_program(&self) -> &OsStr {
        self.std.get_program()
    }

    /// Returns the arguments.
    pub fn get_args(&self) -> CommandArgs<'_> {
        self.std.get_args()
    }

    /// Returns the changes to the environment; the value is `None` for a variable that is removed.
    pub fn get_envs(&self) -> CommandEnvs<'_> {
        self.std.get_envs()
    }

    /// Returns the directory in which the child begins, if it was set.
    #[must_use]
    pub fn get_current_dir(&self) -> Option<&Path> {
        self.std.get_current_dir()
    }

    /// Returns std's command.
    #[must_use]
    pub fn as_std(&self) -> &std::process::Command {
        &self.std
    }

    /// Returns std's command, for what has no method here: `pre_exec` and its kin. Set standard
    /// streams by the methods of this type: [`output`](Command::output) does not know of others.
    pub fn as_std_mut(&mut self) -> &mut std::process::Command {
        &mut self.std
    }

    /// Returns std's command.
    #[must_use]
    pub fn into_std(self) -> std::process::Command {
        self.std
    }
}

/// Runs on a thread that may block.
fn spawn(command: &mut std::process::Command, kill_on_drop: bool) -> io::Result<Child> {
    orphans::sweep();
    Child::new(command.spawn()?, kill_on_drop)
}

/// Standard streams that were set before count as not set for [`output`](Command::output).
impl From<std::process::Command> for Command {
    fn from(command: std::process::Command) -> Command {
        Command { std: command, is_set: [false; 3], kill_on_drop: false, is_lost: false }
    }
}

/// Makes a file a standard stream of a child.
///
/// # Panics
/// In another [`EventScope`](crate::io::EventScope).
impl From<File> for Stdio {
    fn from(file: File) -> Stdio {
        std::fs::File::from(file).into()
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.std.fmt(f)
    }
}
