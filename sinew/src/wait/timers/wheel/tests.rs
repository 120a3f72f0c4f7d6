use super::*;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

const STEP_NS: u64 = 1 << STEP_BITS;

struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number of up to `max_bits` bits, each length as likely as another.
    fn of_any_length(&mut self, max_bits: u64) -> u64 {
        let bits = self.below(max_bits + 1);
        self.next() & ((1_u64 << bits) - 1)
    }
}

fn timers(count: usize) -> Vec<Pin<Box<Timer<usize>>>> {
    (0..count).map(|id| Box::pin(Timer::new(id))).collect()
}

/// The safety contract, once for all tests: they run on one thread, use one
/// wheel for each timer, and never use a wheel after its timers are gone.
fn arm<T: Copy>(wheel: &mut Wheel<T>, timer: &Timer<T>, deadline_ns: u64) -> bool {
    // SAFETY: see above.
    unsafe { wheel.arm(timer, deadline_ns) }
}

fn advance(wheel: &mut Wheel<usize>, now_ns: u64) -> Vec<usize> {
    let mut fired = Vec::new();
    wheel.advance(now_ns, |id| fired.push(id));
    fired
}

/// Recounts everything that the wheel's invariants promise.
fn check_invariants(wheel: &Wheel<usize>) {
    let mut linked = 0;
    for level in 0..LEVELS {
        for slot in 0..SLOTS {
            let first = wheel.slots[level][slot];
            assert_eq!(first.is_some(), wheel.occupied[level] >> slot & 1 == 1);
            let mut rest = first;
            while let Some(timer) = rest {
                assert_eq!(timer.place.get() as usize, level * SLOTS + slot);
                assert!(wheel.earliest_ns.get() <= timer.deadline_ns.get());
                assert!(timer.next.get().prev.get() == timer);
                linked += 1;
                rest = Some(timer.next.get()).filter(|next| Some(*next) != first);
            }
        }
    }
    assert!(linked <= wheel.len());
}

/// A wheel beside a model that is too simple to be wrong.
struct Pair {
    wheel: Wheel<usize>,
    timers: Vec<Pin<Box<Timer<usize>>>>,
    /// Armed timers, with the step that orders their firing.
    model: BTreeMap<(u64, usize), u64>,
    deadlines: Vec<Option<u64>>,
    now_ns: u64,
    /// Until when a sleeper sleeps that heeds every answer of `arm`.
    sleeper_ns: u64,
}

impl Pair {
    fn new(now_ns: u64, count: usize) -> Pair {
        Pair {
            wheel: Wheel::new(now_ns),
            timers: timers(count),
            model: BTreeMap::new(),
            deadlines: vec![None; count],
            now_ns,
            sleeper_ns: u64::MAX,
        }
    }

    fn forget(&mut self, id: usize) -> bool {
        let Some(deadline_ns) = self.deadlines[id].take() else {
            return false;
        };
        self.model.remove(&(deadline_ns, id)).expect("modelled");
        true
    }

    fn arm(&mut self, id: usize, deadline_ns: u64) {
        self.forget(id);
        let order = step_of(deadline_ns).max(step_of(self.now_ns));
        self.model.insert((deadline_ns, id), order);
        self.deadlines[id] = Some(deadline_ns);
        if arm(&mut self.wheel, &self.timers[id], deadline_ns) {
            assert!(self.earliest_ns() == Some(deadline_ns));
            self.sleeper_ns = deadline_ns;
        }
        assert!(self.timers[id].is_armed());
    }

    fn cancel(&mut self, id: usize) {
        let expected = self.forget(id);
        assert_eq!(self.timers[id].is_armed(), expected);
        assert_eq!(self.wheel.cancel(&self.timers[id]), expected);
        assert!(!self.timers[id].is_armed());
    }

    fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        let mut fired = Vec::new();
        self.wheel.advance(now_ns, |id| fired.push(id));
        let orders: Vec<u64> = fired
            .iter()
            .map(|&id| {
                let deadline_ns = self.deadlines[id].expect("only armed timers fire");
                assert!(deadline_ns <= self.now_ns, "early");
                let order = self.model[&(deadline_ns, id)];
                assert!(self.forget(id));
                order
            })
            .collect();
        assert!(orders.is_sorted());
        if let Some(earliest_ns) = self.earliest_ns() {
            assert!(earliest_ns > self.now_ns, "late");
        }
        if self.sleeper_ns <= self.now_ns {
            self.sleep();
            assert!(self.sleeper_ns > self.now_ns, "spins");
        }
    }

    fn sleep(&mut self) {
        self.sleeper_ns = self.wheel.next_deadline_ns().unwrap_or(u64::MAX);
    }

    fn earliest_ns(&self) -> Option<u64> {
        self.model.first_key_value().map(|(&(ns, _), _)| ns)
    }

    fn check(&self) {
        assert_eq!(self.wheel.len(), self.model.len());
        assert_eq!(self.wheel.is_empty(), self.model.is_empty());
        if let Some(earliest_ns) = self.earliest_ns() {
            assert!(self.sleeper_ns <= earliest_ns, "overslept");
        }
    }
}

fn random_walk(seed: u64, steps: usize) {
    println!("seed {seed:#x}");
    const COUNT: usize = 200;
    const END_NS: u64 = u64::MAX / 2;
    let mut random = Xorshift(seed);
    let mut pair = Pair::new(0, COUNT);
    for step in 0..steps {
        let id = random.below(COUNT as u64) as usize;
        match random.below(16) {
            0..6 => {
                let ahead_ns = random.of_any_length(62);
                pair.arm(id, (pair.now_ns + ahead_ns).min(END_NS));
            }
            6 => {
                let deadline_ns = random.below(END_NS);
                pair.arm(id, deadline_ns);
            }
            7 => {
                let behind_ns = random.of_any_length(40);
                pair.arm(id, pair.now_ns.saturating_sub(behind_ns));
            }
            8..11 => pair.cancel(id),
            11 => pair.sleep(),
            12 => {
                if let Some(next_ns) = pair.wheel.next_deadline_ns() {
                    assert!(Some(next_ns) <= pair.earliest_ns());
                    if next_ns < END_NS {
                        pair.sleeper_ns = next_ns;
                        pair.advance(next_ns);
                    }
                }
            }
            13 => {
                if let Some(earliest_ns) = pair.earliest_ns() {
                    pair.advance(earliest_ns.saturating_sub(1));
                    pair.advance(earliest_ns);
                }
            }
            _ => {
                let max_bits = [18, 18, 18, 18, 30, 30, 30, 45, 45, 62][random.below(10) as usize];
                let step_ns = random.of_any_length(max_bits);
                pair.advance(pair.now_ns + step_ns);
            }
        }
        pair.check();
        if step % 64 == 0 {
            check_invariants(&pair.wheel);
        }
        if pair.now_ns >= END_NS {
            let now_ns = random.of_any_length(60);
            pair = Pair::new(now_ns, COUNT);
        }
    }
}

#[test]
fn agrees_with_a_sorted_map() {
    for seed in [0x9E37_79B9_7F4A_7C15, 0xD1B5_4A32_D192_ED03, 7] {
        random_walk(seed, 100_000);
    }
}

#[test]
fn fires_at_the_deadline_and_not_a_nanosecond_before() {
    let edges = [1, STEP_NS - 1, STEP_NS, STEP_NS + 1, 64 * STEP_NS];
    let powers = (2..=9).map(|level| STEP_NS << (SLOT_BITS * level).min(46));
    for start_ns in [0, 1, STEP_NS - 1, 12_345_678_901, 1 << 51, (1 << 52) - 1] {
        for ahead_ns in powers.clone().chain(edges) {
            for deadline_ns in [ahead_ns - 1, ahead_ns, ahead_ns + 1] {
                let deadline_ns = start_ns + deadline_ns.max(1);
                let timers = timers(1);
                let mut wheel = Wheel::new(start_ns);
                assert!(arm(&mut wheel, &timers[0], deadline_ns));
                assert!(advance(&mut wheel, deadline_ns - 1).is_empty());
                assert_eq!(advance(&mut wheel, deadline_ns), [0]);
                assert!(wheel.is_empty() && !timers[0].is_armed());
            }
        }
    }
}

#[test]
fn within_one_step_only_the_due_fire() {
    let timers = timers(3);
    let mut wheel = Wheel::new(10 * STEP_NS);
    for (timer, ahead_ns) in timers.iter().zip([300, 100, 200]) {
        let _ = arm(&mut wheel, timer, 10 * STEP_NS + ahead_ns);
    }
    assert_eq!(wheel.next_deadline_ns(), Some(10 * STEP_NS + 100));
    assert_eq!(advance(&mut wheel, 10 * STEP_NS + 250), [1, 2]);
    assert_eq!(wheel.next_deadline_ns(), Some(10 * STEP_NS + 300));
    assert_eq!(advance(&mut wheel, 10 * STEP_NS + 300), [0]);
    assert_eq!(wheel.next_deadline_ns(), None);
}

#[test]
fn after_a_long_rest_a_near_deadline_is_known_exactly() {
    let timers = timers(1);
    let mut wheel = Wheel::new(0);
    assert!(advance(&mut wheel, 1 << 45).is_empty());
    assert!(arm(&mut wheel, &timers[0], (1 << 45) + 1000));
    assert_eq!(wheel.next_deadline_ns(), Some((1 << 45) + 1000));
    assert!(wheel.cancel(&timers[0]));
}

#[test]
fn following_next_deadline_terminates() {
    let mut random = Xorshift(0xABCD_EF01_2345_6789);
    for _ in 0..20 {
        const COUNT: usize = 100;
        let mut now_ns = random.of_any_length(50);
        let timers = timers(COUNT);
        let mut wheel = Wheel::new(now_ns);
        let mut deadlines = Vec::new();
        for timer in &timers {
            let deadline_ns = random.of_any_length(63);
            let _ = arm(&mut wheel, timer, deadline_ns);
            deadlines.push(deadline_ns);
        }
        let start_ns = now_ns;
        let mut fired = advance(&mut wheel, now_ns);
        let mut wakes = 0;
        while let Some(next_ns) = wheel.next_deadline_ns() {
            assert!(next_ns > now_ns);
            now_ns = next_ns;
            for id in advance(&mut wheel, now_ns) {
                assert_eq!(deadlines[id], now_ns, "late");
                fired.push(id);
            }
            wakes += 1;
        }
        assert!(wheel.is_empty());
        assert_eq!(fired.len(), COUNT);
        let spans = (now_ns - start_ns) / (50 * 86_400 * 1_000_000_000) + 1;
        assert!(wakes <= (COUNT * LEVELS) as u64 + spans);
    }
}

#[test]
fn a_million_armed_and_cancelled_leave_nothing() {
    const COUNT: usize = 1_000_000;
    let mut random = Xorshift(0x1234_5678_9ABC_DEF1);
    let timers: Vec<Timer<usize>> = (0..COUNT).map(Timer::new).collect();
    let mut wheel = Wheel::new(5);
    for timer in &timers {
        let deadline_ns = random.of_any_length(62);
        let _ = arm(&mut wheel, timer, deadline_ns);
    }
    assert_eq!(wheel.len(), COUNT);
    for timer in &timers {
        assert!(wheel.cancel(timer));
        assert!(!wheel.cancel(timer));
    }
    assert!(wheel.is_empty());
    assert_eq!(wheel.occupied, [0; LEVELS]);
    assert_eq!(wheel.next_deadline_ns(), None);
    assert!(advance(&mut wheel, u64::MAX).is_empty());
}

#[test]
fn the_greatest_deadline_never_comes() {
    let timers = timers(2);
    let mut wheel = Wheel::new(0);
    assert!(!arm(&mut wheel, &timers[0], u64::MAX));
    assert_eq!(wheel.len(), 1);
    assert_eq!(wheel.next_deadline_ns(), None);
    assert!(arm(&mut wheel, &timers[1], u64::MAX - 1));
    assert_eq!(advance(&mut wheel, u64::MAX), [1]);
    assert!(timers[0].is_armed());
    assert!(wheel.cancel(&timers[0]));
    assert!(!wheel.cancel(&timers[0]));
    assert!(wheel.is_empty());
}

#[test]
fn a_clock_that_goes_backwards_stands_still() {
    let timers = timers(2);
    let mut wheel = Wheel::new(1000 * STEP_NS);
    let _ = arm(&mut wheel, &timers[0], 1001 * STEP_NS);
    assert!(advance(&mut wheel, 0).is_empty());
    assert!(advance(&mut wheel, 1000 * STEP_NS).is_empty());
    assert_eq!(wheel.next_deadline_ns(), Some(1001 * STEP_NS));
    let _ = arm(&mut wheel, &timers[1], 999 * STEP_NS);
    assert_eq!(wheel.next_deadline_ns(), Some(999 * STEP_NS));
    assert_eq!(advance(&mut wheel, 5), [1]);
    assert_eq!(advance(&mut wheel, 1001 * STEP_NS), [0]);
}

#[test]
fn only_an_earlier_deadline_disturbs_the_sleeper() {
    let timers = timers(4);
    let mut wheel = Wheel::new(0);
    assert!(arm(&mut wheel, &timers[0], 5000));
    assert!(!arm(&mut wheel, &timers[1], 5000));
    assert!(!arm(&mut wheel, &timers[2], 6000));
    assert!(arm(&mut wheel, &timers[3], 4999));
    assert!(wheel.cancel(&timers[3]));
    assert!(wheel.cancel(&timers[0]));
    assert!(wheel.cancel(&timers[1]));
    assert_eq!(wheel.next_deadline_ns(), Some(6000));
    assert!(arm(&mut wheel, &timers[3], 5500));
    assert_eq!(advance(&mut wheel, 6000).len(), 2);
    assert!(arm(&mut wheel, &timers[0], 1 << 50));
}

#[test]
fn arming_again_moves_the_timer() {
    let timers = timers(1);
    let mut wheel = Wheel::new(0);
    for deadline_ns in [1 << 40, 10, u64::MAX, 1 << 20] {
        let _ = arm(&mut wheel, &timers[0], deadline_ns);
        assert_eq!(wheel.len(), 1);
    }
    assert!(advance(&mut wheel, (1 << 20) - 1).is_empty());
    assert_eq!(advance(&mut wheel, 1 << 20), [0]);
    assert!(advance(&mut wheel, 1 << 41).is_empty());
}

#[test]
fn a_timer_may_be_freed_when_it_fires() {
    type Owned = Cell<Option<Pin<Box<Timer<usize>>>>>;
    let owners: Vec<Owned> = timers(100).into_iter().map(|t| Cell::new(Some(t))).collect();
    let mut wheel = Wheel::new(0);
    for (id, owner) in owners.iter().enumerate() {
        let timer = owner.take().expect("owned");
        let _ = arm(&mut wheel, &timer, [7, 900, STEP_NS * 3, 1 << 30][id % 4]);
        owner.set(Some(timer));
    }
    let mut freed = 0;
    for now_ns in [100, 901, STEP_NS * 4, 1 << 31] {
        wheel.advance(now_ns, |id| {
            drop(owners[id].take().expect("fires once"));
            freed += 1;
        });
    }
    assert_eq!(freed, owners.len());
    assert!(wheel.is_empty());
}

#[test]
fn a_panic_while_firing_loses_no_timer() {
    for spread_ns in [1, STEP_NS, STEP_NS * 100] {
        let timers = timers(10);
        let mut wheel = Wheel::new(0);
        for (position, timer) in timers.iter().enumerate() {
            let _ = arm(&mut wheel, timer, 1 + position as u64 * spread_ns);
        }
        let mut fired = Vec::new();
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            wheel.advance(STEP_NS * 1000, |id| {
                fired.push(id);
                assert_ne!(id, 4, "the panic of this test");
            });
        }));
        assert!(unwound.is_err());
        check_invariants(&wheel);
        fired.extend(advance(&mut wheel, 0));
        assert_eq!(fired, Vec::from_iter(0..10));
    }
}
