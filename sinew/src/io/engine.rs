//! Which ways of asking the kernel a cluster uses: epoll and the pool of threads, and io_uring beside
//! them.
#![allow(unsafe_code)]

use super::pollers::Pollers;
use crate::base::fallback::{Facility, denied};
use crate::processor::cluster::Cluster;
use io_uring::{IoUring, Probe, opcode};
use std::sync::OnceLock;
use std::{fmt, io};

/// Says whether a cluster uses io_uring beside epoll and the pool of threads.
///
/// The environment variable `SINEW_IO` overrules the program: `auto`, `epoll` or `ring`.
/// [`Cluster::io`] says what a cluster uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// Uses io_uring for those operations that it makes faster, if the kernel permits it.
    #[default]
    Auto,
    /// Uses epoll and the pool of threads only.
    Epoll,
    /// Uses io_uring for all operations that there is a way for, whether it makes them faster or not. At
    /// present these are the operations that `Auto` chooses. If the kernel does not permit io_uring, as
    /// `Epoll`.
    Ring,
}

impl Engine {
    fn of_name(name: &str) -> Option<Engine> {
        match name.trim() {
            "auto" => Some(Engine::Auto),
            "epoll" => Some(Engine::Epoll),
            "ring" => Some(Engine::Ring),
            _ => None,
        }
    }

    /// Returns the engine of `SINEW_IO`, else this one.
    fn overruled(self) -> Engine {
        static BY_OPERATOR: OnceLock<Option<Engine>> = OnceLock::new();
        BY_OPERATOR.get_or_init(|| Engine::of_name(&std::env::var("SINEW_IO").ok()?)).unwrap_or(self)
    }

    /// Asks the kernel what it permits.
    pub(crate) fn means(self) -> Means {
        let engine = self.overruled();
        let mut means = Means { engine, batches: false, files: false, refusal: None };
        if engine != Engine::Epoll {
            match kernel() {
                Ok(kernel) => (means.batches, means.files) = (kernel.sends, kernel.reads),
                Err(error) => means.refusal = Some(error),
            }
        }
        means
    }
}

/// How a cluster asks the kernel to do I/O; [`Cluster::io`] returns it.
///
/// ```
/// use sinew::io::Engine;
///
/// let runtime = sinew::Runtime::builder().io(Engine::Epoll).build().unwrap();
/// println!("I/O by {}", runtime.main_cluster().io());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    engine: Engine,
    batches: bool,
    files: bool,
    /// The kernel's error.
    refusal: Option<i32>,
}

impl Means {
    /// Returns what was asked for.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Says whether small pieces that several fibres send at a time go to the kernel as a batch, by
    /// io_uring.
    pub fn batches(&self) -> bool {
        self.batches
    }

    /// Says whether reads of files that have to wait for a device go by io_uring.
    pub fn files(&self) -> bool {
        self.files
    }

    /// Returns why the kernel refused io_uring, if it did.
    pub fn refusal(&self) -> Option<io::Error> {
        self.refusal.map(io::Error::from_raw_os_error)
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("epoll")?;
        f.write_str(match (self.batches, self.files) {
            (true, true) => ", sends and file reads by io_uring",
            (true, false) => ", sends by io_uring",
            (false, true) => ", file reads by io_uring",
            (false, false) => "",
        })?;
        match self.refusal() {
            Some(error) => write!(f, " (no io_uring: {error})"),
            None => Ok(()),
        }
    }
}

impl Cluster {
    /// Returns how the cluster asks the kernel to do I/O.
    pub fn io(&self) -> Means {
        self.shared().drivers().get::<Pollers>().means()
    }
}

/// The operations of io_uring that the kernel has.
#[derive(Clone, Copy)]
struct Kernel {
    sends: bool,
    reads: bool,
}

/// Asks the kernel, once for the process. It is asked for operations, not for its version.
fn kernel() -> Result<Kernel, i32> {
    static KERNEL: OnceLock<Result<Kernel, i32>> = OnceLock::new();
    if let Some(known) = KERNEL.get() {
        return *known;
    }
    let answer = probe().map_err(|error| error.raw_os_error().unwrap_or(libc::ENOSYS));
    match answer {
        // There may be descriptors and memory for the next runtime.
        Err(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN) => answer,
        answer => *KERNEL.get_or_init(|| answer),
    }
}

fn probe() -> io::Result<Kernel> {
    if denied(Facility::IoUring) {
        return Err(io::Error::from_raw_os_error(libc::ENOSYS));
    }
    let (mut ring, mut probe) = (IoUring::new(4)?, Probe::new());
    ring.submitter().register_probe(&mut probe)?;
    // A ring may be made where it may not be entered.
    // SAFETY: the operation does nothing.
    let _ = unsafe { ring.submission().push(&opcode::Nop::new().build()) };
    ring.submit_and_wait(1)?;
    let has = |codes: &[u8]| codes.iter().all(|&code| probe.is_supported(code));
    Ok(Kernel {
        sends: has(&[opcode::Send::CODE, opcode::SendMsg::CODE]),
        reads: has(&[opcode::Read::CODE, opcode::AsyncCancel::CODE]) && ring.params().is_feature_rw_cur_pos(),
    })
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;

    #[test]
    fn means_say_what_is_used_and_why_not() {
        let means = Means { engine: Engine::Auto, batches: true, files: true, refusal: None };
        assert_eq!(means.to_string(), "epoll, sends and file reads by io_uring");
        let means = Means { batches: false, files: false, refusal: Some(libc::EPERM), ..means };
        assert_eq!(means.to_string(), "epoll (no io_uring: Operation not permitted (os error 1))");
        assert_eq!(Engine::Epoll.means().to_string(), "epoll");
    }

    #[test]
    fn the_operator_names_an_engine() {
        assert_eq!(Engine::of_name(" ring"), Some(Engine::Ring));
        assert_eq!(Engine::of_name("kqueue"), None);
    }
}
