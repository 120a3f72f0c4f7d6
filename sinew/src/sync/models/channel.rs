//! `mpmc` and `mpsc`, whose core is the same.

use super::{Message, message};
use crate::base::models::check;
use crate::sync::{mpmc, mpsc};
use crate::task::block_on;
use std::task::{Context, Poll, Waker};

#[test]
fn a_receiver_sees_what_the_sender_did_at_any_capacity() {
    for capacity in [0, 1, usize::MAX] {
        check(2, 3, move |turn| {
            let (sender, receiver) = mpsc::sync_channel(capacity);
            let send = move || sender.send(message(7)).is_ok() && sender.send(message(8)).is_ok();
            let receive = move || [receiver.recv(), receiver.recv()].map(|received| received.unwrap().get());
            assert_eq!(turn.two(send, receive), (true, [7, 8]));
        });
    }
}

#[test]
fn a_receiver_that_waits_is_told_that_the_last_sender_has_left() {
    check(2, 4, |turn| {
        let (sender, receiver) = mpsc::channel::<Message>();
        let ((), received) = turn.two(move || drop(sender), move || receiver.recv().is_ok());
        assert!(!received);
    });
}

#[test]
fn a_sender_that_waits_is_told_that_the_last_receiver_has_left_and_keeps_its_message() {
    check(2, 4, |turn| {
        let (sender, receiver) = mpmc::sync_channel(0);
        let send = move || sender.send(message(7)).unwrap_err().0.get();
        assert_eq!(turn.two(send, move || drop(receiver)), (7, ()));
    });
}

#[test]
fn a_receiver_that_makes_room_lets_in_the_sender_that_waits_and_no_other_passes_it() {
    check(2, 3, |turn| {
        let (sender, receiver) = mpmc::sync_channel(1);
        sender.send(message(1)).unwrap();
        let other = sender.clone();
        let receive_and_send = move || {
            let first = receiver.recv().unwrap().get();
            let sent = other.try_send(message(3)).is_ok();
            (first, sent, receiver.recv().unwrap().get(), receiver)
        };
        let (sent, (first, other_sent, second, receiver)) =
            turn.two(move || sender.send(message(2)).is_ok(), receive_and_send);
        assert!(sent);
        match (first, other_sent, second) {
            (1, false, 2) => {}
            (1, true, 2 | 3) => assert_eq!(receiver.try_recv().unwrap().get(), 5 - second),
            wrong => panic!("{wrong:?}"),
        }
    });
}

#[test]
fn a_message_for_a_receiver_that_is_dropped_goes_to_the_next_though_the_last_sender_has_left() {
    for capacity in [0, 1] {
        check(2, 4, move |turn| {
            let (sender, receiver) = mpmc::sync_channel::<Message>(capacity);
            let mut context = Context::from_waker(Waker::noop());
            let [mut first, mut second] = [receiver.clone(), receiver]
                .map(|receiver| Box::pin(async move { receiver.recv_async().await.unwrap().get() }));
            assert!(first.as_mut().poll(&mut context).is_pending());
            assert!(second.as_mut().poll(&mut context).is_pending());
            let (sent, ()) = turn.two(move || sender.send(message(7)).is_ok(), move || drop(first));
            assert!(sent);
            assert_eq!(second.as_mut().poll(&mut context), Poll::Ready(7));
        });
    }
}

#[test]
fn a_future_that_is_polled_while_a_message_comes_receives_it_or_its_waker_is_called() {
    check(2, 3, |turn| {
        let (sender, mut receiver) = mpsc::channel::<Message>();
        let receive = move || block_on(receiver.recv_async()).unwrap().get();
        assert_eq!(turn.two(move || sender.send(message(7)).is_ok(), receive), (true, 7));
    });
}
