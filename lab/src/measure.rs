//! What the bodies of the experiments are made of: windows of time, strands
//! that begin together, work of a known length, and what the kernel says about
//! the process.

pub mod crowd;
pub mod latency;
pub mod loops;
pub mod procfs;
pub mod random;
pub mod window;
pub mod work;
