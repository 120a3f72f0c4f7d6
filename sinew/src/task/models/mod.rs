//! Models of tasks.
//!
//! | file | what is modelled | what is abstracted |
//! | --- | --- | --- |
//! | `life` | [`Life`](super::life::Life), and the references to a task | the task has no future: its polls are calls of a model; a thread that makes the task ready runs it |
//! | `block_on` | [`block_on`](super::block_on()) and [`Blocked`](super::block_on::Blocked) | the caller is a kernel thread; its timers are one that is due |

mod block_on;
mod life;
