//! Models of I/O.
//!
//! | file | what is modelled | what is abstracted |
//! | --- | --- | --- |
//! | `pool` | [`Pool`](super::pool::Pool): the threads for calls that block | a model runs the calls; a thread's time to be idle is up at once or never |
//! | `ring` | [`Flight`](super::ring::flight::Flight), [`Room`](super::ring::room::Room): operations of a ring | the kernel is a thread that lands an operation; the caller lands its own helpers, as it reaps what it submits |
//! | `slots` | [`Owned`](super::slots::Owned): the readiness of a descriptor | the descriptor is a count of bytes; a poller is a call that announces an event; one slot, which is not in the table |

mod pool;
mod ring;
mod slots;
