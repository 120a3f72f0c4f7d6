//! The warden rests while processors wake up.

use crate::base::models::check;
use crate::processor::rest::Rest;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

#[test]
fn the_warden_does_not_rest_beside_a_processor_that_is_awake() {
    check(3, 3, |turn| {
        let shared = Arc::new((Rest::new(), [AtomicBool::new(false), AtomicBool::new(false)]));
        let processor = |index: usize| {
            let shared = Arc::clone(&shared);
            move || {
                shared.1[index].store(true, Relaxed);
                shared.0.disturb();
            }
        };
        let warden = Arc::clone(&shared);
        turn.all([
            Box::new(processor(0)),
            Box::new(processor(1)),
            // Ends only if the warden sees a processor, or a processor sees the warden.
            Box::new(move || warden.0.begin(|| warden.1.iter().any(|awake| awake.load(Relaxed)))),
        ]);
    });
}
