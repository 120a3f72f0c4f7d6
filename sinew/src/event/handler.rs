//! Handlers: functions whose calls are events, with what is known of their times.

use super::colour::Colour;
use super::errors::Rejected;
use crate::mailbox::{self, Content, Mailbox, Meter};
use std::fmt;
use std::time::Duration;

/// A function whose calls are events. Mostly a `static`.
///
/// A handler knows how long its calls take: a moving average, measured while they run.
/// [`sched::Coloured`](crate::sched::Coloured) decides by it which colours are worth stealing. The two
/// annotations are only a first guess and a wish:
///
/// ```
/// use sinew::event::{Colour, Handler};
///
/// static GREET: Handler<&str> = Handler::new("greet", greet).takes_us(3).penalty(2);
///
/// fn greet(name: &str) {
///     println!("hello {name}");
/// }
///
/// sinew::run(|| {
///     let colour = Colour::new();
///     GREET.post(&colour, "world").unwrap();
/// });
/// ```
pub struct Handler<T: 'static> {
    run: fn(T),
    name: &'static str,
    meter: Meter,
    penalty: u32,
}

/// A call of a handler.
struct Call<T: 'static> {
    handler: &'static Handler<T>,
    argument: T,
}

impl<T> Content for Call<T> {
    #[inline(always)]
    fn run(self, _: &Mailbox) {
        (self.handler.run)(self.argument);
    }
}

impl<T: 'static> Handler<T> {
    /// Makes a handler. The name is for reports.
    pub const fn new(name: &'static str, run: fn(T)) -> Handler<T> {
        Handler { run, name, meter: Meter::new(0), penalty: 1 }
    }

    /// Says how many microseconds a call is expected to take, before the first calls have been measured.
    pub const fn takes_us(self, us: u32) -> Handler<T> {
        Handler { meter: Meter::new(us.saturating_mul(1_000)), run: self.run, name: self.name, penalty: self.penalty }
    }

    /// Says how much is lost if a call runs on another processor than the last event of its colour: a
    /// handler that uses much memory which stays from call to call has a large penalty. The time of its calls
    /// is divided by the penalty when a processor looks for something to steal. 0 counts as 1.
    pub const fn penalty(self, penalty: u32) -> Handler<T> {
        Handler { penalty: if penalty == 0 { 1 } else { penalty }, ..self }
    }

    /// Returns the name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns how long a call is expected to take.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.meter.average_ns().into())
    }

    /// Returns the number of calls that have panicked.
    pub fn panics(&self) -> u32 {
        self.meter.panics()
    }
}

impl<T: Send + 'static> Handler<T> {
    /// Posts a call: it runs after all events that have been posted to this colour before, and never at the
    /// same time as one of them.
    ///
    /// # Errors
    /// The colour rejects events, or is full. Then the argument comes back.
    #[inline]
    pub fn post(&'static self, colour: &Colour, argument: T) -> Result<(), Rejected<T>> {
        let call = Call { handler: self, argument };
        let posted = colour.post_content(&self.meter, self.penalty, call);
        mailbox::spend();
        posted.map_err(|rejected| rejected.map(|call| call.argument))
    }

    /// As [`post`](Handler::post), but waits for room if the colour is bounded and full.
    ///
    /// # Errors
    /// The colour rejects events, or the wait was cancelled. Then the argument comes back.
    pub fn post_waiting(&'static self, colour: &Colour, argument: T) -> Result<(), Rejected<T>> {
        let call = Call { handler: self, argument };
        let posted = colour.post_content_waiting(&self.meter, self.penalty, call);
        posted.map_err(|rejected| rejected.map(|call| call.argument))
    }
}

impl<T: 'static> fmt::Debug for Handler<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler")
            .field("name", &self.name)
            .field("time", &self.time())
            .field("penalty", &self.penalty)
            .field("panics", &self.panics())
            .finish()
    }
}
