//! `Select`: one wait in the queues of several channels, and in that of the waker of its futures. A
//! model's random numbers are all the same, so the arms are attempted in one order.

use super::{Message, message};
use crate::base::models::check;
use crate::sync::{Select, mpmc, mpsc, watch};
use std::time::Duration;

#[test]
fn a_select_that_waits_takes_one_of_two_messages_and_leaves_the_other() {
    check(3, 2, |turn| {
        let ((sender, first), (other, second)) = (mpsc::channel(), mpsc::channel());
        let select = move || {
            let number = |received: Result<Message, _>| received.unwrap().get();
            let taken = Select::new().recv(&first, number).recv(&second, number).run();
            // The other message comes, unless its sender has not sent it yet.
            let left = [first.try_recv(), second.try_recv()].map(|left| left.ok().map(|left| left.get()));
            match (taken, left) {
                (1, [None, left]) => assert!(matches!(left, None | Some(2))),
                (2, [left, None]) => assert!(matches!(left, None | Some(1))),
                wrong => panic!("{wrong:?}"),
            }
            Some((first, second, 3 - taken, left != [None, None]))
        };
        let send = |sender: mpsc::Sender<Message>, number| {
            Box::new(move || {
                sender.send(message(number)).unwrap();
                None
            })
        };
        let [ends, ..] = turn.all([Box::new(select), send(sender, 1), send(other, 2)]);
        let (first, second, expected, is_taken) = ends.unwrap();
        if !is_taken {
            let left = first.try_recv().or(second.try_recv()).expect("the other message is there").get();
            assert_eq!(left, expected);
        }
    });
}

/// Without buffers. Each select could do either arm with the other one's.
#[test]
fn two_selects_that_send_and_receive_meet_in_one_channel() {
    check(2, 2, |turn| {
        let ((to_two, from_one), (to_one, from_two)) = (mpmc::sync_channel(0), mpmc::sync_channel(0));
        let meet = |sender: mpmc::Sender<Message>, receiver: mpmc::Receiver<Message>, number| {
            move || {
                let received = Select::new()
                    .send(&sender, message(number), |sent| {
                        assert!(sent.is_ok());
                        None
                    })
                    .recv(&receiver, |received| Some(received.unwrap().get()))
                    .run();
                // The channels stay open until both are done.
                (received, sender, receiver)
            }
        };
        let (one, two) = turn.two(meet(to_two, from_two, 1), meet(to_one, from_one, 2));
        assert!(matches!((one.0, two.0), (None, Some(1)) | (Some(2), None)), "{:?} and {:?}", one.0, two.0);
    });
}

#[test]
fn a_select_whose_time_is_up_takes_the_message_or_leaves_it_to_the_next() {
    check(2, 3, |turn| {
        let ((sender, first), (_other, second)) = (mpsc::channel(), mpsc::channel::<Message>());
        let select = move || {
            let number = |received: Result<Message, _>| received.unwrap().get();
            (Select::new().recv(&first, number).recv(&second, number).run_timeout(Duration::ZERO), first)
        };
        let (sent, (taken, first)) = turn.two(move || sender.send(message(7)).is_ok(), select);
        assert!(sent, "the receiver is there");
        let left = first.try_recv().ok().map(|left| left.get());
        assert_eq!(taken.or(left), Some(7));
        assert!(taken.is_none() || left.is_none(), "the message came twice");
    });
}

#[test]
fn a_select_misses_no_wake_up_of_a_future() {
    check(2, 2, |turn| {
        let (sender, mut seen) = watch::channel(0);
        let (_open, quiet) = mpsc::channel::<Message>();
        let select = move || {
            let select = Select::new().recv(&quiet, |_| false);
            select.future(seen.changed_async(), |changed| changed.is_ok()).run() && *seen.borrow() == 1
        };
        let (sent, has_changed) = turn.two(move || sender.send(1).map(|()| sender).is_ok(), select);
        assert!(sent && has_changed);
    });
}

#[test]
fn a_select_takes_a_message_or_sees_a_change_and_leaves_the_other() {
    check(3, 2, |turn| {
        let ((sender, mut seen), (messages, receiver)) = (watch::channel(0), mpsc::channel());
        let select = move || {
            let select = Select::new().recv(&receiver, |message: Result<Message, _>| message.unwrap().get());
            let first = select.future(seen.changed_async(), |changed| changed.map_or(0, |()| 2)).run();
            let second = match first {
                1 => seen.changed().map_or(0, |()| 2),
                _ => receiver.recv().unwrap().get(),
            };
            assert_eq!(first + second, 3);
            None
        };
        let change = move || {
            sender.send(1).unwrap();
            Some((Some(sender), None))
        };
        let send = move || {
            messages.send(message(1)).unwrap();
            Some((None, Some(messages)))
        };
        turn.all([Box::new(select), Box::new(change), Box::new(send)]);
    });
}
