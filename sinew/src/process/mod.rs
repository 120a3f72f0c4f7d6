#![doc = include_str!("README.md")]

mod capture;
mod child;
mod command;
mod end;
#[cfg(feature = "futures-io")]
mod futures_io;
mod orphans;
mod pipe;

pub use child::Child;
pub use command::Command;
pub use pipe::{ChildStderr, ChildStdin, ChildStdout};
pub use std::process::{CommandArgs, CommandEnvs, ExitCode, ExitStatus, Output, Stdio, Termination, abort, exit, id};
