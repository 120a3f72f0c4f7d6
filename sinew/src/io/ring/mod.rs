//! Operations that the kernel does by itself, several at a time: io_uring, for programs that want more of
//! it than [`fs`](crate::fs) and [`net`](crate::net) use.
//!
//! A [`Chain`] has operations on anything with a descriptor. A fibre fills it, submits it with one system
//! call, and waits; its processor runs others meanwhile. An [`OwnedChain`] is for tasks. The operations of
//! a chain are independent, or linked: then the kernel does one after the other.
//!
//! ```
//! use sinew::io::ring::Chain;
//! use std::io::ErrorKind;
//!
//! sinew::run(|| {
//!     let path = std::env::temp_dir().join(format!("sinew-chain-{}", std::process::id()));
//!     let file = std::fs::File::options().create(true).read(true).write(true).open(&path).unwrap();
//!
//!     // Writes two pieces and waits until they are on the disk: one call.
//!     let mut chain = Chain::linked();
//!     chain.write_at(&file, b"hello ", 0).write_at(&file, b"world", 6).sync_data(&file);
//!     match chain.submit() {
//!         Ok(results) => {
//!             let counts: Vec<usize> = results.into_iter().map(Result::unwrap).collect();
//!             assert_eq!(counts, [6, 5, 0]);
//!             assert_eq!(std::fs::read(&path).unwrap(), b"hello world");
//!         }
//!         // The kernel has no io_uring, or does not permit it.
//!         Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
//!     }
//!     std::fs::remove_file(&path).unwrap();
//! });
//! ```
//!
//! # Where there is a ring
//! Each cluster has one ring, which is made at the first operation. There is none on a kernel thread that is
//! no processor, with [`Engine::Epoll`](super::Engine::Epoll), and where the kernel refuses io_uring, as in
//! many containers. A chain that is submitted there fails with `Unsupported`.
//! [`Cluster::io`](crate::Cluster::io) says whether there is one.
//!
//! # Room
//! A bounded number of operations is in flight: [`longest`] returns it. A caller that finds too little
//! room waits, first come, first served. A chain that is longer than the ring is refused.
//!
//! # Descriptors that do not wait
//! An operation on a descriptor in non-blocking mode fails with `WouldBlock` where it would have to wait.
//! All sockets of [`net`](crate::net) are in that mode. Link the operation behind
//! [`readable`](Chain::readable) or [`writable`](Chain::writable).

mod chain;
mod fibre;
mod files;
pub(super) mod flight;
mod owned;
pub(super) mod plan;
pub(super) mod queues;
pub(super) mod room;
mod shared;

pub use chain::{Chain, OwnedChain, longest};

pub(crate) use files::{ring_read, ring_read_owned, ring_sync, ring_sync_owned};
pub(crate) use shared::Ring;
