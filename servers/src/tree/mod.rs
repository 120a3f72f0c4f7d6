//! A directory that is served: nothing outside of it is opened, and no processor waits for its disk.
//!
//! The servers share these files. [`Top`] opens what a path names, [`Listings`] keeps the names in
//! directories, and [`resident`] knows what the page cache holds.

mod beneath;
mod listings;
mod names;
pub mod resident;

pub use beneath::{Kind, Top};
pub use listings::Listings;
pub use names::{Name, Names};

use std::time::Duration;

/// Names that were read for one client serve others for this time.
pub const FRESH: Duration = Duration::from_secs(1);
