//! How fast a client may write.

use std::time::Instant;

/// The number of seconds whose messages may come at once.
const BURST: f32 = 3.0;

/// The messages that a client may send. They come back with time.
#[derive(Debug)]
pub struct Rate {
    per_second: f32,
    /// Below zero, the client has sent more than it may.
    left: f32,
    counted_at: Instant,
}

/// What happens to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Pace {
    Allowed,
    /// It is dropped.
    TooFast,
    /// The client goes on though its messages are dropped.
    Flood,
}

impl Rate {
    pub fn new(per_second: u32, now: Instant) -> Rate {
        Rate { per_second: per_second as f32, left: BURST * per_second as f32, counted_at: now }
    }

    /// Counts a message.
    pub fn count(&mut self, now: Instant) -> Pace {
        let most = BURST * self.per_second;
        let gained = now.saturating_duration_since(self.counted_at).as_secs_f32() * self.per_second;
        self.counted_at = now;
        self.left = (self.left + gained).min(most) - 1.0;
        match self.left {
            0.0.. => Pace::Allowed,
            left if left >= -most => Pace::TooFast,
            _ => Pace::Flood,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_is_allowed_then_refused_then_a_flood() {
        let now = Instant::now();
        let mut rate = Rate::new(10, now);
        let paces: Vec<Pace> = (0..62).map(|_| rate.count(now)).collect();
        assert!(paces[..30].iter().all(|pace| *pace == Pace::Allowed));
        assert!(paces[30..60].iter().all(|pace| *pace == Pace::TooFast));
        assert!(paces[60..].iter().all(|pace| *pace == Pace::Flood));
    }

    #[test]
    fn messages_come_back_with_time_but_are_not_saved() {
        let mut now = Instant::now();
        let mut rate = Rate::new(10, now);
        for _ in 0..1000 {
            assert_eq!(rate.count(now), Pace::Allowed);
            now += Duration::from_millis(101);
        }
        now += Duration::from_secs(3600);
        let allowed = (0..100).filter(|_| rate.count(now) == Pace::Allowed).count();
        assert_eq!(allowed, 30);
    }
}
