//! A fibre is sent to a post whose processor retires.

use crate::base::models::check;
use crate::processor::newcomers::Newcomers;
use crate::sched::models::numbers;
use crate::strand::Fifo;
use crate::strand::models::ready_strand;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

fn numbers_of(mut fibres: Fifo) -> Vec<u64> {
    std::iter::from_fn(|| fibres.pop()).flat_map(|fibre| numbers(Some(fibre))).collect()
}

#[test]
fn a_fibre_that_is_sent_to_a_processor_that_retires_is_taken_once() {
    check(3, 3, |turn| {
        let post = Arc::new((Newcomers::new(), AtomicBool::new(true)));
        let [sender, orders, retiring] = [0; 3].map(|_| Arc::clone(&post));
        let [sent_on, _, last] = turn.all([
            Box::new(move || Some(numbers_of(sender.0.send(ready_strand(7), || sender.1.load(Relaxed))))),
            Box::new(move || {
                orders.1.store(false, Relaxed);
                None
            }),
            Box::new(move || (!retiring.1.load(Relaxed)).then(|| numbers_of(retiring.0.take_last()))),
        ]);
        let left = numbers_of(post.0.take());
        assert!(last.is_none() || left.is_empty(), "{left:?} is left");
        let all = [sent_on.unwrap(), last.unwrap_or_default(), left].concat();
        assert_eq!(all, [7]);
    });
}
