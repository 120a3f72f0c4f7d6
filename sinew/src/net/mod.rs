//! Sockets that block the fibre, not the processor.

pub(crate) mod socket;
mod tcp;

pub use tcp::{Incoming, TcpListener, TcpStream};
