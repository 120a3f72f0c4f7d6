//! Keeps a scheduler that an application has written from harming memory.
//!
//! [`Scheduler`] and [`Local`] are safe traits, so no mistake in their methods may harm memory. The
//! type [`Ready`] ensures that no strand runs twice. The wrapper in this file ensures the rest,
//! around each method:
//!
//! - A strand that the scheduler gives to a processor belongs to that processor's cluster.
//!   Otherwise it would be bound to a post that may end before the strand does.
//! - A panic does not leave the method. It would unwind the frames of the caller that made a strand
//!   ready, and a fibre that borrows from these frames may be running already.
//! - The method runs as on a kernel thread that has nothing to do with the runtime. A call that
//!   blocks in it blocks that thread, and never suspends the fibre in whose midst the method is
//!   called. The method cannot enter the same scheduler again.
//!
//! A method that breaks one of these rules ends the process with one line that says why. The
//! schedulers of this crate are not wrapped.

use super::{
    Claim, Coloured, Effort, Fair, Grown, Inverted, Local, Locality, Placement, Random, Ready, Scheduler, Shared, Wake,
};
use crate::base::here;
use std::any::TypeId;
use std::cell::Cell;

/// Returns the scheduler as the runtime uses it: guarded unless it is one of this crate's.
pub(crate) fn admit<S: Scheduler>(scheduler: S) -> Box<dyn Scheduler> {
    let trusted = [
        TypeId::of::<Coloured>(),
        TypeId::of::<Fair>(),
        TypeId::of::<Inverted>(),
        TypeId::of::<Locality>(),
        TypeId::of::<Random>(),
        TypeId::of::<Shared>(),
    ];
    match trusted.contains(&TypeId::of::<S>()) {
        true => Box::new(scheduler),
        false => Box::new(Guarded(Some(scheduler))),
    }
}

/// `Some` until it is dropped.
struct Guarded<S: Scheduler>(Option<S>);

struct GuardedLocal {
    /// `Some` until it is dropped.
    local: Option<Box<dyn Local>>,
    /// The address of the processor's cluster.
    cluster: usize,
}

/// Stands for the cluster in methods that may be entered at any time: `name` and `drop`.
const NO_CLUSTER: usize = 0;

thread_local! {
    /// The cluster whose scheduler this kernel thread is in, or `NO_CLUSTER`.
    static ENTERED: Cell<usize> = const { Cell::new(NO_CLUSTER) };
}

/// Ends the process if a scheduler's method unwinds.
struct EndOnUnwind;

impl Drop for EndOnUnwind {
    fn drop(&mut self) {
        crate::base::fatal("a scheduler panicked");
    }
}

/// Calls a method of the scheduler of `cluster`.
fn call<R>(cluster: usize, method: impl FnOnce() -> R) -> R {
    let before = ENTERED.replace(cluster);
    if before == cluster && cluster != NO_CLUSTER {
        crate::base::fatal(
            "a scheduler was entered from one of its own methods: it made a strand ready, or spawned one",
        );
    }
    let (processor, stack) = (here::processor(), here::stack());
    here::set_processor(std::ptr::null());
    here::set_stack(std::ptr::null_mut());
    let bomb = EndOnUnwind;
    let result = method();
    std::mem::forget(bomb);
    here::set_stack(stack);
    here::set_processor(processor);
    ENTERED.set(before);
    result
}

impl<S: Scheduler> Guarded<S> {
    fn call<R>(&self, cluster: usize, method: impl FnOnce(&S) -> R) -> R {
        call(cluster, || method(self.0.as_ref().expect("a scheduler is used until it is dropped")))
    }
}

impl<S: Scheduler> Drop for Guarded<S> {
    fn drop(&mut self) {
        call(NO_CLUSTER, || drop(self.0.take()));
    }
}

impl<S: Scheduler> Scheduler for Guarded<S> {
    fn name(&self) -> &'static str {
        self.call(NO_CLUSTER, S::name)
    }

    fn attach(&self, placement: Placement) -> Box<dyn Local> {
        let cluster = placement.cluster;
        let local = self.call(cluster, |scheduler| scheduler.attach(placement));
        Box::new(GuardedLocal { local: Some(local), cluster })
    }

    fn inject(&self, strand: Ready, now: u64) -> Wake {
        self.call(strand.cluster_address(), |scheduler| scheduler.inject(strand, now))
    }

    fn weighs(&self) -> bool {
        self.call(NO_CLUSTER, S::weighs)
    }

    fn grown(&self, strand: &Grown<'_>, now: u64) -> Wake {
        self.call(strand.cluster_address(), |scheduler| scheduler.grown(strand, now))
    }
}

impl GuardedLocal {
    fn call<R>(&self, method: impl FnOnce(&dyn Local) -> R) -> R {
        call(self.cluster, || method(self.local.as_deref().expect("an end is used until it is dropped")))
    }

    /// Checks that a strand which the scheduler has given belongs to the cluster.
    fn admitted(&self, strand: Ready) -> Ready {
        if strand.cluster_address() != self.cluster {
            crate::base::fatal(
                "a scheduler gave a processor a strand of another cluster: one scheduler serves one cluster",
            );
        }
        strand
    }
}

impl Drop for GuardedLocal {
    fn drop(&mut self) {
        call(NO_CLUSTER, || drop(self.local.take()));
    }
}

impl Local for GuardedLocal {
    fn push(&self, strand: Ready, now: u64) -> Wake {
        self.call(|local| local.push(strand, now))
    }

    fn push_all(&self, strands: &mut dyn Iterator<Item = Ready>, now: u64, tell: &mut dyn FnMut(Wake)) {
        self.call(|local| local.push_all(strands, now, tell));
        // A scheduler that leaves some of them gets these one by one.
        strands.for_each(|strand| tell(self.push(strand, now)));
    }

    fn next(&self, now: u64) -> Option<Ready> {
        self.call(|local| local.next(now)).map(|strand| self.admitted(strand))
    }

    fn exchange(&self, strand: Ready, now: u64) -> Result<Ready, Ready> {
        match self.call(|local| local.exchange(strand, now)) {
            Ok(next) => Ok(self.admitted(next)),
            Err(strand) => Err(self.admitted(strand)),
        }
    }

    fn claim(&self) -> Option<Claim> {
        self.call(|local| local.claim())
    }

    fn search(&self, now: u64, effort: Effort) -> Option<Ready> {
        self.call(|local| local.search(now, effort)).map(|strand| self.admitted(strand))
    }

    fn retract(&self, now: u64) -> Wake {
        self.call(|local| local.retract(now))
    }

    fn beat(&self, now: u64) {
        self.call(|local| local.beat(now));
    }

    fn drain(&self) -> Option<Ready> {
        self.call(|local| local.drain()).map(|strand| self.admitted(strand))
    }
}
