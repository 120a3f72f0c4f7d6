//! Operations on files by the ring of the caller's cluster. Each returns `None` if there is no ring for the
//! caller: then nothing was done, and the caller takes the pool of threads.
#![allow(unsafe_code)]

use super::super::event_scope::OtherScope;
use super::super::event_scoped::EventScoped;
use super::fibre::{Flown, fly, of_result};
use super::flight::Flight;
use super::owned::{Cargo, Descriptor, fly_owned};
use super::plan::{Plan, What};
use super::shared::Ring;
use crate::base::Deadline;
use crate::io::limit_error;
use crate::processor;
use crate::stack::current_stack;
use crate::wait::{self, Hold, budget};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Returns the ring of the caller's cluster, for a strand on one of its processors.
pub(super) fn ring_here() -> Option<Arc<Ring>> {
    processor::with_current(|processor| processor?.ring())
}

/// As [`ring_here`], for a call that blocks.
///
/// # Panics
/// If the caller is a task.
pub(super) fn ring_of_fibre() -> Option<Arc<Ring>> {
    if current_stack().is_none() {
        wait::refuse_tasks();
        return None;
    }
    ring_here()
}

/// Reads at `offset`, or at the file's own position. The calling fibre waits.
pub(crate) fn ring_read(fd: BorrowedFd<'_>, buffer: &mut [u8], offset: Option<u64>) -> Option<io::Result<usize>> {
    // SAFETY: the buffer is borrowed for this call.
    unsafe { one(|| Plan::into(What::Read, fd, buffer, offset)) }
}

/// Waits until the file's bytes are on the device, and unless `data_only` its metadata. The calling fibre
/// waits.
pub(crate) fn ring_sync(fd: BorrowedFd<'_>, data_only: bool) -> Option<io::Result<()>> {
    // SAFETY: there is no buffer.
    let synced = unsafe { one(|| Plan::bare(sync(data_only), Some(fd))) };
    synced.map(|result| result.map(drop))
}

fn sync(data_only: bool) -> What {
    if data_only { What::SyncData } else { What::SyncAll }
}

/// Has the kernel do one operation, and waits for it.
///
/// # Safety
/// As [`fly`].
unsafe fn one(mut plan: impl FnMut() -> Plan) -> Option<io::Result<usize>> {
    let ring = ring_of_fibre()?;
    budget::spend(budget::KERNEL_CALL);
    let _hold = Hold::begin();
    let flight = Flight::new(1, false);
    // SAFETY: the caller promises it.
    match unsafe { fly(&ring, &flight, |_| plan(), Deadline::NEVER) } {
        Flown::Landed(ended) => {
            let result = flight.results().next().flatten();
            usable(&ring, of_result(result, ended, Deadline::NEVER))
        }
        Flown::Grounded(outcome) => Some(Err(limit_error(outcome, Deadline::NEVER))),
        Flown::Closed => None,
    }
}

/// Drops an error that a call of the pool would not have: the kernel would have had to wait, or has refused
/// the operation without looking at it.
fn usable(ring: &Ring, result: io::Result<usize>) -> Option<io::Result<usize>> {
    let is_refusal =
        result.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EAGAIN) || ring.has_refused());
    (!is_refusal).then_some(result)
}

impl Descriptor for Arc<EventScoped<File>> {
    fn lend(&self) -> Result<BorrowedFd<'_>, OtherScope> {
        Ok(self.get()?.as_fd())
    }
}

/// As [`ring_read`], for tasks. Fills the buffer up to its length, and returns it.
pub(crate) async fn ring_read_owned(
    fd: Arc<EventScoped<File>>,
    buffer: Vec<u8>,
    offset: Option<u64>,
) -> Option<(io::Result<usize>, Vec<u8>)> {
    one_owned(What::Read, fd, buffer, offset).await
}

/// As [`ring_sync`], for tasks.
pub(crate) async fn ring_sync_owned(fd: Arc<EventScoped<File>>, data_only: bool) -> Option<io::Result<()>> {
    let (result, _) = one_owned(sync(data_only), fd, Vec::new(), None).await?;
    Some(result.map(drop))
}

async fn one_owned(
    what: What,
    fd: Arc<EventScoped<File>>,
    buffer: Vec<u8>,
    offset: Option<u64>,
) -> Option<(io::Result<usize>, Vec<u8>)> {
    let ring = ring_here()?;
    let _hold = Hold::begin();
    let cargo = Cargo { what, descriptor: Some(Box::new(fd)), buffer, offset };
    match fly_owned(Arc::clone(&ring), vec![cargo], false).await {
        Ok(flown) => {
            let (cargo, result) = flown.into_iter().next()?;
            Some((usable(&ring, of_result(result, None, Deadline::NEVER))?, cargo.buffer))
        }
        Err(error) => Some((Err(error), Vec::new())),
    }
}

#[cfg(all(test, not(sinew_loom)))]
mod tests {
    use super::*;
    use crate::io::Engine;
    use crate::{Runtime, task};
    use std::io::Write;

    fn scratch(name: &str) -> File {
        let path = std::env::temp_dir().join(format!("sinew-ring-{name}-{}", std::process::id()));
        let file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    #[test]
    fn a_fibre_reads_and_syncs_a_file() {
        if !Engine::Auto.means().files() {
            return;
        }
        crate::run(|| {
            let file = scratch("fibre");
            let fd = file.as_fd();
            (&file).write_all(b"abCDefghi").unwrap();
            ring_sync(fd, true).unwrap().unwrap();
            ring_sync(fd, false).unwrap().unwrap();
            let mut buffer = [0; 16];
            assert_eq!(ring_read(fd, &mut buffer, Some(1)).unwrap().unwrap(), 8);
            assert_eq!(&buffer[..8], b"bCDefghi");
            // The file's own position is at its end.
            assert_eq!(ring_read(fd, &mut buffer, None).unwrap().unwrap(), 0);
        });
    }

    #[test]
    fn a_task_gets_its_buffer_back() {
        if !Engine::Auto.means().files() {
            return;
        }
        crate::run(|| {
            let file = Arc::new(EventScoped::new(scratch("task")));
            let its = Arc::clone(&file);
            let task = task::spawn(async move {
                its.peek().write_all(b"abc").unwrap();
                ring_sync_owned(Arc::clone(&its), true).await.unwrap().unwrap();
                let (read, buffer) = ring_read_owned(its, vec![0; 5], Some(1)).await.unwrap();
                assert_eq!((read.unwrap(), &buffer[..]), (2, &b"bc\0\0\0"[..]));
            });
            task.join().unwrap();
            assert_eq!(Arc::strong_count(&file), 1);
        });
    }

    #[test]
    fn without_a_ring_nothing_is_done() {
        let refused = || ring_read(scratch("none").as_fd(), &mut [0], None).is_none();
        assert!(refused());
        assert!(Runtime::builder().processors(1).io(Engine::Epoll).run(refused));
    }
}
