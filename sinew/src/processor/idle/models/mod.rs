//! Models of [`Idle`](super::Idle): if work is ready, no processor that could do it goes on
//! sleeping.
//!
//! | file | what is modelled | what is abstracted |
//! | --- | --- | --- |
//! | `sleep` | processors that fall asleep, hide and are woken | see `cluster` |
//! | `sentinel` | the sentinel, its watch and its deputy | timers are pieces of work |
//! | `polling` | a processor that sleeps in a poller | the kernel's notification is a flag |
//!
//! `cluster` has the processors of these models. Pieces of work are flags. A processor searches as
//! the loop does. A sleep ends at once, as if its time were up, and a model looks afterwards
//! whether the sleeper was woken.

mod cluster;
mod polling;
mod sentinel;
mod sleep;
