//! Tells whether other fibres run while a fibre is in a call that waits.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use crate::fixture::{SOON, happens_within, message, wait_until, wherever};
use sinew::{FibreBuilder, JoinHandle, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The stack of a fibre that calls libraries in a debug build.
pub const STACK: usize = 1024 * 1024;

/// How long a test looks at a processor that is expected to be held up. It fails only if the processor
/// is not.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `f` in a fibre with that stack.
fn run<T: Send>(rt: &Runtime, f: impl FnOnce() -> T + Send) -> T {
    rt.run(|| {
        sinew::scope(|scope| FibreBuilder::new().stack_size(STACK).spawn_scoped(scope, f).unwrap().join().unwrap())
    })
}

/// Runs `f` in such a fibre, in every set-up whose fibres stay on their processor.
#[track_caller]
pub fn wherever_fibres_stay(f: impl Fn() + Sync) {
    wherever(|setup| !setup.migrating, |rt, _| run(rt, &f));
}

/// Returns a runtime with one processor.
pub fn single() -> Runtime {
    Runtime::builder().processors(1).build().unwrap()
}

/// Calls `f` in a fibre, and returns the message of its panic.
pub fn panics(f: impl FnOnce() + Send + 'static) -> String {
    let fibre = single().run(|| FibreBuilder::new().stack_size(STACK).spawn(f));
    message(&*fibre.unwrap().join().expect_err("the call does not panic"))
}

/// A fibre that has begun, and waits to be unparked.
pub struct Other {
    fibre: JoinHandle<()>,
    has_run: Arc<AtomicBool>,
}

impl Other {
    pub fn begin(rt: &Runtime) -> Other {
        let (has_begun, has_run) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let fibre = rt.spawn({
            let (has_begun, has_run) = (Arc::clone(&has_begun), Arc::clone(&has_run));
            move || {
                has_begun.store(true, Ordering::Relaxed);
                sinew::park();
                has_run.store(true, Ordering::Relaxed);
            }
        });
        wait_until(|| has_begun.load(Ordering::Relaxed));
        Other { fibre, has_run }
    }

    /// Unparks the fibre, and returns whether it runs within the limit.
    fn runs_within(&self, limit: Duration) -> bool {
        self.fibre.fibre().unpark();
        happens_within(limit, || self.has_run.load(Ordering::Relaxed))
    }
}

/// Calls `wait` in a fibre, and looks whether another fibre of the same processor runs until `release`,
/// called on this kernel thread, ends the call.
fn runs_beside(limit: Duration, wait: impl FnOnce() + Send + 'static, release: impl FnOnce()) -> bool {
    let rt = single();
    let other = Other::begin(&rt);
    let is_there = Arc::new(AtomicBool::new(false));
    let call = {
        let is_there = Arc::clone(&is_there);
        // From here on, the fibre keeps its processor until the call waits.
        let call = move || {
            is_there.store(true, Ordering::Relaxed);
            wait();
        };
        let spawned = rt.run(|| FibreBuilder::new().stack_size(STACK).spawn(call));
        spawned.unwrap()
    };
    wait_until(|| is_there.load(Ordering::Relaxed));
    let runs = other.runs_within(limit);
    release();
    call.join().unwrap();
    other.fibre.join().unwrap();
    runs
}

/// Asserts that `wait` makes its fibre wait, and not its processor.
#[track_caller]
pub fn assert_blocks_its_fibre(wait: impl FnOnce() + Send + 'static, release: impl FnOnce()) {
    assert!(runs_beside(SOON, wait, release), "the call holds up its processor");
}

/// Asserts that `wait` holds up its processor.
#[track_caller]
pub fn assert_blocks_its_processor(wait: impl FnOnce() + Send + 'static, release: impl FnOnce()) {
    assert!(!runs_beside(LOOK, wait, release), "the call does not hold up its processor: say so in docs/works-with.md");
}

/// Ends this process, which is a child, if `other` does not run any more. For calls that nothing ends.
pub fn end_if_held_up(other: &Other) {
    assert!(!other.runs_within(LOOK), "the processor goes on");
    println!("the processor is held up for ever");
    std::process::exit(0);
}
