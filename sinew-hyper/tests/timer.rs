//! The timer alone.

mod service;

use futures::future::{Either, select};
use hyper::rt::Timer;
use service::on_all_sizes;
use sinew_hyper::SinewTimer;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(3);
const LONG: Duration = Duration::from_secs(3600);

#[test]
fn a_sleep_lasts_as_long_as_it_was_asked_to() {
    on_all_sizes(|rt, _| {
        let slept = rt.run(|| {
            let began = Instant::now();
            sinew::task::spawn(async move {
                SinewTimer::new().sleep(SHORT).await;
                let first = began.elapsed();
                SinewTimer::new().sleep_until(began + 2 * SHORT).await;
                (first, began.elapsed())
            })
            .join()
            .unwrap()
        });
        assert!(slept.0 >= SHORT && slept.1 >= 2 * SHORT, "{slept:?}");
    });
}

#[test]
fn a_sleep_that_is_reset_ends_at_its_new_time() {
    on_all_sizes(|rt, _| {
        rt.run(|| {
            sinew::task::spawn(async {
                let timer = SinewTimer::new();
                let mut sleep = timer.sleep(LONG);
                // The sleep is polled once, so that it is in the wheel when it is reset.
                let Either::Right(_) = select(&mut sleep, sinew::task::yield_now_async()).await else {
                    panic!("an hour has not passed");
                };
                let place = &raw const *sleep;
                let until = timer.now() + SHORT;
                timer.reset(&mut sleep, until);
                assert!(std::ptr::addr_eq(place, &raw const *sleep), "it is the same sleep");
                sleep.await;
                assert!(timer.now() >= until);
            })
            .join()
            .unwrap();
        });
    });
}
