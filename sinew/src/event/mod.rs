#![doc = include_str!("README.md")]

mod colour;
mod colours;
mod delayed;
mod errors;
mod handler;
mod turn;

pub use colour::{Colour, ColourBuilder};
pub use colours::Colours;
pub use delayed::Delayed;
pub use errors::{NoTurn, Reason, Rejected};
pub use handler::Handler;
