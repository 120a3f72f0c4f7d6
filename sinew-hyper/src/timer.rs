//! Timers for hyper's timeouts.

use hyper::rt::{Sleep, Timer};
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Sleeps on the timer wheel of the cluster whose task waits.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SinewTimer;

impl SinewTimer {
    /// Returns the timer, which has no state.
    #[must_use]
    pub const fn new() -> SinewTimer {
        SinewTimer
    }
}

impl Timer for SinewTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Asleep { sleep: sinew::time::sleep_async(duration) })
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Asleep { sleep: sinew::time::sleep_until_async(deadline) })
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Asleep>() {
            Some(asleep) => asleep.project().sleep.reset(deadline),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

pin_project! {
    /// A sleep of Sinew as hyper's `Sleep`.
    struct Asleep {
        #[pin]
        sleep: sinew::time::Sleep,
    }
}

impl Future for Asleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.project().sleep.poll(context)
    }
}

impl Sleep for Asleep {}
