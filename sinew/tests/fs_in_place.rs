//! Files without a thread of the pool: what is in memory is read, found and asked for in place. What is
//! not gives the same bytes.
#![allow(unsafe_code)]

mod fixture;

use fixture::{Random, SOON, Scratch, alone, assert_same_error, everywhere, happens_within, wait_until, wherever};
use rustix::fs::{Advice, CWD, FileType, Mode, OFlags, fadvise, fcntl_getfl, mknodat};
use rustix::io::{FdFlags, ReadWriteFlags, fcntl_getfd, preadv2};
use sinew::fs::{self, File, OpenOptions};
use sinew::io::{BLOCKING_THREADS, EventScope, set_blocking_threads};
use sinew::{Cluster, Runtime, blocking, task};
use std::io::{ErrorKind, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Returns whether the test runs without calls in place. Then says that it is skipped.
fn is_denied() -> bool {
    let is_denied = std::env::var("SINEW_WITHOUT").is_ok_and(|without| without.contains("cached-files"));
    if is_denied {
        println!("SKIPPED: nothing is done in place");
    }
    is_denied
}

/// Returns whether reads of this file may say that bytes are not in memory. If not, says that the test
/// is skipped.
fn tells_what_is_cached(path: &Path) -> bool {
    if is_denied() {
        return false;
    }
    let file = std::fs::File::open(path).unwrap();
    let told = preadv2(&file, &mut [IoSliceMut::new(&mut [0])], 0, ReadWriteFlags::NOWAIT);
    if let Err(error) = told {
        println!("SKIPPED: the file system of the scratch directory does not read without waiting: {error}");
    }
    told.is_ok()
}

/// Runs `body` in a fibre while a call occupies the only thread of the pool. Fails if `body` has to wait
/// for that call.
fn while_the_pool_is_busy(body: impl FnOnce()) {
    struct Bound;
    impl Drop for Bound {
        fn drop(&mut self) {
            set_blocking_threads(BLOCKING_THREADS);
        }
    }
    let _bound = Bound;
    set_blocking_threads(1);
    let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
    sinew::scope(|scope| {
        let call = scope.spawn(|| {
            blocking(|| {
                begun.store(true, SeqCst);
                happens_within(SOON, || over.load(SeqCst))
            })
        });
        wait_until(|| begun.load(SeqCst));
        body();
        over.store(true, SeqCst);
        assert!(call.join().unwrap(), "a call has waited for a thread of the pool");
    });
}

/// Makes a file of random bytes and a fitting number of pages. Returns its bytes.
fn random_file(path: &Path, length: usize, random: &mut Random) -> Vec<u8> {
    let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
    std::fs::write(path, &bytes).unwrap();
    bytes
}

/// Removes the pages of a file from memory, where the file system has a device.
fn chill(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
}

#[test]
fn fibres_use_what_is_in_memory_while_the_pool_is_busy() {
    everywhere(|runtime, _| {
        let scratch = Scratch::new();
        let path = scratch.at("file");
        let text = "0123456789abcdef".repeat(20_000);
        std::fs::write(&path, &text).unwrap();
        std::os::unix::fs::symlink(&path, scratch.at("link")).unwrap();
        if !tells_what_is_cached(&path) {
            return;
        }
        runtime.run(|| {
            // The mount is asked for in the pool, once.
            fs::metadata(&path).unwrap();
            while_the_pool_is_busy(|| {
                let mut file = File::open(&path).unwrap();
                let mut part = [0; 16];
                assert_eq!(file.read(&mut part).unwrap(), 16);
                assert_eq!(&part, b"0123456789abcdef");
                assert_eq!(file.read_at(&mut part, 19_999 * 16 + 4).unwrap(), 12);
                file.read_exact_at(&mut part, 160_001).unwrap();
                assert_eq!(&part, b"123456789abcdef0");
                file.read_exact(&mut part).unwrap();
                let (mut one, mut two) = ([0; 3], [0; 5]);
                let mut buffers = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
                assert_eq!(file.read_vectored(&mut buffers).unwrap(), 8);
                assert_eq!((&one, &two), (b"012", b"34567"));
                assert_eq!(file.stream_position().unwrap(), 40);
                assert_eq!(file.seek(SeekFrom::End(-20)).unwrap(), text.len() as u64 - 20);
                let mut rest = Vec::new();
                assert_eq!(file.read_to_end(&mut rest).unwrap(), 20);
                file.rewind().unwrap();
                let mut all = "> ".to_owned();
                assert_eq!(file.read_to_string(&mut all).unwrap(), text.len());
                assert!(all[2..] == text);
                assert_eq!(file.metadata().unwrap().len(), text.len() as u64);
                file.try_lock().unwrap();
                file.unlock().unwrap();
                file.try_lock_shared().unwrap();
                assert!(fs::read(&path).unwrap() == text.as_bytes());
                assert!(fs::read_to_string(&path).unwrap() == text);
                assert_eq!(fs::metadata(&path).unwrap().ino(), file.metadata().unwrap().ino());
                assert!(fs::symlink_metadata(scratch.at("link")).unwrap().is_symlink());
                assert!(fs::exists(&path).unwrap());
            });
            // The first use of a link writes its time of access: in the pool.
            assert!(fs::read_to_string(scratch.at("link")).unwrap() == text);
            assert_eq!(fs::metadata(scratch.at("link")).unwrap().ino(), fs::metadata(&path).unwrap().ino());
        });
    });
}

#[test]
fn tasks_use_what_is_in_memory_while_the_pool_is_busy() {
    everywhere(|runtime, _| {
        let scratch = Scratch::new();
        let path = scratch.at("file");
        let text = "0123456789abcdef".repeat(20_000);
        std::fs::write(&path, &text).unwrap();
        if !tells_what_is_cached(&path) {
            return;
        }
        runtime.run(|| {
            fs::metadata(&path).unwrap();
            while_the_pool_is_busy(|| {
                let (path, text) = (path.clone(), text.clone());
                let uses = task::spawn(async move {
                    let file = File::open_async(&path).await.unwrap();
                    let mut buffer = vec![0; text.len() + 1];
                    assert_eq!(file.read_async(&mut buffer[..16]).await.unwrap(), 16);
                    assert_eq!(file.read_at_async(&mut buffer, 0).await.unwrap(), text.len());
                    assert!(&buffer[..text.len()] == text.as_bytes());
                    assert_eq!(file.seek_async(SeekFrom::Current(0)).await.unwrap(), 16);
                    let mut rest = Vec::new();
                    assert_eq!(file.read_to_end_async(&mut rest).await.unwrap(), text.len() - 16);
                    assert_eq!(file.read_async(&mut buffer).await.unwrap(), 0);
                    file.seek_async(SeekFrom::Start(0)).await.unwrap();
                    let mut all = String::new();
                    file.read_to_string_async(&mut all).await.unwrap();
                    assert!(all == text);
                    assert_eq!(file.metadata_async().await.unwrap().len(), text.len() as u64);
                    file.try_lock_async().await.unwrap();
                    file.unlock_async().await.unwrap();
                    assert!(fs::read_async(&path).await.unwrap() == text.as_bytes());
                    assert!(fs::read_to_string_async(&path).await.unwrap() == text);
                    assert!(fs::symlink_metadata_async(&path).await.unwrap().is_file());
                    assert!(fs::exists_async(&path).await.unwrap());
                });
                uses.join().unwrap();
            });
        });
    });
}

#[test]
fn a_file_system_in_memory_is_read_in_place() {
    let path = Path::new("/dev/shm").join(format!("sinew-{}", std::process::id()));
    if is_denied() {
        return;
    }
    if std::fs::write(&path, "text").is_err() {
        println!("SKIPPED: no /dev/shm");
        return;
    }
    wherever(
        |setup| setup.processors == 1,
        |runtime, _| {
            runtime.run(|| {
                fs::metadata(&path).unwrap();
                while_the_pool_is_busy(|| {
                    let file = File::open(&path).unwrap();
                    let mut buffer = [0; 16];
                    assert_eq!(file.read_at(&mut buffer, 1).unwrap(), 3);
                    assert_eq!(&buffer[..4], b"ext\0");
                    assert_eq!(fs::read_to_string(&path).unwrap(), "text");
                });
            });
        },
    );
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn bytes_that_are_not_in_memory_are_read_as_well() {
    const LENGTH: usize = 700_000;
    let mut random = Random::new(0xc01d);
    let scratch = Scratch::new();
    let path = scratch.at("file");
    let bytes = random_file(&path, LENGTH, &mut random);
    let places: Vec<usize> = (0..20).map(|_| random.below(LENGTH as u64) as usize).collect();
    everywhere(|runtime, _| {
        runtime.run(|| {
            chill(&path);
            assert!(fs::read(&path).unwrap() == bytes);
            chill(&path);
            let mut buffer = vec![0; LENGTH + 1];
            assert_eq!(File::open(&path).unwrap().read(&mut buffer).unwrap(), LENGTH);
            assert!(buffer[..LENGTH] == bytes);
            let file = File::open(&path).unwrap();
            for &place in &places {
                chill(&path);
                let end = LENGTH.min(place + 10_000);
                let mut part = [0; 10_000];
                assert_eq!(file.read_at(&mut part, place as u64).unwrap(), end - place);
                assert!(part[..end - place] == bytes[place..end]);
            }
            chill(&path);
            let (path, bytes) = (path.clone(), bytes.clone());
            let reads = task::spawn(async move {
                assert!(fs::read_async(&path).await.unwrap() == bytes);
                chill(&path);
                let (file, mut buffer) = (File::open_async(&path).await.unwrap(), vec![0; LENGTH + 1]);
                assert_eq!(file.read_async(&mut buffer).await.unwrap(), LENGTH);
                assert!(buffer[..LENGTH] == bytes);
                assert_eq!(file.read_async(&mut buffer).await.unwrap(), 0);
            });
            reads.join().unwrap();
        });
    });
}

#[test]
fn a_cancelled_fibre_reads_files_to_their_end() {
    const PAGE: usize = 4096;
    const PAGES: usize = 256;
    let scratch = Scratch::new();
    let path = scratch.at("file");
    let mut random = Random::new(0xca11);
    let bytes = random_file(&path, PAGES * PAGE, &mut random);
    let places: Vec<usize> = (0..PAGES).map(|_| random.below(PAGES as u64) as usize * PAGE).collect();
    everywhere(|runtime, _| {
        runtime.run(|| {
            let file = std::fs::File::open(&path).unwrap();
            fadvise(&file, 0, None, Advice::Random).unwrap();
            let file = File::from(file);
            chill(&path);
            sinew::scope(|scope| {
                for places in places.chunks(16) {
                    let (file, bytes) = (&file, &bytes);
                    let reader = scope.spawn(move || {
                        // Nobody sends: the cancellation ends this.
                        let (_sender, receiver) = sinew::sync::mpsc::channel::<()>();
                        assert!(receiver.recv().is_err());
                        let mut page = [0; PAGE];
                        for &place in places {
                            file.read_exact_at(&mut page, place as u64).unwrap();
                            assert!(page == bytes[place..place + PAGE]);
                        }
                    });
                    reader.fibre().cancel();
                }
            });
        });
    });
}

#[test]
fn a_read_goes_through_pages_that_are_in_memory_and_pages_that_are_not() {
    const PAGE: usize = 4096;
    const PAGES: usize = 64;
    let mut random = Random::new(0x9a6e5);
    let scratch = Scratch::new();
    let path = scratch.at("file");
    let bytes = random_file(&path, PAGES * PAGE - 7, &mut random);
    for _ in 0..4 {
        let warm: Vec<usize> = (0..PAGES).filter(|_| random.below(2) == 0).collect();
        wherever(
            |setup| setup.processors == 2,
            |runtime, _| {
                let warm_up = || {
                    chill(&path);
                    let file = std::fs::File::open(&path).unwrap();
                    // Without this the kernel reads more than it is asked for.
                    fadvise(&file, 0, None, Advice::Random).unwrap();
                    for page in &warm {
                        file.read_at(&mut [0], (page * PAGE) as u64).unwrap();
                    }
                };
                runtime.run(|| {
                    warm_up();
                    let mut buffer = vec![0; bytes.len() + PAGE];
                    let mut file = File::open(&path).unwrap();
                    assert_eq!(file.read(&mut buffer).unwrap(), bytes.len());
                    assert!(buffer[..bytes.len()] == bytes);
                    assert_eq!(file.stream_position().unwrap(), bytes.len() as u64);
                    warm_up();
                    assert_eq!(file.read_at(&mut buffer, 1).unwrap(), bytes.len() - 1);
                    assert!(buffer[..bytes.len() - 1] == bytes[1..]);
                    warm_up();
                    file.rewind().unwrap();
                    let (head, tail) = buffer.split_at_mut(3 * PAGE + 1);
                    let mut buffers = [IoSliceMut::new(head), IoSliceMut::new(tail)];
                    assert_eq!(file.read_vectored(&mut buffers).unwrap(), bytes.len());
                    assert!(buffer[..bytes.len()] == bytes);
                    warm_up();
                    assert!(fs::read(&path).unwrap() == bytes);
                });
            },
        );
    }
}

#[test]
fn reads_end_where_the_file_ends() {
    everywhere(|runtime, _| {
        let scratch = Scratch::new();
        runtime.run(|| {
            std::fs::write(scratch.at("empty"), "").unwrap();
            assert!(fs::read(scratch.at("empty")).unwrap().is_empty());
            std::fs::write(scratch.at("file"), "abc").unwrap();
            let (mut ours, theirs) =
                (File::open(scratch.at("file")).unwrap(), std::fs::File::open(scratch.at("file")).unwrap());
            let mut buffer = [0; 8];
            assert_eq!(ours.read(&mut []).unwrap(), 0);
            assert_eq!(ours.read(&mut buffer).unwrap(), 3);
            assert_eq!(ours.read(&mut buffer).unwrap(), 0);
            assert_eq!(ours.read_at(&mut buffer, 3).unwrap(), 0);
            assert_eq!(ours.read_at(&mut buffer, 1 << 40).unwrap(), 0);
            let kind = assert_same_error(
                "read_exact_at",
                ours.read_exact_at(&mut buffer, 1),
                theirs.read_exact_at(&mut buffer, 1),
            );
            assert_eq!(kind, ErrorKind::UnexpectedEof);
            for offset in [u64::MAX, 1 << 63] {
                assert_same_error("read_at", ours.read_at(&mut buffer, offset), theirs.read_at(&mut buffer, offset));
            }
            // The file has grown since its end was read.
            std::fs::OpenOptions::new().append(true).open(scratch.at("file")).unwrap().write_all(b"def").unwrap();
            assert_eq!(ours.read(&mut buffer).unwrap(), 3);
            assert_eq!(&buffer[..3], b"def");
            let mut unreadable = OpenOptions::new().write(true).open(scratch.at("file")).unwrap();
            let mut theirs = std::fs::OpenOptions::new().write(true).open(scratch.at("file")).unwrap();
            assert_same_error("read", unreadable.read(&mut buffer), theirs.read(&mut buffer));
            let (mut ours, mut theirs) =
                (File::open(scratch.path()).unwrap(), std::fs::File::open(scratch.path()).unwrap());
            assert_same_error("read of a directory", ours.read(&mut buffer), theirs.read(&mut buffer));
            assert_same_error("read of a directory", fs::read(scratch.path()), std::fs::read(scratch.path()));
            let mut text = "kept".to_owned();
            std::fs::write(scratch.at("file"), [b'a', 0xff]).unwrap();
            let (mut ours, mut theirs) =
                (File::open(scratch.at("file")).unwrap(), std::fs::File::open(scratch.at("file")).unwrap());
            assert_same_error(
                "read_to_string",
                ours.read_to_string(&mut text),
                theirs.read_to_string(&mut String::new()),
            );
            assert_eq!(text, "kept");
        });
    });
}

/// Each read is larger than a piece, and half of the pages are not in memory.
#[test]
fn reads_of_several_handles_get_whole_records() {
    const RECORD: usize = 300_000;
    const RECORDS: usize = 12;
    let scratch = Scratch::new();
    let path = scratch.at("file");
    let records: Vec<u8> = (0..RECORDS).flat_map(|record| std::iter::repeat_n(record as u8, RECORD)).collect();
    std::fs::write(&path, &records).unwrap();
    everywhere(|runtime, _| {
        runtime.run(|| {
            chill(&path);
            std::fs::File::open(&path).unwrap().read_exact(&mut vec![0; RECORD * RECORDS / 2]).unwrap();
            let file = File::open(&path).unwrap();
            let mut seen = sinew::scope(|scope| {
                let readers: Vec<_> = (0..4)
                    .map(|reader| {
                        let mut file = file.try_clone().unwrap();
                        scope.spawn(move || {
                            let mut seen = Vec::new();
                            let mut buffer = vec![0xff; RECORD];
                            loop {
                                let read = if reader == 0 {
                                    sinew::block_on(file.read_async(&mut buffer)).unwrap()
                                } else {
                                    file.read(&mut buffer).unwrap()
                                };
                                match read {
                                    0 => return seen,
                                    read => assert_eq!(read, RECORD),
                                }
                                assert!(buffer.iter().all(|&byte| byte == buffer[0]), "a record in pieces");
                                seen.push(buffer[0] as usize);
                                sinew::yield_now();
                            }
                        })
                    })
                    .collect();
                readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
            });
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..RECORDS));
        });
    });
}

#[test]
fn a_file_of_the_kernel_is_read_whole() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let keys = |status: &str| -> Vec<String> {
                status.lines().map(|line| line.split(':').next().unwrap().to_owned()).collect()
            };
            assert_eq!(keys(&status), keys(&std::fs::read_to_string("/proc/self/status").unwrap()));
            let mut file = File::open("/proc/self/status").unwrap();
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(keys(&text), keys(&status));
            file.rewind().unwrap();
            let mut first = [0; 5];
            file.read_exact(&mut first).unwrap();
            assert_eq!(&first, b"Name:");
            let read = task::spawn(async { fs::read_to_string_async("/proc/self/status").await });
            assert_eq!(keys(&read.join().unwrap().unwrap()), keys(&status));
            assert!(fs::metadata("/proc/self/status").unwrap().is_file());
        });
    });
}

/// With one processor, the writer runs only if the open and the reads do not block it.
#[test]
fn a_fifo_is_opened_and_read_without_blocking_the_processor() {
    everywhere(|runtime, _| {
        let scratch = Scratch::new();
        let path = scratch.at("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        runtime.run(|| {
            assert!(!fs::metadata(&path).unwrap().is_file());
            let (is_read, opening) = (AtomicBool::new(false), AtomicBool::new(false));
            sinew::scope(|scope| {
                let reader = scope.spawn(|| {
                    opening.store(true, SeqCst);
                    let mut file = File::open(&path).unwrap();
                    let mut part = [0; 16];
                    assert_eq!(file.read(&mut part).unwrap(), 3);
                    is_read.store(true, SeqCst);
                    let mut rest = String::new();
                    file.read_to_string(&mut rest).unwrap();
                    rest
                });
                wait_until(|| opening.load(SeqCst));
                let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
                writer.write_all(b"one").unwrap();
                wait_until(|| is_read.load(SeqCst));
                writer.write_all(b"two").unwrap();
                drop(writer);
                assert_eq!(reader.join().unwrap(), "two");
            });
        });
    });
}

/// A socket has no position, so a read that waits does not keep a write waiting.
#[test]
fn a_socket_behind_a_file_is_read_and_written_at_once() {
    everywhere(|runtime, _| {
        let (one, other) = UnixStream::pair().unwrap();
        let (one, other) = (File::from(OwnedFd::from(one)), File::from(OwnedFd::from(other)));
        runtime.run(|| {
            let begun = AtomicBool::new(false);
            sinew::scope(|scope| {
                let answer = scope.spawn(|| {
                    begun.store(true, SeqCst);
                    let mut answer = [0; 6];
                    (&one).read_exact(&mut answer).map(|()| answer)
                });
                wait_until(|| begun.load(SeqCst));
                fixture::let_others_wait();
                (&one).write_all(b"question").unwrap();
                let mut question = [0; 16];
                assert_eq!((&other).read(&mut question).unwrap(), 8);
                assert!((&other).seek(SeekFrom::Start(0)).is_err());
                (&other).write_all(b"answer").unwrap();
                assert_eq!(&answer.join().unwrap().unwrap(), b"answer");
            });
        });
    });
}

#[test]
fn devices_behind_a_file_are_read() {
    everywhere(|runtime, _| {
        runtime.run(|| {
            let mut buffer = [1; 100];
            File::open("/dev/zero").unwrap().read_exact(&mut buffer).unwrap();
            assert_eq!(buffer, [0; 100]);
            assert_eq!(File::open("/dev/null").unwrap().read(&mut buffer).unwrap(), 0);
            assert!(fs::read("/dev/null").unwrap().is_empty());
        });
    });
}

#[test]
fn a_file_has_the_flags_that_std_gives_it() {
    everywhere(|runtime, _| {
        let scratch = Scratch::new();
        std::fs::write(scratch.at("file"), "").unwrap();
        runtime.run(|| {
            for path in [scratch.at("file"), scratch.path().to_owned()] {
                let (ours, theirs) = (File::open(&path).unwrap(), std::fs::File::open(&path).unwrap());
                assert_eq!(fcntl_getfl(&ours).unwrap(), fcntl_getfl(&theirs).unwrap());
                assert_eq!(fcntl_getfd(&ours).unwrap(), FdFlags::CLOEXEC);
            }
            let nonblocking = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(scratch.at("file"));
            assert!(fcntl_getfl(nonblocking.unwrap()).unwrap().contains(OFlags::NONBLOCK));
            let from_std = OpenOptions::from(std::fs::OpenOptions::new().write(true).clone());
            from_std.open(scratch.at("file")).unwrap().write_all(b"text").unwrap();
            let link = scratch.at("link");
            std::os::unix::fs::symlink("nowhere", &link).unwrap();
            for path in [link, scratch.at("nowhere"), scratch.at("file/below"), "with\0nul".into(), "".into()] {
                assert_same_error("open", File::open(&path), std::fs::File::open(&path));
                assert_same_error("metadata", fs::metadata(&path), std::fs::metadata(&path));
                assert_same_error("read", fs::read(&path), std::fs::read(&path));
                assert_eq!(fs::exists(&path).ok(), std::fs::exists(&path).ok());
            }
        });
    });
}

/// The numbers of the descriptors there mean other files here.
#[test]
fn files_are_opened_in_place_in_an_event_scope() {
    alone(|| {
        let scratch = Scratch::new();
        std::fs::write(scratch.at("right"), "right").unwrap();
        std::fs::write(scratch.at("wrong"), "wrong").unwrap();
        if !tells_what_is_cached(&scratch.at("right")) {
            return;
        }
        let _wrong: Vec<_> = (0..64).map(|_| std::fs::File::open(scratch.at("wrong")).unwrap()).collect();
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        // SAFETY: only types of Sinew move between event scopes.
        let scope = unsafe { EventScope::new() }.unwrap();
        let cluster = runtime.cluster(Cluster::builder().processors(1).event_scope(&scope)).unwrap();
        let path = scratch.at("right");
        let read = cluster.spawn(move || {
            let descriptors = || std::fs::read_dir("/proc/thread-self/fd").unwrap().count();
            fs::metadata(&path).unwrap();
            let before = descriptors();
            while_the_pool_is_busy(|| {
                for _ in 0..100 {
                    assert_eq!(fs::metadata(&path).unwrap().len(), 5);
                    assert_eq!(fs::read_to_string(&path).unwrap(), "right");
                }
                let file = File::open(&path).unwrap();
                assert_eq!(file.metadata().unwrap().ino(), std::fs::metadata(&path).unwrap().ino());
            });
            assert_eq!(descriptors(), before);
        });
        read.join().unwrap();
    });
}

/// The kernel lets an open wait until the holder of a lease gives it back, for 45 seconds at most.
#[test]
fn the_open_of_a_leased_file_does_not_block_the_processor() {
    // SAFETY: no handler is installed. The kernel tells the holder of a lease by this signal.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    wherever(
        |setup| setup.processors == 1,
        |runtime, _| {
            let scratch = Scratch::new();
            let path = scratch.at("file");
            std::fs::write(&path, "text").unwrap();
            let holder = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            // SAFETY: the descriptor is open.
            let lease = |kind: libc::c_int| unsafe { libc::fcntl(holder.as_raw_fd(), libc::F_SETLEASE, kind) };
            // SAFETY: as above.
            let leased = || unsafe { libc::fcntl(holder.as_raw_fd(), libc::F_GETLEASE) };
            if lease(libc::F_WRLCK) != 0 {
                println!("SKIPPED: no lease: {}", std::io::Error::last_os_error());
                return;
            }
            runtime.run(|| {
                let released = AtomicBool::new(false);
                sinew::scope(|scope| {
                    let reader = scope.spawn(|| {
                        let mut file = File::open(&path).unwrap();
                        assert!(released.load(SeqCst), "the open has ended before the lease");
                        let mut text = String::new();
                        file.read_to_string(&mut text).map(|_| text)
                    });
                    // The kernel says what the lease is to become while an open waits.
                    wait_until(|| leased() != libc::F_WRLCK);
                    released.store(true, SeqCst);
                    assert_eq!(lease(libc::F_UNLCK), 0);
                    assert_eq!(reader.join().unwrap().unwrap(), "text");
                });
            });
        },
    );
}

/// With one processor, the other fibre runs only if the reader gives way.
#[test]
fn a_large_read_in_place_gives_way() {
    const LENGTH: usize = 8 << 20;
    let scratch = Scratch::new();
    let path = scratch.at("file");
    std::fs::write(&path, vec![7; LENGTH]).unwrap();
    if !tells_what_is_cached(&path) {
        return;
    }
    wherever(
        |setup| setup.processors == 1,
        |runtime, _| {
            runtime.run(|| {
                let (turns, over) = (AtomicUsize::new(0), AtomicBool::new(false));
                let (of_fibre, of_task) = sinew::scope(|scope| {
                    scope.spawn(|| {
                        wait_until(|| {
                            turns.fetch_add(1, SeqCst);
                            over.load(SeqCst)
                        });
                    });
                    let file = File::open(&path).unwrap();
                    let mut buffer = vec![0; LENGTH];
                    let mut counts = (0, 0);
                    while_the_pool_is_busy(|| {
                        let before = turns.load(SeqCst);
                        file.read_exact_at(&mut buffer, 0).unwrap();
                        counts.0 = turns.load(SeqCst) - before;
                        let (path, before) = (path.clone(), turns.load(SeqCst));
                        task::spawn(async move { fs::read_async(path).await.map(drop) }).join().unwrap().unwrap();
                        counts.1 = turns.load(SeqCst) - before;
                    });
                    over.store(true, SeqCst);
                    counts
                });
                assert!(of_fibre >= 8, "{of_fibre} turns for another fibre beside a fibre that reads");
                assert!(of_task >= 4, "{of_task} turns for another fibre beside a task that reads");
            });
        },
    );
}
