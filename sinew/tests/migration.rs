//! A fibre that continues on another kernel thread uses nothing of the previous one. Run this file
//! with full inlining as well:
//!
//! ```text
//! CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
//!     cargo test --release -p sinew --test migration
//! ```

use sinew::sched::{Fair, Inverted, Shared};
use sinew::{Builder, Cluster, Runtime, migrate_to};
use std::cell::Cell;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Anything that takes longer than this never happens.
const NEVER: Duration = Duration::from_secs(30);

#[allow(unsafe_code)]
fn migrating(builder: Builder) -> Runtime {
    // SAFETY: the tests hold nothing across a suspension that is bound to a kernel thread. Only
    // `thread_number` reads thread-local variables.
    unsafe { builder.migrating() }.build().unwrap()
}

/// Builds a runtime with two clusters of `processors` each.
fn two_clusters(processors: usize) -> (Runtime, [Cluster; 2]) {
    let runtime = migrating(Runtime::builder().spares(0).stall_limit(None).processors(processors).name("one"));
    let other = Cluster::builder().processors(processors).name("two").scheduler(Shared::default());
    let clusters = [runtime.main_cluster().clone(), runtime.cluster(other).unwrap()];
    (runtime, clusters)
}

/// Returns the number of this kernel thread from a thread-local variable. Never inlined, and
/// returns a value: code that may continue on another thread must read it like this. If the variable is the fibre's own,
/// returns the kernel's number of the thread.
#[inline(never)]
fn thread_number() -> usize {
    if std::env::var_os("SINEW_OWN_THREAD_LOCALS").is_some_and(|value| value == "1") {
        return rustix::thread::gettid().as_raw_nonzero().get() as usize;
    }
    static LAST: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = LAST.fetch_add(1, Ordering::Relaxed) + 1);
    black_box(NUMBER.with(|number| *number))
}

/// Returns this kernel thread as the kernel knows it.
fn kernel_thread() -> PathBuf {
    std::fs::read_link("/proc/thread-self").unwrap()
}

sinew::fibre_local! {
    /// The number of steps that the fibre has made.
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

#[test]
fn a_thread_local_read_by_value_is_that_of_the_current_kernel_thread() {
    let (runtime, clusters) = two_clusters(1);
    let [here, there] = clusters.each_ref().map(|cluster| {
        let whose = cluster.spawn(|| (thread_number(), kernel_thread()));
        whose.join().unwrap()
    });
    assert!(here.0 != there.0 && here.1 != there.1);
    runtime.run(|| {
        for _ in 0..1_000 {
            assert_eq!((thread_number(), kernel_thread()), here);
            migrate_to(&clusters[1]).unwrap();
            assert_eq!((thread_number(), kernel_thread()), there);
            migrate_to(&clusters[0]).unwrap();
        }
    });
}

/// Uses everything that asks for the calling fibre or processor, right after a migration. Inlined
/// into a loop, so that the compiler may reuse anything that it believes to be constant.
#[inline(always)]
fn step(number: usize, cluster: &Cluster, id: sinew::FibreId) {
    migrate_to(cluster).unwrap();
    assert_eq!(Cluster::current().as_ref(), Some(cluster));
    assert_eq!(sinew::current().id(), id);
    assert_eq!(STEPS.replace(number + 1), number);

    let parent = sinew::current();
    let child = sinew::spawn(move || {
        parent.unpark();
        (Cluster::current().unwrap(), STEPS.get())
    });
    sinew::park();
    assert_eq!(Cluster::current().as_ref(), Some(cluster));
    let (childs_cluster, childs_steps) = child.join().unwrap();
    assert_eq!((&childs_cluster, childs_steps), (cluster, 0));

    sinew::yield_now();
    assert_eq!(Cluster::current().as_ref(), Some(cluster));
    assert_eq!(sinew::current().id(), id);
}

#[test]
fn everything_works_right_after_a_migration() {
    for processors in [1, 2] {
        let (runtime, clusters) = two_clusters(processors);
        runtime.run(|| {
            let id = sinew::current().id();
            for number in 0..2_000 {
                step(number, &clusters[(number + 1) % 2], id);
            }
        });
    }
}

#[test]
fn many_fibres_migrate_at_each_step_while_they_spawn_and_unpark_each_other() {
    const FIBRES: usize = 16;
    const STEPS_EACH: usize = 200;
    for processors in [1, 2] {
        let (runtime, clusters) = two_clusters(processors);
        let made: [AtomicUsize; FIBRES] = std::array::from_fn(|_| AtomicUsize::new(0));
        let all_fibres = std::sync::OnceLock::<Vec<sinew::Fibre>>::new();
        runtime.run(|| {
            sinew::scope(|scope| {
                let fibres = (0..FIBRES).map(|own| {
                    let (clusters, made, all_fibres) = (&clusters, &made, &all_fibres);
                    scope.spawn(move || {
                        let id = sinew::current().id();
                        for number in 0..STEPS_EACH {
                            step(number, &clusters[(own + number) % 2], id);
                            // Waits for the fibre before it, so as not to overtake it.
                            made[own].store(number + 1, Ordering::Release);
                            if let Some(all_fibres) = all_fibres.get() {
                                all_fibres[(own + 1) % FIBRES].unpark();
                            }
                            while made[(own + FIBRES - 1) % FIBRES].load(Ordering::Acquire) < number {
                                sinew::park_timeout(Duration::from_millis(1));
                            }
                        }
                        STEPS.get()
                    })
                });
                let fibres: Vec<_> = fibres.collect();
                all_fibres.set(fibres.iter().map(|fibre| fibre.fibre().clone()).collect()).unwrap();
                for fibre in fibres {
                    assert_eq!(fibre.join().unwrap(), STEPS_EACH);
                }
            });
        });
    }
}

#[test]
fn a_fibre_queued_behind_a_busy_one_continues_on_another_processor() {
    let schedulers: [fn(Builder) -> Builder; 3] = [
        |builder| builder.scheduler(Fair::default()),
        |builder| builder.scheduler(Inverted::default()),
        |builder| builder.scheduler(Shared::default()),
    ];
    for scheduler in schedulers {
        let runtime = migrating(scheduler(Runtime::builder().spares(0).stall_limit(None).processors(2)));
        runtime.run(|| {
            let began = Instant::now();
            let (before, thread_before) = (thread_number(), kernel_thread());
            while thread_number() == before {
                assert!(began.elapsed() < NEVER, "the fibre stays on its kernel thread");
                assert_eq!(kernel_thread(), thread_before);
                let gone_on = Arc::new(AtomicBool::new(false));
                let seen = Arc::clone(&gone_on);
                let hog = sinew::spawn(move || {
                    let began = Instant::now();
                    while !seen.load(Ordering::Relaxed) && began.elapsed() < Duration::from_millis(20) {}
                });
                // The fibre is queued behind the busy one, unless another processor was faster.
                sinew::yield_now();
                gone_on.store(true, Ordering::Relaxed);
                if thread_number() == before {
                    hog.join().unwrap();
                }
            }
            assert_ne!(kernel_thread(), thread_before);
        });
    }
}

#[test]
fn a_panic_after_a_migration_is_caught_and_leaves_no_trace_on_either_thread() {
    let (runtime, clusters) = two_clusters(1);
    let not_panicking = || clusters.iter().all(|cluster| !cluster.spawn(std::thread::panicking).join().unwrap());
    for _ in 0..50 {
        let other = clusters[1].clone();
        let caught = runtime.run(move || {
            catch_unwind(AssertUnwindSafe(|| {
                migrate_to(&other).unwrap();
                std::panic::resume_unwind(Box::new(thread_number()));
            }))
        });
        let thread = *caught.unwrap_err().downcast::<usize>().unwrap();
        assert_eq!(thread, clusters[1].spawn(thread_number).join().unwrap());
        assert!(not_panicking());
    }
}

/// A stack that the program allocates itself.
mod foreign {
    #![allow(unsafe_code)]

    use corosensei::stack::{Stack, StackPointer};

    const LEN: usize = 256 * 1024;

    #[repr(align(16))]
    struct Memory([u8; LEN]);

    struct Foreign(Box<Memory>);

    // SAFETY: the memory belongs to the box, is aligned, and is large enough. It has no guard page,
    // and the code that runs on it is shallow.
    unsafe impl Stack for Foreign {
        fn base(&self) -> StackPointer {
            StackPointer::new(self.0.0.as_ptr() as usize + LEN).unwrap()
        }

        fn limit(&self) -> StackPointer {
            StackPointer::new(self.0.0.as_ptr() as usize).unwrap()
        }
    }

    /// Calls `f` on such a stack.
    pub fn on_foreign_stack<R>(f: impl FnOnce() -> R) -> R {
        let mut memory = Box::<Memory>::new_uninit();
        // SAFETY: zero is a valid value for each byte.
        let memory = unsafe {
            memory.as_mut_ptr().write_bytes(0, 1);
            memory.assume_init()
        };
        corosensei::on_stack(Foreign(memory), f)
    }
}

#[test]
fn a_fibre_may_block_and_migrate_on_a_stack_that_the_program_allocated() {
    for processors in [1, 2] {
        let (runtime, clusters) = two_clusters(processors);
        runtime.run(|| {
            let id = sinew::current().id();
            let threads = foreign::on_foreign_stack(|| {
                [0, 1, 2, 3].map(|number| {
                    step(number, &clusters[(number + 1) % 2], id);
                    thread_number()
                })
            });
            assert!(threads[0] != threads[1] && threads[1] != threads[2], "{threads:?}");
            step(4, &clusters[1], id);
        });
    }
}
