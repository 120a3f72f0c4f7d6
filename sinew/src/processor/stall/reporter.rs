//! Makes reports of stalls, on a kernel thread of its own: to find the names of functions may take longer than
//! a stall.

use super::quiet::{Quiet, Site};
use super::report::Stall;
use super::{CopiedStack, Hook, Registers, StallPlan, Walk};
use crate::base::kernel::say;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// The largest number of stalls that wait for their report. Further ones are not reported.
const WAITING: usize = 16;

/// A stall as the warden saw it.
pub(super) struct Sight {
    /// Without its functions.
    pub(super) stall: Stall,
    pub(super) registers: Registers,
    pub(super) stack: Box<[u8]>,
    pub(super) top: usize,
}

/// The warden's end of the thread, which is started for the first stall. Its drop waits until all is reported.
pub(super) struct Reporter {
    hook: Option<Hook>,
    walk: Walk,
    thread: Option<(SyncSender<Sight>, JoinHandle<()>)>,
}

impl Reporter {
    pub(super) fn new(plan: &StallPlan) -> Reporter {
        Reporter { hook: plan.hook.clone(), walk: plan.walk, thread: None }
    }

    /// Takes a stall that is to be reported.
    pub(super) fn take(&mut self, sight: Sight) {
        if self.thread.is_none() {
            let (sights, some_sights) = sync_channel(WAITING);
            let (hook, walk) = (self.hook.clone(), self.walk);
            let report = move || report_all(&some_sights, hook, walk);
            let thread = thread::Builder::new().name("sinew-stalls".to_owned()).spawn(report);
            self.thread = thread.ok().map(|thread| (sights, thread));
        }
        if let Some((sights, _)) = &self.thread {
            // Dropped if too many wait.
            let _ = sights.try_send(sight);
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if let Some((sights, thread)) = self.thread.take() {
            drop(sights);
            let _ = thread.join();
        }
    }
}

fn report_all(sights: &Receiver<Sight>, hook: Option<Hook>, walk: Walk) {
    let mut quiet = Quiet::default();
    for sight in sights {
        let Some(stall) = complete(&mut quiet, walk, sight) else { continue };
        match &hook {
            // The panic hook has reported it. Dropping the payload might panic again.
            Some(hook) => drop(catch_unwind(AssertUnwindSafe(|| hook(&stall))).map_err(std::mem::forget)),
            None => say(&[&stall.to_string()]),
        }
    }
}

/// Adds the functions. Returns `None` if the stall is only counted.
fn complete(quiet: &mut Quiet, walk: Walk, sight: Sight) -> Option<Stall> {
    let Sight { mut stall, registers, stack, top } = sight;
    let (site, now) = (site_of(&stall), Instant::now());
    if !quiet.may_report_site(site, now) {
        return None;
    }
    stall.frames = walk(&CopiedStack { registers, bytes: &stack, top });
    stall.unreported = quiet.may_report(site, stall.frames.first().map(|frame| function(frame)), now)?;
    Some(stall)
}

fn site_of(stall: &Stall) -> Site {
    let place = stall.spawned_at.map(|place| std::ptr::from_ref(place).addr());
    (stall.kind, place.or(stall.type_name.map(|name| name.as_ptr().addr())).unwrap_or(0))
}

/// Returns the function of a frame, without its place in the source.
fn function(frame: &str) -> &str {
    frame.split(" at ").next().unwrap_or(frame)
}
