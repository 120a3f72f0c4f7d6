//! The web server by events: the tests of the other files, and some of its own.

// Each file has its own copy.
#![allow(clippy::duplicate_mod)]

#[path = "web_answers.rs"]
mod answers;
#[path = "web_bounds.rs"]
mod bounds;
#[path = "web_clients.rs"]
mod clients;
#[path = "web_listing.rs"]
mod listing;
#[path = "web_log.rs"]
mod log;
#[path = "web_silence.rs"]
mod silence;
mod site;
#[path = "web_starved.rs"]
mod starved;
#[path = "web_trouble.rs"]
mod trouble;
