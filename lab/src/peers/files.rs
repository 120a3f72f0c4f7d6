//! Peers that read files: Sinew's fibres, Tokio's tasks and kernel threads.

use std::fs;
use std::future::{Future, ready};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::fibres::Fibres;
use super::kernel::KernelThreads;
use super::tokio_tasks::TokioTasks;
use super::{Contender, Peer};
use crate::case::{Case, Outcome, Reading};

pub trait Files: Peer {
    type File: Clone + Send + Sync + 'static;

    fn file(std: fs::File) -> Self::File;

    /// Fills the buffer from an offset.
    fn read_at(file: &Self::File, buffer: &mut Vec<u8>, offset: u64) -> impl Future<Output = io::Result<usize>> + Send;

    /// Returns the length of a file.
    fn metadata(path: &Path) -> impl Future<Output = io::Result<u64>> + Send;

    /// Opens a file and closes it.
    fn open(path: &Path) -> impl Future<Output = io::Result<()>> + Send;
}

/// The body of an experiment with such peers.
pub trait FilesBody {
    fn measure<P: Files>(peer: P, case: &Case) -> io::Result<Reading>;
}

/// Returns whether this peer is one of them.
pub fn can(peer: &Contender) -> bool {
    ["sinew/default", "sinew/default/epoll", "tokio", "threads"].contains(&peer.name)
}

/// Measures inside of this process.
pub fn measure<B: FilesBody>(case: &Case) -> Outcome {
    let reading = match case.peer.as_str() {
        "tokio" => B::measure(TokioTasks::new(case.processors), case),
        "threads" => B::measure(KernelThreads, case),
        fibres => B::measure(Fibres::new(case.processors, fibres), case),
    };
    reading.into()
}

impl Files for Fibres {
    type File = Arc<sinew::fs::File>;

    fn file(std: fs::File) -> Self::File {
        Arc::new(std.into())
    }

    fn read_at(file: &Self::File, buffer: &mut Vec<u8>, offset: u64) -> impl Future<Output = io::Result<usize>> + Send {
        ready(file.read_at(buffer, offset))
    }

    fn metadata(path: &Path) -> impl Future<Output = io::Result<u64>> + Send {
        ready(sinew::fs::metadata(path).map(|metadata| metadata.len()))
    }

    fn open(path: &Path) -> impl Future<Output = io::Result<()>> + Send {
        ready(sinew::fs::File::open(path).map(drop))
    }
}

impl Files for TokioTasks {
    type File = Arc<fs::File>;

    fn file(std: fs::File) -> Self::File {
        Arc::new(std)
    }

    /// `tokio::fs::File` has no such call. Its seek and its read are two jobs for the pool; this is
    /// one.
    async fn read_at(file: &Self::File, buffer: &mut Vec<u8>, offset: u64) -> io::Result<usize> {
        let (file, mut own) = (file.clone(), std::mem::take(buffer));
        let job = tokio::task::spawn_blocking(move || (file.read_at(&mut own, offset), own));
        let (result, own) = job.await.expect("a job that does not panic");
        *buffer = own;
        result
    }

    async fn metadata(path: &Path) -> io::Result<u64> {
        tokio::fs::metadata(path).await.map(|metadata| metadata.len())
    }

    async fn open(path: &Path) -> io::Result<()> {
        tokio::fs::File::open(path).await.map(drop)
    }
}

impl Files for KernelThreads {
    type File = Arc<fs::File>;

    fn file(std: fs::File) -> Self::File {
        Arc::new(std)
    }

    fn read_at(file: &Self::File, buffer: &mut Vec<u8>, offset: u64) -> impl Future<Output = io::Result<usize>> + Send {
        ready(file.read_at(buffer, offset))
    }

    fn metadata(path: &Path) -> impl Future<Output = io::Result<u64>> + Send {
        ready(fs::metadata(path).map(|metadata| metadata.len()))
    }

    fn open(path: &Path) -> impl Future<Output = io::Result<()>> + Send {
        ready(fs::File::open(path).map(drop))
    }
}
