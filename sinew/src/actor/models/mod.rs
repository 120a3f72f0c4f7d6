//! Models of the protocols of actors.
//!
//! | file | what is modelled | what is abstracted |
//! | --- | --- | --- |
//! | `question` | [`Question`](super::question::Question) | the place is watched memory; the signal is a counter |
//! | `edge` | [`Edge`](super::edge::Edge), the search for cycles | actors are numbers; an actor that is waited for is watched memory |
//! | `entry` | a thread that enters an annex while the actor ends | to tell is to take one entry; the annex's lock is `std`'s, and no thread is interrupted while it has it |
//! | `weak` | [`Weak`](super::weak::Weak) | the actor is watched memory |

mod edge;
mod entry;
mod question;
mod weak;
