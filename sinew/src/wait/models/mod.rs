//! Models of waiting.
//!
//! | file | what is modelled | what is abstracted |
//! | --- | --- | --- |
//! | `outcome` | [`Wait`](super::Wait), [`Queue`](super::Queue), [`Cancel`](super::Cancel): a wait has one outcome and one signal | the wheel of timers is one slot under a lock; see `waiting` |
//! | `handover` | [`Handover`](super::handover::Handover): which side owns a future's waker | the waker is a number |
//! | `enrolled` | [`Enrolled`](super::Enrolled): a future that joins | nothing |
//!
//! `waiting` has a party that waits step by step: what [`block_within`](super::block_within) does
//! for a fibre, with a kernel thread's parker in the place of a strand. Models of other folders
//! block kernel threads, with the runtime's own functions.

mod enrolled;
mod handover;
mod outcome;
mod waiting;
