//! In a runtime with `own_thread_locals` a fibre is a thread in every way that code can see, and continues on
//! another kernel thread after each suspension: each of these tests moves its fibres all the time. Run this file with
//! full inlining as well, as `migration`.
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]
#![allow(unsafe_code)]

#[macro_use]
mod fixture;

use fixture::rerun::Rerun;
use fixture::{Scratch, wait_until};
use sinew::{BuildError, Builder, Cluster, Runtime, migrate_to};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::net::ToSocketAddrs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{hint, thread};

fn owning() -> Builder {
    Runtime::builder().spares(0).stall_limit(None).own_thread_locals()
}

/// The clusters of a runtime, with a processor each: a fibre that moves between them changes its kernel thread.
struct Places([Cluster; 2]);

impl Places {
    /// Moves the calling fibre to the other kernel thread.
    #[inline(always)]
    fn change(&self) {
        let is_there = Cluster::current().as_ref() == Some(&self.0[1]);
        migrate_to(&self.0[usize::from(!is_there)]).unwrap();
    }
}

/// Runs `body` as a fibre of such a runtime.
fn in_places<T: Send>(body: impl FnOnce(&Places) -> T + Send) -> T {
    let runtime = owning().processors(1).name("one").build().unwrap();
    let other = runtime.cluster(Cluster::builder().spares(0).processors(1).name("two")).unwrap();
    let places = Places([runtime.main_cluster().clone(), other]);
    runtime.run(|| body(&places))
}

/// Returns this kernel thread as the kernel knows it.
fn kernel_thread() -> PathBuf {
    std::fs::read_link("/proc/thread-self").unwrap()
}

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
    static LAZY: RefCell<Vec<u32>> = RefCell::new(vec![7]);
}

#[test]
fn a_thread_local_follows_its_fibre_and_belongs_to_it_alone() {
    in_places(|places| {
        sinew::scope(|scope| {
            for own in 1..=10 {
                scope.spawn(move || {
                    assert_eq!((NUMBER.get(), LAZY.take()), (0, vec![7]));
                    let before = kernel_thread();
                    for step in 0..200 {
                        assert_eq!(
                            NUMBER.replace(own * 1000 + step + 1),
                            if step == 0 { 0 } else { own * 1000 + step }
                        );
                        places.change();
                        assert_eq!(kernel_thread() == before, step % 2 == 1, "step {step}");
                        LAZY.with_borrow_mut(|lazy| lazy.push(step));
                    }
                    assert_eq!(LAZY.take(), (0..200).collect::<Vec<_>>());
                });
            }
        });
        assert_eq!(NUMBER.get(), 0);
    });
}

/// With full inlining the compiler computes the address of the variable once, and keeps it across the suspension. That
/// is right here: the address is the same on every kernel thread.
#[test]
fn an_address_that_is_kept_across_a_migration_is_still_right() {
    in_places(|places| {
        let address = NUMBER.with(std::ptr::from_ref);
        for step in 0..1000 {
            NUMBER.set(NUMBER.get() + 1);
            places.change();
            NUMBER.set(NUMBER.get() + 1);
            assert_eq!(NUMBER.with(std::ptr::from_ref), address);
            // SAFETY: the variable lives as long as the fibre.
            assert_eq!(unsafe { (*address).get() }, 2 * step + 2);
        }
    });
}

#[test]
fn a_ref_cell_in_a_thread_local_stays_borrowed_across_a_wait() {
    in_places(|places| {
        sinew::scope(|scope| {
            for own in 0..10 {
                scope.spawn(move || {
                    LAZY.with_borrow_mut(|lazy| {
                        for step in 0..50 {
                            lazy.push(own);
                            places.change();
                            assert_eq!(lazy.len(), 2 + step, "nobody else has it");
                        }
                    });
                });
            }
        });
    });
}

struct Witness(Arc<Mutex<Vec<(sinew::FibreId, thread::ThreadId, u32)>>>);

impl Drop for Witness {
    fn drop(&mut self) {
        // A destructor may block, and go on elsewhere.
        sinew::yield_now();
        sinew::sleep(Duration::from_micros(10));
        self.0.lock().unwrap().push((sinew::current().id(), thread::current().id(), NUMBER.get()));
    }
}

thread_local!(static WITNESS: RefCell<Option<Witness>> = const { RefCell::new(None) });

#[test]
fn destructors_run_in_the_fibre_before_a_join_returns() {
    in_places(|places| {
        for own in 0..50 {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let left = Witness(Arc::clone(&seen));
            let places = [places.0[0].clone(), places.0[1].clone()];
            let fibre = sinew::spawn(move || {
                NUMBER.set(own);
                WITNESS.set(Some(left));
                Places(places).change();
                (sinew::current().id(), thread::current().id())
            });
            let (fibre, thread) = fibre.join().unwrap();
            assert_eq!(*seen.lock().unwrap(), [(fibre, thread, own)]);
        }
    });
}

#[test]
fn thread_current_is_the_fibre() {
    in_places(|places| {
        let own = thread::current();
        let others: Vec<_> = (0..5).map(|_| sinew::spawn(|| thread::current().id()).join().unwrap()).collect();
        let mut all = [others, vec![own.id()]].concat();
        all.sort_by_key(|id| format!("{id:?}"));
        all.dedup();
        assert_eq!(all.len(), 6, "each has its own");
        places.change();
        assert_eq!(thread::current().id(), own.id());
        // std's park blocks the kernel thread; the other one wakes it.
        let waker = places.0[0].spawn(move || own.unpark());
        thread::park();
        waker.join().unwrap();
    });
}

#[test]
fn a_fibre_that_unwinds_migrates_with_its_panic() {
    struct Moves<'a>(&'a Places);
    impl Drop for Moves<'_> {
        fn drop(&mut self) {
            let before = kernel_thread();
            for _ in 0..3 {
                assert!(thread::panicking());
                self.0.change();
                assert!(thread::panicking());
            }
            assert_ne!(kernel_thread(), before, "it has moved while it unwinds");
        }
    }
    in_places(|places| {
        let lock = Mutex::new(0);
        sinew::scope(|scope| {
            let calm: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..200 {
                            *lock.lock().unwrap() += 1;
                            assert!(!thread::panicking());
                            places.change();
                        }
                    })
                })
                .collect();
            for _ in 0..20 {
                let result = catch_unwind(AssertUnwindSafe(|| {
                    let _moves = Moves(places);
                    std::panic::resume_unwind(Box::new("on purpose"));
                }));
                assert_eq!(result.unwrap_err().downcast_ref(), Some(&"on purpose"));
                assert!(!thread::panicking());
            }
            calm.into_iter().for_each(|fibre| fibre.join().unwrap());
        });
        assert_eq!(lock.into_inner().unwrap(), 800, "it is not poisoned");
    });
}

#[test]
fn a_lock_of_std_is_poisoned_by_the_fibre_that_panics_and_stays_locked_across_a_migration() {
    in_places(|places| {
        let (own, others) = (Mutex::new(1), Mutex::new(2));
        let guard = others.lock().unwrap();
        let failed = sinew::scope(|scope| {
            let failing = scope.spawn(|| {
                let _guard = own.lock().unwrap();
                places.change();
                std::panic::resume_unwind(Box::new(()));
            });
            failing.join().is_err()
        });
        places.change();
        drop(guard);
        assert!(failed && own.is_poisoned() && !others.is_poisoned());
    });
}

#[test]
fn a_lock_that_knows_its_thread_is_the_fibres() {
    in_places(|places| {
        let first = io::stdout().lock();
        places.change();
        let mut again = io::stdout().lock();
        again.write_all(b"").unwrap();
        places.change();
        drop((first, again));
        // Nobody has it now.
        let other = places.0[1].spawn(|| drop(io::stdout().lock()));
        other.join().unwrap();
    });
}

#[test]
fn errno_belongs_to_the_fibre() {
    fn errno() -> &'static Cell<c_int> {
        // SAFETY: the word of this thread, which lives as long as the fibre.
        unsafe { &*libc::__errno_location().cast() }
    }
    in_places(|places| {
        sinew::scope(|scope| {
            for own in 1..=8 {
                scope.spawn(move || {
                    errno().set(own);
                    for _ in 0..100 {
                        sinew::yield_now();
                        places.change();
                        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(own));
                    }
                });
            }
        });
    });
}

/// The values that were dropped, and the number of each one's fibre.
static DROPPED: Mutex<Vec<(usize, u32)>> = Mutex::new(Vec::new());

unsafe extern "C" fn drop_value(value: *mut c_void) {
    DROPPED.lock().unwrap().push((value.addr(), NUMBER.get()));
}

#[test]
fn values_for_keys_are_dropped_in_the_fibre_also_beyond_the_first_32() {
    const KEYS: usize = 70;
    let keys: Vec<_> = (0..KEYS)
        .map(|_| {
            let mut key = 0;
            // SAFETY: the destructor takes any value.
            assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, Some(drop_value)) }, 0);
            key
        })
        .collect();
    in_places(|places| {
        for own in 1..=20usize {
            let (keys, places) = (keys.clone(), [places.0[0].clone(), places.0[1].clone()]);
            let fibre = sinew::spawn(move || {
                NUMBER.set(own as u32);
                for (number, key) in keys.iter().enumerate() {
                    let value = std::ptr::without_provenance(own * 1000 + number);
                    // SAFETY: the key exists.
                    assert_eq!(unsafe { libc::pthread_setspecific(*key, value) }, 0);
                }
                let places = Places(places);
                places.change();
                for (number, key) in keys.iter().enumerate() {
                    // SAFETY: the key exists.
                    assert_eq!(unsafe { libc::pthread_getspecific(*key) }.addr(), own * 1000 + number);
                }
            });
            fibre.join().unwrap();
            let mut dropped = std::mem::take(&mut *DROPPED.lock().unwrap());
            dropped.sort_unstable();
            let expected: Vec<_> = (0..KEYS).map(|number| (own * 1000 + number, own as u32)).collect();
            assert_eq!(dropped, expected);
        }
    });
    for key in keys {
        // SAFETY: nobody uses it any more.
        assert_eq!(unsafe { libc::pthread_key_delete(key) }, 0);
    }
}

#[test]
fn a_recursive_mutex_of_c_belongs_to_the_fibre() {
    struct Recursive(MaybeUninit<libc::pthread_mutex_t>);
    // SAFETY: it is a lock.
    unsafe impl Sync for Recursive {}
    let mut lock = Recursive(MaybeUninit::uninit());
    // SAFETY: it is initialised before its first use.
    unsafe {
        let mut kind = MaybeUninit::uninit();
        assert_eq!(libc::pthread_mutexattr_init(kind.as_mut_ptr()), 0);
        assert_eq!(libc::pthread_mutexattr_settype(kind.as_mut_ptr(), libc::PTHREAD_MUTEX_RECURSIVE), 0);
        assert_eq!(libc::pthread_mutex_init(lock.0.as_mut_ptr(), kind.as_ptr()), 0);
    }
    let lock = &lock;
    // A function, so that the closures borrow the whole.
    let pointer = |lock: &Recursive| lock.0.as_ptr().cast_mut();
    in_places(|places| {
        for _ in 0..20 {
            // SAFETY: the lock is initialised, and is unlocked by its owner.
            unsafe {
                assert_eq!(libc::pthread_mutex_lock(pointer(lock)), 0);
                places.change();
                assert_eq!(libc::pthread_mutex_lock(pointer(lock)), 0, "by the same fibre");
                for place in &places.0 {
                    let others = sinew::scope(|scope| {
                        scope
                            .spawn(|| {
                                migrate_to(place).unwrap();
                                libc::pthread_mutex_trylock(pointer(lock))
                            })
                            .join()
                            .unwrap()
                    });
                    assert_eq!(others, libc::EBUSY, "another fibre, maybe of the same kernel thread");
                }
                places.change();
                assert_eq!(libc::pthread_mutex_unlock(pointer(lock)), 0);
                assert_eq!(libc::pthread_mutex_unlock(pointer(lock)), 0);
            }
        }
    });
}

unsafe extern "C" {
    fn newlocale(mask: c_int, name: *const i8, base: *mut c_void) -> *mut c_void;
    fn uselocale(locale: *mut c_void) -> *mut c_void;
    fn freelocale(locale: *mut c_void);
}

#[test]
fn the_c_library_works_in_a_fibre() {
    in_places(|places| {
        for _ in 0..20 {
            // SAFETY: calls that a thread may make.
            unsafe {
                assert!(libc::isalpha('x' as c_int) != 0 && libc::isalpha('7' as c_int) == 0);
                let mut text = [0i8; 32];
                libc::snprintf(text.as_mut_ptr().cast(), 32, c"%.2f".as_ptr().cast(), 1.5f64);
                assert_eq!(std::ffi::CStr::from_ptr(text.as_ptr().cast()), c"1.50");
                let own = newlocale(libc::LC_ALL_MASK, c"C".as_ptr().cast(), std::ptr::null_mut());
                assert!(!own.is_null());
                let before = uselocale(own);
                places.change();
                assert_eq!(uselocale(std::ptr::null_mut()), own);
                let others = sinew::spawn(|| uselocale(std::ptr::null_mut()).addr()).join().unwrap();
                assert_eq!(others, before.addr(), "the locale of the process");
                uselocale(before);
                freelocale(own);
            }
            let found = ("localhost", 80).to_socket_addrs().unwrap().count();
            assert!(found > 0);
            places.change();
        }
    });
}

#[test]
fn a_fibre_is_told_the_cpu_that_it_runs_on() {
    let last = thread::available_parallelism().unwrap().get() - 1;
    let builder = owning().processors(1).pin_cpus([last]);
    // SAFETY: always safe.
    builder.run(|| assert_eq!(unsafe { libc::sched_getcpu() }, last as c_int));
}

#[test]
fn a_signal_handler_sees_the_variables_of_the_fibre() {
    static SEEN: AtomicU32 = AtomicU32::new(0);
    extern "C" fn look(_: c_int) {
        SEEN.store(NUMBER.get(), Ordering::Relaxed);
    }
    // SAFETY: the handler reads a variable that needs no initialisation.
    unsafe { libc::signal(libc::SIGUSR2, look as *const () as usize) };
    in_places(|places| {
        for own in 1..100 {
            NUMBER.set(own);
            places.change();
            // SAFETY: the handler is installed.
            assert_eq!(unsafe { libc::raise(libc::SIGUSR2) }, 0);
            assert_eq!(SEEN.load(Ordering::Relaxed), own);
        }
    });
}

#[test]
fn a_forked_child_of_a_fibre_allocates_and_ends() {
    in_places(|places| {
        places.change();
        // SAFETY: the child only allocates, and ends without destructors.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let text = hint::black_box(format!("{:?}", vec![1; 1000]));
                libc::_exit(if text.len() > 1000 && NUMBER.get() == 0 { 33 } else { 1 });
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 33, "{status:x}");
        }
    });
}

#[test]
fn a_call_that_concerns_all_threads_ends() {
    in_places(|places| {
        for _ in 0..10 {
            // SAFETY: the group stays the same. The C library sends a signal to each kernel thread for this.
            assert_eq!(unsafe { libc::setgid(libc::getgid()) }, 0);
            places.change();
        }
    });
}

#[test]
fn threads_are_started_and_joined_by_a_fibre() {
    in_places(|places| {
        for _ in 0..10 {
            NUMBER.set(5);
            let thread = thread::spawn(|| NUMBER.replace(6));
            places.change();
            assert_eq!((thread.join().unwrap(), NUMBER.get()), (0, 5));
        }
    });
}

/// Compiles a library with a thread-local variable that is not among those of the program's start.
fn library(scratch: &Scratch) -> Option<CString> {
    let (source, built) = (scratch.path().join("late.c"), scratch.path().join("late.so"));
    let text =
        "__thread int number = 5; __thread char room[100000]; int *get(void) { room[number] = 1; return &number; }\n";
    std::fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&built).arg(&source);
    match compiler.status() {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            eprintln!("skipped: no C compiler: {error}");
            return None;
        }
    }
    Some(CString::new(built.to_str().unwrap()).unwrap())
}

#[test]
fn a_library_that_is_loaded_later_has_variables_for_each_fibre() {
    let scratch = Scratch::new();
    let Some(path) = library(&scratch) else { return };
    static GET: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    /// Returns the library's variable of the caller.
    fn number() -> &'static Cell<c_int> {
        // SAFETY: the function of this name has this type, and the library stays loaded.
        unsafe {
            &*std::mem::transmute::<*mut c_void, extern "C" fn() -> *const Cell<c_int>>(GET.load(Ordering::Relaxed))()
        }
    }
    in_places(|places| {
        let before = sinew::spawn({
            let places = [places.0[0].clone(), places.0[1].clone()];
            move || {
                wait_until(|| !GET.load(Ordering::Relaxed).is_null());
                Places(places).change();
                number().replace(9)
            }
        });
        // SAFETY: the library has no constructors.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            assert!(!library.is_null());
            GET.store(libc::dlsym(library, c"get".as_ptr()), Ordering::Relaxed);
        }
        assert_eq!(before.join().unwrap(), 5, "a fibre that began before");
        let resident = resident();
        for own in 0..3000 {
            let places = [places.0[0].clone(), places.0[1].clone()];
            let fibre = sinew::spawn(move || {
                assert_eq!(number().replace(own), 5);
                Places(places).change();
                assert_eq!(number().get(), own);
            });
            fibre.join().unwrap();
        }
        let grown = self::resident().saturating_sub(resident);
        assert!(grown < 20_000_000, "100 KB for each fibre would be 300 MB: {grown}");
    });
}

/// Returns the bytes of the process that belong to no file.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}

/// Makes the C library allocate what it frees when a thread ends.
fn use_what_c_keeps_for_a_thread() {
    // std asks for random numbers once in a thread.
    hint::black_box(HashMap::<u32, u32>::new());
    // SAFETY: calls that a thread may make.
    unsafe {
        assert!(!libc::strerror(1_000_000).is_null());
        assert!(libc::dlsym(libc::RTLD_DEFAULT, c"there_is_no_such_symbol".as_ptr()).is_null());
        libc::res_init();
    }
}

#[test]
fn nothing_is_left_of_a_hundred_thousand_fibres() {
    let rerun = Rerun::new();
    let outcome = in_child!(rerun, || {
        owning().processors(2).run(|| {
            let live = |rounds: usize| {
                for _ in 0..rounds {
                    let fibres: Vec<_> = (0..100)
                        .map(|own| {
                            sinew::spawn(move || {
                                LAZY.with_borrow_mut(|lazy| lazy.extend(0..100));
                                let text = hint::black_box(vec![own; 100 + own]);
                                use_what_c_keeps_for_a_thread();
                                let id = thread::current().id();
                                sinew::yield_now();
                                assert_eq!(thread::current().id(), id);
                                text.len()
                            })
                        })
                        .collect();
                    fibres.into_iter().for_each(|fibre| assert!(fibre.join().unwrap() >= 100));
                }
            };
            live(100);
            let before = resident();
            live(1000);
            let grown = resident().saturating_sub(before);
            // 20 bytes for each would be this much.
            assert!(grown < 2_000_000, "{grown} bytes more");
        });
    });
    assert!(outcome.status.success(), "{outcome:?}");
}

#[test]
fn leadership_is_transferred_although_leaders_spin() {
    const FIBRES: usize = 100;
    for parks in [false, true] {
        let (leader, term) = (AtomicUsize::new(0), AtomicUsize::new(1));
        let seen: Vec<AtomicUsize> = (0..FIBRES).map(|_| AtomicUsize::new(0)).collect();
        const LAST: usize = 50;
        owning().processors(2).run(|| {
            sinew::scope(|scope| {
                let all = Arc::new(Mutex::new(Vec::new()));
                let fibres: Vec<_> = (0..FIBRES)
                    .map(|own| {
                        let (leader, term, seen, all) = (&leader, &term, &seen, Arc::clone(&all));
                        scope.spawn(move || {
                            loop {
                                let now = term.load(Ordering::Acquire);
                                seen[own].store(now, Ordering::Release);
                                if now == LAST {
                                    break;
                                }
                                if leader.load(Ordering::Acquire) == own && term.load(Ordering::Acquire) == now {
                                    // Keeps its processor until all others have run.
                                    while seen.iter().any(|seen| seen.load(Ordering::Acquire) < now) {
                                        hint::spin_loop();
                                    }
                                    leader.store((own * 31 + now) % FIBRES, Ordering::Release);
                                    term.store(now + 1, Ordering::Release);
                                    if parks {
                                        all.lock().unwrap().iter().for_each(sinew::Fibre::unpark);
                                    }
                                } else if parks && term.load(Ordering::Acquire) == now {
                                    sinew::park();
                                } else {
                                    sinew::yield_now();
                                }
                            }
                        })
                    })
                    .collect();
                *all.lock().unwrap() = fibres.iter().map(|fibre| fibre.fibre().clone()).collect();
            });
        });
        assert_eq!(term.into_inner(), LAST);
    }
}

#[test]
fn a_machine_that_cannot_do_it_is_refused_before_anything_runs() {
    let rerun = Rerun::new().without("own-thread-locals");
    let outcome = in_child!(rerun, || {
        let error = owning().processors(1).build().map(|_| ()).unwrap_err();
        assert!(matches!(error, BuildError::NoThreadLocals(_)), "{error:?}");
        assert!(error.to_string().contains("do without `own_thread_locals`"), "{error}");
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::Unsupported);
    });
    assert!(outcome.status.success(), "{outcome:?}");
}
