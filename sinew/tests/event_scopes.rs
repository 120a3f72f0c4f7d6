//! Event scopes: clusters with descriptor tables of their own.
#![allow(unsafe_code)]

mod fixture;

use fixture::loopback::echo;
use fixture::{SOON, Scratch, alone, happens_within, message};
use sinew::fs;
use sinew::io::{EventScope, OtherScope, Pollable, Polling};
use sinew::net::{SocketAddr, TcpListener, TcpStream, UnixStream};
use sinew::sync::mpsc;
use sinew::{Cluster, JoinHandle, Runtime};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Returns a runtime, and a cluster of it in another event scope.
fn two() -> (Runtime, Cluster) {
    let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
    let cluster = cluster(&runtime, Polling::Shared);
    (runtime, cluster)
}

fn cluster(runtime: &Runtime, polling: Polling) -> Cluster {
    // SAFETY: only types of Sinew move between event scopes, and a value in a `Pollable` comes back
    // before it is dropped.
    let scope = unsafe { EventScope::new() }.unwrap();
    runtime.cluster(Cluster::builder().processors(2).event_scope(&scope).polling(polling)).unwrap()
}

/// Runs `f` in a fibre of the cluster, and returns its result.
fn there<T: Send + 'static>(cluster: &Cluster, f: impl FnOnce() -> T + Send + 'static) -> T {
    cluster.spawn(f).join().unwrap()
}

/// Returns the number of open descriptors of the calling thread.
fn open_descriptors() -> usize {
    // Subtracts the descriptor of the directory itself.
    std::fs::read_dir("/proc/thread-self/fd").unwrap().count() - 1
}

#[track_caller]
fn is_of_other_scope<T: std::fmt::Debug>(outcome: io::Result<T>) {
    let error = outcome.unwrap_err();
    assert!(error.get_ref().is_some_and(|source| source.is::<OtherScope>()), "{error:?}");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn an_event_scope_begins_with_the_standard_descriptors() {
    alone(|| {
        let (_runtime, cluster) = two();
        let _other = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(there(&cluster, open_descriptors), 3);
        assert!(open_descriptors() > 3);
        assert!(there(&cluster, || EventScope::current().is_some()));
        assert_eq!(EventScope::current(), None);
    });
}

/// Listens on the cluster and counts the clients. Returns the address, and the fibre that accepts
/// until it is cancelled.
fn listen(cluster: &Cluster, address: SocketAddr, count: &Arc<AtomicUsize>) -> (SocketAddr, JoinHandle<()>) {
    let count = Arc::clone(count);
    there(cluster, move || {
        let listener = TcpListener::builder().reuse_port(true).bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = sinew::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                count.fetch_add(1, Ordering::Relaxed);
                sinew::spawn(move || echo(stream));
            }
        });
        (address, accepting)
    })
}

#[test]
fn event_scopes_listen_at_one_port_and_serve_it_together() {
    for polling in [Polling::Shared, Polling::PerProcessor, Polling::Thread] {
        alone(|| {
            let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
            let clusters = [cluster(&runtime, polling), cluster(&runtime, polling)];
            let counts = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
            let (address, first) = listen(&clusters[0], "127.0.0.1:0".parse().unwrap(), &counts[0]);
            let (_, second) = listen(&clusters[1], address, &counts[1]);
            let clients = 200;
            runtime.run(|| {
                sinew::scope(|scope| {
                    for client in 0..clients {
                        scope.spawn(move || {
                            let mut stream = TcpStream::connect(address).unwrap();
                            let sent = [client as u8; 100];
                            stream.write_all(&sent).unwrap();
                            let mut received = [0; 100];
                            stream.read_exact(&mut received).unwrap();
                            assert_eq!(sent, received);
                        });
                    }
                });
            });
            for accepting in [first, second] {
                accepting.fibre().cancel();
                accepting.join().unwrap();
            }
            let counts = counts.map(|count| count.load(Ordering::Relaxed));
            assert_eq!(counts.iter().sum::<usize>(), clients);
            assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        });
    }
}

/// Connects two streams. The second one is made on the cluster.
fn pair(runtime: &Runtime, cluster: &Cluster) -> (TcpStream, TcpStream) {
    let listener = runtime.run(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let address = listener.local_addr().unwrap();
    let theirs = there(cluster, move || TcpStream::connect(address).unwrap());
    (runtime.run(|| listener.accept().unwrap().0), theirs)
}

#[test]
fn a_descriptor_of_another_event_scope_is_refused() {
    alone(|| {
        let (runtime, cluster) = two();
        let (ours, theirs) = pair(&runtime, &cluster);
        let file = there(&cluster, || fs::File::open("/dev/null").unwrap());
        // Once on a kernel thread, and once in a fibre.
        let refuse = || {
            is_of_other_scope((&theirs).read(&mut [0; 1]));
            is_of_other_scope((&theirs).write(&[0; 1]));
            is_of_other_scope(theirs.peek(&mut [0; 1]));
            is_of_other_scope(theirs.peer_addr());
            is_of_other_scope(theirs.set_nodelay(true));
            is_of_other_scope(theirs.take_error());
            is_of_other_scope(theirs.shutdown(sinew::net::Shutdown::Both));
            is_of_other_scope((&file).read(&mut [0; 1]));
            is_of_other_scope(file.metadata());
            is_of_other_scope(file.try_clone());
            is_of_other_scope(sinew::net::sendfile(&file, &ours, 0, 1));
        };
        refuse();
        runtime.run(refuse);
        // It still works in its own event scope.
        let exchanged = there(&cluster, move || {
            (&theirs).write_all(b"x").unwrap();
            (&file).read(&mut [0; 1]).unwrap()
        });
        assert_eq!(exchanged, 0);
        runtime.run(|| (&ours).read_exact(&mut [0; 1]).unwrap());
    });
}

#[test]
fn a_descriptor_dropped_in_another_event_scope_is_closed_in_its_own() {
    alone(|| {
        let (runtime, cluster) = two();
        let (ours, theirs) = pair(&runtime, &cluster);
        // A descriptor of ours has the same number.
        let number = theirs.as_raw_fd();
        let namesake = std::fs::File::open("/dev/zero").unwrap();
        let placed = number == namesake.as_raw_fd() || is_open(number);
        assert!(placed, "descriptor {number} is not open here");
        let before = there(&cluster, open_descriptors);
        drop(theirs);
        assert_eq!(runtime.run(|| (&ours).read(&mut [0; 1])).unwrap(), 0, "the descriptor is still open");
        assert!(happens_within(SOON, || there(&cluster, open_descriptors) == before - 1));
        assert!(is_open(number), "our descriptor of the same number is closed");

        let (ours, theirs) = pair(&runtime, &cluster);
        there(&cluster, move || drop(ours));
        assert_eq!(there(&cluster, move || (&theirs).read(&mut [0; 1]).unwrap()), 0);

        let pipe = there(&cluster, || {
            let (reader, writer) = std::io::pipe().unwrap();
            let reader = Pollable::new(reader).unwrap();
            assert!(reader.readable_timeout(Duration::from_millis(1)).is_err());
            (reader, writer)
        });
        is_of_other_scope(pipe.0.readable());
        there(&cluster, move || drop(pipe));
    });
}

#[test]
fn a_descriptor_of_another_event_scope_is_neither_lent_nor_given_away() {
    alone(|| {
        let (runtime, cluster) = two();
        let (_ours, theirs) = pair(&runtime, &cluster);
        let kept = theirs.try_clone().unwrap();
        let (file, listener, pipe) = there(&cluster, || {
            let file = fs::File::open("/dev/null").unwrap();
            (file, TcpListener::bind("127.0.0.1:0").unwrap(), Pollable::new(std::io::pipe().unwrap().0).unwrap())
        });
        let before = open_descriptors();
        refuses(|| drop(theirs.as_fd().try_clone_to_owned()));
        refuses(|| drop(listener.as_fd().try_clone_to_owned()));
        refuses(|| drop(file.as_fd().try_clone_to_owned()));
        refuses(|| drop(pipe.as_fd().try_clone_to_owned()));
        // As a copy, and without one.
        refuses(move || drop(OwnedFd::from(theirs)));
        refuses(move || drop(std::net::TcpListener::from(listener)));
        assert!(format!("{file:?}").contains("OtherScope"));
        refuses(move || drop(std::fs::File::from(file)));
        assert_eq!(open_descriptors(), before, "a descriptor of ours was copied or closed");
        there(&cluster, move || {
            drop((kept, pipe));
        });
    });
}

/// Expects `f` to panic with the message of `OtherScope`.
#[track_caller]
fn refuses(f: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(f)).unwrap_err();
    assert_eq!(message(&*panic), OtherScope.to_string());
}

#[test]
fn a_directory_of_another_event_scope_is_refused_and_closed_there() {
    alone(|| {
        let (_runtime, cluster) = two();
        // More entries than are fetched at a time.
        let directory = Scratch::new();
        (0..200).for_each(|number| std::fs::write(directory.at(&number.to_string()), "").unwrap());
        let before = there(&cluster, open_descriptors);
        let path = directory.path().to_owned();
        let (mut entries, first) = there(&cluster, || {
            let mut entries = fs::read_dir(path).unwrap();
            let first = entries.next().unwrap().unwrap();
            (entries, first)
        });
        // A descriptor of ours has the same number.
        let namesakes: Vec<_> = (0..8).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let ours = open_descriptors();
        is_of_other_scope(first.metadata());
        assert!(!first.file_name().is_empty());
        // The fetched entries are there. No more can be fetched.
        let last = entries.find(Result::is_err).expect("all entries were fetched at once");
        is_of_other_scope(last);
        assert!(entries.next().is_none());
        drop((entries, first));
        assert_eq!(open_descriptors(), ours);
        assert!(happens_within(SOON, || there(&cluster, open_descriptors) == before));
        drop(namesakes);
    });
}

#[test]
fn every_event_scope_has_the_standard_streams() {
    alone(|| {
        let (runtime, cluster) = two();
        there(&cluster, || assert_eq!(sinew::io::stderr().write(b"").unwrap(), 0));
        runtime.run(|| assert_eq!(sinew::io::stderr().write(b"").unwrap(), 0));
        assert_eq!(sinew::io::stderr().write(b"").unwrap(), 0);
        let (_runtime, cluster) = two();
        there(&cluster, || assert_eq!(sinew::io::stderr().write(b"").unwrap(), 0));
    });
}

#[test]
fn a_thread_that_outlives_its_event_scope_is_not_taken_for_one_of_ours() {
    alone(|| {
        let (runtime, cluster) = two();
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let thread = there(&cluster, move || {
            std::thread::spawn(move || {
                may_go_on.recv().unwrap();
                UnixStream::pair().unwrap()
            })
        });
        drop(cluster);
        drop(runtime);
        go_on.send(()).unwrap();
        let namesakes: Vec<_> = (0..8).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let before = open_descriptors();
        let (here, there) = thread.join().unwrap();
        is_of_other_scope((&here).write(b"x"));
        drop((here, there));
        assert_eq!(open_descriptors(), before, "a descriptor of ours was closed");
        drop(namesakes);
    });
}

fn is_open(number: i32) -> bool {
    std::fs::exists(format!("/proc/thread-self/fd/{number}")).unwrap()
}

/// The sleepers of one event scope are woken from the other, by the bells of their pollers.
#[test]
fn fibres_of_two_event_scopes_wake_each_other() {
    for polling in [Polling::Shared, Polling::PerProcessor, Polling::Thread] {
        alone(|| {
            let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
            let cluster = cluster(&runtime, polling);
            let (ours, theirs) = pair(&runtime, &cluster);
            let (ask, asked) = mpsc::channel();
            let (answer, answered) = mpsc::channel();
            // Both clusters have a poller to sleep in.
            let idler = cluster.spawn(move || ((&theirs).read(&mut [0; 1]), theirs));
            let waiter = runtime.spawn(move || ((&ours).read(&mut [0; 1]), ours));
            let server = cluster.spawn(move || asked.iter().for_each(|number: u32| answer.send(number + 1).unwrap()));
            runtime.run(move || {
                for number in 0..1000 {
                    ask.send(number).unwrap();
                    assert_eq!(answered.recv().unwrap(), number + 1);
                }
            });
            server.join().unwrap();
            // A kernel thread wakes them as well.
            idler.fibre().cancel();
            waiter.fibre().cancel();
            for (reader, _kept) in [idler, waiter].map(|reader| reader.join().unwrap()) {
                assert!(reader.is_err(), "the read was not cancelled");
            }
        });
    }
}

#[test]
fn a_blocking_call_uses_the_descriptors_of_its_fibre_s_event_scope() {
    alone(|| {
        let (_runtime, cluster) = two();
        let read = there(&cluster, || {
            let mut text = String::new();
            fs::File::open("/proc/self/comm").unwrap().read_to_string(&mut text).unwrap();
            let file = sinew::blocking(|| std::fs::File::open("/dev/zero").unwrap());
            let mut byte = [1; 1];
            (&file).read_exact(&mut byte).unwrap();
            assert!(file.as_fd().try_clone_to_owned().is_ok());
            (text.is_empty(), byte)
        });
        assert_eq!(read, (false, [0]));
    });
}

#[test]
fn processors_of_one_event_scope_may_be_added_and_removed_from_another() {
    alone(|| {
        let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
        let cluster = cluster(&runtime, Polling::PerProcessor);
        let pairs: Vec<_> = (0..8).map(|_| pair(&runtime, &cluster)).collect();
        let ours: Vec<_> = pairs
            .into_iter()
            .map(|(ours, theirs)| {
                cluster.spawn(move || drop(echo(theirs)));
                ours
            })
            .collect();
        for step in 0..6 {
            if step % 2 == 0 {
                cluster.remove_processor().unwrap();
            } else {
                cluster.add_processor().unwrap();
                assert!(there(&cluster, || EventScope::current().is_some()));
            }
            runtime.run(|| {
                for mut stream in &ours {
                    stream.write_all(b"on").unwrap();
                    stream.read_exact(&mut [0; 2]).unwrap();
                }
            });
        }
    });
}

#[test]
fn runtimes_and_threads_started_in_an_event_scope_belong_to_it() {
    alone(|| {
        let (_runtime, cluster) = two();
        let (outer, inner, thread) = there(&cluster, || {
            let runtime = Runtime::builder().spares(0).stall_limit(None).processors(1).build().unwrap();
            let inner = runtime.run(EventScope::current);
            let thread = std::thread::spawn(EventScope::current).join().unwrap();
            (EventScope::current(), inner, thread)
        });
        assert!(outer.is_some());
        assert_eq!(outer, inner);
        assert_eq!(outer, thread);
    });
}

#[test]
fn an_event_scope_that_ends_closes_its_descriptors() {
    alone(|| {
        let (runtime, cluster) = two();
        let (address, listener) = there(&cluster, || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            (listener.local_addr().unwrap(), listener)
        });
        assert!(runtime.run(|| TcpStream::connect(address)).is_ok());
        drop(cluster);
        drop(runtime);
        let refused = || std::net::TcpStream::connect(address).is_err();
        assert!(happens_within(SOON, refused), "the listener is still there");
        // The handle refers to nothing now, and closes nothing of ours.
        let before = open_descriptors();
        drop(listener);
        assert_eq!(open_descriptors(), before);
    });
}
