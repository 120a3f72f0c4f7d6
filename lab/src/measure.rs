//! The parts of the experiments' bodies: windows of time, strands that begin together, work
//! of a known length, and the kernel's figures for the process.

pub mod cache;
pub mod countdown;
pub mod crowd;
pub mod latency;
pub mod loops;
pub mod procfs;
pub mod random;
pub mod slices;
pub mod window;
pub mod work;
