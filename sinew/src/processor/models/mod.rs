//! Models of processors among each other. The models of sleeping processors lie beside
//! [`Idle`](super::idle::Idle).
//!
//! | file | what is modelled | what is abstracted |
//! | --- | --- | --- |
//! | `dispatch` | [`Idle`](super::idle::Idle) with the queues of each scheduler | a processor's loop is one search, one announcement and one sleep; strands are never run |
//! | `drain` | [`Drain`](super::drain::Drain) and [`Tally`](super::drain::Tally): the end of a runtime | strands are calls; the drainer is a kernel thread; a processor's memory is watched memory |
//! | `newcomers` | [`Newcomers`](super::newcomers::Newcomers): fibres sent to a processor that retires | the order is a flag |
//! | `outbox` | [`Outbox`](super::outbox::Outbox): calls that a processor leaves and others make | a call is a number, and memory that is written before it is left |
//! | `rest` | [`Rest`](super::rest::Rest): the warden while processors wake up | a processor is a flag |

mod dispatch;
mod drain;
mod newcomers;
mod outbox;
mod rest;
