//! What a program implements.

use super::context::Context;
use super::end::{Down, End, Failure};

/// A value that handles messages, one after the other. Every item is optional.
///
/// ```
/// use sinew::actor::{self, Actor, Context, Handle};
///
/// #[derive(Default)]
/// struct Account {
///     balance: u64,
/// }
///
/// struct Deposit(u64);
///
/// impl Actor for Account {}
///
/// impl Handle<Deposit> for Account {
///     type Reply = u64;
///
///     fn handle(&mut self, deposit: Deposit, _: &mut Context<'_, Self>) -> u64 {
///         self.balance += deposit.0;
///         self.balance
///     }
/// }
///
/// sinew::run(|| {
///     let account = actor::spawn(Account::default());
///     account.tell(Deposit(5)).unwrap();
///     assert_eq!(account.ask(Deposit(5)), Ok(10));
/// });
/// ```
pub trait Actor: Sized + Send + 'static {
    /// How many messages may wait, and what happens to one more.
    const MAILBOX: Mailbox = Mailbox::UNBOUNDED;

    /// Whether the actor's handlers may block. A promise not to makes it faster: the actor runs without a stack of
    /// its own, and a question to an actor that is idle is answered on the stack of the fibre that asks.
    ///
    /// If such a handler blocks all the same, it panics as a task does, or it delays the fibre that asks beyond its
    /// deadline.
    const BLOCKS: bool = true;

    /// Runs before the first message, and after each restart.
    ///
    /// # Errors
    /// The actor has failed: it ends, or is restarted.
    fn started(&mut self, cx: &mut Context<'_, Self>) -> Result<(), Failure> {
        let _ = cx;
        Ok(())
    }

    /// Runs last, whatever the reason is, and before each restart. After a panic the value may be in any state.
    fn stopped(&mut self, why: &End) {
        let _ = why;
    }

    /// Runs when another actor has ended that this one is linked to, monitors, or has spawned as a child.
    ///
    /// Without this method, the failure of a link or a child is a failure of this actor too. Everything else is
    /// ignored.
    fn down(&mut self, who: Down, cx: &mut Context<'_, Self>) {
        if who.escalates() {
            cx.fail(Failure::because_of(&who));
        }
    }
}

/// An actor that handles messages of type `M`.
pub trait Handle<M: Send + 'static>: Actor {
    /// What the sender of a question gets. If the message was told, the reply is dropped.
    type Reply: Send + 'static;

    /// Handles a message. It may block, as a fibre may. Then the actor waits with it, and its processor runs others.
    fn handle(&mut self, message: M, cx: &mut Context<'_, Self>) -> Self::Reply;
}

/// How many messages may wait for an actor, and what happens to one more. A message that is being handled does not
/// count. Messages that an actor sends to itself, timers, and notices of the end of others ignore the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mailbox {
    pub(super) bound: Option<(usize, Full)>,
}

impl Mailbox {
    /// Any number of messages, until memory is full.
    pub const UNBOUNDED: Mailbox = Mailbox { bound: None };

    /// At most `most` messages; at least 1.
    pub const fn bounded(most: usize, full: Full) -> Mailbox {
        Mailbox { bound: Some((if most == 0 { 1 } else { most }, full)) }
    }
}

/// What happens to a message for an actor that has as many messages as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The sender waits for room.
    Wait,
    /// The sender gets the message back.
    Refuse,
    /// The oldest message that waits is dropped unread. If it was a question, its sender gets an error.
    DropOldest,
}
