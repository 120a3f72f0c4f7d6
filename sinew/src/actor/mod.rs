#![doc = include_str!("README.md")]

mod address;
mod annex;
mod cell;
mod context;
mod end;
mod errors;
mod group;
mod letters;
mod life;
mod overflow;
mod recipient;
mod registry;
mod reply;
mod restart;
mod spawn;
mod statistics;
mod timer;
mod traits;
mod untyped;
mod waits;
mod weak;

pub use address::{Address, WeakAddress};
pub use context::Context;
pub use end::{Down, End, Failure, Relation};
pub use errors::{ActorId, AskError, Reason, TellError};
pub use group::{Group, Published};
pub use recipient::Recipient;
pub use registry::{NameTaken, Registry};
pub use reply::Replier;
pub use restart::Restart;
pub use spawn::{Builder, spawn, supervised};
pub use statistics::Statistics;
pub use timer::Timer;
pub use traits::{Actor, Full, Handle, Mailbox};
