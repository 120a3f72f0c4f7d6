//! The ring of a cluster: operations that wait and have no readiness, in their three forms.

#[macro_use]
mod fixture;

use fixture::rerun::{Rerun, SIGABRT};
use fixture::{
    Random, SOON, Scheduling, Scratch, Setup, alone, happens_while_spinning, happens_within, let_others_wait, loopback,
    wait_until, wherever,
};
use sinew::cancel::Cancelled;
use sinew::io::ring::{Chain, OwnedChain, longest};
use sinew::io::{Engine, EventScope, Polling};
use sinew::net::UnixStream;
use sinew::{Cluster, Runtime, task};
use std::fs::File;
use std::io::{ErrorKind, PipeReader, Read, Write, pipe};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

/// Says whether the kernel permits io_uring. Without it there is nothing to test here.
fn has_ring() -> bool {
    Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap().main_cluster().io().files()
}

const PAGE: usize = 4096;

/// Makes a file whose pages differ, and removes it from the page cache.
fn cold_file(scratch: &Scratch, pages: usize) -> File {
    let path = scratch.at("cold");
    std::fs::write(&path, contents(pages)).unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    forget(&file);
    file
}

fn contents(pages: usize) -> Vec<u8> {
    (0..pages).flat_map(|page| loopback::bytes(page as u64 + 1, PAGE)).collect()
}

#[allow(unsafe_code)]
fn forget(file: &File) {
    // SAFETY: the call has no pointers.
    assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) }, 0);
}

#[test]
fn cold_reads_by_several_fibres_return_the_right_bytes() {
    if !has_ring() {
        return;
    }
    const PAGES: usize = 64;
    let (scratch, expected) = (Scratch::new(), Arc::new(contents(PAGES)));
    wherever(
        |_| true,
        |runtime, _| {
            let file = Arc::new(cold_file(&scratch, PAGES));
            let readers: Vec<_> = (0..8)
                .map(|first| {
                    let (file, expected) = (Arc::clone(&file), Arc::clone(&expected));
                    runtime.spawn(move || {
                        for page in (0..PAGES).map(|page| (page * 7 + first * 8) % PAGES) {
                            let (mut buffer, offset) = (vec![0; PAGE], page * PAGE);
                            let mut chain = Chain::new();
                            chain.read_at(&file, &mut buffer, offset as u64);
                            let results = chain.submit().unwrap();
                            assert_eq!(*results[0].as_ref().unwrap(), PAGE);
                            assert!(buffer == expected[offset..offset + PAGE], "page {page}");
                        }
                    })
                })
                .collect();
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        },
    );
}

#[test]
fn every_kind_of_polling_reaps() {
    if !has_ring() {
        return;
    }
    for polling in [Polling::Shared, Polling::PerProcessor, Polling::Thread] {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).polling(polling).build().unwrap();
        let (reader, mut writer) = pipe().unwrap();
        let waits = runtime.spawn(move || read_one(&reader));
        // All processors fall asleep.
        let_others_wait();
        writer.write_all(b"x").unwrap();
        assert_eq!(waits.join().unwrap(), 1);
    }
}

#[test]
fn a_linked_chain_stops_at_the_first_failure() {
    if !has_ring() {
        return;
    }
    wherever(
        |setup| setup.processors <= 2,
        |runtime, _| {
            runtime.run(|| {
                let scratch = Scratch::new();
                let file = File::options().create(true).truncate(true).read(true).write(true).open(scratch.at("file"));
                let file = file.unwrap();
                let (mut first, mut second) = ([0; 4], [0; 4]);
                let mut chain = Chain::linked();
                chain.write_at(&file, b"abcd", 0).read_at(&file, &mut first, 0).read_at(&file, &mut second, 2).nop();
                assert_eq!(chain.len(), 4);
                let results = chain.submit().unwrap();
                let results: Vec<_> = results.into_iter().map(|result| result.map_err(|e| e.raw_os_error())).collect();
                // The third is short, so the rest is not done.
                assert_eq!(results, [Ok(4), Ok(4), Ok(2), Err(Some(libc::ECANCELED))]);
                assert_eq!((&first, &second), (b"abcd", b"cd\0\0"));
                let mut independent = Chain::new();
                independent.read_at(&file, &mut second, 2).nop().sync_all(&file).sync_data(&file);
                let results = independent.submit().unwrap();
                assert_eq!(results.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [2, 0, 0, 0]);
            });
        },
    );
}

#[test]
fn chains_move_bytes_of_sockets() {
    if !has_ring() {
        return;
    }
    wherever(
        |setup| setup.processors <= 2,
        |runtime, _| {
            runtime.run(|| {
                let (here, there) = loopback::pair();
                let receives = sinew::spawn(move || {
                    let mut buffer = [0; 5];
                    let mut chain = Chain::linked();
                    chain.readable(&there).recv(&there, &mut buffer);
                    let results = chain.submit().unwrap();
                    (*results[1].as_ref().unwrap(), buffer)
                });
                let_others_wait();
                let mut chain = Chain::linked();
                chain.writable(&here).send(&here, b"hello");
                assert_eq!(*chain.submit().unwrap()[1].as_ref().unwrap(), 5);
                assert_eq!(receives.join().unwrap(), (5, *b"hello"));
            });
        },
    );
}

#[test]
fn a_chain_ends_at_its_deadline() {
    if !has_ring() {
        return;
    }
    wherever(
        |_| true,
        |runtime, _| {
            runtime.run(|| {
                let (reader, _writer) = pipe().unwrap();
                let (mut one, mut two) = ([0], [0]);
                for is_linked in [false, true] {
                    let mut chain = if is_linked { Chain::linked() } else { Chain::new() };
                    chain.nop().read(&reader, &mut one).read(&reader, &mut two);
                    let results = chain.submit_timeout(Duration::from_millis(1)).unwrap();
                    assert_eq!(*results[0].as_ref().unwrap(), 0);
                    for result in &results[1..] {
                        assert_eq!(result.as_ref().unwrap_err().kind(), ErrorKind::WouldBlock);
                    }
                }
                let mut chain = Chain::new();
                chain.read(&reader, &mut one);
                let results = chain.submit_deadline(Instant::now()).unwrap();
                assert_eq!(results[0].as_ref().unwrap_err().kind(), ErrorKind::WouldBlock);
            });
        },
    );
}

#[test]
fn a_carried_limit_ends_a_chain() {
    if !has_ring() {
        return;
    }
    sinew::run(|| {
        let (reader, _writer) = pipe().unwrap();
        let mut buffer = [0];
        let error = sinew::time::timeout(Duration::from_millis(1), || {
            let mut chain = Chain::new();
            chain.read(&reader, &mut buffer);
            chain.submit().unwrap().remove(0).unwrap_err()
        });
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

/// Reads one byte by the ring. Returns the number of bytes.
fn read_one(reader: &PipeReader) -> usize {
    let mut buffer = [0];
    let mut chain = Chain::new();
    chain.read(reader, &mut buffer);
    // Being cancelled is no failure here.
    chain.submit().map_or(0, |mut results| results.remove(0).unwrap_or(0))
}

/// Reads what is left, after the writers are gone.
fn rest(reader: &PipeReader) -> usize {
    let mut rest = Vec::new();
    let mut reader = reader;
    reader.read_to_end(&mut rest).unwrap()
}

/// Each of two readers waits in the ring, and one is cancelled at a random moment about the time at which
/// a byte is written.
fn cancel_readers(rounds: usize, seed: u64) {
    let (reader, mut writer) = pipe().unwrap();
    let reader = Arc::new(reader);
    let (mut read, mut random) = (0, Random::new(seed));
    for _ in 0..rounds {
        let [one, two] = [(); 2].map(|()| {
            let reader = Arc::clone(&reader);
            sinew::spawn(move || read_one(&reader))
        });
        (0..random.below(3)).for_each(|_| sinew::yield_now());
        let spin = |spins: u64| (0..spins).for_each(|_| std::hint::spin_loop());
        if random.below(2) == 0 {
            writer.write_all(b"x").unwrap();
            spin(random.below(2000));
            one.fibre().cancel();
        } else {
            one.fibre().cancel();
            spin(random.below(2000));
            writer.write_all(b"x").unwrap();
        }
        read += one.join().unwrap();
        two.fibre().cancel();
        read += two.join().unwrap();
    }
    drop(writer);
    assert_eq!(read + rest(&reader), rounds);
}

#[test]
fn a_cancelled_read_loses_no_byte() {
    if !has_ring() {
        return;
    }
    let setups = |setup: &Setup| setup.processors <= 2 && setup.scheduling == Scheduling::Fair;
    wherever(setups, |runtime, setup| {
        let seed = 0x5eed_0016 + setup.processors as u64;
        runtime.run(move || cancel_readers(25_000, seed));
    });
}

#[test]
fn a_cancelled_read_says_so() {
    if !has_ring() {
        return;
    }
    wherever(
        |setup| setup.processors <= 2,
        |runtime, _| {
            let (reader, _writer) = pipe().unwrap();
            let waits = runtime.spawn(move || {
                let mut buffer = [0];
                let mut chain = Chain::new();
                chain.read(&reader, &mut buffer);
                chain.submit().unwrap().remove(0).unwrap_err()
            });
            waits.fibre().cancel();
            let error = waits.join().unwrap();
            assert!(error.get_ref().is_some_and(|source| source.is::<Cancelled>()), "{error:?}");
        },
    );
}

/// The first operation cannot be cancelled: it is done when the second one begins.
#[test]
fn a_linked_chain_is_cancelled_wherever_it_is() {
    if !has_ring() {
        return;
    }
    wherever(
        |setup| setup.processors <= 2 && setup.scheduling == Scheduling::Fair,
        |runtime, setup| {
            runtime.run(move || {
                let scratch = Scratch::new();
                let file = Arc::new(File::create(scratch.at("file")).unwrap());
                let (reader, _writer) = pipe().unwrap();
                let reader = Arc::new(reader);
                let mut random = Random::new(0x5eed_0017 + setup.processors as u64);
                for _ in 0..200 {
                    let (reader, file) = (Arc::clone(&reader), Arc::clone(&file));
                    let waits = sinew::spawn(move || {
                        let mut buffer = [0];
                        let mut chain = Chain::linked();
                        chain.nop().write_at(&file, b"x", 0).sync_data(&file).read(&reader, &mut buffer);
                        chain.submit().unwrap().remove(3).unwrap_err()
                    });
                    sinew::sleep(Duration::from_micros(random.below(300)));
                    waits.fibre().cancel();
                    waits.join().unwrap();
                }
            });
        },
    );
}

/// Returns a future that reads one byte by the ring.
fn read_one_owned(reader: &Arc<PipeReader>) -> impl Future<Output = usize> + use<> {
    let mut chain = OwnedChain::new();
    chain.read(Arc::clone(reader), vec![0]);
    async move {
        let done = chain.submit_async().await.unwrap();
        let (result, buffer) = &done[0];
        assert_eq!(buffer.len(), 1);
        *result.as_ref().unwrap()
    }
}

#[test]
fn tasks_read_into_buffers_that_they_get_back() {
    if !has_ring() {
        return;
    }
    wherever(
        |_| true,
        |runtime, _| {
            let (reader, mut writer) = pipe().unwrap();
            let reader = Arc::new(reader);
            let tasks: Vec<_> = (0..8).map(|_| runtime.spawn_task(read_one_owned(&reader))).collect();
            writer.write_all(b"12345678").unwrap();
            assert_eq!(tasks.into_iter().map(|task| task.join().unwrap()).sum::<usize>(), 8);
            assert_eq!(Arc::strong_count(&reader), 1);
        },
    );
}

#[test]
fn a_dropped_future_gives_up_its_buffer_when_the_kernel_is_done() {
    if !has_ring() {
        return;
    }
    wherever(
        |setup| setup.processors <= 2,
        |runtime, setup| {
            let (reader, mut writer) = pipe().unwrap();
            let reader = Arc::new(reader);
            let mut random = Random::new(0x5eed_0018 + setup.processors as u64);
            for _ in 0..500 {
                let future = read_one_owned(&reader);
                let time = Duration::from_micros(random.below(100));
                let task = runtime.spawn_task(async move { sinew::time::timeout_async(time, future).await.is_ok() });
                if random.below(4) == 0 {
                    writer.write_all(b"x").unwrap();
                }
                task.join().unwrap();
            }
            // The writer is still there: only cancels end the reads.
            assert!(happens_within(SOON, || Arc::strong_count(&reader) == 1));
            drop(writer);
        },
    );
}

/// Polls the future once.
fn poll_once<F: Future + Unpin>(future: &mut F) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_future_is_dropped_on_another_thread_or_after_its_runtime() {
    if !has_ring() {
        return;
    }
    let (reader, _writer) = pipe().unwrap();
    let reader = Arc::new(reader);
    for is_dropped_late in [false, true] {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(2).build().unwrap();
        let mut future = Box::pin(read_one_owned(&reader));
        let future = runtime.spawn_task(async move {
            assert!(!poll_once(&mut future));
            Some(future)
        });
        let future = future.join().unwrap();
        if is_dropped_late {
            drop(runtime);
            drop(future);
        } else {
            drop(future);
            drop(runtime);
        }
        assert_eq!(Arc::strong_count(&reader), 1);
    }
}

#[test]
fn a_read_goes_on_when_the_processor_that_submitted_it_is_removed() {
    if !has_ring() {
        return;
    }
    wherever(
        |setup| setup.processors == 2 && setup.migrating,
        |runtime, _| {
            let (reader, mut writer) = pipe().unwrap();
            let reader = Arc::new(reader);
            let readers: Vec<_> = (0..16)
                .map(|_| {
                    let reader = Arc::clone(&reader);
                    runtime.spawn(move || read_one(&reader))
                })
                .collect();
            let tasks: Vec<_> = (0..16).map(|_| runtime.spawn_task(read_one_owned(&reader))).collect();
            // Until then they have hold of the reader by the test's own count.
            runtime.run(let_others_wait);
            let cluster = runtime.main_cluster();
            for _ in 0..3 {
                cluster.add_processor().unwrap();
                for id in cluster.processor_ids().into_iter().take(2) {
                    cluster.remove_processor_by_id(id).unwrap();
                    cluster.add_processor().unwrap();
                }
                cluster.remove_processor().unwrap();
                runtime.run(let_others_wait);
            }
            writer.write_all(&[0; 32]).unwrap();
            let read: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
            let read_by_tasks: usize = tasks.into_iter().map(|task| task.join().unwrap()).sum();
            assert_eq!((read, read_by_tasks), (16, 16));
        },
    );
}

/// The processor that submitted the read computes until the read has ended.
#[test]
fn a_read_ends_while_the_processor_that_submitted_it_computes() {
    if !has_ring() {
        return;
    }
    wherever(
        |setup| setup.processors == 2 && setup.migrating,
        |runtime, _| {
            for _ in 0..20 {
                let (reader, mut writer) = pipe().unwrap();
                let [is_computing, has_read] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
                let (begins, ended, reads) = (Arc::clone(&is_computing), Arc::clone(&has_read), has_read);
                let waits = runtime.spawn(move || {
                    // Runs next on this processor.
                    let computes = sinew::spawn(move || {
                        begins.store(true, Ordering::Relaxed);
                        happens_while_spinning(SOON, || ended.load(Ordering::Relaxed))
                    });
                    assert_eq!(read_one(&reader), 1);
                    reads.store(true, Ordering::Relaxed);
                    computes.join().unwrap()
                });
                wait_until(|| is_computing.load(Ordering::Relaxed));
                writer.write_all(b"x").unwrap();
                assert!(waits.join().unwrap());
            }
        },
    );
}

#[test]
fn more_operations_than_a_small_ring_holds_take_turns() {
    let child = in_child!(Rerun::new().variable("SINEW_RING_OPERATIONS", "4"), || {
        if has_ring() {
            wherever(|_| true, |runtime, _| use_small_ring(runtime));
        }
        println!("took turns");
    });
    child.assert_success("took turns");
}

fn use_small_ring(runtime: &Runtime) {
    let (reader, mut writer) = pipe().unwrap();
    let reader = Arc::new(reader);
    runtime.run(|| assert_eq!(longest(), Some(4)));
    // Four of them fill the ring, and the rest waits for room.
    let readers: Vec<_> = (0..32)
        .map(|_| {
            let reader = Arc::clone(&reader);
            runtime.spawn(move || read_one(&reader))
        })
        .collect();
    let tasks: Vec<_> = (0..32).map(|_| runtime.spawn_task(read_one_owned(&reader))).collect();
    runtime.run(|| {
        let_others_wait();
        let (mut one, mut two) = ([0], [0]);
        let mut chain = Chain::new();
        chain.read(&*reader, &mut one).read(&*reader, &mut two);
        // Its time is up while it waits for room.
        let refused = chain.submit_timeout(Duration::from_millis(1)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        let mut chain = Chain::new();
        chain.nop().nop().nop().nop().nop();
        assert_eq!(chain.submit().unwrap_err().kind(), ErrorKind::InvalidInput);
    });
    writer.write_all(&[0; 64]).unwrap();
    let read: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
    let read_by_tasks: usize = tasks.into_iter().map(|task| task.join().unwrap()).sum();
    assert_eq!((read, read_by_tasks), (32, 32));
    // A chain that fills the ring, again and again, beside others.
    let fillers: Vec<_> = (0..8)
        .map(|_| {
            runtime.spawn(|| {
                for _ in 0..50 {
                    let mut chain = Chain::linked();
                    chain.nop().nop().nop().nop();
                    assert!(chain.submit().unwrap().iter().all(|result| result.is_ok()));
                }
            })
        })
        .collect();
    fillers.into_iter().for_each(|filler| filler.join().unwrap());
}

#[test]
fn cancels_are_not_lost_in_a_small_ring() {
    let child = in_child!(Rerun::new().variable("SINEW_RING_OPERATIONS", "2"), || {
        if has_ring() {
            let setups = |setup: &Setup| setup.processors <= 2 && setup.scheduling == Scheduling::Fair;
            wherever(setups, |runtime, _| runtime.run(|| cancel_readers(2_000, 0x5eed_0019)));
        }
        println!("lost nothing");
    });
    child.assert_success("lost nothing");
}

#[test]
fn without_a_ring_chains_are_unsupported() {
    let unsupported = || {
        let mut chain = Chain::new();
        chain.nop();
        assert_eq!(chain.submit().unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(longest(), None);
    };
    unsupported();
    Runtime::builder().spares(0).stall_limit(None).processors(1).io(Engine::Epoll).run(|| {
        unsupported();
        let mut chain = OwnedChain::new();
        chain.nop();
        let task = task::spawn(chain.submit_async());
        assert_eq!(task.join().unwrap().unwrap_err().kind(), ErrorKind::Unsupported);
    });
}

/// A descriptor that cannot be lent.
struct Unlendable;

impl AsFd for Unlendable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        panic!("as it should");
    }
}

#[test]
fn a_descriptor_that_panics_takes_no_room() {
    if !has_ring() {
        return;
    }
    sinew::run(|| {
        for _ in 0..2 * longest().unwrap() {
            let mut chain = OwnedChain::new();
            chain.readable(Unlendable);
            assert!(task::spawn(chain.submit_async()).join().is_err());
        }
    });
}

#[test]
fn a_task_that_submits_a_blocking_chain_panics() {
    if !has_ring() {
        return;
    }
    sinew::run(|| {
        let task = task::spawn(async { drop(Chain::new().submit()) });
        assert!(task.join().is_err());
    });
}

#[test]
#[allow(unsafe_code)]
fn each_event_scope_has_a_ring_of_its_own() {
    if !has_ring() {
        return;
    }
    alone(|| {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        // SAFETY: only types of Sinew are moved between the event scopes.
        let scope = unsafe { EventScope::new() }.unwrap();
        let cluster = runtime.cluster(Cluster::builder().processors(2).event_scope(&scope)).unwrap();
        let read_there = || {
            let (reader, mut writer) = pipe().unwrap();
            let waits = sinew::spawn(move || read_one(&reader));
            let_others_wait();
            writer.write_all(b"x").unwrap();
            waits.join().unwrap()
        };
        assert_eq!(runtime.run(read_there), 1);
        assert_eq!(cluster.spawn(read_there).join().unwrap(), 1);
        // A future that is dropped in another event scope.
        let future = cluster.spawn_task(async {
            let (here, there) = UnixStream::pair().unwrap();
            let mut chain = OwnedChain::new();
            chain.readable(here);
            let mut future = Box::pin(chain.submit_async());
            assert!(!poll_once(&mut future));
            (future, there)
        });
        drop(future.join().unwrap());
    });
}

#[test]
#[allow(unsafe_code)]
fn a_forked_child_that_submits_aborts() {
    if !has_ring() {
        return;
    }
    let child = in_child!(Rerun::new(), || sinew::run(|| {
        let submit = || {
            let mut chain = Chain::new();
            chain.nop();
            chain.submit().unwrap()
        };
        submit();
        // SAFETY: the child uses nothing but the runtime, which ends it.
        let forked = unsafe { libc::fork() };
        if forked == 0 {
            submit();
            std::process::exit(0);
        }
        let mut status = 0;
        // SAFETY: the kernel writes the status.
        assert_eq!(unsafe { libc::waitpid(forked, &raw mut status, 0) }, forked);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == SIGABRT);
        submit();
        println!("goes on");
    }));
    child.assert_success("goes on");
    assert!(child.stderr.contains("a forked child cannot use the runtime"), "{child:?}");
}
