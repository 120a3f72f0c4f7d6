//! Models of fibres.
//!
//! | file | what is modelled | what is abstracted |
//! | --- | --- | --- |
//! | `headcount` | [`Headcount`](super::headcount::Headcount): the end of a scope | the owner's party is a number, its signal a counter; what fibres borrow is watched memory |

mod headcount;
