//! Prepares the process of a server before it starts: `-d`, `-P`, `-r`, `-u`.

use super::Options;
use rustix::process::{Gid, Resource, Uid, getrlimit, getuid, setrlimit, setsid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Prepares the process. Returns `false` if another process, in the background, serves in its
/// place. The caller calls this before it starts other threads.
///
/// # Errors
/// If an option cannot be followed.
pub fn prepare(options: &Options) -> io::Result<bool> {
    if options.daemon && !options.detached {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).arg("--detached");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        return Ok(false);
    }
    if options.detached {
        setsid()?;
    }
    if options.enable_coredumps {
        let mut limit = getrlimit(Resource::Core);
        limit.current = limit.maximum;
        setrlimit(Resource::Core, limit)?;
    }
    if let Some(user) = options.user.as_deref().filter(|_| getuid().is_root()) {
        become_user(user)?;
    }
    Ok(true)
}

fn become_user(name: &str) -> io::Result<()> {
    let unknown = || io::Error::new(ErrorKind::NotFound, format!("-u {name}: there is no such user"));
    let users = std::fs::read_to_string("/etc/passwd")?;
    let ids = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| (fields.nth(1), fields.next()))
    });
    let (Some(user), Some(group)) = ids.ok_or_else(unknown)? else { return Err(unknown()) };
    let (user, group): (u32, u32) = (user.parse().map_err(|_| unknown())?, group.parse().map_err(|_| unknown())?);
    if user == 0 {
        return Ok(());
    }
    let group = Gid::from_raw(group);
    set_thread_groups(&[group])?;
    set_thread_gid(group)?;
    set_thread_uid(Uid::from_raw(user))?;
    Ok(())
}

/// A file with the number of the process. It exists while the process serves.
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file if the options ask for it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(options: &Options) -> io::Result<Option<PidFile>> {
        let Some(path) = options.pidfile.as_ref().filter(|_| options.detached) else { return Ok(None) };
        let path = std::path::absolute(path)?;
        std::fs::write(&path, format!("{}\n", std::process::id()))?;
        Ok(Some(PidFile(path)))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // The file may be gone already.
        let _ = std::fs::remove_file(&self.0);
    }
}
